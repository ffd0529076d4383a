"""Diagnoses as they arise, while packets still come."""

from __future__ import annotations

from zmtpscope.dissect import Batch
from zmtpscope.dissect.analyser import ENDED, Ongoing
from zmtpscope.findings import SEVERITIES
from zmtpscope.meaning.derivation import Derivation
from zmtpscope.meaning.diagnose import diagnose
from zmtpscope.meaning.diagnosis import Diagnosis

MOST_TOLD = 65_536
"""Diagnoses that are remembered as told; beyond that nothing is told any more."""


MOST_ENDED = 4096
"""Connections that are remembered once they have ended: fewer than of a file, since a capture has no end."""


class Watch:
    """`feed` it all batches of a run, and ask now and then for `news`."""

    def __init__(self) -> None:
        self._derivation = Derivation(MOST_ENDED)
        self._told: dict[tuple[str, str], int] = {}
        """Rules and subjects, with the place of the worst severity in `SEVERITIES`."""

    def feed(self, batch: Batch) -> None:
        """Learn from a batch."""
        self._derivation.feed(batch)

    def news(self, ongoing: Ongoing = ENDED) -> list[Diagnosis]:
        """Causes that were not told before, or have become worse, in the order of time. Looking takes time for each
        connection that is known. `ongoing` is that of `Analyser`, while packets still come: a request that waits, or a
        sender that is stuck, is reported while it is."""
        self._derivation.note_ongoing(ongoing)
        news = []
        for explained in diagnose(self._derivation.knowledge()):
            key = explained.diagnosis.rule, explained.diagnosis.subject
            severity = SEVERITIES.index(explained.diagnosis.severity)
            if severity < self._told.get(key, len(SEVERITIES)) and (key in self._told or len(self._told) < MOST_TOLD):
                self._told[key] = severity
                news.append(explained.diagnosis)
        return sorted(news, key=_began)


def _began(diagnosis: Diagnosis) -> int:
    return min((each.moment.ns for each in diagnosis.evidence), default=0)
