"""Format records as text, JSON lines, tables and diagrams."""
