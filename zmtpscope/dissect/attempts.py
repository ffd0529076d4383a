"""TCP connections that never came about: who tried to reach whom, how often, and what the answer was.

A server that is not there leaves nothing but SYNs in the capture: libzmq tries again ten times a second unless it is
told otherwise. Attempts are counted by client address, endpoint and outcome, `MOST_PAIRS` of these at a time, so that a
port scan or a flood of SYNs costs no more; whatever was counted and forgotten is told as one number.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.identity import stream_of
from zmtpscope.dissect.moments import SECOND
from zmtpscope.dissect.sink import Sink
from zmtpscope.dissect.tell import Teller
from zmtpscope.zmtp.reader import Finding

if TYPE_CHECKING:
    from zmtpscope.dissect.batch import Stream
    from zmtpscope.dissect.connection import Connection

MOST_PAIRS = 4096
"""Clients and endpoints of which something is remembered; the pair met longest ago is forgotten."""

MOST_LISTED = 20
"""So many pairs are told at the end, those with the most attempts; the others are told as one number."""

CONNECTED, REFUSED, UNANSWERED, HALF_OPEN = "connected", "refused", "not answered", "never completed"
UNDER_WAY = "under way"
"""No answer yet when the capture ended, or the connection was given up, within a second of the SYN: nothing is said."""

FINDING_BY_OUTCOME = {REFUSED: "ZMTP-CONN-14", UNANSWERED: "ZMTP-CONN-15", HALF_OPEN: "ZMTP-CONN-16"}
"""Each stands for many attempts, and says itself how many."""

LATER_HINT = "the other side was not up yet: peers of ZeroMQ try again until it is"
BEFORE_HINT = "the other side went away: see who closed the connection before, and how"


class Attempt(NamedTuple):
    """One TCP connection whose SYN was captured. `last` is the last SYN of the client, `over` what decided."""

    outcome: str
    key: bytes
    number: int
    incarnation: int
    start: Arrival
    last: Arrival
    syns: int
    over: int

    @property
    def pair(self) -> bytes:
        """Client address, address and port that were connected to."""
        return self.key[:-4] + self.key[-2:]

    @property
    def stream(self) -> Stream:
        """What the records of the client's side have in common."""
        return stream_of(self.key, self.start.time, self.incarnation, self.number)


def attempt_of(connection: Connection) -> Attempt | None:
    """What became of a connection that is over; None where its SYN was not captured."""
    client, server = connection.tcp
    if client.initial < 0:
        return None
    if client.acknowledged >= 0 or client.delivered or server.delivered:
        outcome = CONNECTED
    elif connection.close_how == "rst" and connection.closed_by == 1 and server.initial < 0:
        outcome = REFUSED
    elif connection.close_how in ("open", "evicted") and _waited(connection) < SECOND:
        outcome = UNDER_WAY
    else:
        outcome = HALF_OPEN if server.seen else UNANSWERED
    return Attempt(
        outcome,
        connection.key,
        connection.number,
        connection.incarnation,
        connection.start,
        connection.last_syn,
        connection.syns,
        connection.end.ordinal,
    )


def _waited(connection: Connection) -> int:
    """Nanoseconds from the SYN to when nothing more could come."""
    return connection.ceased - connection.start.time


@dataclass(slots=True, eq=False)
class Tried:
    """The attempts of one client at one endpoint with one outcome."""

    first: Attempt
    last: Attempt
    count: int
    syns: int

    def add(self, attempt: Attempt) -> None:
        """One more; they come in the order in which they were decided, which need not be that of their SYNs."""
        self.count += 1
        self.syns += attempt.syns
        self.first = min(self.first, attempt, key=_began)
        self.last = max(self.last, attempt, key=_went_on)

    def sentence(self, stream: Stream) -> str:
        """`10.0.0.2 tried 31 times in 30.1 s to reach 10.0.0.1:5555`."""
        times = "once" if self.count == 1 else f"{self.count} times"
        syns = f" ({self.syns} SYNs)" if self.syns > self.count else ""
        took = f" in {max(0, self.last.last.time - self.first.start.time) / SECOND:.1f} s" if self.syns > 1 else ""
        host = f"[{stream.dst_ip}]" if ":" in stream.dst_ip else stream.dst_ip
        return f"{stream.src_ip} tried {times}{syns}{took} to reach {host}:{stream.dst_port}"


