"""Match the requests and replies of one connection (wire.md 10.1).

`request_roles.py` finds the side that asks. A REP answers in order; a REQ waits for its newest request only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import islice
from operator import attrgetter

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.matching import (
    MessageRow,
    OpenRequests,
    Paired,
    by_captured,
    by_order,
    by_time,
    content_of,
    enveloped,
    pair,
)
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import MAX_LONGEST, Answered, ObservedRequest, ObservedRequests
from zmtpscope.diagnosis.observers.observer import DerivedTable, Observer, Rows, SocketTypes
from zmtpscope.diagnosis.observers.request_roles import NEVER_ASK, Role, Roles, roles_of
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

LONGEST_HELD = SECOND
"""Longest delay of a side's data (ns), while a hole before it may be filled."""

PATIENCE = SECOND // 100
"""A client that asks again sooner (ns) does not wait for the reply: its requests were queued while it was not
connected."""

AFTER_ALL = (1 << 63) - 1

OCTETS = 1400

MAX_WAITING = 16
"""Open requests to report."""

MISSING = ("unseen_bytes", "unfinished_bytes", "undissected_bytes", "sealed_0", "sealed_1")
"""Fields that count unread data; it may contain a reply."""

UNFIT = ("reused", "evicted")
"""Values of `close` without a captured end."""


