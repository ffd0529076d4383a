"""Sequence diagrams: what happened between peers, in which order, and when."""
