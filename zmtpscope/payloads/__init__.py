"""Dissectors of message payloads: built-in ones, and plugins from entry points of the group `zmtpscope.payloads`."""
