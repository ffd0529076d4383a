"""The ZMTP core: octets in, events out; fields in, octets out.

Standard library only: no I/O, no clock, no packets, no crypto.
"""
