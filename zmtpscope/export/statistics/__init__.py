"""Counters of `zmtpscope stats`."""
