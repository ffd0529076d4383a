"""The view of findings: kinds, counts, and the records concerned."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from zmtpscope.dissect import Record
from zmtpscope.export.top.table import scaled
from zmtpscope.findings import FINDINGS, SEVERITIES
from zmtpscope.store import Store
from zmtpscope.tui.worker.views.tables import Column, Line, table_of
from zmtpscope.tui.worker.views.times import shown_times
from zmtpscope.tui.worker.views.view import AS_IT_IS, CountingView, Step, ViewTable, Wanted
from zmtpscope.words import counted

MAX_SINGLE = 1000
"""Maximum findings listed below a kind."""


@dataclass(slots=True)
class Kind:
    """All findings with the same id and severity."""

    severity: str
    id: str
    times: int = 0
    """Occurrences, including repeats."""
    connections: set[int] = field(default_factory=set)
    first_ns: int | None = None
    last_ns: int = 0
    numbers: array[int] = field(default_factory=lambda: array("q"))
    """Record numbers of the findings."""


class FindingsView(CountingView):
    """One line per kind, worst first. Below it are findings, linked to the records they refer to."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._kinds: dict[tuple[str, str], Kind] = {}

    def feed(self, step: Step) -> None:
        for number, record in step.records("finding"):
            values = record.values
            key = values["severity"], values["id"]
            kind = self._kinds.setdefault(key, Kind(*key))
            kind.numbers.append(number)
            kind.times += values["count"] or 1
            kind.first_ns = values["ts_ns"] if kind.first_ns is None else min(kind.first_ns, values["ts_ns"])
            kind.last_ns = max(kind.last_ns, values["ts_ns"])
            if values["conn"] is not None:
                kind.connections.add(values["conn"])

    def table(self, wanted: Wanted = AS_IT_IS) -> ViewTable:
        """Return the kinds, worst first, then the most frequent."""
        shown_time = shown_times(self.store, wanted.time)
        columns = (
            Column("severity", "SEVERITY", order=SEVERITIES.index),
            Column("id", "ID", is_name=True),
            Column("what", "WHAT WAS FOUND", is_name=True),
            Column("findings", "FINDINGS", scaled, is_number=True),
            Column("times", "TIMES", scaled, is_number=True, rank=2),
            Column("connections", "CONNS", scaled, is_number=True, rank=2),
            Column("first", "FIRST", shown_time, is_number=True, rank=1),
            Column("last", "LAST", shown_time, is_number=True, rank=3),
            Column("hint", "WHAT TO DO", rank=3),
        )
        kinds = sorted(self._kinds.values(), key=lambda kind: (SEVERITIES.index(kind.severity), -kind.times, kind.id))
        counts = Counter[str]()
        for kind in kinds:
            counts[kind.severity] += len(kind.numbers)
        text = ", ".join(f"{severity}: {count}" for severity, count in counts.items()) or "nothing was found"
        return table_of(columns, [self._line(kind) for kind in kinds], wanted, [text])

    def _line(self, kind: Kind) -> Line:
        known = FINDINGS[kind.id]
        values = (
            *(kind.severity, kind.id, known.text),
            *(len(kind.numbers), kind.times, len(kind.connections), kind.first_ns, kind.last_ns),
            known.hint,
        )
        filter = f"id == {kind.id} and severity == {kind.severity}"
        return Line(f"{kind.severity} {kind.id}", values, filter, kind.severity, children=partial(self._single, kind))

    def _single(self, kind: Kind) -> Sequence[Line]:
        numbers = np.array(kind.numbers[:MAX_SINGLE], np.int64)
        found = self.store.others(numbers, ("finding",))
        lines = [self._line_of(number, record) for number, record in found]
        if len(kind.numbers) > MAX_SINGLE:
            more = f"{counted(len(kind.numbers) - MAX_SINGLE, 'finding')} more: follow the line above"
            lines.append(Line(f"more {kind.severity} {kind.id}", [None, None, more, *([None] * 6)]))
        return lines

    def _line_of(self, number: int, record: Record) -> Line:
        values = record.values
        said = values["text"].removeprefix(f"{FINDINGS[values['id']].text}: ")
        cells = [None, None, said, 1, values["count"] or 1, None, values["ts_ns"], None, values["hint"]]
        return Line(f"record {number}", cells, record=partial(self._evidence, number, values["refs"] or ()))

    def _evidence(self, number: int, references: Sequence[str]) -> int:
        """Return the first record that a finding refers to, or its own."""
        found = (self.store.find(reference, near=number) for reference in references)
        return next((place for place in found if place is not None), number)
