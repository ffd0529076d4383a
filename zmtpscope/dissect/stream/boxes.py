"""What goes into decryption and what comes out, as values (`decryption.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.stream.arrivals import Arrivals
from zmtpscope.zmtp.events import Event, FrameColumns
from zmtpscope.zmtp.side import SideReader

Row = tuple[int, int, int, int]
"""Offset, body, size, flags of a frame."""


class Sealed(NamedTuple):
    """Frames and events of a side that were read together by `reader`; the last frame may not be whole.

    `data` are the octets from the stream offset `base` on, `arrivals` how they came.
    """

    columns: FrameColumns
    events: Sequence[Event]
    data: bytes
    base: int
    arrivals: Arrivals
    reader: SideReader
    version: str | None
    """The version in force."""


class Inside(NamedTuple):
    """Frames that were in boxes, and those in clear that stood in front of them."""

    in_front: FrameColumns
    columns: FrameColumns


class Broken(NamedTuple):
    """A message that is under way inside of boxes does not go on, as the segment `ordinal` decides. Where there is
    none, the next one is still uncertain, unless `is_between` only a frame in clear stood there."""

    ordinal: int
    is_between: bool = False


class Uncertain(NamedTuple):
    """What stood in front of the next message inside of boxes is not known."""


Step = Inside | Broken | Uncertain


@dataclass(slots=True, eq=False)
class Opened:
    """What `Sealed` became: `data` with what boxes hold in their places, `events` in the order of the stream."""

    data: bytes
    events: list[Event] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    """What became of frames, in order; ..."""
    columns: FrameColumns = field(default_factory=FrameColumns)
    """... and those that stay as they are, behind all of that."""
    closed: list[tuple[int, int]] = field(default_factory=list)
    """Stream offsets of MESSAGEs that stay closed, and the ordinals of the segments that made it known."""
    notes: list[Note] = field(default_factory=list)
    """What is to be said about boxes that stay closed, once the events of their frames were recorded."""
