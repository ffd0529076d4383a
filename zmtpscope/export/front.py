from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.export.clock import Clock
from zmtpscope.export.styles import Paint, plain
from zmtpscope.export.words import packet_name

NARROWEST = 5
"""Initial width of the packet column, which grows."""

Files = Sequence[str | None]


class Front:
    """Packet and time, the first columns of every line. The time can depend on the previous line."""

    def __init__(self, clock: Clock, paint: Paint) -> None:
        self.clock = clock
        self.paint = paint
        self.width = NARROWEST
        self._row = (0, 0, 0, 0)
        self._text = ""
        """Text of the last row's packet, because a packet may have many rows."""

    def copy(self) -> Front:
        copied = copy(self)
        copied.clock = copy(self.clock)
        return copied

    @property
    def origin(self) -> int | None:
        """The time (ns) from which lines count, if they show only numbers without colour; otherwise, and before the
        first line, None."""
        return self.clock.origin if self.paint is plain else None

    def of(self, packet: str, time: int) -> str:
        """Return the front of a record's line, without colour."""
        self.widen(packet)
        return f"{packet:>{self.width}} {self.clock(time)}  "

    def of_row(self, reference: int, time: int, files: Files) -> str:
        """Return the front of a row's line, without colour."""
        row = reference, time, len(files), self.width
        if row != self._row or self.clock.moves:
            self._row, self._text = row, self.of(self.packet(reference, files), time)
        return self._text

    def packet(self, reference: int, files: Files) -> str:
        """Write a packet number, with the file if there are several."""
        return packet_name(files[reference >> FILE_SHIFT], reference & PACKET_MASK, files)

    def widen(self, packet: str) -> None:
        """Widen the column for this packet number and all later lines."""
        self.width = max(self.width, len(packet))
