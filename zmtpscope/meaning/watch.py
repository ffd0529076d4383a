"""Diagnoses as they arise, while packets still come."""

from __future__ import annotations

from zmtpscope.dissect import Batch
from zmtpscope.meaning.derivation import Derivation
from zmtpscope.meaning.diagnose import diagnose
from zmtpscope.meaning.diagnosis import Diagnosis

MOST_TOLD = 65_536
"""Diagnoses that are remembered as told; beyond that nothing is told any more."""


class Watch:
    """`feed` it all batches of a run, and ask now and then for `news`."""

    def __init__(self) -> None:
        self._derivation = Derivation()
        self._told: set[tuple[str, str]] = set()

    def feed(self, batch: Batch) -> None:
        """Learn from a batch."""
        self._derivation.feed(batch)

    def news(self) -> list[Diagnosis]:
        """Causes that were not told before, in the order of time. Looking takes time for each connection that is
        known."""
        news = []
        for explained in diagnose(self._derivation.knowledge()):
            key = explained.diagnosis.rule, explained.diagnosis.subject
            if key not in self._told and len(self._told) < MOST_TOLD:
                self._told.add(key)
                news.append(explained.diagnosis)
        return sorted(news, key=_began)


def _began(diagnosis: Diagnosis) -> int:
    return min((each.moment.ns for each in diagnosis.evidence), default=0)
