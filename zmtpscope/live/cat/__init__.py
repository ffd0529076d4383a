"""The `zmtpscope cat` command: a socket between standard input and standard output."""
