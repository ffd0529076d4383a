"""Records and message rows: as objects, as columns, and their writers."""
