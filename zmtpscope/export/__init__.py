"""Output of records: text, JSON lines, tables and diagrams. Formats follow the schema in `zmtpscope.records`."""
