"""Converts the traffic of our own sockets to packets, for a capture file or for the dissector."""
