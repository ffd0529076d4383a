"""Findings on their way, and pairs of ZRE nodes: plain values, of which records are made."""

from __future__ import annotations

from typing import Any, NamedTuple

from zmtpscope.dissect.arrivals import Arrival, Stamp
from zmtpscope.dissect.identity import Stream
from zmtpscope.zmtp.reader import Finding


class Note(NamedTuple):
    """A finding on `side` (None: on neither).

    `at` is the segment with what it is about, `decided` the ordinal of the one that made it decidable, `refs` are the
    records that it is about. A finding without a place of its own is sorted to offset `unit` of `source`.
    """

    side: int | None
    finding: Finding
    at: Arrival
    decided: int
    refs: tuple[str, ...] = ()
    unit: int = 0
    source: int = 0


class ConnectionNote(NamedTuple):
    """A finding on its way: about the connection or flow of `stream`, on `side` (None: on neither), about the unit at
    offset `unit` of `source`.

    `at` is the packet it is dated by, `decided` the ordinal of what decided it. `last` is there where one finding
    stands for several `events` up to then.
    """

    stream: Stream
    side: int | None
    finding: Finding
    at: Stamp
    decided: int
    refs: tuple[str, ...] = ()
    unit: int = 0
    source: int = 0
    events: int = 1
    last: Stamp | None = None


class ZrePair(NamedTuple):
    """Two ZRE nodes that have become a pair, by what stands at offset `unit` of the connection of `stream`: the fields
    of its record."""

    stream: Stream
    at: Stamp
    decided: int
    unit: int
    values: dict[str, Any]
