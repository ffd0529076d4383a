"""Observers: each follows one aspect of a single connection."""
