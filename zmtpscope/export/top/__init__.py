"""Counters and tables of `zmtpscope top`."""
