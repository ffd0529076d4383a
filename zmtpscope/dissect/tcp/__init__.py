"""TCP connections: segments in, the octet streams of their sides out. Nothing here knows ZMTP."""
