"""TCP reassembly: segments in, octet streams of both sides out. Independent of ZMTP."""
