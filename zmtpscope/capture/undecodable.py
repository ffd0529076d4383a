"""Why a packet gives no segment."""

from __future__ import annotations


class Undecodable(Exception):
    """A packet that is no TCP or UDP, or whose headers lie; `str()` is the reason that statistics count."""
