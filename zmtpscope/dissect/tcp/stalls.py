"""Stalls: times during which a side could not send because the other side's receive window was closed.

See RFC 9293, 3.8.6. `closed_windows.py` detects stalls.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, Protocol, TypeVar

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.tcp.sequence import distance

MAX_APART = 10
"""Stalls of a side reported one by one; later ones are joined into one."""

OPENED, DISCONNECTED, UNSEEN, RUNNING = "opened", "disconnected", "unseen", "running"
"""Ends of a stall (`until` of its record)."""

UNTIL_CLOSE = {"open": RUNNING, "fin": DISCONNECTED, "rst": DISCONNECTED}
"""How a stall ends, by `close_how` of the connection."""


class ClosedWindow:
    """The other side's receive window while it is closed."""

    __slots__ = ("begin", "edge", "last_said", "position", "probes", "reached")

    def __init__(self, begin: Arrival, position: int, edge: int, reached: int) -> None:
        self.begin = begin
        """Segment that closed the window."""
        self.position = position
        """Stream offset of the first octet that was not accepted."""
        self.edge = edge
        """Sequence number of the first octet not accepted now; the octet of a probe may be accepted."""
        self.reached = reached
        """Sequence number after the last octet sent before the window closed."""
        self.last_said = begin.time
        """Time of the last announcement that the window is closed."""
        self.probes = 0

    def say_again(self, edge: int, now: int) -> None:
        """Process another announcement of the closed window: the octet of a probe may have been accepted."""
        self.edge, self.last_said = edge, now
        if distance(edge, self.reached) > 0:
            self.reached = edge


class Stall(NamedTuple):
    """One stall, or `stretches` joined ones: `duration` and `probes` are sums; `until` and `end` belong to the last.

    Times are packet times (ns); `decided` is the ordinal of the segment that ended the stall.
    """

    begin: Arrival
    position: int
    duration: int
    until: str
    end: int
    probes: int
    decided: int
    longest: int
    stretches: int = 1

    def joined(self, later: Stall) -> Stall:
        return later._replace(
            begin=self.begin,
            position=self.position,
            duration=self.duration + later.duration,
            probes=self.probes + later.probes,
            longest=max(self.longest, later.longest),
            stretches=self.stretches + later.stretches,
        )


AnyStretch = TypeVar("AnyStretch", bound="Stretch")


class Stretch(Protocol):
    @property
    def duration(self) -> int: ...

    def joined(self: AnyStretch, later: AnyStretch, /) -> AnyStretch: ...


class Stretches(Generic[AnyStretch]):
    """The stalls, or outages, of a side. The first are kept `apart`; the `others` are joined into one, reported at
    the end of the connection."""

    __slots__ = ("apart", "count", "duration", "others")

    def __init__(self) -> None:
        self.count = self.duration = 0
        self.apart: list[AnyStretch] = []
        self.others: AnyStretch | None = None

    def add(self, stretch: AnyStretch) -> None:
        self.count += 1
        self.duration += stretch.duration
        if self.count <= MAX_APART:
            self.apart.append(stretch)
        else:
            self.others = stretch if self.others is None else self.others.joined(stretch)

    def drain(self) -> list[AnyStretch]:
        """Return stalls or outages that can be reported now."""
        drained, self.apart = self.apart, []
        return drained
