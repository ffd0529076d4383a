"""Dissectors of message payloads: the built-in ones, and plugins of the entry point `zmtpscope.payloads`, with one API.

`api.py` is all that a dissector uses, `registry.py` finds dissectors, and `side.py` calls them for each message.
"""
