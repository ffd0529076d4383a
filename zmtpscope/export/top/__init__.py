"""Counters and tables of `zmtpscope top`: topics, connections and peers, by interval and in total."""
