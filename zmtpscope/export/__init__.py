"""Output of records: text, JSON lines, tables and diagrams."""
