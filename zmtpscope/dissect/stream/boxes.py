"""Inputs and outputs of `decryption.py`, which decrypts the boxes of a CURVE connection."""

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
    """Encrypted frames and events of a side, from one call of `reader`.

    The last frame may be incomplete. `data` starts at stream offset `base`.
    """

    columns: FrameColumns
    events: Sequence[Event]
    data: bytes
    base: int
    arrivals: Arrivals
    reader: SideReader
    version: str | None


class Inside(NamedTuple):
    """Decrypted frames (`columns`) of one CURVE connection, and the unencrypted frames before them (`in_front`)."""

    in_front: FrameColumns
    columns: FrameColumns


class Broken(NamedTuple):
    """The incomplete message from decrypted boxes will not continue, as the segment `ordinal` shows.

    If there is no incomplete message, the next one may lack its start, except after an unencrypted frame
    (`is_between`).
    """

    ordinal: int
    is_between: bool = False


class Uncertain(NamedTuple):
    """The next message from decrypted boxes may lack its start."""


Step = Inside | Broken | Uncertain


@dataclass(slots=True, eq=False)
class Opened:
    """The result of decrypting boxes.

    `data` has decrypted contents in place of boxes; `events` are in stream order.
    """

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
