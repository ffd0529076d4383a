"""What our own sockets say, as packets: in a capture file, or dissected at once."""
