"""Records and messages: as objects, as columns, and their writers."""
