"""The view of diagnoses: each problem with its cause and evidence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence
from zmtpscope.export.top.table import scaled
from zmtpscope.findings import SEVERITIES
from zmtpscope.tui.worker.views.derived import DerivedView
from zmtpscope.tui.worker.views.tables import Column, Line, table_of
from zmtpscope.tui.worker.views.times import shown_times
from zmtpscope.tui.worker.views.view import AS_IT_IS, ViewTable, Wanted


class DiagnosesView(DerivedView):
    """One line per cause, worst first. Below it are linked evidence and consequences."""

    def table(self, wanted: Wanted = AS_IT_IS) -> ViewTable:
        shown_time = shown_times(self.store, wanted.time)
        columns = (
            Column("severity", "SEVERITY", order=SEVERITIES.index),
            Column("cause", "CAUSE", widest=96),
            Column("times", "TIMES", scaled, is_number=True),
            Column("first", "FIRST", shown_time, is_number=True),
            Column("last", "LAST", shown_time, is_number=True, rank=1),
            Column("rule", "RULE", rank=3),
            Column("hint", "WHAT TO DO", rank=2),
        )
        summary = self.derived.summary
        text = "looking for causes" if summary is None else summary or "no problem found"
        lines = [self._line(each.diagnosis, each.consequences) for each in self.derived.diagnoses or ()]
        return table_of(columns, lines, wanted, [text])

    def _line(self, diagnosis: Diagnosis, consequences: Sequence[Diagnosis] = ()) -> Line:
        first = min((each.moment.ns for each in diagnosis.evidence), default=None)
        values = (
            *(diagnosis.severity, diagnosis.statement, diagnosis.count, first, diagnosis.last_ns),
            *(diagnosis.rule, diagnosis.hint),
        )
        key = f"{diagnosis.rule} {diagnosis.subject}"
        children = partial(self._beneath, key, diagnosis, consequences)
        return Line(key, values, style=diagnosis.severity, children=children)

    def _beneath(self, key: str, diagnosis: Diagnosis, consequences: Sequence[Diagnosis]) -> Sequence[Line]:
        evidence = [self._evidence(f"{key} {place}", each) for place, each in enumerate(diagnosis.evidence)]
        return [*evidence, *map(self._line, consequences)]

    def _evidence(self, key: str, evidence: Evidence) -> Line:
        values = None, evidence.text, None, evidence.moment.ns, None, None, None
        return Line(key, values, record=partial(self._record_of, evidence))

    def _record_of(self, evidence: Evidence) -> int | None:
        return None if evidence.ref is None else self.derived.find(evidence.ref)
