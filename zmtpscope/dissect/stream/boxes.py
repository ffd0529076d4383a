"""The inputs and outputs of decryption, as values (`decryption.py`)."""

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

    `data` are the octets from stream offset `base` on, `arrivals` the segments that carried them.
    """

    columns: FrameColumns
    events: Sequence[Event]
    data: bytes
    base: int
    arrivals: Arrivals
    reader: SideReader
    version: str | None
    """The negotiated version."""


class Inside(NamedTuple):
    """Frames from boxes, and the unencrypted frames before them."""

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
    """The result for `Sealed`: `data` with decrypted contents, and `events` in stream order."""

    data: bytes
    events: list[Event] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    """Results for frames, in order."""
    columns: FrameColumns = field(default_factory=FrameColumns)
    """The unchanged frames after them."""
    closed: list[tuple[int, int]] = field(default_factory=list)
    """Stream offsets of MESSAGEs that stay encrypted, with the ordinals of the segments that decided this."""
    notes: list[Note] = field(default_factory=list)
    """Findings about boxes that stay encrypted, to be added after the events of their frames."""
