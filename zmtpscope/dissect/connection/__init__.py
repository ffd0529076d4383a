"""One ZMTP connection: its two sides, and its outcome."""
