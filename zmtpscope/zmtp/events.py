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
        """Return the frames after the first `count`, and keep all."""
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
    """The greeting of one side (wire.md 3.2, 4.1, 5), in the stream offsets `start..stop`.

    `regime` is how it was parsed. `complete` is False if the stream ends inside it. `head`: the stream offset after the
    parsed part, if that is not `stop`.
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
    """One command (wire.md 7): a command frame, or a handshake command in a message frame.

    - `start..stop`: its stream offsets
    - `regime`: how it was parsed
    - `octets`: those of a WebSocket control frame, which may lie inside a rearranged message; None: read them from the
      stream
    - `head`: the stream offset after the parsed part of a command that is too large to parse whole; None: all is parsed
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
    """Findings about octets `start..stop` that are neither a greeting nor a command.

    `frame`: the octets are a message frame, which is in the columns. Otherwise they are an invalid header or a
    truncated frame, or the stream ends there (`start` equals `stop`).
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
    """Octets `start..stop` that belong to no greeting, command or frame. `stop` may lie after the octets received.

    - `single`: count the octets as one item, such as a WebSocket frame; otherwise each octet is an item
    - `inside`: how many of the octets are WebSocket control frames, which have events too
    - `between_units`: no message continues across the octets
    - `runs`: only these ranges were skipped, with frames between them; each is one item if `single`
    """

    start: int
    stop: int
    reason: str
    single: bool = True
    inside: int = 0
    between_units: bool = False
    runs: Runs | None = None
