"""Excerpts: the packets of selected records, as a new capture."""
