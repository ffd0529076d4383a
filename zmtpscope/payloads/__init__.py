"""What rides inside messages: ours, and those behind the entry point `zmtpscope.payloads`, through the same door.

`api.py` is all that a dissector touches; `registry.py` finds them; `side.py` asks them, message by message.
"""
