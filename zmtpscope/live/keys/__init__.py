"""Records the CURVE keys of our own programs in key logs."""