class RequestObserver(Observer):
    types = begins_with = frozenset({"gap"})
    roles: Roles | None = None
    role: Role | None = None
    """None until the asker is known."""
    lost = False
    """Whether octets are missing."""

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self.open = OpenRequests()
        self.early: list[MessageRow] = []
        """Replies that may precede their requests."""
        self.captured = [0, 0]
        """Time until which each side was captured."""
        self.waiting: dict[int, ObservedRequest] = {}
        """Oldest open requests, by number."""
        self.tables: list[RequestTable] = []
        self.gaps: list[int] = []
        """Ordinals of new gaps."""
        self.remembered = 0
        """Rows with reserved memory."""
        self.files: Sequence[str | None] = ()

    @classmethod
    def follows(cls, socket_types: SocketTypes) -> bool:
        return socket_types not in NEVER_ASK

    def record(self, record: Record) -> None:
        self.gaps.append(record.order[0])

    def rows(self, rows: Rows) -> None:
        if self.roles is None:
            self.roles = roles_of(self.observed)
            if self.roles is not None and self.roles.role is not None:
                self._begin(self.roles.role)
        if self.roles is None or self.roles.is_over:
            return
        self.files = rows.files
        events, asker = list[MessageRow](), 0 if self.role is None else self.role.asker
        for side in (asker, 1 - asker):
            for run in rows.sides[side]:
                own = enveloped(run, side, self.captured[side], self.roles.needs_address)
                if own:
                    events += own
                    self.captured[side] = own[-1].captured
        if not events and not self.gaps:
            return
        events.sort(key=by_order)
        before, asked, begin = self.open, self.open.count, 0
        for gap in sorted(self.gaps):
            end = bisect_left(events, gap, key=by_order)
            self._take(self.roles, events[begin:end])
            self._lose(gap)
            begin = end
        self.gaps.clear()
        self._take(self.roles, events[begin:])
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
        if self.roles is None:
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

    # -- matching ----------------------------------------------------------------------------------------------------

    def _take(self, roles: Roles, events: list[MessageRow]) -> None:
        """Match the next messages of both sides, in order."""
        for role, messages in roles.assign(events):
            if role is not self.role:
                self._begin(role)
            if messages:
                self._match(role, messages)
        if roles.is_over:
            self.observed.requests = None
            self._forget()

    def _begin(self, role: Role) -> None:
        self.role, self.open, self.waiting = role, OpenRequests(), {}
        is_lock_step = role.is_guessed or self.observed.sides[role.asker].socket_type == "REQ"
        self.observed.requests = ObservedRequests(role.asker, is_lock_step, role.is_guessed)

    @property
    def is_sure(self) -> bool:
        """Whether the capture lacks no octets of the connection so far, so that a missing reply was not sent."""
        return not self.lost and all(side.greeting is not None for side in self.observed.sides)

    def _match(self, role: Role, events: list[MessageRow]) -> None:
        self._note_first(role, events)
        messages = sorted([*self.early, *events], key=by_captured)  # one side may be delayed
        latest = max(self.open.latest(), messages[-1].captured)
        paired, self.early = pair(self.open, messages, role.asker, role.in_order and self.is_sure)
        self._emit_answered(role, paired)
        self._note_without_id(paired.requests)
        self._settle(latest - LONGEST_HELD)

    def _settle(self, time: int) -> None:
        """Decide all outcomes up to `time` (ns): no message from before can arrive any more."""
        if self.role is not None and self.early:
            settled = min(time, self.captured[self.role.asker])
            unasked = [reply for reply in self.early if reply.captured < settled]
            self.early = [reply for reply in self.early if reply.captured >= settled]
            if self.is_sure and self.role.reports_unasked:
                self._emit(UNASKED, unasked, [reply.order for reply in unasked])
        given_up, anew = self.open.given_up(time)
        outcome = UNANSWERED if self.is_sure else UNKNOWN
        self._emit(outcome, given_up, [each.order for each in anew], [each.captured for each in anew])

    def _emit_answered(self, role: Role, paired: Paired) -> None:
        """Add the records of answered requests. If the client is a REQ, a late reply counts as rejected; other types
        accept it."""
        requests, replies, late = paired
        if self.observed.sides[role.asker].socket_type != "REQ" or not any(late):
            self._emit_pairs(ANSWERED, requests, replies)
            return
        for outcome, is_late in ((ANSWERED, False), (LATE, True)):
            chosen = [place for place, each in enumerate(late) if each is is_late]
            self._emit_pairs(outcome, [requests[place] for place in chosen], [replies[place] for place in chosen])
        self._note_late([request for request, is_late in zip(requests, late, strict=True) if is_late], requests)

    def _note_late(self, late: list[MessageRow], answered: list[MessageRow]) -> None:
        """Remember requests with late replies, except those after which the asker asked again at once."""
        seen = self.observed.requests
        assert seen is not None
        places = sorted((row.time, row.offset) for row in (*answered, *self.open.rows.values()))
        for row in late:
            following = places[bisect_right(places, (row.time, row.offset)) :][:1]
            if not following or following[0][0] - row.time >= PATIENCE:
                seen.late_count += 1
                if seen.late is None:
                    seen.late, seen.takes_late = self._observed(row), row.key == ()

    def _emit_pairs(self, outcome: int, requests: list[MessageRow], replies: list[MessageRow]) -> None:
        pairs = zip(requests, replies, strict=True)
        decided = [reply.order if reply.order > request.order else request.order for request, reply in pairs]
        self._emit(outcome, requests, decided, replies=replies)

    def _lose(self, gap: int) -> None:
        """Set the outcome of pending requests to unknown: octets are missing from the segment `gap` on, perhaps with
        the replies."""
        left = self.open.oldest(len(self.open))
        self._emit(UNKNOWN, left, [gap] * len(left))
        self._forget()
        self.lost = True
        self._take_room()
        self._note_waiting()

    def _forget(self) -> None:
        self.open, self.early, self.waiting = OpenRequests(), [], {}
        if self.roles is not None:
            self.roles.forget()

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
        role, seen = self.role, self.observed.requests
        assert role is not None
        assert seen is not None
        asker = role.asker
        types = self.observed.socket_types()
        stream, socket_types = self.observed.stream_of(asker), (types[asker], types[1 - asker])
        lost = self.observed.sides[asker].last_outage
        lost_from = None if lost is None else lost.offset
        table = RequestTable(stream, socket_types, self.files, outcome, rows, decided, until, replies, lost_from)
        if not role.is_guessed:
            self.tables.append(table)
        seen.counts[OUTCOMES[outcome]] += len(rows)
        if replies is not None:
            latencies = table.waited
            assert latencies is not None
            seen.latency.add(latencies, seen.trend)
            self._note_longest(seen, rows, latencies)
            seen.last_answered_ns = max(seen.last_answered_ns, max(map(by_time, rows)))
            seen.last_reply = Moment.of_packet(replies[-1].time, replies[-1].packet, self.files)
        if outcome == UNASKED and seen.unasked is None:
            seen.unasked = self._observed(rows[0])
        if outcome == UNANSWERED and until is not None and seen.abandoned is None:
            seen.abandoned = self._observed(rows[0])

    def _note_longest(self, seen: ObservedRequests, rows: list[MessageRow], latencies: list[int]) -> None:
        """Store the requests with the slowest replies (`latencies` in ns); of equal ones, the first."""
        least = seen.longest[-1].took if len(seen.longest) == MAX_LONGEST else -1
        longer = [(-took, place) for place, took in enumerate(latencies) if took > least]
        new = [Answered(-took, self._observed(rows[place])) for took, place in sorted(longer)[:MAX_LONGEST]]
        if new:
            seen.longest = sorted([*seen.longest, *new], key=attrgetter("took"), reverse=True)[:MAX_LONGEST]

    def _note_without_id(self, requests: list[MessageRow]) -> None:
        """Store a reply without an id if all requests have one (ZMQ_REQ_CORRELATE): a REQ drops such a reply."""
        seen = self.observed.requests
        if seen is None or not seen.is_lock_step or seen.without_id is not None or not (requests or self.open):
            return
        lacking = next((reply for reply in self.early if reply.key == ()), None)
        if lacking is not None and () not in self.open.by_key and all(request.key != () for request in requests):
            seen.without_id = self._observed(lacking)

    def _note_first(self, role: Role, events: list[MessageRow]) -> None:
        seen = self.observed.requests
        if seen is not None and seen.first is None:
            first = next((message for message in events if message.side == role.asker), None)
            seen.first = None if first is None else self._observed(first)

    def _leave_octets(self, asked: int) -> None:
        """Drop the octets of this batch, but first compute checksums of requests that are reported or compared.

        `asked` is the number of the first request of the batch.
        """
        if self.roles is not None:
            self.roles.held = [self._without_octets(row, compared=True) for row in self.roles.held]
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
        """Store the pending requests in the observations, so that rules can run at any time."""
        seen = self.observed.requests
        if seen is not None:
            oldest = islice(self.open.rows.items(), MAX_WAITING)
            self.waiting = {number: self.waiting.get(number) or self._observed(row) for number, row in oldest}
            seen.waiting_count, seen.waiting = len(self.open), [*self.waiting.values()]

    def _take_room(self) -> None:
        held = 0 if self.roles is None else len(self.roles.held)
        more = len(self.open) + len(self.early) + held - self.remembered
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
        is_work = self.role is not None and self.role.is_of_work and row.is_nested
        return content_of(row.run, row.row, is_work)
