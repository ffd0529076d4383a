"""How fast and how flat zmtpscope reads, beside tshark and a walk in C; see README.md."""
