"""Convert the traffic of sockets of this program to packets, for a capture file or for the dissector."""
