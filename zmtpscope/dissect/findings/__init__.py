"""Decide on findings: about one connection, given as a read-only view, or about the facts of many."""
