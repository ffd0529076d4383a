"""Dissectors of message payloads: built-in ones, and plugins named by entry points of the group `zmtpscope.payloads`.

`api.py` is all that a dissector uses, `registry.py` finds dissectors, and `side.py` calls them for each message.
"""
