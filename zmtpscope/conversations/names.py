"""Collect topics and identities, for the error message about an unknown one."""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect import Batch
from zmtpscope.records import to_text
from zmtpscope.zmtp.events import MARKED

MAX_NAMES = 10_000
"""Topics, and identities, to remember."""
LONGEST_NAME = 256
"""Octets of a name."""


class Names:
    """Names of topics, connections and peers in all batches passed to `feed`, spelled as in records."""

    def __init__(self) -> None:
        self.identities: set[str] = set()
        self._topics: set[bytes] = set()

    @property
    def topics(self) -> set[str]:
        """Return the topics of published messages."""
        return set(map(to_text, self._topics))

    def feed(self, batch: Batch) -> None:
        for record in batch.records:
            identity = record.values.get("identity")
            if identity and len(identity) <= LONGEST_NAME and len(self.identities) < MAX_NAMES:
                self.identities.add(identity)
        for run in batch.by_sender():
            if run.topics is None or len(self._topics) >= MAX_NAMES:
                continue
            marked = (run.flags[run.first] & MARKED) != 0  # subscriptions are not published topics
            rows = np.flatnonzero((run.topics > 0) & (run.topics <= LONGEST_NAME) & ~marked)
            starts = run.bodies[run.first[rows]] - run.base
            stops = starts + run.topics[rows]
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
                self._topics.add(run.data[start:stop])
