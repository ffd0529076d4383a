"""The topics and identities of a run, for a sentence about one that is not there."""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect import Batch
from zmtpscope.records import to_text
from zmtpscope.zmtp.events import MARKED

MOST_NAMES = 10_000
"""So many of each are remembered, ..."""
LONGEST_NAME = 256
"""... none of more octets."""


class Names:
    """What `feed` came across; as records have it."""

    def __init__(self) -> None:
        self.identities: set[str] = set()
        self._topics: set[bytes] = set()

    @property
    def topics(self) -> set[str]:
        """Those of messages that were published."""
        return set(map(to_text, self._topics))

    def feed(self, batch: Batch) -> None:
        """Take in the names of a batch."""
        for record in batch.records:
            identity = record.values.get("identity")
            if identity and len(identity) <= LONGEST_NAME and len(self.identities) < MOST_NAMES:
                self.identities.add(identity)
        for run in batch.runs:
            if run.topics is None or len(self._topics) >= MOST_NAMES:
                continue
            marked = (run.flags[run.first] & MARKED) != 0  # subscriptions are no names of what is published
            rows = np.flatnonzero((run.topics > 0) & (run.topics <= LONGEST_NAME) & ~marked)
            starts = run.bodies[run.first[rows]] - run.base
            stops = starts + run.topics[rows]
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
                self._topics.add(run.data[start:stop])
