"""Match the requests and replies of one connection, with latency and pending requests (wire.md 10.1).

Socket types show which side asks: a REQ, or the peer of a REP. Between ROUTER and DEALER, envelopes that one side sends
and the other repeats show it; without envelopes nothing is matched. A REP answers in order; a REQ waits only for the
reply to its newest request. A REQ that is a worker of a ROUTER sends a message when it is ready, and gets requests as
replies, with an envelope of their own: in this case the ROUTER asks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from enum import Enum, auto
from itertools import islice, pairwise

import numpy as np

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.matching import OpenRequests, Paired, pair
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import MAX_LONGEST, Answered, ObservedRequest, ObservedRequests
from zmtpscope.diagnosis.observers.observer import DerivedTable, Observer, Rows
from zmtpscope.diagnosis.observers.request_rows import (
    Envelope,
    MessageRow,
    by_captured,
    by_order,
    by_time,
    content_of,
    enveloped,
    only_frame,
)
from zmtpscope.diagnosis.observers.request_table import (
    ANSWERED,
    LATE,
    OPEN,
    OUTCOMES,
    UNANSWERED,
    UNASKED,
    UNKNOWN,
    RequestTable,
)
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.dissect import Record
from zmtpscope.records import SECOND

ROUTING = frozenset({"ROUTER", "DEALER"})

NEVER_ASK = frozenset({("PUB", "SUB"), ("SUB", "PUB"), ("PUSH", "PULL"), ("PULL", "PUSH")})
"""Socket types of both sides that never exchange requests, for most connections."""

READY_WORDS = frozenset({b"READY", b"\x01"})
"""First messages of workers of load balancing brokers (Guide, chapter 3)."""

LONGEST_HELD = SECOND
"""Maximum delay (ns) of one side's data after the other side's later data, while a hole before it may be filled."""

AFTER_ALL = (1 << 63) - 1

OCTETS = 1400
"""Octets of memory for an open request."""

MAX_WAITING = 16
"""Maximum number of open requests of a connection to remember individually."""

MIN_TURNS = 8
"""Minimum number of alternating messages, with only the empty frame as envelope, after which the sides are known as REQ
and REP."""
THINKS_LONGER = 2
"""An asker takes this many times as long before it asks as the replier before it replies, by the median."""

MAX_HELD = 4096
"""Maximum number of messages with envelopes to remember until one is repeated."""

MISSING = ("unseen_bytes", "unfinished_bytes", "undissected_bytes", "sealed_0", "sealed_1")
"""Fields of a connection with unread data, which may contain a reply."""

UNFIT = ("reused", "evicted")
"""Values of `close` for a connection whose end was not seen."""


class Way(Enum):
    """How replies are matched."""

    IN_ORDER = auto()
    """The peer is a REP, which answers in order."""
    NEWEST = auto()
    """The asker is a REQ, and its peer may not answer in order."""
    ENVELOPES = auto()
    TURNS = auto()
    """Socket types are unknown. The sides may alternate as REQ and REP do."""


class RequestObserver(Observer):
    """Observes the requests of one connection."""

    way: Way | None = None
    asker: int | None = None
    """The side that asks, once known."""
    is_turned_round = False
    """Whether the REQ is a worker, so that the ROUTER asks."""
    nests_itself = False
    """Whether the first request of the REQ contains another envelope. Its replies then do too, although it is no
    worker."""
    takes_no_turns = False
    """Whether it is known that nothing shows which side asks."""
    lost = False
    """Whether octets are missing."""

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self.open = OpenRequests()
        self.early: list[MessageRow] = []
        """Replies that were captured or read before their requests, perhaps."""
        self.captured = [0, 0]
        """The times up to which each side was captured."""
        self.held: list[MessageRow] = []
        """Messages with envelopes of both sides, kept until the asker is known."""
        self.last_of: dict[Envelope | None, int] = {}
        """The side that sent each envelope last."""
        self.waiting: dict[int, ObservedRequest] = {}
        """The oldest open requests, by number."""
        self.tables: list[RequestTable] = []
        self.gaps: list[int] = []
        """Ordinals of gaps that were not processed yet."""
        self.remembered = 0
        """Number of rows for which memory is reserved."""
        self.files: Sequence[str | None] = ()

    def record(self, record: Record) -> None:
        if record.type == "gap":
            self.gaps.append(record.order[0])

    def rows(self, rows: Rows) -> None:
        if self.way is None:
            self._find_way()
        if self.way is None or self.takes_no_turns:
            return
        self.files = rows.files
        events, addressed = list[MessageRow](), self.way is Way.ENVELOPES
        for side in (self.asker or 0, 1 - (self.asker or 0)):
            for run in rows.sides[side]:
                own = enveloped(run, side, self.captured[side], addressed)
                if own:
                    events += own
                    self.captured[side] = own[-1].captured
        if not events and not self.gaps:
            return
        events.sort(key=by_order)
        before, asked, begin = self.open, self.open.count, 0
        for gap in sorted(self.gaps):
            end = bisect_left(events, gap, key=by_order)
            self._take(events[begin:end])
            self._lose(gap)
            begin = end
        self.gaps.clear()
        self._take(events[begin:])
        self._take_room()
        self._leave_octets(asked if self.open is before else 0)
        self._note_waiting()

    def derive(self) -> list[DerivedTable]:
        for gap in sorted(self.gaps):  # there were no messages
            self._lose(gap)
        self.gaps.clear()
        tables: list[DerivedTable] = [*self.tables]
        self.tables.clear()
        return tables

    def finish(self, ordinal: int) -> list[DerivedTable]:
        if self.way is None:
            return []  # there were no requests
        values = self.observed.values
        assert values is not None
        for gap in self.gaps:
            self._lose(gap)
        outcome = OPEN if values["close"] == "open" else UNANSWERED
        is_unsure = values["only_side"] is not None or values["close"] in UNFIT
        if is_unsure or any(values[name] for name in MISSING):
            outcome = UNKNOWN
        if values["close"] == "fin":
            self.captured = [AFTER_ALL, AFTER_ALL]
        self._settle(AFTER_ALL)
        until = values["closed_ns"] or values["end_ns"] + (values["idle_ns"] or 0)
        left = self.open.oldest(len(self.open))
        self._emit(outcome, left, [ordinal] * len(left), [until] * len(left))
        if outcome == UNKNOWN:
            self._note_waiting()
        self._forget()
        self._take_room()
        return self.derive()

    # -- the asker ---------------------------------------------------------------------------------------------------

    def _find_way(self) -> None:
        types = self.observed.socket_types()
        if types in NEVER_ASK:
            return
        replier, requester = self.observed.side_of("REP"), self.observed.side_of("REQ")
        if replier is not None:
            self.way, self.asker = Way.IN_ORDER, 1 - replier
        elif requester is not None:
            self.way, self.asker = Way.NEWEST, requester
        elif ROUTING.issuperset(types):
            self.way = Way.ENVELOPES
        elif types == (None, None):  # not captured, or of ZMTP 1.0 or ZWS 2.0, which announce none
            self.way = Way.TURNS
        if self.asker is not None:
            self._begin()

    def _begin(self) -> None:
        """Start to count requests, because the asker is known now."""
        assert self.asker is not None
        is_lock_step = self.observed.sides[self.asker].socket_type == "REQ"
        is_guessed = self.way is Way.TURNS
        self.observed.requests = ObservedRequests(self.asker, is_lock_step or is_guessed, is_guessed)

    def _take(self, events: list[MessageRow]) -> None:
        """Process messages of both sides, in order, without gaps."""
        if self.way is Way.ENVELOPES and self.asker is None:
            events = self._until_one_comes_back(events)
        elif self.way is Way.TURNS and self.asker is None:
            events = self._until_turns_are_seen(events)
        elif self.way is Way.NEWEST and not self.is_turned_round:
            turn = self._work_begins(events)
            if turn is not None:
                self._match(events[:turn])
                self._turn_round()
                events = events[turn:]
        self._match(events)

    def _until_one_comes_back(self, events: list[MessageRow]) -> list[MessageRow]:
        """Hold messages back until one side repeats an envelope of the other, then return them all."""
        self.held += events
        for message in events:
            asker = self.last_of.setdefault(message.key, message.side)
            if asker != message.side:
                self.asker = asker
                self._begin()
                events, self.held, self.last_of = self.held, [], {}
                return events
        if len(self.held) > MAX_HELD:
            self.held, self.last_of = [], {}
            self.way = None
        return []

    def _until_turns_are_seen(self, events: list[MessageRow]) -> list[MessageRow]:
        """Hold messages back until the first ones show whether the client asks and the other side replies."""
        self.held += events
        if len(self.held) < MIN_TURNS:
            return []
        events, self.held = self.held, []
        first = sorted(events[:MIN_TURNS], key=by_time)
        client = 1 - self.observed.listener
        takes_turns = all(row.key == () for row in first) and all(
            one.side != next_.side for one, next_ in pairwise(first)
        )
        pauses: tuple[list[int], list[int]] = [], []
        for one, next_ in pairwise(first):
            pauses[next_.side == client].append(next_.time - one.time)
        if not takes_turns or np.median(pauses[True]) < THINKS_LONGER * np.median(pauses[False]):
            self.takes_no_turns = True
            return []
        self.asker = client
        self._begin()
        return events

    def _work_begins(self, events: list[MessageRow]) -> int | None:
        """Return the index of the message which shows that the REQ is a worker, or None."""
        assert self.observed.requests is not None
        first = next((message for message in events if message.side == self.asker), None)
        if self.observed.requests.first is None and first is not None:
            assert first.run is not None
            if only_frame(first.run, first.row) in READY_WORDS:
                return 0
            self.nests_itself = first.is_nested
        if self.nests_itself:
            return None
        return next((place for place, each in enumerate(events) if each.is_nested and each.side != self.asker), None)

    def _turn_round(self) -> None:
        """Turn the roles round: the ROUTER asks, and the REQ waits for work."""
        self.open, self.waiting = OpenRequests(), {}
        self.asker = 1 - (self.asker or 0)
        self.is_turned_round = True
        self._begin()

    # -- matching ----------------------------------------------------------------------------------------------------

    @property
    def is_sure(self) -> bool:
        """Whether nothing is missing so far."""
        return not self.lost and all(side.greeting is not None for side in self.observed.sides)

    def _match(self, events: list[MessageRow]) -> None:
        if self.asker is None or not events:
            return
        self._note_first(events)
        messages = sorted([*self.early, *events], key=by_captured)  # one side may be delayed
        latest = max(self.open.latest(), messages[-1].captured)
        paired, early = pair(self.open, messages, self.asker, self.way is not Way.NEWEST and self.is_sure)
        self.early = early
        self._emit_answered(paired)
        self._note_without_id(paired.requests)
        self._settle(latest - LONGEST_HELD)

    def _settle(self, time: int) -> None:
        """Decide about everything captured up to a time: a message that has not arrived by then was not sent."""
        if self.early:
            settled = min(time, self.captured[self.asker or 0])
            unasked = [reply for reply in self.early if reply.captured < settled]
            self.early = [reply for reply in self.early if reply.captured >= settled]
            if self.is_sure and self.way is not Way.ENVELOPES and not self.is_turned_round:
                self._emit(UNASKED, unasked, [reply.order for reply in unasked])
        given_up, anew = self.open.given_up(time)
        outcome = UNANSWERED if self.is_sure else UNKNOWN
        self._emit(outcome, given_up, [each.order for each in anew], [each.captured for each in anew])

    def _emit_answered(self, paired: Paired) -> None:
        """Emit answered requests. A REQ accepts only the reply to its last request."""
        assert self.asker is not None
        requests, replies, late = paired
        if self.observed.sides[self.asker].socket_type != "REQ" or not any(late):
            self._emit_pairs(ANSWERED, requests, replies)
            return
        for outcome, is_late in ((ANSWERED, False), (LATE, True)):
            chosen = [place for place, each in enumerate(late) if each is is_late]
            self._emit_pairs(outcome, [requests[place] for place in chosen], [replies[place] for place in chosen])

    def _emit_pairs(self, outcome: int, requests: list[MessageRow], replies: list[MessageRow]) -> None:
        pairs = zip(requests, replies, strict=True)
        decided = [reply.order if reply.order > request.order else request.order for request, reply in pairs]
        self._emit(outcome, requests, decided, replies=replies)

    def _lose(self, gap: int) -> None:
        """Give up open requests, which may have been answered in octets missing from the segment `gap` on."""
        left = self.open.oldest(len(self.open))
        self._emit(UNKNOWN, left, [gap] * len(left))
        self._forget()
        self.lost = True
        self._take_room()
        self._note_waiting()

    def _forget(self) -> None:
        self.open, self.early, self.held, self.last_of, self.waiting = OpenRequests(), [], [], {}, {}

    # -- new facts ---------------------------------------------------------------------------------------------------

    def _emit(
        self,
        outcome: int,
        rows: list[MessageRow],
        decided: list[int],
        until: list[int] | None = None,
        replies: list[MessageRow] | None = None,
    ) -> None:
        if not rows:
            return
        asker, seen = self.asker, self.observed.requests
        assert asker is not None
        assert seen is not None
        types = self.observed.socket_types()
        stream, socket_types = self.observed.stream_of(asker), (types[asker], types[1 - asker])
        lost = self.observed.sides[asker].last_outage
        lost_from = None if lost is None else lost.offset
        table = RequestTable(stream, socket_types, self.files, outcome, rows, decided, until, replies, lost_from)
        if self.way is not Way.TURNS:
            self.tables.append(table)
        seen.counts[OUTCOMES[outcome]] += len(rows)
        if replies is not None:
            latencies = table.waited
            assert latencies is not None
            seen.latency.add(latencies)
            seen.trend.add(latencies)
            self._note_longest(seen, rows, latencies)
            seen.last_reply = Moment.of_packet(replies[-1].time, replies[-1].packet, self.files)
        if outcome == LATE and seen.late is None:
            seen.late = self._observed(rows[0])
            seen.takes_late = rows[0].key == ()
        if outcome == UNASKED and seen.unasked is None:
            seen.unasked = self._observed(rows[0])
        if outcome == UNANSWERED and until is not None and seen.abandoned is None:
            seen.abandoned = self._observed(rows[0])

    def _note_longest(self, seen: ObservedRequests, rows: list[MessageRow], latencies: list[int]) -> None:
        """Remember the slowest replies; of equally slow ones the first."""
        least = seen.longest[-1].took if len(seen.longest) == MAX_LONGEST else -1
        longer = [(-took, place) for place, took in enumerate(latencies) if took > least]
        new = [Answered(-took, self._observed(rows[place])) for took, place in sorted(longer)[:MAX_LONGEST]]
        if new:
            seen.longest = sorted([*seen.longest, *new], key=_shortest_last)[:MAX_LONGEST]

    def _note_without_id(self, requests: list[MessageRow]) -> None:
        """Remember a reply without the id of ZMQ_REQ_CORRELATE, if all answered and open requests have one."""
        seen = self.observed.requests
        if seen is None or not seen.is_lock_step or seen.without_id is not None or not (requests or self.open):
            return
        lacking = next((reply for reply in self.early if reply.key == ()), None)
        if lacking is not None and () not in self.open.by_key and all(request.key != () for request in requests):
            seen.without_id = self._observed(lacking)

    def _note_first(self, events: list[MessageRow]) -> None:
        seen = self.observed.requests
        if seen is not None and seen.first is None:
            first = next((message for message in events if message.side == self.asker), None)
            seen.first = None if first is None else self._observed(first)

    def _leave_octets(self, asked: int) -> None:
        """Release the octets of this batch, and keep checksums of requests that are reported or compared.

        The requests from the number `asked` on belong to this batch.
        """
        self.held = [self._without_octets(row, compared=True) for row in self.held]
        self.early = [self._without_octets(row, compared=False) for row in self.early]
        shown = [*islice(self.open.rows, MAX_WAITING)]
        for number in range(asked, self.open.count):
            row = self.open.rows.get(number)
            if row is not None:
                self.open.rows[number] = self._without_octets(row, compared=number in shown)

    def _without_octets(self, row: MessageRow, *, compared: bool) -> MessageRow:
        if row.run is None:
            return row
        return row._replace(run=None, content=self._content_of(row) if compared else row.content)

    def _note_waiting(self) -> None:
        """Update the waiting requests, for rules that run before the connection ends."""
        seen = self.observed.requests
        if seen is not None:
            oldest = islice(self.open.rows.items(), MAX_WAITING)
            self.waiting = {number: self.waiting.get(number) or self._observed(row) for number, row in oldest}
            seen.waiting_count, seen.waiting = len(self.open), [*self.waiting.values()]

    def _take_room(self) -> None:
        more = len(self.open) + len(self.early) + len(self.held) - self.remembered
        if more > 0 and not self.room.take(self.observed, more * OCTETS):
            released = self.open.oldest(more)
            self._emit(UNKNOWN, released, [row.order for row in released])
            return
        if more < 0:
            self.room.give_back(self.observed, -more * OCTETS)
        self.remembered += more

    def _observed(self, row: MessageRow) -> ObservedRequest:
        ref = f"{self.observed.conn_id}/{row.side}/{row.source}/{row.offset}/message"
        moment = Moment.of_packet(row.time, row.packet, self.files)
        end = -1 if row.source else row.offset + row.length
        return ObservedRequest(moment, ref, row.size, self._content_of(row), end)

    def _content_of(self, row: MessageRow) -> int:
        if row.content or row.run is None:
            return row.content
        return content_of(row.run, row.row, self.is_turned_round and row.is_nested)


def _shortest_last(answered: Answered) -> int:
    return -answered.took
