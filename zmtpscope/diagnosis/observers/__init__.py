"""Observers of one connection."""
