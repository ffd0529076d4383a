"""The columns in front of every line: packet and time."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.export.clock import Clock
from zmtpscope.export.styles import Paint, plain
from zmtpscope.export.words import packet_name

NARROWEST = 5
"""Characters of the column of packets, which grows with what stands in it."""

Files = Sequence[str | None]


class Front:
    """Writes packets and times. What `clock` says may depend on the line above."""

    def __init__(self, clock: Clock, paint: Paint) -> None:
        self.clock = clock
        self.paint = paint
        self.width = NARROWEST
        self._row = (0, 0, 0, 0)
        self._text = ""
        """The last row, and what stands in front of it: a packet may have many."""

    def copy(self) -> Front:
        """One that has written the same, and goes on by itself."""
        copied = copy(self)
        copied.clock = copy(self.clock)
        return copied

    @property
    def origin(self) -> int | None:
        """The time, in nanoseconds, since which lines count, where they have numbers alone here; None elsewhere, and
        before the first line."""
        return self.clock.origin if self.paint is plain else None

    def of(self, packet: str, time: int) -> str:
        """Both of a record, without colour."""
        self.widen(packet)
        return f"{packet:>{self.width}} {self.clock(time)}  "

    def of_row(self, reference: int, time: int, files: Files) -> str:
        """Both of a row, of which this is the packet reference, without colour."""
        row = reference, time, len(files), self.width
        if row != self._row or self.clock.moves:
            self._row, self._text = row, self.of(self.packet(reference, files), time)
        return self._text

    def packet(self, reference: int, files: Files) -> str:
        """The packet of a reference: its number, and its file where there are several."""
        return packet_name(files[reference >> FILE_SHIFT], reference & PACKET_MASK, several=len(files) > 1)

    def widen(self, packet: str) -> None:
        """From now on there is room for this."""
        self.width = max(self.width, len(packet))
