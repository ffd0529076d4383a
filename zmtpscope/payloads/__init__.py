"""What rides inside messages: dissectors behind the entry point `zmtpscope.payloads`, ours through the same door.

`api.py` is all that a dissector touches; `registry.py` finds them; `side.py` asks them, message by message.
"""
