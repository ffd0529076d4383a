"""The view of problems: diagnoses with evidence, then the findings of the analyser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, MissedMessages
from zmtpscope.export.top.table import scaled
from zmtpscope.filter.writing import comparison, every, one_of
from zmtpscope.findings import SEVERITIES
from zmtpscope.tui.requests import Table, Wanted
from zmtpscope.tui.worker.views.derived import DerivedView
from zmtpscope.tui.worker.views.tables import Column, Line, shown_times, table_of
from zmtpscope.tui.worker.views.view import AS_IT_IS

MAX_CONNECTIONS = 100
"""Maximum connections whose records a diagnosis links to."""


class ProblemsView(DerivedView):
    """A row per diagnosis, worst first, with rows for its evidence and consequences below. Findings are at the end."""

    def table(self, wanted: Wanted = AS_IT_IS) -> Table:
        shown_time = shown_times(self.store, wanted.time)
        columns = (
            Column("severity", "SEVERITY", order=SEVERITIES.index),
            Column("cause", "PROBLEM", widest=96, is_name=True),
            Column("times", "TIMES", scaled, is_number=True, rank=2),
            Column("first", "FIRST", shown_time, is_number=True, rank=1),
            Column("last", "LAST", shown_time, is_number=True, rank=3),
            Column("rule", "RULE", rank=4),
            Column("hint", "WHAT TO DO", rank=3),
        )
        summary = self.derived.summary
        text = "looking for causes" if summary is None else summary or "no problem found"
        self._numbers = {each.conn_id: each.stream.conn for each in self.derived.knowledge.connections}
        lines = [self._line(each.diagnosis, each.consequences) for each in self.derived.diagnoses or ()]
        if findings := self.derived.findings.summary:
            values = {"cause": f"all findings in the traffic: {findings}"}
            line = Line("findings", values, "record == finding", children=self.derived.findings.lines)
            line.is_open, line.is_sorted = not lines, True
            lines.append(line)
        return table_of(columns, lines, wanted, [text])

    def _line(self, diagnosis: Diagnosis, consequences: Sequence[Diagnosis] = ()) -> Line:
        first = min((each.moment.ns for each in diagnosis.evidence), default=None)
        values = {
            "severity": diagnosis.severity,
            "cause": diagnosis.statement,
            "times": diagnosis.count,
            "first": first,
            "last": diagnosis.last_ns,
            "rule": diagnosis.rule,
            "hint": diagnosis.hint,
        }
        key = f"{diagnosis.rule} {diagnosis.subject}"
        children = partial(self._beneath, key, diagnosis, consequences)
        return Line(key, values, self._story(diagnosis), diagnosis.severity, children=children, time=first)

    def _story(self, diagnosis: Diagnosis) -> str:
        """Return a filter that selects all records of the connections of a diagnosis, or ""."""
        numbers = self._numbers
        found = [numbers.get(conn_id) for conn_id in diagnosis.conn_ids]
        found += [] if diagnosis.missed is None else [diagnosis.missed.conn]
        known = sorted(number for number in found if number is not None)
        return one_of("conn", known[:MAX_CONNECTIONS]) if known else ""

    def _beneath(self, key: str, diagnosis: Diagnosis, consequences: Sequence[Diagnosis]) -> Sequence[Line]:
        story = self._story(diagnosis)
        lines = [self._evidence(f"{key} {place}", each, story) for place, each in enumerate(diagnosis.evidence)]
        if diagnosis.missed is not None:
            lines += _missed(key, diagnosis.missed)
        return [*lines, *map(self._line, consequences)]

    def _evidence(self, key: str, evidence: Evidence, story: str) -> Line:
        time = evidence.moment.ns
        values = {"cause": evidence.text, "first": time}
        return Line(key, values, story, record=partial(self._record_of, evidence), time=time)

    def _record_of(self, evidence: Evidence) -> int | None:
        return None if evidence.ref is None else self.derived.find(evidence.ref)


def _missed(key: str, missed: MissedMessages) -> Iterator[Line]:
    """Yield a row that links to the messages that a subscriber missed, if a filter can express their topic."""
    topic = None if missed.topic is None else comparison("topic", missed.topic)
    if missed.topic is None or topic is not None:
        times = f"ts_ns >= {missed.since_ns} and ts_ns < {missed.until_ns}"
        filter = every(f"conn == {missed.conn}", f"side == {missed.side}", "record == message", topic or "", times)
        cells = {"cause": "the messages that it missed, as another subscriber received them"}
        yield Line(f"{key} missed", cells, filter, time=missed.since_ns)
