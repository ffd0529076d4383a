"""PINGs and the PONGs that answer them (conformance.md 1.4, wire.md 10.3).

A capture shows less than what the peers said: packets are lost, a side is held back until a hole in it is filled or
declared, boxes stay closed, neighbours are swapped. So a PONG is matched with any open PING of its context, and one
that fits none is kept until its PING will not come any more: until something later by a second was read of the side
that asks, or the connection is over. Likewise PINGs have waited only for so long as the other side was read. Whatever
else a side sends, that it was read up to some time is taken from its own heartbeats, so nothing is to be done for each
message or block. Where octets are missing, of either side, nothing is said from then on.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.durations import SECOND
from zmtpscope.dissect.findings.timed_events import TimedEvent
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.notes import Note
from zmtpscope.zmtp.commands import LARGEST_AWAITED_COMMAND
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.traffic import LARGEST_CONTEXT

OPEN_PINGS = 3
"""More than so many PINGs should not wait."""

MOST_REMEMBERED = 64
"""So many open PINGs, and as many PONGs whose PING may still come, are remembered."""

LONGEST_KEPT = 32
"""Octets; of a longer context a hash is kept."""


class Heartbeat(NamedTuple):
    """A PING or a PONG. `context` is kept short, `echo` is what else answers it: its first octets."""

    arrival: Arrival
    start: int
    length: int
    source: int
    context: bytes
    echo: bytes
    has_ttl: bool


class Direction:
    """The PINGs of side `asker`, and the PONGs that the other side answers with."""

    has_answered = False
    """The other side has sent a PONG."""
    answered = -1
    """Where the newest PING stands that was answered."""
    overflowed = False
    """Some are not remembered: what fits none of the others may belong to one of these."""
    is_crowd_noted = False

    def __init__(self, view: ConnectionView, asker: int) -> None:
        self.view = view
        self.notes: list[Note] = []
        """What is to be said."""
        self.asker = asker
        self.open: list[Heartbeat] = []
        self.unmatched: deque[Heartbeat] = deque()
        """PONGs that fit no open PING."""

    def ping(self, ping: Heartbeat) -> None:
        """The side asks. Its answer may have been captured first, and long before a PING that was captured only when it
        was sent again."""
        early = next((pong for pong in self.unmatched if _fits(ping, pong)), None)
        if early is not None:
            self.unmatched.remove(early)
            self.answered = ping.start
        elif len(self.open) < MOST_REMEMBERED:
            self.open.append(ping)
        else:
            self.overflowed = True

    def pong(self, pong: Heartbeat) -> None:
        """The other side answers."""
        self.has_answered = True
        ping = next((ping for ping in self.open if _fits(ping, pong)), None)
        if ping is not None:
            self.open.remove(ping)
            self.answered = max(self.answered, ping.start)
        elif len(self.unmatched) < MOST_REMEMBERED:
            self.unmatched.append(pong)
        else:
            self.overflowed = True

    def settle(self, time: int, ordinal: int) -> None:
        """The side that asks was read up to `time`, as the segment `ordinal` made known: evaluate the PONGs whose PING
        would have come by now."""
        while self.unmatched and time - self.unmatched[0].arrival.time > SECOND:
            self._evaluate_pong(self.unmatched.popleft(), ordinal)

    def settle_all(self, ordinal: int) -> None:
        """No PING will come any more."""
        while self.unmatched:
            self._evaluate_pong(self.unmatched.popleft(), ordinal)

    def _evaluate_pong(self, pong: Heartbeat, ordinal: int) -> None:
        """A PONG answers none of the PINGs: it is a wrong answer to the oldest that was open, if one was."""
        if self.overflowed:
            return
        id_ = "ZMTP31-PING-08"
        if self.open and self.open[0].arrival.time <= pong.arrival.time:
            ping = self.open.pop(0)
            self.answered = max(self.answered, ping.start)
            id_ = "ZMTP31-PING-03" if ping.has_ttl else "ZMTP31-PING-10"
        self._note(id_, 1 - self.asker, pong, ordinal)

    def evaluate_crowd(self, time: int, ordinal: int) -> None:
        """The side that is asked was read up to `time`: look how many PINGs wait, behind the last that was answered."""
        if len(self.open) <= OPEN_PINGS or self.is_crowd_noted:
            return
        waiting = [ping for ping in self.open if ping.start > self.answered and time - ping.arrival.time > SECOND]
        if len(waiting) > OPEN_PINGS:
            self.is_crowd_noted = True
            self._note("ZMTP31-PING-09", self.asker, waiting[OPEN_PINGS], ordinal, self._severity())

    def evaluate_oldest(self, time: int, ordinal: int) -> None:
        """The connection was closed at `time`: look whether a PING was never answered."""
        if not self.open or time - self.open[0].arrival.time <= SECOND:
            return
        ping = self.open[0]
        # what its peer sends while nothing gets through to it says nothing of a PING that never came
        stop = None if ping.source else ping.start + ping.length
        has_come = self.view.is_acknowledged(self.asker, stop)
        if has_come and self.view.said_something_after(1 - self.asker, ping.arrival):
            self._note("ZMTP31-PING-04", self.asker, ping, ordinal, self._severity())

    def _severity(self) -> str | None:
        """libzmq 4.0 and 4.1 speak 3.0 and do not know PING."""
        return "note" if self.view.version == "3.0" and not self.has_answered else None

    def _note(self, id_: str, side: int, heartbeat: Heartbeat, ordinal: int, severity: str | None = None) -> None:
        finding = Finding(id_, heartbeat.start, heartbeat.length, severity)
        self.notes.append(Note(side, finding, heartbeat.arrival, ordinal, source=heartbeat.source))


class Heartbeats:
    """The heartbeats of one connection."""

    over = False
    """Something may be missing: nothing is evaluated any more."""

    def __init__(self, view: ConnectionView) -> None:
        self.directions = Direction(view, 0), Direction(view, 1)
        self.last: list[Arrival | None] = [None, None]
        """The last heartbeat of each side."""

    def drain(self) -> list[Note]:
        """What is to be said, of what was not given yet."""
        notes = [note for direction in self.directions for note in direction.notes]
        for direction in self.directions:
            direction.notes.clear()
        return notes

    def feed(self, timed: TimedEvent, whole: bool) -> None:
        """A PING or PONG was read; `whole`: no octet of either side was missing up to its ordinal."""
        if self.over:
            return
        if not (whole and timed.certain and timed.event.fields["size"] <= LARGEST_AWAITED_COMMAND):
            self.give_up()
            return
        heartbeat = _heartbeat_of(timed)
        own, others = self.directions[timed.side], self.directions[1 - timed.side]
        last, self.last[timed.side] = self.last[timed.side], heartbeat.arrival
        if last is not None and last.ordinal < heartbeat.arrival.ordinal:  # all that waited for one segment is read
            own.settle(last.time, heartbeat.arrival.ordinal)
            others.evaluate_crowd(last.time, heartbeat.arrival.ordinal)
        if timed.event.fields["name"] == "PING":
            own.ping(heartbeat)
        else:
            others.pong(heartbeat)

    def give_up(self) -> None:
        """Evaluate nothing from now on."""
        self.over = True
        for direction in self.directions:
            direction.open.clear()
            direction.unmatched.clear()

    def end(self, arrival: Arrival, closed: bool) -> None:
        """The capture of a connection of which nothing is missing ends with `arrival`; `closed`: so does it itself, and
        `arrival` is the first FIN or RST."""
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
