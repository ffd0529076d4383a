"""The fast path, which reads the plain sessions of many connections at once."""
