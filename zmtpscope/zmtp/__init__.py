"""The ZMTP core: parses octets into events, and builds octets from fields.

Standard library only: no I/O, no clock, no packets, no crypto.
"""
