"""Records out: text for people, JSON lines for programs. Loops over the schema in `zmtpscope.records`."""
