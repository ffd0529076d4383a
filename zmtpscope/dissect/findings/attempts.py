"""TCP connections that never came about: who tried to reach whom, how often, and what the answer was.

A server that is not there leaves nothing but SYNs in the capture: libzmq tries again ten times a second unless it is
told otherwise. Attempts are counted by client address, endpoint and outcome, `MOST_PAIRS` of these at a time, so that a
port scan or a flood of SYNs costs no more; whatever was counted and forgotten is written as one number.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from zmtpscope.dissect.arrivals import Arrival, Stamp
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.facts import Attempt
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.sink import Summary
from zmtpscope.dissect.tcp.connection import CONNECTED, HALF_OPEN, REFUSED, UNANSWERED, UNDER_WAY
from zmtpscope.records import SECOND
from zmtpscope.zmtp.reader import Finding

MOST_PAIRS = 4096
"""Clients and endpoints of which something is remembered; the pair met longest ago is forgotten."""

MOST_LISTED = 20
"""So many pairs are written at the end, those with the most attempts; the others are written as one number."""

FINDING_BY_OUTCOME = {REFUSED: "ZMTP-CONN-14", UNANSWERED: "ZMTP-CONN-15", HALF_OPEN: "ZMTP-CONN-16"}
"""Each stands for many attempts, and says itself how many."""

LATER_HINT = "the other side was not up yet: peers of ZeroMQ try again until it is"
BEFORE_HINT = "the other side went away: see who closed the connection before, and how"


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
        seconds = max(0, self.last.last.time - self.first.connection.start.time) / SECOND
        took = f" in {seconds:.1f} s" if self.syns > 1 else ""
        host = f"[{stream.dst_ip}]" if ":" in stream.dst_ip else stream.dst_ip
        return f"{stream.src_ip} tried {times}{syns}{took} to reach {host}:{stream.dst_port}"


class Attempts:
    """The attempts of a run: `evaluate` those that are over, `finish` with what is to be said about them."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary
        self.tried: OrderedDict[tuple[str, bytes], Tried] = OrderedDict()
        self.connected: OrderedDict[bytes, Stamp] = OrderedDict()
        """When each pair was connected last: its SYN."""
        self.others: dict[str, Tried] = {}
        """What was forgotten, by outcome."""

    def evaluate(self, attempt: Attempt) -> None:
        """Count an attempt; they come in the order in which they were decided."""
        pair = attempt.pair
        if attempt.outcome == CONNECTED:
            known = self.connected.pop(pair, attempt.connection.start)
            self.connected[pair] = max(known, attempt.connection.start)
            if len(self.connected) > MOST_PAIRS:
                self.connected.popitem(last=False)
            return
        self.summary.attempts[attempt.outcome] += 1
        if attempt.outcome == UNDER_WAY:
            return
        place = attempt.outcome, pair
        tried = self.tried.get(place)
        if tried is not None:
            tried.add(attempt)
            self.tried.move_to_end(place)
            return
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

    def finish(self, end: Arrival) -> list[Note]:
        """Who was not let in, those who tried most first."""
        ordered = sorted(self.tried.items(), key=lambda entry: (-entry[1].count, _began(entry[1].first)))
        notes = [self._note(outcome, tried, end) for (outcome, _), tried in ordered[:MOST_LISTED]]
        for place, tried in ordered[MOST_LISTED:]:
            self._leave_out(place, tried)
        return notes + [self._note_others(outcome, others, end) for outcome, others in self.others.items()]

    def _note(self, outcome: str, tried: Tried, end: Arrival) -> Note:
        stream = tried.first.connection.stream
        sentence, severity, hint = tried.sentence(stream), None, None
        connected = self.connected.get(tried.first.pair)
        if connected is not None and connected > tried.last.last:
            sentence += f"; it connected {max(0, connected.time - tried.last.last.time) / SECOND:.1f} s later"
            severity, hint = "note", LATER_HINT
        elif connected is not None and connected > tried.last.connection.start:
            sentence += "; it connected meanwhile"
            severity = "note"
        elif connected is not None:
            sentence += "; it had been connected before"
            severity, hint = "note", BEFORE_HINT
        elif tried.syns == 1:
            severity = "note"
        return self._summed(outcome, stream, sentence, severity, hint, tried, end)

    def _note_others(self, outcome: str, others: Tried, end: Arrival) -> Note:
        stream = others.last.connection.stream
        more = "1 more attempt" if others.count == 1 else f"{others.count} more attempts"
        sentence = f"{more} between others, the last from {stream.src_ip}"
        return self._summed(outcome, stream, sentence, "note", None, others, end)

    def _summed(
        self,
        outcome: str,
        stream: Stream,
        sentence: str,
        severity: str | None,
        hint: str | None,
        tried: Tried,
        end: Arrival,
    ) -> Note:
        self.summary.tried.append((outcome, sentence))
        finding = Finding(FINDING_BY_OUTCOME[outcome], None, 0, severity, sentence, hint)
        first, last = tried.first.connection.start, tried.last.last
        return Note(None, finding, first, end.ordinal, events=tried.count, last=last, stream=stream)


def _began(attempt: Attempt) -> Stamp:
    return attempt.connection.start


def _went_on(attempt: Attempt) -> Stamp:
    return attempt.last
