"""Match PINGs and PONGs (conformance.md, wire.md 10.3).

A capture shows less than the peers sent: packets are lost or swapped, a hole delays a side, boxes stay encrypted. A
PONG therefore matches any open PING with its context. An unmatched PONG waits until its PING cannot arrive any more:
the side that sends PINGs was read for a second longer, or the connection ended. Likewise a PING waits only while the
other side was read. After missing octets of either side, nothing more is reported.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.findings.timed_events import TimedEvent
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.notes import Note
from zmtpscope.records import SECOND
from zmtpscope.zmtp.commands import LARGEST_AWAITED_COMMAND
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.traffic import LARGEST_CONTEXT

OPEN_PINGS = 3
"""A side has too many open PINGs with more than this number."""

MAX_REMEMBERED = 64
"""Open PINGs, and unmatched PONGs, to remember."""

LONGEST_KEPT = 32
"""Octets of a stored context; a longer one is replaced by its hash."""


class Heartbeat(NamedTuple):
    """A PING or PONG.

    `context` is shortened. `echo` is its beginning, which is accepted as an answer too.
    """

    arrival: Arrival
    start: int
    length: int
    source: int
    context: bytes
    echo: bytes
    has_ttl: bool


class Direction:
    """The PINGs of the side `asker`, and the PONGs of the other side."""

    has_answered = False
    """Whether the other side has sent a PONG."""
    answered = -1
    """Stream offset of the newest answered PING."""
    overflowed = False
    """Whether PINGs were forgotten, so that a PONG without a known PING may answer one of them."""
    is_crowd_noted = False

    def __init__(self, view: ConnectionView, asker: int) -> None:
        self.view = view
        self.notes: list[Note] = []
        self.asker = asker
        self.open: list[Heartbeat] = []
        self.unmatched: deque[Heartbeat] = deque()

    def ping(self, ping: Heartbeat) -> None:
        """Add a PING. Its PONG may have been captured before it, long before if the PING is a retransmission."""
        early = next((pong for pong in self.unmatched if _fits(ping, pong)), None)
        if early is not None:
            self.unmatched.remove(early)
            self.answered = ping.start
        elif len(self.open) < MAX_REMEMBERED:
            self.open.append(ping)
        else:
            self.overflowed = True

    def pong(self, pong: Heartbeat) -> None:
        self.has_answered = True
        ping = next((ping for ping in self.open if _fits(ping, pong)), None)
        if ping is not None:
            self.open.remove(ping)
            self.answered = max(self.answered, ping.start)
        elif len(self.unmatched) < MAX_REMEMBERED:
            self.unmatched.append(pong)
        else:
            self.overflowed = True

    def settle(self, time: int, ordinal: int) -> None:
        """Report PONGs that can match no later PING, since the side with PINGs was read up to `time`.

        `ordinal` is the segment that shows this.
        """
        while self.unmatched and time - self.unmatched[0].arrival.time > SECOND:
            self._evaluate_pong(self.unmatched.popleft(), ordinal)

    def settle_all(self, ordinal: int) -> None:
        """Report all unmatched PONGs, since no more PINGs will arrive. `ordinal` is the segment that shows this."""
        while self.unmatched:
            self._evaluate_pong(self.unmatched.popleft(), ordinal)

    def _evaluate_pong(self, pong: Heartbeat, ordinal: int) -> None:
        """Report a PONG without a PING; if a PING is open, as a wrong answer to the oldest one.

        `ordinal` is the segment that shows this.
        """
        if self.overflowed:
            return
        id_ = "ZMTP31-PING-08"
        if self.open and self.open[0].arrival.time <= pong.arrival.time:
            ping = self.open.pop(0)
            self.answered = max(self.answered, ping.start)
            id_ = "ZMTP31-PING-03" if ping.has_ttl else "ZMTP31-PING-10"
        self._note(id_, 1 - self.asker, pong, ordinal)

    def evaluate_crowd(self, time: int, ordinal: int) -> None:
        """Report if too many PINGs are unanswered since the last answered one.

        The answering side was read up to `time`; `ordinal` is the segment that shows this.
        """
        if len(self.open) <= OPEN_PINGS or self.is_crowd_noted:
            return
        waiting = [ping for ping in self.open if ping.start > self.answered and time - ping.arrival.time > SECOND]
        if len(waiting) > OPEN_PINGS:
            self.is_crowd_noted = True
            self._note("ZMTP31-PING-09", self.asker, waiting[OPEN_PINGS], ordinal, self._severity())

    def evaluate_oldest(self, time: int, ordinal: int) -> None:
        """Report an unanswered PING when the connection was closed at `time`. `ordinal` is the segment of the close."""
        if not self.open or time - self.open[0].arrival.time <= SECOND:
            return
        ping = self.open[0]
        # traffic of a peer that receives nothing proves nothing about a PING that never arrived
        stop = None if ping.source else ping.start + ping.length
        has_come = self.view.is_acknowledged(self.asker, stop)
        if has_come and self.view.said_something_after(1 - self.asker, ping.arrival):
            self._note("ZMTP31-PING-04", self.asker, ping, ordinal, self._severity())

    def _severity(self) -> str | None:
        """Return "note" if the peer may be libzmq 4.0 or 4.1, which speak 3.0 and do not know PING; otherwise None."""
        return "note" if self.view.version == "3.0" and not self.has_answered else None

    def _note(self, id_: str, side: int, heartbeat: Heartbeat, ordinal: int, severity: str | None = None) -> None:
        finding = Finding(id_, heartbeat.start, heartbeat.length, severity)
        self.notes.append(Note(side, finding, heartbeat.arrival, ordinal, source=heartbeat.source))


class Heartbeats:
    over = False
    """Whether octets may be missing, so that nothing more is evaluated."""

    def __init__(self, view: ConnectionView) -> None:
        self.directions = Direction(view, 0), Direction(view, 1)
        self.last: list[Arrival | None] = [None, None]

    def drain(self) -> list[Note]:
        notes = [note for direction in self.directions for note in direction.notes]
        for direction in self.directions:
            direction.notes.clear()
        return notes

    def feed(self, timed: TimedEvent, whole: bool) -> None:
        """Process a PING or PONG. `whole`: no octet of either side was missing up to its ordinal."""
        if self.over:
            return
        if not (whole and timed.certain and timed.event.fields["size"] <= LARGEST_AWAITED_COMMAND):
            self.give_up()
            return
        heartbeat = _heartbeat_of(timed)
        own, others = self.directions[timed.side], self.directions[1 - timed.side]
        last, self.last[timed.side] = self.last[timed.side], heartbeat.arrival
        if last is not None and last.ordinal < heartbeat.arrival.ordinal:  # all events of that segment are read
            own.settle(last.time, heartbeat.arrival.ordinal)
            others.evaluate_crowd(last.time, heartbeat.arrival.ordinal)
        if timed.event.fields["name"] == "PING":
            own.ping(heartbeat)
        else:
            others.pong(heartbeat)

    def give_up(self) -> None:
        self.over = True
        for direction in self.directions:
            direction.open.clear()
            direction.unmatched.clear()

    def end(self, arrival: Arrival, closed: bool) -> None:
        """Report at the end of a completely captured connection.

        If `closed`, `arrival` is the first FIN or RST; otherwise it is the end of the capture.
        """
        for direction in self.directions:
            if closed:
                direction.settle_all(arrival.ordinal)
            else:
                direction.settle(arrival.time, arrival.ordinal)
            direction.evaluate_crowd(arrival.time, arrival.ordinal)
            if closed:
                direction.evaluate_oldest(arrival.time, arrival.ordinal)


def _heartbeat_of(timed: TimedEvent) -> Heartbeat:
    event = timed.event
    context: bytes = event.fields.get("context") or b""
    kept = context if len(context) <= LONGEST_KEPT else blake2b(context).digest()
    echo, has_ttl = context[:LARGEST_CONTEXT], event.fields.get("ttl_ms") is not None
    return Heartbeat(timed.arrival, event.start, event.stop - event.start, timed.source, kept, echo, has_ttl)


def _fits(ping: Heartbeat, pong: Heartbeat) -> bool:
    return pong.context in (ping.context, ping.echo)
