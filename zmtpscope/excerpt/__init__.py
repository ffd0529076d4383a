"""Excerpts: the packets behind some records, as a capture of their own."""
