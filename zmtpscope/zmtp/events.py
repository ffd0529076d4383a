"""Results of a side reader: message frames as columns, and small immutable objects."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.regime import Regime

ENCRYPTED = 0x100
"""Added to the flags octet in `FrameColumns.flags`: the body is a MESSAGE of CURVE or GSSAPI."""
SUBSCRIBE = 0x200
"""The frame is a subscription message (`01` and the topic)."""
CANCEL = 0x400
"""The frame is a cancel message (`00` and the topic)."""

MARKED = SUBSCRIBE | CANCEL
"""Frames with a subscription: the first octet is 01 or 00, and the topic follows."""

SPECIAL = ENCRYPTED | MARKED
"""Flags of frames that are not plain data."""

Fields = dict[str, Any]
"""Values by the field names of `zmtpscope.records`; a missing key means null."""


class FrameColumns:
    """Message frames as columns: stream offsets of header and body, size of the body in octets, flags.

    `flags` is the flags octet on the wire, with `ENCRYPTED`, `SUBSCRIBE` and `CANCEL` in higher bits.
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
        self.offsets.fromlist(offsets)
        self.bodies.fromlist(bodies)
        self.sizes.fromlist(sizes)
        self.flags.fromlist(flags)

    def add(self, others: FrameColumns) -> None:
        self.offsets += others.offsets
        self.bodies += others.bodies
        self.sizes += others.sizes
        self.flags += others.flags

    def behind(self, count: int) -> FrameColumns:
        """Return the frames after the first `count`, in new columns."""
        others = FrameColumns()
        others.offsets = self.offsets[count:]
        others.bodies = self.bodies[count:]
        others.sizes = self.sizes[count:]
        others.flags = self.flags[count:]
        return others

    def split(self, count: int) -> FrameColumns:
        """Keep the first `count` frames and return the rest."""
        others = self.behind(count)
        del self.offsets[count:], self.bodies[count:], self.sizes[count:], self.flags[count:]
        return others

    def rows(self) -> list[tuple[int, int, int, int]]:
        """Return (offset, body, size, flags) of every frame."""
        return list(zip(self.offsets, self.bodies, self.sizes, self.flags, strict=True))


NO_FRAMES = FrameColumns()
"""Shared empty columns; never modified."""


class Greeting(NamedTuple):
    """The greeting of one side (wire.md 3.2, 4.1, 5); `complete` is False if the stream ends inside it.

    `head` is as in `Command`, for a large identity.
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
        """The stream offset after the octets that were parsed."""
        return self.stop if self.head is None else self.head


class Command(NamedTuple):
    """One command frame, or a handshake command in a message frame (wire.md 7).

    `octets` are set for a WebSocket control frame, which may lie inside a rearranged message; None: read the stream.
    `head` is set for a command too large to await: the stream offset after the part that was parsed, even if more
    octets have been received. None: all of it was parsed.
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
        """The stream offset after the octets that were parsed."""
        return self.stop if self.head is None else self.head


class Remark(NamedTuple):
    """Findings about a unit that is neither greeting nor command.

    `frame` True: the unit is a message frame, which has a row. False: an invalid header, a unit truncated by the end of
    the stream, or the end of the stream itself (`start` equals `stop`).
    """

    start: int
    stop: int
    regime: Regime
    findings: tuple[Finding, ...]
    frame: bool = False


Event = Greeting | Command | Remark


class Runs(NamedTuple):
    """Start and stop offsets of ranges of a stream."""

    starts: list[int]
    stops: list[int]


class Skipped(NamedTuple):
    """Octets `start..stop` that belong to no unit and were skipped. `stop` may lie after the octets received.

    - `single`: they are one item, such as a WebSocket frame; otherwise each octet counts
    - `inside`: number of octets of WebSocket control frames among them, which have their own events
    - `between_units`: no message, encrypted or not, continues across them
    - `runs`: only these ranges were skipped, each one item if `single`, with whole units between them
    """

    start: int
    stop: int
    reason: str
    single: bool = True
    inside: int = 0
    between_units: bool = False
    runs: Runs | None = None
