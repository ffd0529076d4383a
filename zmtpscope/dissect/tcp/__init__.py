"""TCP reassembly: takes segments, and returns the octet streams of both sides. Independent of ZMTP."""
