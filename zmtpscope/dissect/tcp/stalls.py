"""Stalls: stretches in which a side could not send, since the other one had closed its receive window (RFC 9293,
3.8.6). What is remembered of them; `closed_windows.py` finds them.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, Protocol, TypeVar

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.tcp.sequence import distance

MOST_APART = 10
"""So many stalls of a side are told one by one, as many as findings of a kind; then one stands for all that follow."""

OPENED, DISCONNECTED, UNSEEN, RUNNING = "opened", "disconnected", "unseen", "running"
"""How a stall ended: the field `until` of its record."""

UNTIL_CLOSE = {"open": RUNNING, "fin": DISCONNECTED, "rst": DISCONNECTED}
"""The same where a stretch ends with the connection, by how that ended."""


class ClosedWindow:
    """The receive window of the other side, as long as it is closed."""

    __slots__ = ("begin", "edge", "last_said", "position", "probes", "reached")

    def __init__(self, begin: Arrival, position: int, edge: int, reached: int) -> None:
        self.begin = begin
        """The segment that closed it."""
        self.position = position
        """Stream offset of the first octet that was not taken."""
        self.edge = edge
        """Sequence number of that which is not taken now: the octet of a probe may be."""
        self.reached = reached
        """Sequence number behind the last octet that had been sent when it was closed, as far as that is known."""
        self.last_said = begin.time
        """When it was last said to be closed."""
        self.probes = 0

    def say_again(self, edge: int, now: int) -> None:
        """It is still closed; the octet of a probe may have been taken."""
        self.edge, self.last_said = edge, now
        if distance(edge, self.reached) > 0:
            self.reached = edge


class Stall(NamedTuple):
    """One stall, or `stretches` of them as one: `duration` and `probes` of all, the `longest` of them, `until` and
    `end` of the last. Times are those of packets (ns); `decided` is the ordinal of the segment that ended it."""

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
        """This and a later one as one."""
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
    """A stretch of time, or several as one."""

    @property
    def duration(self) -> int: ...

    def joined(self: AnyStretch, later: AnyStretch, /) -> AnyStretch: ...


class Stretches(Generic[AnyStretch]):
    """All stretches of a kind that a side had: those of `apart` can be told, the `others` are one, for the end of the
    connection."""

    __slots__ = ("apart", "count", "duration", "others")

    def __init__(self) -> None:
        self.count = self.duration = 0
        self.apart: list[AnyStretch] = []
        self.others: AnyStretch | None = None

    def add(self, stretch: AnyStretch) -> None:
        """One more is over."""
        self.count += 1
        self.duration += stretch.duration
        if self.count <= MOST_APART:
            self.apart.append(stretch)
        else:
            self.others = stretch if self.others is None else self.others.joined(stretch)

    def drain(self) -> list[AnyStretch]:
        """Those that can be told now."""
        drained, self.apart = self.apart, []
        return drained
