"""The view of findings: counts by id, with their records."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from zmtpscope.dissect import Record
from zmtpscope.findings import FINDINGS, SEVERITIES
from zmtpscope.store import Store
from zmtpscope.tui.worker.views.tables import Line
from zmtpscope.tui.worker.views.view import Step
from zmtpscope.words import counted

MAX_SINGLE = 1000
"""Maximum findings listed below a kind."""

Find = Callable[[str, int], int | None]
"""Returns the number of the record with an identity, looking near another one first."""


@dataclass(slots=True)
class Kind:
    """All findings with the same id and severity: how often and when, and the record numbers of the first."""

    severity: str
    id: str
    times: int = 0
    """Occurrences, including repeats."""
    first_ns: int | None = None
    last_ns: int = 0
    numbers: array[int] = field(default_factory=lambda: array("q"))
    """Record numbers of the findings."""


class CountedFindings:
    """Counts findings, and returns a row for each id and severity, with rows below it that link to single findings."""

    def __init__(self, store: Store, find: Find) -> None:
        self._store = store
        self._find = find
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

    @property
    def summary(self) -> str:
        counts = Counter[str]()
        for kind in self._kinds.values():
            counts[kind.severity] += len(kind.numbers)
        return ", ".join(f"{severity}: {counts[severity]:,}" for severity in SEVERITIES if counts[severity])

    def lines(self) -> list[Line]:
        """Return a row for each id and severity, worst first, then the most frequent first."""
        kinds = sorted(self._kinds.values(), key=lambda kind: (SEVERITIES.index(kind.severity), -kind.times, kind.id))
        return list(map(self._line, kinds))

    def _line(self, kind: Kind) -> Line:
        known = FINDINGS[kind.id]
        values = {
            "severity": kind.severity,
            "cause": known.text,
            "times": kind.times,
            "first": kind.first_ns,
            "last": kind.last_ns,
            "rule": kind.id,
            "hint": known.hint,
        }
        filter = f"id == {kind.id} and severity == {kind.severity}"
        key = f"{kind.severity} {kind.id}"
        return Line(key, values, filter, kind.severity, children=lambda: list(self._single(kind)))

    def _single(self, kind: Kind) -> Iterator[Line]:
        numbers = np.array(kind.numbers[:MAX_SINGLE], np.int64)
        for number, record in self._store.others(numbers, ("finding",)):
            yield self._line_of(number, record)
        if len(kind.numbers) > MAX_SINGLE:
            more = f"{counted(len(kind.numbers) - MAX_SINGLE, 'finding')} more: follow the line above"
            yield Line(f"more {kind.severity} {kind.id}", {"cause": more})

    def _line_of(self, number: int, record: Record) -> Line:
        values = record.values
        detail = values["text"].removeprefix(f"{FINDINGS[values['id']].text}: ")
        cells = {"cause": detail, "times": values["count"] or 1, "first": values["ts_ns"], "hint": values["hint"]}
        return Line(f"record {number}", cells, record=partial(self._evidence, number, values["refs"] or ()))

    def _evidence(self, number: int, references: tuple[str, ...]) -> int:
        """Return the number of the first record to which a finding refers, or of the finding itself."""
        found = (self._find(reference, number) for reference in references)
        return next((place for place in found if place is not None), number)
