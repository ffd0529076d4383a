"""Match requests and replies on one connection (conformance.md, wire.md 10.1).

A REQ waits for the reply to each request (REQREP-02), and each message of a REP is the reply to a request, with its
envelope (REQREP-04).

Messages may be captured out of order by up to a second, and a late packet delays its side. A suspected error therefore
waits for the next message of the other side without a gap before it, or for the end of a completely captured
connection. After any gap, nothing more is reported.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.findings.envelopes import EMPTY, NO_DELIMITER, NOT_KNOWN, envelopes
from zmtpscope.dissect.findings.row_rules import note_on
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.records import SECOND
from zmtpscope.zmtp.events import SPECIAL
from zmtpscope.zmtp.socket_types import PEERS

MAX_OPEN = 4096
"""Open requests per connection; with more, replies are no longer checked."""
MAX_WAITING = 64
"""Pending findings of each kind; no more are created."""

NEVER = sys.maxsize
"""An ordinal above all others."""

ASKERS = frozenset({"REQ", "DEALER"})

NEITHER = frozenset(PEERS) - ASKERS - {"REP", "ROUTER"}
"""Socket types that send neither requests nor replies."""

Runs = tuple[list[MessageTable], list[MessageTable]]
"""Runs of side 0 and side 1."""


class Sent(NamedTuple):
    """Messages of one side in a block, in order of arrival: message i is row `rows[i]` of the table with index
    `runs[i]`."""

    runs: Int64
    rows: Int64
    orders: Int64
    times: Int64
    packets: Int64
    packet_ends: Int64
    envelopes: Int64

    def some(self, which: NDArray[np.bool_] | Int64) -> Sent:
        return Sent(*[column[which] for column in self])

    def delimited(self) -> Sent:
        """Return the messages with a delimiter. The others are router probes, or messages that a REP drops."""
        has_delimiter = self.envelopes != NO_DELIMITER
        return self if has_delimiter.all() else self.some(has_delimiter)


NONE: Int64 = np.empty(0, np.int64)
NOTHING = Sent(NONE, NONE, NONE, NONE, NONE, NONE, NONE)


class Waiting(NamedTuple):
    """A finding that a later message of the other side may still disprove; `envelope` is that of its message."""

    note: Note
    envelope: int


class Requests:
    """Matches the requests and replies of one connection. Call `evaluate` for each block, then `end`."""

    is_over = False
    """Whether octets are missing or too many requests are open, so that nothing more is reported."""
    is_answered = True
    """Whether every request so far has a reply."""
    last_packet = 0
    """Packet with the end of the last request."""

    asker: int | None = None
    asker_type: str | None = None
    replier_type: str | None = None

    def __init__(self) -> None:
        self.early: list[Waiting] = []
        """Requests before the reply to the previous one."""
        self.unasked: list[Waiting] = []
        self.open = NONE
        """Envelopes of open requests, oldest first."""
        self.passed_over: Counter[int] = Counter()
        """Envelopes of requests skipped by a reply to a later one."""
        self.undelimited = 0
        """Unanswered requests without a delimiter, which a REP should drop (REQREP-01, -05)."""

    @property
    def is_alternating(self) -> bool:
        """Whether requests without addresses and their replies have alternated, so that the fast path may read them."""
        is_open = not self.is_answered and self.replier_type != "ROUTER"
        is_other = self.is_over or self.early or self.unasked or self.passed_over or self.undelimited
        return not is_other and self.open.tolist() == [EMPTY] * is_open

    def resume(self, asker: int, types: tuple[str | None, str | None], is_answered: bool, last_packet: int) -> None:
        """Continue after the fast path, on which requests and replies alternated.

        `asker` is the side with requests, `types` are the socket types of requester and replier. `is_answered`: the
        last request, which ends in `last_packet`, has a reply.
        """
        self.asker, (self.asker_type, self.replier_type) = asker, types
        self.is_answered, self.last_packet = is_answered, last_packet
        self.open = np.full(int(not is_answered and self.replier_type == "REP"), EMPTY)

    def evaluate(self, written: Runs) -> list[Note]:
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
        """Whether the side with requests is known, and replies can be checked."""
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
        self.is_over = True
        self.early, self.unasked, self.open, self.passed_over = [], [], NONE, Counter()

    def end(self, ordinal: int, ceased: int | None) -> list[Note]:
        """Return the findings that nothing can disprove any more, at the end of a connection without gaps.

        The segment `ordinal` ends the connection, or the capture ends at the time `ceased` (ns).
        """
        return [
            each.note._replace(decided=ordinal)
            for each in [*self.early, *self.unasked]
            if ceased is None or ceased - each.note.at.time > SECOND
        ]

    # -- requests before a reply ---------------------------------------------------------------------------------------

    def _look_for_early(self, side: int, runs: list[MessageTable], asked: Sent, answered: Sent) -> list[Note]:
        """Find requests that were sent before the reply to the previous request (REQREP-02).

        `asked` and `answered` are requests and replies; `side` sends the requests. A request in the packet with the end
        of the previous one cannot follow its reply.
        """
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
            elif len(self.early) < MAX_WAITING:
                self.early.append(Waiting(note, EMPTY))
        if next_reply < len(answered.orders):
            notes += self._decide_early(answered, next_reply)
        self.last_packet = asked.packet_ends[-1] if len(asked.packet_ends) else self.last_packet
        if len(asked.orders) or len(answered.orders):
            self.is_answered = len(answered.orders) > (replies[-1] if len(replies) else 0)
        return sorted(notes, key=_place)

    def _decide_early(self, answered: Sent, reply: int) -> list[Note]:
        """Return the early requests that the reply with the index `reply` proves, and drop the others."""
        waiting, self.early = self.early, []
        order, time = int(answered.orders[reply]), int(answered.times[reply])
        return [each.note._replace(decided=order) for each in waiting if time - each.note.at.time > SECOND]

    # -- replies without a request -------------------------------------------------------------------------------------

    def _match(self, asker: int, runs: list[MessageTable], asked: Sent, answered: Sent) -> list[Note]:
        """Find replies without a request (REQREP-04).

        `asked` and `answered` are requests and replies; `asker` is the side with the requests, `runs` are the tables of
        the replies.
        """
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
                    if len(waiting) > MAX_OPEN:
                        self.is_over = True
                        return notes
                continue
            envelope = int(answered.envelopes[place])
            run = runs[answered.runs[place]]
            if not self._find(waiting, envelope) and envelope != NO_DELIMITER and run.socket_type == "REP":
                note = note_on(run, int(answered.rows[place]), 1 - asker, "REQREP-04")
                if run.peer_socket_type in ASKERS and len(self.unasked) < MAX_WAITING:
                    self.unasked.append(Waiting(note, envelope))
        self.open = np.array(waiting, np.int64)
        return notes

    def _match_in_order(self, asked: Sent, answered: Sent) -> bool:
        """Match replies with the oldest open requests; return False if any does not match."""
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
        if len(places) and (places - answered.orders.searchsorted(asked.orders)).max() > MAX_OPEN:
            return False
        self.open = envelopes_open[replies:]
        self.undelimited += undelimited
        return True

    def _find(self, waiting: deque[int], envelope: int) -> bool:
        """Remove the oldest request with this envelope from `waiting`; return whether there was one.

        Envelopes are numbers (`envelopes.py`). A reply without an envelope matches any request. A REP replies in order,
        so skipped requests will hardly get a reply.
        """
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
        self.is_over = len(self.passed_over) > MAX_OPEN
        return True

    def _was_answered_early(self, envelope: int) -> bool:
        """Whether a reply to this request was captured before the request, at most a second ago.

        Request and reply have the same `envelope`, given as a number (`envelopes.py`).
        """
        answer = next((each for each in self.unasked if each.envelope == envelope), None)
        if answer is not None:
            self.unasked.remove(answer)
        return answer is not None

    def _settle(self, order: int, time: int) -> list[Note]:
        """Return replies without a request as findings, if the side with requests was read for more than a second after
        them.

        `order` and `time` are those of its last message.
        """
        late = [each for each in self.unasked if time - each.note.at.time > SECOND]
        self.unasked = [each for each in self.unasked if time - each.note.at.time <= SECOND]
        return [each.note._replace(decided=order) for each in late]


def _sent(runs: list[MessageTable]) -> tuple[Sent, int]:
    """Return the messages of a side, and the ordinal from which on messages are missing (`NEVER`: none are)."""
    parts: list[Sent] = []
    until = NEVER
    for number, run in enumerate(runs):
        is_whole = run.complete & ((run.flags[run.first] & SPECIAL) == 0)
        if run.sender.confidence != "proven":  # octets were lost, or a box was not decrypted
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
