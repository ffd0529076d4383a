"""Convert the traffic of our own sockets into packets, for a capture file or for the dissector."""
