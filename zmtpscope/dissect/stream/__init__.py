"""One side of a connection: octets in, parsed units and messages out, as values."""
