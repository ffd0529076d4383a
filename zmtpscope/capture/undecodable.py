from __future__ import annotations


class Undecodable(Exception):
    """A packet that is neither TCP nor UDP, or has invalid headers; `str()` is the reason in statistics."""
