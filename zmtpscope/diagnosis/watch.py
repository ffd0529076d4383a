from __future__ import annotations

from operator import attrgetter

from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.diagnosis.diagnosis import Diagnosis
from zmtpscope.dissect import Batch
from zmtpscope.dissect.analyser import ENDED, Ongoing
from zmtpscope.findings import SEVERITIES

MAX_REPORTED = 65_536
"""Diagnoses to report."""


MAX_ENDED = 4096
"""Ended connections to remember: fewer than for a file, because live capture does not end."""


class Watch:
    """Reports new diagnoses of a live capture: call `feed` with all batches, and `news` from time to time."""

    def __init__(self) -> None:
        self._derivation = Derivation(MAX_ENDED)
        self._reported: dict[tuple[str, str], int] = {}
        """Worst severity reported so far, as an index of `SEVERITIES`, by rule and subject."""

    def feed(self, batch: Batch) -> None:
        self._derivation.feed(batch)

    def news(self, ongoing: Ongoing = ENDED) -> list[Diagnosis]:
        """Return diagnoses that are new or have become worse, in order of time.

        Its cost grows with the number of known connections. `ongoing` comes from `Analyser`, so that a pending request
        or a blocked sender is reported while it lasts.
        """
        self._derivation.note_ongoing(ongoing)
        news = []
        for explained in diagnose(self._derivation.knowledge()):
            key = explained.diagnosis.rule, explained.diagnosis.subject
            severity = SEVERITIES.index(explained.diagnosis.severity)
            if severity < self._reported.get(key, len(SEVERITIES)) and (
                key in self._reported or len(self._reported) < MAX_REPORTED
            ):
                self._reported[key] = severity
                news.append(explained.diagnosis)
        return sorted(news, key=attrgetter("began_ns"))