class Attempts:
    """The attempts of a run: `take` those that are over, `finish` with what is to be said about them."""

    def __init__(self, sink: Sink, telling: bool) -> None:
        self.sink = sink
        self.telling = telling
        self.tried: OrderedDict[tuple[str, bytes], Tried] = OrderedDict()
        self.connected: OrderedDict[bytes, Arrival] = OrderedDict()
        """When each pair was connected last: its SYN."""
        self.others: dict[str, Tried] = {}
        """What was forgotten, by outcome."""

    def take(self, attempts: list[Attempt]) -> None:
        """Count the attempts that a block decided."""
        attempts.sort(key=_decided)
        for attempt in attempts:
            if attempt.outcome == CONNECTED:
                known = self.connected.pop(attempt.pair, attempt.start)
                self.connected[attempt.pair] = max(known, attempt.start)
                if len(self.connected) > MOST_PAIRS:
                    self.connected.popitem(last=False)
                continue
            self.sink.summary.attempts[attempt.outcome] += 1
            if attempt.outcome == UNDER_WAY:
                continue
            place = attempt.outcome, attempt.pair
            tried = self.tried.get(place)
            if tried is not None:
                tried.add(attempt)
                self.tried.move_to_end(place)
                continue
            self.tried[place] = Tried(attempt, attempt, 1, attempt.syns)
            if len(self.tried) > MOST_PAIRS:
                self._leave_out(*self.tried.popitem(last=False))

    def _leave_out(self, place: tuple[str, bytes], tried: Tried) -> None:
        others = self.others.get(place[0])
        if others is None:
            self.others[place[0]] = tried
            return
        others.count += tried.count
        others.first = min(others.first, tried.first, key=_began)
        others.last = max(others.last, tried.last, key=_went_on)

    def finish(self, end: Arrival) -> None:
        """Tell who was not let in, those who tried most first."""
        ordered = sorted(self.tried.items(), key=lambda entry: (-entry[1].count, _began(entry[1].first)))
        for (outcome, _), tried in ordered[:MOST_LISTED]:
            self._tell(outcome, tried, end)
        for place, tried in ordered[MOST_LISTED:]:
            self._leave_out(place, tried)
        for outcome, others in self.others.items():
            self._tell_others(outcome, others, end)

    def _tell(self, outcome: str, tried: Tried, end: Arrival) -> None:
        stream = tried.first.stream
        sentence, severity, hint = tried.sentence(stream), None, None
        connected = self.connected.get(tried.first.pair)
        if connected is not None and connected > tried.last.last:
            sentence += f"; it connected {max(0, connected.time - tried.last.last.time) / SECOND:.1f} s later"
            severity, hint = "note", LATER_HINT
        elif connected is not None and connected > tried.last.start:
            sentence += "; it connected meanwhile"
            severity = "note"
        elif connected is not None:
            sentence += "; it had been connected before"
            severity, hint = "note", BEFORE_HINT
        elif tried.syns == 1:
            severity = "note"
        self._put(outcome, stream, Finding(FINDING_BY_OUTCOME[outcome], None, 0, severity, sentence, hint), tried, end)

    def _tell_others(self, outcome: str, others: Tried, end: Arrival) -> None:
        stream = others.last.stream
        more = "1 more attempt" if others.count == 1 else f"{others.count} more attempts"
        sentence = f"{more} between others, the last from {stream.src_ip}"
        self._put(outcome, stream, Finding(FINDING_BY_OUTCOME[outcome], None, 0, "note", sentence), others, end)

    def _put(self, outcome: str, stream: Stream, finding: Finding, tried: Tried, end: Arrival) -> None:
        self.sink.summary.tried.append((outcome, finding.detail or ""))
        there = stream._replace(side=1, src_ip=stream.dst_ip, src_port=stream.dst_port)
        teller = Teller(self.sink, (stream, there), self.telling)
        teller.summed(finding, tried.first.start, tried.last.last, tried.count, end.ordinal)


def _began(attempt: Attempt) -> int:
    return attempt.start.ordinal


def _went_on(attempt: Attempt) -> int:
    return attempt.last.ordinal


def _decided(attempt: Attempt) -> tuple[int, int]:
    return attempt.over, attempt.number
