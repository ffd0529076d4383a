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

    __slots__ = ("begin", "edge", "last_announced", "position", "probes", "reached")

    def __init__(self, begin: Arrival, position: int, edge: int, reached: int) -> None:
        self.begin = begin
        """Segment that closed the window."""
        self.position = position
        """Stream offset of the first octet that was not accepted."""
        self.edge = edge
        """Sequence number of the first octet not accepted now; the octet of a probe may be accepted."""
        self.reached = reached
        """Sequence number after the last octet sent before the window closed."""
        self.last_announced = begin.time
        """Time of the last announcement that the window is closed."""
        self.probes = 0

    def announce_again(self, edge: int, now: int) -> None:
        """Process another announcement of the closed window at `now` (ns).

        `edge`, the last permitted octet, may have moved, because the octet of a probe was accepted.
        """
        self.edge, self.last_announced = edge, now
        if distance(edge, self.reached) > 0:
            self.reached = edge


class Stall(NamedTuple):
    """One stall, or `intervals` combined ones.

    Of combined stalls, `duration` and `probes` are sums; `until` and `end` belong to the last. Times are packet times
    (ns); `decided` is the ordinal of the segment that ended the stall.
    """

    begin: Arrival
    position: int
    duration: int
    until: str
    end: int
    probes: int
    decided: int
    longest: int
    intervals: int = 1

    def joined(self, later: Stall) -> Stall:
        return later._replace(
            begin=self.begin,
            position=self.position,
            duration=self.duration + later.duration,
            probes=self.probes + later.probes,
            longest=max(self.longest, later.longest),
            intervals=self.intervals + later.intervals,
        )


AnyInterval = TypeVar("AnyInterval", bound="Interval")


class Interval(Protocol):
    @property
    def duration(self) -> int: ...

    def joined(self: AnyInterval, later: AnyInterval, /) -> AnyInterval: ...


class Intervals(Generic[AnyInterval]):
    """The stalls, or the outages, of one side.

    The first ones are kept `apart`; the `others` are combined into one, reported at the end of the connection.
    """

    __slots__ = ("apart", "count", "duration", "others")

    def __init__(self) -> None:
        self.count = self.duration = 0
        self.apart: list[AnyInterval] = []
        self.others: AnyInterval | None = None

    def add(self, interval: AnyInterval) -> None:
        self.count += 1
        self.duration += interval.duration
        if self.count <= MAX_APART:
            self.apart.append(interval)
        else:
            self.others = interval if self.others is None else self.others.joined(interval)

    def drain(self) -> list[AnyInterval]:
        drained, self.apart = self.apart, []
        return drained
