"""The last messages of each side: which of them the other side never acknowledged is known later."""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect.records.batch import MessageRun
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.meaning.observers.observed import ObservedMessages
from zmtpscope.meaning.observers.observer import DerivedTable, Observer, Rows

MOST = 32
"""A side sends few segments more than are acknowledged."""


class LastMessagesObserver(Observer):
    """Those of one connection."""

    def rows(self, rows: Rows) -> None:
        for side, runs in zip(self.observed.sides, rows.sides, strict=True):
            for run in runs:
                if run.source:  # offsets are those of boxes
                    continue
                columns, known = _last_of(run), side.last_messages
                count = len(run.first)
                if known is not None:
                    count += known.columns.shape[1] if known.are_all else MOST
                    columns = np.concatenate((known.columns, columns), axis=1)[:, -MOST:]
                side.last_messages = ObservedMessages(columns, rows.files, count <= MOST)

    def derive(self) -> list[DerivedTable]:
        return []

    def finish(self, ordinal: int) -> list[DerivedTable]:
        for side in self.observed.sides:
            if side.last_outage is None:
                side.last_messages = None
        return []


def _last_of(run: MessageRun) -> Int64:
    last = run.last[-MOST:]
    return np.stack((run.times[-MOST:], run.packets[-MOST:], run.bodies[last] + run.sizes[last]))
