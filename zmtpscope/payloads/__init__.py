"""Dissectors of message payloads: built-in ones, and plugins named by entry points of the group
`zmtpscope.payloads`."""
