"""Counters of `zmtpscope stats`: messages by endpoint, topic, peer and so on, with their sizes and distribution over
time."""
