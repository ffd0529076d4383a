"""Requests and their replies on one connection: what was answered, how fast, and what waits (wire.md 10.1).

Who asks is told by the socket types, REQ or whoever speaks to a REP; between ROUTER and DEALER by envelopes that one
side sends and the other one repeats. Without envelopes there nothing is matched. A REP answers in the order in which it
was asked, a REQ waits for its newest request only. A REQ that is a worker of a ROUTER says that it is ready, and gets
requests as replies, in an envelope of their own: there the ROUTER asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

import numpy as np

from zmtpscope.dissect import Record
from zmtpscope.dissect.findings.envelopes import EMPTY
from zmtpscope.dissect.records.batch import MessageRun
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.meaning.moments import Moment
from zmtpscope.meaning.observers.matching import NOBODY, asked_anew, newest_first, oldest_first
from zmtpscope.meaning.observers.observed import ObservedConnection
from zmtpscope.meaning.observers.observed_requests import MOST_LONGEST, Answered, ObservedRequest, ObservedRequests
from zmtpscope.meaning.observers.observer import DerivedTable, Observer, Rows
from zmtpscope.meaning.observers.request_rows import RequestRows, content_of, enveloped, no_rows, only_frame
from zmtpscope.meaning.observers.request_table import (
    ANSWERED,
    LATE,
    OPEN,
    OUTCOMES,
    UNANSWERED,
    UNASKED,
    UNKNOWN,
    RequestTable,
)
from zmtpscope.meaning.observers.room import Room
from zmtpscope.records import SECOND

ROUTING = frozenset({"ROUTER", "DEALER"})

READY_WORDS = frozenset({b"READY", b"\x01"})
"""What workers of load balancing brokers say first (Guide, chapter 3)."""

LONGEST_HELD = SECOND
"""What was captured on one side may be read so much later (ns) than what the other one has sent behind it: a hole in
front of it may still be filled."""

AFTER_ALL = (1 << 63) - 1

OCTETS = 250
"""Of memory, that an open request takes."""

MOST_WAITING = 16
"""Open requests of a connection that are remembered one by one."""

LEAST_TURNS = 8
"""So many messages with nothing but the empty frame in front come from both sides in turn, between REQ and REP, ..."""
THINKS_LONGER = 2
"""... and who asks takes so many times as long as who replies, by the median."""

MOST_HELD = 4096
"""Messages with envelopes that are remembered until one comes back."""

MISSING = ("unseen_bytes", "unfinished_bytes", "undissected_bytes", "sealed_0", "sealed_1")
"""What is counted of a connection where a reply may be among what was not read."""

UNFIT = ("reused", "evicted")
"""`close` of a connection whose end was not seen."""


class Way(Enum):
    """How replies are matched."""

    IN_ORDER = auto()
    """A REP is asked."""
    NEWEST = auto()
    """A REQ asks, of whom it is not known that it answers in order."""
    ENVELOPES = auto()
    TURNS = auto()
    """The socket types are unknown, and both sides may take turns as REQ and REP do."""


class RequestObserver(Observer):
    """The requests of one connection."""

    way: Way | None = None
    asker: int | None = None
    """The side that asks, once it is known."""
    is_turned_round = False
    """The REQ is a worker."""
    nests_itself = False
    """The first request of the REQ has another envelope inside: so has what it gets, then, though it is no worker."""
    takes_no_turns = False
    """Nothing shows who asks."""
    lost = False
    """Octets are missing."""

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self.open = no_rows()
        """Requests that wait, the oldest first."""
        self.early = no_rows()
        """Replies that may have been captured, or read, before their requests."""
        self.captured = [0, 0]
        """Up to when each side was captured."""
        self.held = no_rows()
        """Messages with envelopes of both sides, until it is known who asks."""
        self.tables: list[RequestTable] = []
        self.gaps: list[int] = []
        """Ordinals of gaps that are not taken into account yet."""
        self.remembered = 0
        """Rows for which room was taken."""
        self.files: Sequence[str | None] = ()
        self.runs: tuple[Sequence[MessageRun], Sequence[MessageRun]] = ((), ())

    def record(self, record: Record) -> None:
        if record.type == "gap":
            self.gaps.append(record.order[0])

    def rows(self, rows: Rows) -> None:
        if self.way is None:
            self._find_way()
        if self.way is None:
            return
        self.files, self.runs = rows.files, rows.sides
        first = self.asker or 0
        events = np.concatenate([enveloped(rows.sides[side], side) for side in (first, 1 - first)])
        if self.way is Way.ENVELOPES:
            events = events[events["key"] != EMPTY]
        self._note_captured(events)
        events = events[events["order"].argsort(kind="stable")]
        begin = 0
        for gap in sorted(self.gaps):
            end = int(events["order"].searchsorted(gap))
            self._take(events[begin:end])
            self._lose(gap)
            begin = end
        self.gaps.clear()
        self._take(events[begin:])
        self._note_waiting()
        self.runs = ((), ())

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
        count = len(self.open)
        self._emit(outcome, self.open, np.full(count, ordinal), np.full(count, until))
        if outcome == UNKNOWN:
            self.open = no_rows()
            self._note_waiting()
        self.open = self.early = self.held = no_rows()
        self._take_room()
        return self.derive()

    # -- who asks ----------------------------------------------------------------------------------------------------

    def _find_way(self) -> None:
        types = self.observed.socket_types()
        replier, requester = self.observed.side_of("REP"), self.observed.side_of("REQ")
        if replier is not None:
            self.way, self.asker = Way.IN_ORDER, 1 - replier
        elif requester is not None:
            self.way, self.asker = Way.NEWEST, requester
        elif ROUTING.issuperset(types):
            self.way = Way.ENVELOPES
        elif types == (None, None) and not any(side.greeting for side in self.observed.sides):
            self.way = Way.TURNS
        if self.asker is not None:
            self._begin()

    def _begin(self) -> None:
        """The asker is known."""
        assert self.asker is not None
        is_lock_step = self.observed.sides[self.asker].socket_type == "REQ"
        is_guessed = self.way is Way.TURNS
        self.observed.requests = ObservedRequests(self.asker, is_lock_step or is_guessed, is_guessed)

    def _take(self, events: RequestRows) -> None:
        """Messages of both sides, in order, between which nothing is missing."""
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

    def _until_one_comes_back(self, events: RequestRows) -> RequestRows:
        """Hold messages back until an envelope of one side is repeated by the other one: all of them, then."""
        events = self.held = np.concatenate((self.held, events))
        key, side = events["key"], events["side"]
        order = np.argsort(key, kind="stable")
        behind, before = order[1:], order[:-1]
        comes_back = behind[(key[behind] == key[before]) & (side[behind] != side[before])]
        if not len(comes_back):
            if len(events) > MOST_HELD:
                self.held = no_rows()
                self.way = None
            return no_rows()
        self.asker = 1 - int(side[comes_back.min()])
        self._begin()
        self.held = no_rows()
        return events

    def _until_turns_are_seen(self, events: RequestRows) -> RequestRows:
        """Hold messages back until the first of them show whether the client asks and the other side replies."""
        if self.takes_no_turns:
            return no_rows()
        self.held = np.concatenate((self.held, events))
        if len(self.held) < LEAST_TURNS:
            return no_rows()
        events, self.held = self.held, no_rows()
        first = events[:LEAST_TURNS]
        first = first[first["time"].argsort(kind="stable")]
        client = 1 - self.observed.listener
        pauses, is_reply = np.diff(first["time"]), first["side"][1:] != client
        is_slower = np.median(pauses[~is_reply]) >= THINKS_LONGER * np.median(pauses[is_reply])
        if (first["key"] != EMPTY).any() or (np.diff(first["side"]) == 0).any() or not is_slower:
            self.takes_no_turns = True
            return no_rows()
        self.asker = client
        self._begin()
        return events

    def _work_begins(self, events: RequestRows) -> int | None:
        """The message with which it shows that the REQ is a worker."""
        assert self.observed.requests is not None
        is_asked = events["side"] == self.asker
        if self.observed.requests.first is None and is_asked.any():
            first = int(is_asked.argmax())
            run, row = int(events["run"][first]), int(events["row"][first])
            if only_frame(self.runs[self.asker or 0][run], row) in READY_WORDS:
                return 0
            self.nests_itself = bool(events["is_nested"][first])
        if self.nests_itself:
            return None
        work = (~is_asked & events["is_nested"]).nonzero()[0]
        return int(work[0]) if len(work) else None

    def _turn_round(self) -> None:
        """The ROUTER asks; what the REQ waits for is work."""
        self.open = no_rows()
        self.asker = 1 - (self.asker or 0)
        self.is_turned_round = True
        self._begin()

    # -- matching ----------------------------------------------------------------------------------------------------

    @property
    def is_sure(self) -> bool:
        """Nothing is missing so far."""
        return not self.lost and all(side.greeting is not None for side in self.observed.sides)

    def _note_captured(self, events: RequestRows) -> None:
        for side in (0, 1):
            own = (events["side"] == side).nonzero()[0]
            if len(own):
                times = np.maximum(np.maximum.accumulate(events["time"][own]), self.captured[side])
                events["captured"][own] = times
                self.captured[side] = int(times[-1])

    def _match(self, events: RequestRows) -> None:
        if self.asker is None or not len(events):
            return
        self._note_first(events)
        rows = np.concatenate((self.open, self.early, events))
        if (np.diff(rows["captured"]) < 0).any():  # a side was held back
            rows = rows[rows["captured"].argsort(kind="stable")]
        keys, is_reply = rows["key"], rows["side"] != self.asker
        in_order = self.way is not Way.NEWEST and self.is_sure
        answered = (oldest_first if in_order else newest_first)(keys, is_reply)
        replies = (answered != NOBODY).nonzero()[0]
        anew = rows["anew"][answered[replies]]
        if anew.any():
            replies = replies[(anew == 0) | (rows["captured"][replies] < anew)]
        requests = answered[replies]
        self._emit_answered(rows, is_reply, replies, requests)
        is_left = np.ones(len(rows), np.bool_)
        is_left[replies] = is_left[requests] = False
        waits = is_left & ~is_reply
        self._note_without_id(rows[is_left & is_reply], rows[~is_reply])
        if not in_order and waits.any():
            newer = asked_anew(keys, is_reply)
            given_up = (waits & (newer != NOBODY) & (rows["anew"] == 0)).nonzero()[0]
            rows["anew"][given_up] = rows["captured"][newer[given_up]]
            rows["anew_order"][given_up] = rows["order"][newer[given_up]]
        self.open, self.early = rows[waits], rows[is_left & is_reply]
        self._settle(int(rows["captured"][-1]) - LONGEST_HELD)

    def _settle(self, time: int) -> None:
        """What was captured up to a time is all there: what would have to come was not sent."""
        if len(self.early):
            is_settled = self.early["captured"] < min(time, self.captured[self.asker or 0])
            unasked, self.early = self.early[is_settled], self.early[~is_settled]
            if self.is_sure and self.way is not Way.ENVELOPES and not self.is_turned_round:
                self._emit(UNASKED, unasked, unasked["order"])
        is_settled = (self.open["anew"] > 0) & (self.open["anew"] < time)
        if is_settled.any():
            given_up, self.open = self.open[is_settled], self.open[~is_settled]
            outcome = UNANSWERED if self.is_sure else UNKNOWN
            self._emit(outcome, given_up, given_up["anew_order"], given_up["anew"])

    def _emit_answered(self, rows: RequestRows, is_reply: Bool, replies: Int64, requests: Int64) -> None:
        assert self.asker is not None
        is_late = np.zeros(len(replies), np.bool_)
        if self.observed.sides[self.asker].socket_type == "REQ":
            newest = np.maximum.accumulate(np.where(is_reply, NOBODY, np.arange(len(rows))))
            is_late = newest[replies] != requests
        for outcome, which in ((ANSWERED, ~is_late), (LATE, is_late)):
            answers = rows[replies[which]]
            asked = rows[requests[which]]
            self._emit(outcome, asked, np.maximum(asked["order"], answers["order"]), replies=answers)

    def _lose(self, gap: int) -> None:
        """Octets are missing from the segment `gap` on: what was open may have been answered there."""
        self._emit(UNKNOWN, self.open, np.full(len(self.open), gap))
        self.open = self.early = self.held = no_rows()
        self.lost = True
        self._note_waiting()

    # -- what is learnt ----------------------------------------------------------------------------------------------

    def _emit(
        self,
        outcome: int,
        rows: RequestRows,
        decided: Int64,
        until: Int64 | None = None,
        replies: RequestRows | None = None,
    ) -> None:
        if not len(rows):
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
            if seen.is_lock_step:
                seen.trend.add(latencies)
            self._note_longest(seen, rows, latencies)
            last = replies[-1]
            seen.last_reply = Moment.of_packet(int(last["time"]), int(last["packet"]), self.files)
        if outcome == LATE and seen.late is None:
            seen.late = self._observed(rows[0])
            seen.takes_late = bool(rows[0]["key"] == EMPTY)
        if outcome == UNASKED and seen.unasked is None:
            seen.unasked = self._observed(rows[0])
        if outcome == UNANSWERED and until is not None and seen.abandoned is None:
            seen.abandoned = self._observed(rows[0])

    def _note_longest(self, seen: ObservedRequests, rows: RequestRows, latencies: Int64) -> None:
        """Remember those that took longest; of equal ones the first."""
        least = seen.longest[-1].took if len(seen.longest) == MOST_LONGEST else -1
        longer = np.flatnonzero(latencies > least)
        longest = longer[np.argsort(-latencies[longer], kind="stable")[:MOST_LONGEST]]
        new = [Answered(int(latencies[place]), self._observed(rows[place])) for place in longest.tolist()]
        seen.longest = sorted([*seen.longest, *new], key=_shortest_last)[:MOST_LONGEST]

    def _note_without_id(self, replies: RequestRows, requests: RequestRows) -> None:
        """Remember a reply that lacks the id which ZMQ_REQ_CORRELATE puts in front of each request."""
        seen = self.observed.requests
        if seen is None or not seen.is_lock_step or seen.without_id is not None or not len(requests):
            return
        if (requests["key"] != EMPTY).all() and (lacking := (replies["key"] == EMPTY).nonzero()[0]).size:
            seen.without_id = self._observed(replies[lacking[0]])

    def _note_first(self, events: RequestRows) -> None:
        seen = self.observed.requests
        is_asked = events["side"] == self.asker
        if seen is not None and seen.first is None and is_asked.any():
            seen.first = self._observed(events[is_asked.argmax()])

    def _note_waiting(self) -> None:
        """Remember what waits, for whoever asks before the connection ends, and what its runs are needed for."""
        self._take_room()
        for rows in (self.held, self.open[:MOST_WAITING]):
            for place in range(len(rows)):
                rows["content"][place] = self._content_of(rows[place])
        for rows in (self.held, self.open, self.early):
            rows["run"] = NOBODY
        seen = self.observed.requests
        if seen is not None:
            seen.waiting_count = len(self.open)
            seen.waiting = [self._observed(row) for row in self.open[:MOST_WAITING]]

    def _take_room(self) -> None:
        more = len(self.open) + len(self.early) + len(self.held) - self.remembered
        if more > 0 and not self.room.take(self.observed, more * OCTETS):
            released, self.open = self.open[:more], self.open[more:]
            self._emit(UNKNOWN, released, released["order"])
            return
        if more < 0:
            self.room.give_back(self.observed, -more * OCTETS)
        self.remembered += more

    def _observed(self, row: np.void) -> ObservedRequest:
        ref = f"{self.observed.conn_id}/{row['side']}/{row['source']}/{row['offset']}/message"
        moment = Moment.of_packet(int(row["time"]), int(row["packet"]), self.files)
        end = -1 if row["source"] else int(row["offset"] + row["length"])
        return ObservedRequest(moment, ref, int(row["size"]), self._content_of(row), end)

    def _content_of(self, row: np.void) -> int:
        if row["content"] or row["run"] == NOBODY:
            return int(row["content"])
        is_work = self.is_turned_round and bool(row["is_nested"])
        return content_of(self.runs[row["side"]][row["run"]], int(row["row"]), is_work)


def _shortest_last(answered: Answered) -> int:
    return -answered.took
