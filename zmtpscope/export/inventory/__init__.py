"""Collect and print the endpoints that `zmtpscope scan` finds."""
