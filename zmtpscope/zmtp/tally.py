"""Limit repeated findings of one side."""

from __future__ import annotations

from collections.abc import Sequence

from zmtpscope.zmtp.reader import Finding

STORED = 10
"""Findings to emit for each id; further ones are counted."""


class Tally:
    """`repeats`: for each id above `STORED`, the number of further findings and the last stream offset."""

    __slots__ = ("_habits", "_raised", "repeats")

    def __init__(self) -> None:
        self.repeats: dict[str, tuple[int, int | None]] = {}
        self._raised: dict[str, int] = {}
        self._habits: set[str] = set()

    def first_time(self, habit: str) -> bool:
        """Note a habit (an implementation's deviation on every frame); return whether it is new."""
        if habit in self._habits:
            return False
        self._habits.add(habit)
        return True

    def noted(self, habit: str) -> bool:
        return habit in self._habits

    def keep(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        return tuple([finding for finding in findings if self._count(finding.id, 1, finding.start)])

    def repeat(self, finding: str, times: int, last: int) -> None:
        """Count a finding that is already in `repeats` again; `last` is its stream offset."""
        self._count(finding, times, last)

    def _count(self, finding: str, times: int, last: int | None) -> bool:
        raised = self._raised[finding] = self._raised.get(finding, 0) + times
        if raised > STORED:
            self.repeats[finding] = (raised - STORED, last)
        return raised <= STORED
