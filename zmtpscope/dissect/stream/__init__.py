"""One side: its octets on their way to the reader, and what was read as values."""
