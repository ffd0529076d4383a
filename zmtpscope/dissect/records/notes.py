"""Findings, and pairs of ZRE nodes, before they become records."""

from __future__ import annotations

from typing import Any, NamedTuple

from zmtpscope.dissect.arrivals import Arrival, Stamp
from zmtpscope.dissect.identity import Stream
from zmtpscope.zmtp.reader import Finding


class Note(NamedTuple):
    """A finding before it becomes a record.

    - `side`: None for neither side
    - `at`: the packet that it is about
    - `decided`: ordinal of the segment that showed it
    - `refs`: identities of records
    - `unit`, `source`: the offset by which it is sorted, if it has no stream offset
    - `events`: how many events it stands for, up to the packet `last`
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
    """The last event, if the finding represents several `events`."""
    stream: Stream | None = None
    """Stream of either side, if the caller writes the findings of several connections or flows."""
    values: dict[str, Any] | None = None
    """Record fields of attempts to connect, by name."""


class ZrePair(NamedTuple):
    """Two ZRE nodes that became a pair by the message at offset `unit`; `values` are the fields of the record."""

    stream: Stream
    at: Stamp
    decided: int
    unit: int
    values: dict[str, Any]
