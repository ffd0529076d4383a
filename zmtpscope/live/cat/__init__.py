"""`zmtpscope cat`: a socket between standard input and standard output."""
