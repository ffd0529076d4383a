"""The view of requests: the ones without a reply, and the slowest ones with their replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from zmtpscope.diagnosis.across.words import name_of
from zmtpscope.diagnosis.observers.durations import Distribution
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedRequest, OpenCall
from zmtpscope.diagnosis.observers.request_table import ANSWERED, OPEN, OUTCOMES, UNANSWERED, UNASKED
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.top.table import scaled
from zmtpscope.tui.requests import Table, Wanted
from zmtpscope.tui.worker.views.derived import Derived, DerivedView
from zmtpscope.tui.worker.views.last_values import LastValues
from zmtpscope.tui.worker.views.tables import Column, Line, seconds, shown_times, table_of
from zmtpscope.tui.worker.views.view import AS_IT_IS
from zmtpscope.words import counted

WORDS = ("answered", "too late", "open", "no reply", "a reply to nobody", "not captured")
"""Texts of `OUTCOMES`, in their order."""


class Asking(NamedTuple):
    """The requests of one side of a connection, or its calls in a protocol with ids, such as zerorpc or MDP."""

    connection: ObservedConnection
    asker: int
    counts: Counter[str]
    """Requests by outcome."""
    latency: Distribution
    waiting: Sequence[ObservedRequest | OpenCall]
    """Some requests without a reply, oldest first."""
    first_ns: int | None
    last_reply_ns: int | None

    @property
    def open_one(self) -> int:
        return OPEN if self.connection.values is None else UNANSWERED

    @property
    def listed(self) -> Sequence[ObservedRequest | OpenCall]:
        """Pending requests that have no derived record; calls never have one."""
        is_over = self.open_one == UNANSWERED
        return [each for each in self.waiting if not (is_over and isinstance(each, ObservedRequest))]

    @property
    def without_reply(self) -> int:
        return self.counts[OUTCOMES[OPEN]] + self.counts[OUTCOMES[UNANSWERED]]

    @property
    def requests(self) -> int:
        return self.counts.total() - self.counts[OUTCOMES[UNASKED]]


class RequestsView(DerivedView):
    """A row per side that sends requests: most missing replies first, then the slowest.

    Rows for requests are below, and rows for their replies below these, linked to records.
    """

    def __init__(self, derived: Derived) -> None:
        super().__init__(derived)
        self._contents = LastValues(derived.store)

    def table(self, wanted: Wanted = AS_IT_IS) -> Table:
        shown_time = shown_times(self.store, wanted.time)
        columns = (
            Column("request", "REQUEST", self._content, is_name=True),
            Column("conn", "CONN", str, is_number=True, rank=1),
            Column("outcome", "OUTCOME"),
            Column("requests", "REQUESTS", scaled, is_number=True, rank=1),
            Column("unanswered", "NO REPLY", scaled, is_number=True),
            Column("p50", "P50", seconds, is_number=True, rank=2),
            Column("p99", "P99", seconds, is_number=True, rank=2),
            Column("waited", "LONGEST", seconds, is_number=True),
            Column("asked", "ASKED", shown_time, is_number=True, rank=3),
            Column("answered", "ANSWERED", shown_time, is_number=True, rank=3),
            Column("reply", "REPLY", self._content),
        )
        found = [asking for connection in self.derived.knowledge.connections for asking in _asking(connection)]
        found.sort(key=lambda each: (-each.without_reply, -(self._longest(each) or 0), each.connection.start.ns))
        return table_of(columns, map(self._line, found), wanted, list(_text(found)), prepare=self._read)

    def _line(self, asking: Asking) -> Line:
        connection, asker, counts = asking.connection, asking.asker, asking.counts
        outcomes = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES[1:] if counts[name])
        values = {
            "request": f"{name_of(connection, asker)} > {name_of(connection, 1 - asker)}",
            "conn": connection.stream.conn,
            "outcome": outcomes or "all answered",
            "requests": asking.requests,
            "unanswered": asking.without_reply or None,
            "p50": asking.latency.quantile(0.5),
            "p99": asking.latency.quantile(0.99),
            "waited": self._longest(asking),
            "asked": asking.first_ns,
            "answered": asking.last_reply_ns,
        }
        has_single = bool(asking.listed) or connection.conn_id in self.derived.requests
        children = partial(self._requests, asking) if has_single else None
        style = "warn" if counts["unanswered"] else ""
        key = f"{connection.conn_id} {asker}"
        return Line(key, values, f"conn == {connection.stream.conn}", style, children=children)

    def _longest(self, asking: Asking) -> int | None:
        """Return the longest time (ns) for which a request waited. A pending one waits until the end of its connection
        or the capture."""
        connection, most = asking.connection, asking.latency.most
        waiting = [self._end(connection) - each.moment.ns for each in asking.waiting[:1]]
        return max([*waiting, *([] if most is None else [most])], default=None)

    def _end(self, connection: ObservedConnection) -> int:
        return self.derived.knowledge.last_ns if connection.is_open else connection.last_ns

    def _requests(self, asking: Asking) -> Sequence[Line]:
        conn_id = asking.connection.conn_id
        lines = [self._waiting(each, asking) for each in asking.listed]
        return [*lines, *(self._request(conn_id, each) for each in self.derived.requests.of_connection(conn_id))]

    def _waiting(self, request: ObservedRequest | OpenCall, asking: Asking) -> Line:
        moment = request.moment
        waited = self._end(asking.connection) - moment.ns
        values = {"outcome": WORDS[asking.open_one], "waited": waited, "asked": moment.ns}
        if isinstance(request, ObservedRequest):
            number = self.derived.find(request.ref)
            return Line(request.ref, {"request": number} | values, record=number)
        key, values["request"] = f"{asking.connection.conn_id} {moment}", f"call of {request.name}"
        return Line(key, values, f"conn == {asking.connection.stream.conn}", time=moment.ns)

    def _request(self, conn_id: str, kept: np.void) -> Line:
        outcome, near, side = int(kept["outcome"]), int(kept["near"]), int(kept["side"])
        ref = f"{conn_id}/{side}/{kept['source']}/{kept['offset']}/message"
        number, time = self.derived.find(ref, near), int(kept["time"])
        waited = None if kept["waited"] < 0 else int(kept["waited"])
        style = "warn" if outcome == UNANSWERED else ""
        if outcome == UNASKED:
            values = {"outcome": WORDS[outcome], "answered": time, "reply": number}
            return Line(ref, values, style=style, record=number)
        values = {"request": number, "outcome": WORDS[outcome], "waited": waited, "asked": time}
        if kept["reply_time"] < 0:
            return Line(ref, values, style=style, record=number)
        reply = f"{conn_id}/{1 - side}/{kept['reply_source']}/{kept['reply_offset']}/message"
        answer, replied = self.derived.find(reply, near), int(kept["reply_time"])
        answered = {"answered": replied, "reply": answer}
        beneath = Line(f"{ref} {reply}", {"request": "the reply", **answered}, record=answer)
        return Line(ref, values | answered, style=style, record=number, children=lambda: [beneath])

    def _read(self, lines: Sequence[Line]) -> None:
        values = (value for line in lines for value in (line.values.get("request"), line.values.get("reply")))
        self._contents.read((value, -1) for value in values if isinstance(value, int))

    def _content(self, value: str | int) -> str:
        return safe_text(value) if isinstance(value, str) else self._contents[value, -1].text


def _asking(connection: ObservedConnection) -> Iterator[Asking]:
    """Yield the requests of each side of a connection; if requests cannot be distinguished from replies, the calls of
    each side."""
    is_going_on, seen = connection.values is None, connection.requests
    if seen is not None:
        counts = seen.counts + Counter({OUTCOMES[OPEN]: seen.waiting_count if is_going_on else 0})
        first = None if seen.first is None else seen.first.moment.ns
        last = None if seen.last_reply is None else seen.last_reply.ns
        yield Asking(connection, seen.asker, counts, seen.latency, seen.waiting, first, last)
        return
    outcome = OUTCOMES[OPEN if is_going_on else UNANSWERED]
    for number, side in enumerate(connection.sides):
        if (calls := side.calls) is not None:
            pending = tuple(side.pending_calls.values())
            counts = Counter({OUTCOMES[ANSWERED]: calls.answered, outcome: len(pending)})
            yield Asking(connection, number, counts, calls.latency, pending, None, calls.last_reply_ns or None)


def _text(found: Sequence[Asking]) -> Iterator[str]:
    counts, latency = Counter[str](), Distribution()
    for asking in found:
        counts += asking.counts
        latency.merge(asking.latency)
    if not counts:
        yield "no requests were seen"
        yield "DEALER and ROUTER: only with an empty frame before requests, or ids in calls"
        return
    parts = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name])
    yield f"{counted(sum(asking.requests for asking in found), 'request')}: {parts}"
    half, most = latency.median, latency.quantile(0.99)
    if half is not None and most is not None and latency.most is not None:
        slowest = seconds(latency.most)
        yield f"half answered within {seconds(half)}, 99 % within {seconds(most)}, the slowest within {slowest}"
