"""Speed and growth of zmtpscope beside tshark and a walk in C; see README.md."""
