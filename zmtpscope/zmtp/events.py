"""Results of a side reader: message frames as columns, and small immutable objects."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.regime import Regime

ENCRYPTED = 0x100
"""Flag in `FrameColumns.flags`, above the octet on the wire: a MESSAGE of CURVE or GSSAPI."""
SUBSCRIBE = 0x200
"""Flag of a subscription message: `01` and the topic."""
CANCEL = 0x400
"""Flag of a cancel message: `00` and the topic."""

MARKED = SUBSCRIBE | CANCEL

SPECIAL = ENCRYPTED | MARKED

Fields = dict[str, Any]
"""Values by the field names of `zmtpscope.records`; a missing key means null."""


class FrameColumns:
    """Message frames as columns: stream offsets of header and body, size of the body in octets, flags.

    `flags` is the octet on the wire, with `ENCRYPTED`, `SUBSCRIBE` and `CANCEL` in higher bits.
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
        """Return the frames after the first `count`."""
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
"""Columns without frames, which are shared and never modified."""


class Greeting(NamedTuple):
    """The greeting of one side (wire.md 3.2, 4.1, 5); `complete` is False if the stream ends inside it."""

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

    `octets` are those of a WebSocket control frame, which may lie inside a rearranged message; None: they are in the
    stream. `head`: the stream offset after the parsed part of a command that is too large to read whole; None: all was
    parsed.
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
        return self.stop if self.head is None else self.head


class Remark(NamedTuple):
    """Findings about a unit that is neither greeting nor command.

    `frame`: the unit is a message frame, which has a row. Otherwise it is an invalid header, a truncated unit, or the
    end of the stream (`start` equals `stop`).
    """

    start: int
    stop: int
    regime: Regime
    findings: tuple[Finding, ...]
    frame: bool = False


Event = Greeting | Command | Remark


class Runs(NamedTuple):
    starts: list[int]
    stops: list[int]


class Skipped(NamedTuple):
    """Octets `start..stop` outside all units. `stop` may lie after the octets received.

    - `single`: the octets are one item, such as a WebSocket frame; otherwise each octet is one
    - `inside`: octets of WebSocket control frames among them, which have their own events
    - `between_units`: no message continues across them
    - `runs`: only these ranges were skipped, with whole units between them; each is one item if `single`
    """

    start: int
    stop: int
    reason: str
    single: bool = True
    inside: int = 0
    between_units: bool = False
    runs: Runs | None = None
