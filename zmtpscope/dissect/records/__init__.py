"""Records and message rows: as they are made, as columns, and how they are written."""
