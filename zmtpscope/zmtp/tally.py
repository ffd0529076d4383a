"""How often findings were raised on one side: a million equal ones are handed up as ten and a number."""

from __future__ import annotations

from collections.abc import Sequence

from zmtpscope.zmtp.reader import Finding

STORED = 10
"""Findings of one id in remarks that are handed up; further ones are counted."""


class Tally:
    """Counts the findings of remarks, and remembers which habits were noted.

    `repeats`: for ids raised more than `STORED` times, how often beyond that, and the stream offset of the last one.
    """

    __slots__ = ("_habits", "_raised", "repeats")

    def __init__(self) -> None:
        self.repeats: dict[str, tuple[int, int | None]] = {}
        self._raised: dict[str, int] = {}
        self._habits: set[str] = set()

    def first_time(self, habit: str) -> bool:
        """Whether a habit, which shows on every frame of some implementation, is met for the first time."""
        if habit in self._habits:
            return False
        self._habits.add(habit)
        return True

    def noted(self, habit: str) -> bool:
        """Whether a habit was met before."""
        return habit in self._habits

    def keep(self, findings: Sequence[Finding]) -> tuple[Finding, ...]:
        """Count findings; gives those that are to be handed up."""
        return tuple([finding for finding in findings if self._count(finding.id, 1, finding.start)])

    def repeat(self, finding: str, times: int, last: int) -> None:
        """Count a finding that is in `repeats` already some more times; `last` is the last stream offset."""
        self._count(finding, times, last)

    def _count(self, finding: str, times: int, last: int | None) -> bool:
        raised = self._raised[finding] = self._raised.get(finding, 0) + times
        if raised > STORED:
            self.repeats[finding] = (raised - STORED, last)
        return raised <= STORED
