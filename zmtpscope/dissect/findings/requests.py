"""Requests and the replies to them, on one connection (conformance.md 1.6, wire.md 10.1).

A REQ waits for the reply to each request (REQREP-02), and what a REP sends is the reply to a request, with the envelope
of that (REQREP-04). Usually requests and replies come in turns, or replies in the order of requests: whole columns of
them are compared then, and only where they differ one after the other.

What is under way may be captured out of order, by a second at most, and a packet that was captured late holds its side
back. So what looks wrong waits for the next message of the other side, in front of which nothing is missing, or for the
end of a connection that was captured whole. Once something is missing nothing is said any more.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.durations import SECOND
from zmtpscope.dissect.findings.envelopes import EMPTY, NO_DELIMITER, NOT_KNOWN, envelopes
from zmtpscope.dissect.findings.row_rules import note_on
from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.notes import Note
from zmtpscope.zmtp.events import SPECIAL
from zmtpscope.zmtp.socket_types import PEERS

MOST_OPEN = 4096
"""So many requests of a connection wait for their replies; where there are more, replies are not judged any more."""
MOST_WAITING = 64
"""So many findings of each kind wait; no more are made then."""

NEVER = sys.maxsize
"""Behind the ordinals of all segments."""

ASKERS = frozenset({"REQ", "DEALER"})

NEITHER = frozenset(PEERS) - ASKERS - {"REP", "ROUTER"}
"""Who neither asks nor replies."""

Runs = tuple[list[MessageRun], list[MessageRun]]
"""Of side 0 and side 1."""


class Sent(NamedTuple):
    """What one side has sent in a block, as columns, in the order in which it became decidable: message i is row
    `rows[i]` of the run `runs[i]`."""

    runs: Int64
    rows: Int64
    orders: Int64
    times: Int64
    packets: Int64
    packet_ends: Int64
    envelopes: Int64

    def some(self, which: NDArray[np.bool_] | Int64) -> Sent:
        """These of them."""
        return Sent(*[column[which] for column in self])

    def delimited(self) -> Sent:
        """Those that have a delimiter; the others are router probes, or a REP drops them."""
        has_delimiter = self.envelopes != NO_DELIMITER
        return self if has_delimiter.all() else self.some(has_delimiter)


NONE: Int64 = np.empty(0, np.int64)
NOTHING = Sent(NONE, NONE, NONE, NONE, NONE, NONE, NONE)


class Waiting(NamedTuple):
    """A finding that the other side may still belie, and the envelope that it is about."""

    note: Note
    envelope: int


class Requests:
    """The requests and replies of one connection. `evaluate` the messages of each block, and at last the `end`."""

    is_over = False
    """Something is missing, or too much is open: nothing is said any more."""
    is_answered = True
    """No request waits for a reply, as far as messages were read."""
    last_packet = 0
    """The one in which the last request ends."""

    asker: int | None = None
    """The side that asks, once it is known, and the types of both sides."""
    asker_type: str | None = None
    replier_type: str | None = None

    def __init__(self) -> None:
        self.early: list[Waiting] = []
        """Requests in front of which no reply came."""
        self.unasked: list[Waiting] = []
        """Replies that fit no request."""
        self.open = NONE
        """The envelopes of requests that wait for a reply, the oldest first."""
        self.passed_over: Counter[int] = Counter()
        """Those of requests that a later one was answered before."""
        self.undelimited = 0
        """Requests without a delimiter, which a REP should drop (REQREP-01, -05), and has not answered all the same."""

    @property
    def is_alternating(self) -> bool:
        """Whether requests without addresses and replies to them have alternated, as far as that still matters."""
        is_open = not self.is_answered and self.replier_type != "ROUTER"
        is_other = self.is_over or self.early or self.unasked or self.passed_over or self.undelimited
        return not is_other and self.open.tolist() == [EMPTY] * is_open

    def go_on_alternating(self, asker: int, types: tuple[str, str], *, is_answered: bool, last_packet: int) -> None:
        """Requests and replies have alternated elsewhere: `asker` asks, `types` are those of who asks and who
        replies. The last request ends in that packet."""
        self.asker, (self.asker_type, self.replier_type) = asker, types
        self.is_answered, self.last_packet = is_answered, last_packet
        self.open = np.full(int(not is_answered and self.replier_type == "REP"), EMPTY)

    def evaluate(self, written: Runs) -> list[Note]:
        """See what both sides have sent in a block: what there is to say."""
        if self.is_over or not self._knows_types(written):
            return []
        asker = self.asker or 0
        asked, asked_until = _sent(written[asker])
        answered, answered_until = _sent(written[1 - asker])
        until = min(asked_until, answered_until)
        if until < NEVER:
            asked, answered = asked.some(asked.orders < until), answered.some(answered.orders < until)
        notes: list[Note] = []
        if self.asker_type == "REQ":
            notes += self._look_for_early(asker, written[asker], asked.delimited(), answered)
        if self.replier_type in (None, "REP"):
            notes += self._match(asker, written[1 - asker], asked, answered)
        if until < NEVER or self.is_over:
            self._give_up()
        return notes

    def _knows_types(self, written: Runs) -> bool:
        """Whether one side is known to ask the other, or a reply may be owed."""
        for side, runs in enumerate(written):
            for run in runs:
                types = run.socket_type, run.peer_socket_type
                if run.socket_type in NEITHER:
                    self.is_over = True
                    return False
                if self.asker is None and not ASKERS.isdisjoint(types):
                    self.asker = side if run.socket_type in ASKERS else 1 - side
                if self.asker is not None:
                    asker_type, replier_type = types if side == self.asker else types[::-1]
                    self.asker_type = self.asker_type or asker_type
                    self.replier_type = self.replier_type or replier_type
        if self.asker_type == "DEALER" and self.replier_type not in (None, "REP"):
            self._give_up()
        return self.asker is not None and not self.is_over

    def _give_up(self) -> None:
        """Say nothing any more, and remember nothing."""
        self.is_over = True
        self.early, self.unasked, self.open, self.passed_over = [], [], NONE, Counter()

    def end(self, ordinal: int, ceased: int | None) -> list[Note]:
        """The connection ends with the segment `ordinal`, or its capture does, at the time `ceased`, and nothing of it
        is missing."""
        return [
            each.note._replace(decided=ordinal)
            for each in [*self.early, *self.unasked]
            if ceased is None or ceased - each.note.at.time > SECOND
        ]

    # -- requests before a reply ---------------------------------------------------------------------------------------

    def _look_for_early(self, side: int, runs: list[MessageRun], asked: Sent, answered: Sent) -> list[Note]:
        """REQREP-02. What is in the packet in which the request before it ends cannot follow a reply to that."""
        replies, next_reply = answered.orders.searchsorted(asked.orders), 0
        is_early = np.diff(replies, prepend=0) == 0
        is_early[:1] &= not self.is_answered
        is_together = is_early & (np.append(self.last_packet, asked.packet_ends)[:-1] == asked.packets)
        notes: list[Note] = []
        for place in np.flatnonzero(is_early).tolist():
            if replies[place] > next_reply:
                notes += self._decide_early(answered, next_reply)
                next_reply = int(replies[place])
            note = note_on(runs[asked.runs[place]], int(asked.rows[place]), side, "REQREP-02")
            if is_together[place]:
                notes.append(note)
            elif len(self.early) < MOST_WAITING:
                self.early.append(Waiting(note, EMPTY))
        if next_reply < len(answered.orders):
            notes += self._decide_early(answered, next_reply)
        self.last_packet = asked.packet_ends[-1] if len(asked.packet_ends) else self.last_packet
        if len(asked.orders) or len(answered.orders):
            self.is_answered = len(answered.orders) > (replies[-1] if len(replies) else 0)
        return sorted(notes, key=_place)

    def _decide_early(self, answered: Sent, reply: int) -> list[Note]:
        """This is the next reply behind the requests that came before one."""
        waiting, self.early = self.early, []
        order, time = int(answered.orders[reply]), int(answered.times[reply])
        return [each.note._replace(decided=order) for each in waiting if time - each.note.at.time > SECOND]

    # -- replies to nothing --------------------------------------------------------------------------------------------

    def _match(self, asker: int, runs: list[MessageRun], asked: Sent, answered: Sent) -> list[Note]:
        """REQREP-04."""
        if not self.unasked and self._match_in_order(asked, answered):
            return []
        waiting = deque(self.open.tolist())
        notes = []
        events = [(int(order), 0, place) for place, order in enumerate(asked.orders.tolist())]
        events += [(int(order), 1, place) for place, order in enumerate(answered.orders.tolist())]
        for order, is_reply, place in sorted(events):
            if not is_reply:
                envelope, time = int(asked.envelopes[place]), int(asked.times[place])
                notes += self._settle(order, time)
                if envelope == NO_DELIMITER:
                    self.undelimited += 1
                elif not self._was_answered_early(envelope):
                    waiting.append(envelope)
                    if len(waiting) > MOST_OPEN:
                        self.is_over = True
                        return notes
                continue
            envelope = int(answered.envelopes[place])
            run = runs[answered.runs[place]]
            if not self._find(waiting, envelope) and envelope != NO_DELIMITER and run.socket_type == "REP":
                note = note_on(run, int(answered.rows[place]), 1 - asker, "REQREP-04")
                if run.peer_socket_type in ASKERS and len(self.unasked) < MOST_WAITING:
                    self.unasked.append(Waiting(note, envelope))
        self.open = np.array(waiting, np.int64)
        return notes

    def _match_in_order(self, asked: Sent, answered: Sent) -> bool:
        """Take requests and replies where each reply answers the oldest request that is open: whether it is so."""
        requests = asked.delimited()
        undelimited, asked = len(asked.orders) - len(requests.orders), requests
        envelopes_open = np.concatenate((self.open, asked.envelopes)) if len(self.open) else asked.envelopes
        replies, before = len(answered.orders), len(self.open)
        if replies > len(envelopes_open) or (envelopes_open[:replies] != answered.envelopes).any():
            return False
        answered_here = asked.orders[: max(0, replies - before)]
        if (answered_here > answered.orders[replies - len(answered_here) :]).any():
            return False
        places = np.arange(before + 1, before + 1 + len(asked.orders))
        if len(places) and (places - answered.orders.searchsorted(asked.orders)).max() > MOST_OPEN:
            return False
        self.open = envelopes_open[replies:]
        self.undelimited += undelimited
        return True

    def _find(self, waiting: deque[int], envelope: int) -> bool:
        """Take the request away that has this envelope (any, where the reply has none): whether there was one. A REP
        answers in the order of requests, so those in front of it will hardly be answered."""
        if envelope == NO_DELIMITER and waiting:
            waiting.popleft()
            return True
        if self.passed_over[envelope]:
            self.passed_over[envelope] -= 1
            return True
        if envelope not in waiting:
            is_undelimited = self.undelimited > 0
            self.undelimited -= is_undelimited
            return is_undelimited
        while (other := waiting.popleft()) != envelope:
            self.passed_over[other] += 1
        self.is_over = len(self.passed_over) > MOST_OPEN
        return True

    def _was_answered_early(self, envelope: int) -> bool:
        """Whether a reply to the request has come already; what waits did so within a second."""
        answer = next((each for each in self.unasked if each.envelope == envelope), None)
        if answer is not None:
            self.unasked.remove(answer)
        return answer is not None

    def _settle(self, order: int, time: int) -> list[Note]:
        """The side that asks was read up to `time`: its requests in front of that are known."""
        late = [each for each in self.unasked if time - each.note.at.time > SECOND]
        self.unasked = [each for each in self.unasked if time - each.note.at.time <= SECOND]
        return [each.note._replace(decided=order) for each in late]


def _sent(runs: list[MessageRun]) -> tuple[Sent, int]:
    """The messages of a side, and from which ordinal on some are missing: `NEVER` where all are there."""
    parts: list[Sent] = []
    until = NEVER
    for number, run in enumerate(runs):
        is_whole = run.complete & ((run.flags[run.first] & SPECIAL) == 0)
        if run.confidence != "proven":  # octets were lost, or a box stays closed
            is_whole[:] = False
        rows = is_whole.nonzero()[0]
        of_rows = envelopes(run, rows)
        is_whole[rows[of_rows == NOT_KNOWN]] = False
        if not is_whole.all():
            until = min(until, int(run.orders[~is_whole].min()))
        columns = run.orders[rows], run.times[rows], run.packets[rows], run.packet_ends[rows]
        parts.append(Sent(np.full(len(rows), number), rows, *columns, of_rows))
    if len(parts) < 2:
        return parts[0] if parts else NOTHING, until
    sent = Sent(*map(np.concatenate, zip(*parts, strict=True)))
    return sent.some(sent.orders.argsort(kind="stable")), until


def _place(note: Note) -> tuple[int, int]:
    return note.decided, note.finding.start or 0
