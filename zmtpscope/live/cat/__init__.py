"""What `zmtpscope cat` does: a socket between standard input and output."""
