"""What a side reader hands up: message frames as columns, everything else as small frozen objects."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.regime import Regime

ENCRYPTED = 0x100
"""Beside the flags octet in `FrameColumns.flags`: the body is a MESSAGE of CURVE or GSSAPI."""
SUBSCRIBE = 0x200
"""The frame is a subscription message (`01` and the topic)."""
CANCEL = 0x400
"""The frame is a cancelling message (`00` and the topic)."""

MARKED = SUBSCRIBE | CANCEL
"""An octet stands in front of the topic."""

SPECIAL = ENCRYPTED | MARKED
"""What makes a frame something else than data."""

Fields = dict[str, Any]
"""Values keyed by the field names of `zmtpscope.records`; absent means null."""


class FrameColumns:
    """Message frames, one row each: stream offsets of header and body, size of the body in octets, flags.

    `flags` is the flags octet as on the wire, with `ENCRYPTED`, `SUBSCRIBE` and `CANCEL` above it.
    """

    __slots__ = ("bodies", "flags", "offsets", "sizes")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.bodies = array("q")
        self.sizes = array("q")
        self.flags = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, offset: int, body: int, size: int, flags: int) -> None:
        self.offsets.append(offset)
        self.bodies.append(body)
        self.sizes.append(size)
        self.flags.append(flags)

    def extend(self, offsets: list[int], bodies: list[int], sizes: list[int], flags: list[int]) -> None:
        """Add frames, one list for each column."""
        self.offsets.fromlist(offsets)
        self.bodies.fromlist(bodies)
        self.sizes.fromlist(sizes)
        self.flags.fromlist(flags)

    def add(self, others: FrameColumns) -> None:
        """Add the frames of others."""
        self.offsets += others.offsets
        self.bodies += others.bodies
        self.sizes += others.sizes
        self.flags += others.flags

    def behind(self, count: int) -> FrameColumns:
        """The frames behind the first `count`, in new columns."""
        others = FrameColumns()
        others.offsets = self.offsets[count:]
        others.bodies = self.bodies[count:]
        others.sizes = self.sizes[count:]
        others.flags = self.flags[count:]
        return others

    def split(self, count: int) -> FrameColumns:
        """Keep the first `count` frames, and give the others."""
        others = self.behind(count)
        del self.offsets[count:], self.bodies[count:], self.sizes[count:], self.flags[count:]
        return others

    def rows(self) -> list[tuple[int, int, int, int]]:
        """(offset, body, size, flags) of every frame."""
        return list(zip(self.offsets, self.bodies, self.sizes, self.flags, strict=True))


NO_FRAMES = FrameColumns()
"""For all who have none; nothing is ever added to it."""


class Greeting(NamedTuple):
    """The greeting of one side (wire.md 3.2, 4.1, 5); `complete` is False where the stream ends inside it.

    `head` is as in `Command`; what is too large is an identity.
    """

    start: int
    stop: int
    regime: Regime
    fields: Fields
    findings: tuple[Finding, ...]
    complete: bool = True
    head: int | None = None

    @property
    def read_to(self) -> int:
        """The stream offset behind the octets that it was read from."""
        return self.stop if self.head is None else self.head


class Command(NamedTuple):
    """One command frame, or a handshake command in a message frame (wire.md 7).

    `octets` are those of a control frame of WebSocket, which may stand inside of a message whose octets are moved;
    None: those of the stream. `head` is the stream offset behind the octets that a command was read from which is too
    large to wait for, whatever else of it has come by then; None: all of it was read.
    """

    start: int
    stop: int
    regime: Regime
    fields: Fields
    findings: tuple[Finding, ...]
    octets: bytes | None = None
    head: int | None = None

    @property
    def read_to(self) -> int:
        """The stream offset behind the octets that it was read from."""
        return self.stop if self.head is None else self.head


class Remark(NamedTuple):
    """Findings about a unit that is neither greeting nor command.

    `frame` True: the unit is a message frame and has a row. False: it has none, as a header that is invalid, what the
    end of the stream cut off, or the end itself (`start` and `stop` are equal).
    """

    start: int
    stop: int
    regime: Regime
    findings: tuple[Finding, ...]
    frame: bool = False


Event = Greeting | Command | Remark


class Runs(NamedTuple):
    """Stretches of a stream: the offsets at which they begin, and those behind them."""

    starts: list[int]
    stops: list[int]


class Skipped(NamedTuple):
    """Octets `start..stop` that are no unit and were passed over. `stop` may lie beyond the octets seen.

    `single`: they are one thing, for example one WebSocket frame, and else each octet stands for itself. `inside` of
    them belong to control frames of WebSocket, which are events of their own. `between_units`: no message is under way
    around them, sealed or in clear, so that of the units in front of them and behind them none goes on beyond them.
    `runs`: of `start..stop` these octets were passed over, each stretch one thing if `single`, and whole units stand
    between them.
    """

    start: int
    stop: int
    reason: str
    single: bool = True
    inside: int = 0
    between_units: bool = False
    runs: Runs | None = None
