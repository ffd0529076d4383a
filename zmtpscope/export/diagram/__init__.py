"""Sequence diagrams: the events between peers in the order of time."""
