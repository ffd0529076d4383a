"""Identifies the peer at an endpoint, without side effects on it."""
