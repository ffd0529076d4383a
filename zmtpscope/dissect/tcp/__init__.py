"""TCP reassembly: turn segments into the octet streams of both sides. Independent of ZMTP."""
