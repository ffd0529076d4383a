"""The view of requests: pending and slow ones, with replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from zmtpscope.diagnosis.across.words import name_of
from zmtpscope.diagnosis.observers.durations import Distribution
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedRequest, ObservedRequests
from zmtpscope.diagnosis.observers.request_table import OPEN, OUTCOMES, UNANSWERED, UNASKED
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.top.table import scaled
from zmtpscope.tui.requests import Table
from zmtpscope.tui.worker.views.derived import Derived, DerivedView
from zmtpscope.tui.worker.views.last_values import LastValues
from zmtpscope.tui.worker.views.tables import Column, Line, seconds, table_of
from zmtpscope.tui.worker.views.times import shown_times
from zmtpscope.tui.worker.views.view import AS_IT_IS, Wanted
from zmtpscope.words import counted

WORDS = ("answered", "too late", "open", "no reply", "a reply to nobody", "not captured")
"""Text of outcomes, in the order of `OUTCOMES`."""


class RequestsView(DerivedView):
    """One line per connection with requests, by missing replies, then slowest.

    Below it are requests, then their replies, linked to records.
    """

    def __init__(self, derived: Derived) -> None:
        super().__init__(derived)
        self._contents = LastValues(derived.store)

    def table(self, wanted: Wanted = AS_IT_IS) -> Table:
        shown_time = shown_times(self.store, wanted.time)
        columns = (
            Column("request", "REQUEST", self._content, is_name=True),
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
        found = [
            (connection, connection.requests)
            for connection in self.derived.knowledge.connections
            if connection.requests is not None
        ]
        found.sort(key=lambda each: (-_without_reply(*each), -(self._longest(*each) or 0), each[0].start.ns))
        lines = (self._connection(*each) for each in found)
        return table_of(columns, lines, wanted, list(_text(found)), prepare=self._read)

    def _connection(self, connection: ObservedConnection, seen: ObservedRequests) -> Line:
        conn_id, asker, latency = connection.conn_id, seen.asker, seen.latency
        counts = _counts(connection, seen)
        said = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES[1:] if counts[name])
        waiting = () if connection.values is not None else seen.waiting
        values = {
            "request": f"{name_of(connection, asker)} > {name_of(connection, 1 - asker)}",
            "outcome": said or "all answered",
            "requests": _requests(counts),
            "unanswered": _without_reply(connection, seen) or None,
            "p50": latency.quantile(0.5),
            "p99": latency.quantile(0.99),
            "waited": self._longest(connection, seen),
            "asked": None if seen.first is None else seen.first.moment.ns,
            "answered": seen.last_reply and seen.last_reply.ns,
        }
        has_single = bool(waiting) or conn_id in self.derived.requests
        children = partial(self._requests, conn_id, waiting) if has_single else None
        style = "warn" if counts["unanswered"] else ""
        return Line(conn_id, values, f"conn == {connection.stream.conn}", style, children=children)

    def _longest(self, connection: ObservedConnection, seen: ObservedRequests) -> int | None:
        """Return the longest wait for a reply. Pending requests wait until the connection or the capture ends."""
        end = self.derived.knowledge.last_ns if connection.is_open else connection.last_ns
        waiting = [end - each.moment.ns for each in seen.waiting[:1]]
        return max([*waiting, *([] if seen.latency.most is None else [seen.latency.most])], default=None)

    def _requests(self, conn_id: str, waiting: Sequence[ObservedRequest]) -> Sequence[Line]:
        lines = [self._waiting(each) for each in waiting]
        return [*lines, *(self._request(conn_id, each) for each in self.derived.requests.of_connection(conn_id))]

    def _waiting(self, request: ObservedRequest) -> Line:
        number = self.derived.find(request.ref)
        waited = self.derived.knowledge.last_ns - request.moment.ns
        values = {"request": number, "outcome": WORDS[OPEN], "waited": waited, "asked": request.moment.ns}
        return Line(request.ref, values, record=number)

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
        told = {"answered": replied, "reply": answer}
        beneath = Line(f"{ref} {reply}", {"request": "the reply", **told}, record=answer)
        return Line(ref, values | told, style=style, record=number, children=lambda: [beneath])

    def _read(self, lines: Sequence[Line]) -> None:
        """Read the contents of the shown messages."""
        values = (value for line in lines for value in (line.values.get("request"), line.values.get("reply")))
        self._contents.read((value, -1) for value in values if isinstance(value, int))

    def _content(self, value: str | int) -> str:
        """Return a text, or the content of a message."""
        return safe_text(value) if isinstance(value, str) else self._contents[value, -1].text


def _counts(connection: ObservedConnection, seen: ObservedRequests) -> Counter[str]:
    """Return the number of requests by outcome; pending ones are open."""
    is_going_on = connection.values is None
    return seen.counts + Counter({OUTCOMES[OPEN]: seen.waiting_count if is_going_on else 0})


def _requests(counts: Counter[str]) -> int:
    return counts.total() - counts[OUTCOMES[UNASKED]]


def _without_reply(connection: ObservedConnection, seen: ObservedRequests) -> int:
    counts = _counts(connection, seen)
    return counts[OUTCOMES[OPEN]] + counts[OUTCOMES[UNANSWERED]]


def _text(found: Sequence[tuple[ObservedConnection, ObservedRequests]]) -> Iterator[str]:
    counts, latency = Counter[str](), Distribution()
    for connection, seen in found:
        counts += _counts(connection, seen)
        latency.merge(seen.latency)
    if not counts:
        yield "no requests were seen; where DEALER and ROUTER send no envelopes, nothing tells requests from replies"
        return
    parts = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name])
    yield f"{counted(_requests(counts), 'request')}: {parts}"
    half, most = latency.median, latency.quantile(0.99)
    if half is not None and most is not None and latency.most is not None:
        slowest = seconds(latency.most)
        yield f"half were answered within {seconds(half)}, 99 % within {seconds(most)}, the slowest within {slowest}"
