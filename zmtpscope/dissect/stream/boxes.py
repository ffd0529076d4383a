"""Inputs and outputs of `decryption.py`, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.stream.arrivals import Arrivals
from zmtpscope.zmtp.events import Event, FrameColumns
from zmtpscope.zmtp.side import SideReader

Row = tuple[int, int, int, int]
"""Offset, body, size and flags of a frame."""


class Sealed(NamedTuple):
    """Frames and events of a side, read together by `reader`. The last frame may be incomplete.

    `data` starts at stream offset `base`.
    """

    columns: FrameColumns
    events: Sequence[Event]
    data: bytes
    base: int
    arrivals: Arrivals
    reader: SideReader
    version: str | None


class Inside(NamedTuple):
    """Frames from boxes, and unencrypted frames before them."""

    in_front: FrameColumns
    columns: FrameColumns


class Broken(NamedTuple):
    """The message under way in boxes will not continue, as the segment `ordinal` decides.

    If there is none, the next message is uncertain, except after an unencrypted frame (`is_between`).
    """

    ordinal: int
    is_between: bool = False


class Uncertain(NamedTuple):
    """Data before the next message in boxes is missing."""


Step = Inside | Broken | Uncertain


@dataclass(slots=True, eq=False)
class Opened:
    """`data` with decrypted contents, and `events` in stream order."""

    data: bytes
    events: list[Event] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    """Results for frames, in order."""
    columns: FrameColumns = field(default_factory=FrameColumns)
    """Unchanged frames after the frames of `steps`."""
    closed: list[tuple[int, int]] = field(default_factory=list)
    """MESSAGEs that stay encrypted: stream offset, and ordinal of the deciding segment."""
    notes: list[Note] = field(default_factory=list)
    """Findings about boxes that stay encrypted, to add after the events of their frames."""
