"""Judge one connection, given as a read-only view, or the facts of many; return notes."""
