"""The columns of a line before the description: packet and time, then `c12 SUB > PUB:5556`.

The latter are connection, sender and receiver. The first and the last line of a connection, or all lines if `wide`,
have both addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect.identity import Stream
from zmtpscope.export.clock import Clock
from zmtpscope.export.side_names import SideNames, side_names
from zmtpscope.export.styles import Paint, plain
from zmtpscope.export.words import packet_name

NARROWEST_PACKET = 5
"""Initial width of the packet column, which grows."""

Files = Sequence[str | None]


class Front:
    """Formats packet number and time, the first columns of every line.

    In some formats the time is relative to the previous line.
    """

    def __init__(self, clock: Clock, paint: Paint) -> None:
        self.clock = clock
        self.paint = paint
        self.width = NARROWEST_PACKET
        self._row = (0, 0, 0, 0)
        self._text = ""
        """The packet of the last row as text, since a packet may have many rows."""

    def copy(self) -> Front:
        copied = copy(self)
        copied.clock = copy(self.clock)
        return copied

    @property
    def origin(self) -> int | None:
        """The time (ns) from which the times in lines count.

        None before the first line, if the columns have colours, and if the time format is not relative.
        """
        return self.clock.origin if self.paint is plain else None

    def of(self, packet: str, time: int) -> str:
        self.widen(packet)
        return f"{packet:>{self.width}} {self.clock(time)}  "

    def of_row(self, reference: int, time: int, files: Files) -> str:
        row = reference, time, len(files), self.width
        if row != self._row or self.clock.moves:
            self._row, self._text = row, self.of(self.packet(reference, files), time)
        return self._text

    def packet(self, reference: int, files: Files) -> str:
        return packet_name(files[reference >> FILE_SHIFT], reference & PACKET_MASK, files)

    def widen(self, packet: str) -> None:
        self.width = max(self.width, len(packet))


NARROWEST, WIDEST = 17, 28
"""Columns for sender and receiver, such as `:54321 > PUB:5555` and `"worker-12…" > ROUTER:5555`.

The column grows with its contents; wider ones shift only their own line.
"""

NARROWEST_FULL, WIDEST_FULL = 21, 48
"""Columns of each address if all lines have both."""

TO = " > "

STYLES = "side 0", "side 1"
"""Styles of the sender, by side."""

MAX_COLUMNS = 10_000

MAX_CONNECTIONS = 100_000
"""Connections to remember: more than can be open. The oldest is forgotten, and shown with addresses again."""

Column = tuple[str, int]


class SidesColumn:
    def __init__(self, paint: Callable[[str, str], str], *, wide: bool) -> None:
        self._paint = paint
        self._wide = wide
        self._sides: dict[int, tuple[SideNames, SideNames]] = {}
        """Names of connections that have been shown."""
        self._width = NARROWEST_FULL if wide else NARROWEST
        self._number_width = 3
        self._columns: dict[tuple[int, int | None], Column] = {}
        self.changes = 0
        """Number of changes of texts in this column."""

    def copy(self) -> SidesColumn:
        copied = copy(self)
        copied._sides = {conn: (copy(one), copy(other)) for conn, (one, other) in self._sides.items()}
        copied._columns = self._columns.copy()
        return copied

    def is_new(self, stream: Stream) -> bool:
        """Whether no line has shown the addresses of this connection yet."""
        return stream.conn is not None and stream.conn not in self._sides

    def learn(self, stream: Stream, socket_type: str | None, identity: str | None) -> None:
        """Store the socket type and identity of a stream's sender. Datagrams are ignored."""
        if stream.conn is None or stream.side is None or not (socket_type or identity):
            return
        if self._sides_of(stream)[stream.side].learn(socket_type, identity):
            self._forget_columns(stream.conn)

    def names(self, stream: Stream) -> Column:
        """Return the names of both sides. In the first line of a connection they include the addresses."""
        if stream.conn is None:
            return self._addresses(stream, "udp")
        if not self._wide and self.is_new(stream):
            return self._addresses(stream, f"c{stream.conn}")
        column = self._columns.get((stream.conn, stream.side))
        if column is None:
            source, target = self._in_order(stream)
            names = (source.full, target.full) if self._wide else (source.short, target.short)
            column = self._column(*names, f"c{stream.conn}", stream.side, grows=True)
            if len(self._columns) == MAX_COLUMNS:
                self._columns.clear()
            self._columns[stream.conn, stream.side] = column
        return column

    def last_names(self, stream: Stream) -> Column:
        """Return the names for the last line of a connection, and forget the connection."""
        column = self.names(stream) if self._wide else self._addresses(stream, f"c{stream.conn}")
        if stream.conn is not None:
            self._sides.pop(stream.conn, None)
            self._forget_columns(stream.conn)
        return column

    def nobody(self, what: str) -> Column:
        """Return the column for a record that belongs to no connection."""
        return self._column(what, "", "", None, grows=False)

    def _addresses(self, stream: Stream, number: str) -> Column:
        source, target = self._in_order(stream)
        if self._wide:
            return self._column(source.full, target.full, number, stream.side, grows=True)
        return self._column(source.typed, target.typed, number, stream.side, grows=False)

    def _forget_columns(self, conn: int) -> None:
        self.changes += 1
        for side in (0, 1, None):
            self._columns.pop((conn, side), None)

    def _column(self, source: str, target: str, number: str, side: int | None, *, grows: bool) -> Column:
        """Pad the names of both sides to the width of the column.

        `number` is the connection, `side` the sender. `grows`: long names may widen the column.
        """
        needed = max(len(source), len(target)) if self._wide else len(source) + len(TO) + len(target)
        widest = WIDEST_FULL if self._wide else WIDEST
        if (grows and self._width < needed <= widest) or len(number) > self._number_width:
            self._width = max(self._width, needed if grows and needed <= widest else 0)
            self._number_width = max(self._number_width, len(number))
            self._columns.clear()
            self.changes += 1
        number = number.ljust(self._number_width + 1)
        sender = source.ljust(self._width) if self._wide else source
        receiver = TO + target if target else ""
        receiver = receiver.ljust(len(TO) + self._width if self._wide else self._width - len(source)) + "  "
        painted = sender if side is None else self._paint(STYLES[side], sender)
        return number + painted + receiver, len(number) + len(sender) + len(receiver)

    def _in_order(self, stream: Stream) -> tuple[SideNames, SideNames]:
        one, other = self._sides_of(stream)
        return (other, one) if stream.side == 1 else (one, other)

    def _sides_of(self, stream: Stream) -> tuple[SideNames, SideNames]:
        """Return the names of side 0 and side 1, or of sender and receiver of a datagram."""
        sides = None if stream.conn is None else self._sides.get(stream.conn)
        if sides is None:
            sides = side_names(stream)
            if stream.conn is not None:
                if len(self._sides) == MAX_CONNECTIONS:
                    del self._sides[next(iter(self._sides))]
                    self.changes += 1
                self._sides[stream.conn] = sides
        return sides
