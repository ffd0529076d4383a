"""The fast path, which reads the plain messages of many connections at once."""
