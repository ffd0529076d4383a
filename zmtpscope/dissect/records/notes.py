"""Findings on their way, and pairs of ZRE nodes: plain values, of which records are made."""

from __future__ import annotations

from typing import Any, NamedTuple

from zmtpscope.dissect.arrivals import Arrival, Stamp
from zmtpscope.dissect.identity import Stream
from zmtpscope.zmtp.reader import Finding


class Note(NamedTuple):
    """A finding on `side` (None: on neither).

    `at` is the packet with what it is about, `decided` the ordinal of the segment that made it decidable, `refs` are
    the records that it is about. A finding without a place of its own is sorted to offset `unit` of `source`.
    """

    side: int | None
    finding: Finding
    at: Arrival | Stamp
    decided: int
    refs: tuple[str, ...] = ()
    unit: int = 0
    source: int = 0
    events: int = 1
    last: Stamp | None = None
    """There where one finding stands for several `events`, up to then."""
    stream: Stream | None = None
    """Any side of the connection or flow that it is about, where whoever writes it writes of many."""


class ZrePair(NamedTuple):
    """Two ZRE nodes that have become a pair, by what stands at offset `unit` of the connection of `stream`: the fields
    of its record."""

    stream: Stream
    at: Stamp
    decided: int
    unit: int
    values: dict[str, Any]
