"""Select the requests to list for each connection: first those without a reply, then the slowest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zmtpscope.diagnosis.observers.observer import DerivedTable
from zmtpscope.diagnosis.observers.request_table import ANSWERED, LATE, OPEN, UNANSWERED, UNASKED, UNKNOWN, RequestTable

MAX_SINGLE = 100
"""Maximum requests kept of a connection."""

MAX_CONNECTIONS = 4096

RANKS = {OPEN: 0, UNANSWERED: 0, UNASKED: 1, LATE: 2, ANSWERED: 2, UNKNOWN: 3}
"""Order of outcomes."""

NAMES = ("rank", "waited", "time", "side", "source", "offset", "outcome", "reply_time", "reply_source", "reply_offset")
Kept = NDArray[np.void]
KEPT = np.dtype([(name, np.int64) for name in (*NAMES, "near")])
"""A kept request.

`waited` (ns) is negative if unknown, and so is `reply_time` without reply. `near` is a record near both.
"""


class KeptRequests:
    """Selects requests from the derived `request` records, for each connection."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}
        """Kept requests by conn_id."""

    def of_connection(self, conn_id: str) -> Sequence[np.void]:
        return list(self._kept.get(conn_id, ()))

    def __contains__(self, conn_id: str) -> bool:
        return conn_id in self._kept

    def take(self, table: DerivedTable, near: int) -> None:
        """Select requests from `table`, which was derived from the records up to number `near`."""
        if not isinstance(table, RequestTable):
            return
        conn_id = table.stream.conn_id
        before = self._kept.get(conn_id)
        if before is None and len(self._kept) == MAX_CONNECTIONS:
            return
        kept = np.concatenate([*([] if before is None else [before]), _kept_of(table, near)])
        self._kept[conn_id] = kept[_worst_first(kept)[:MAX_SINGLE]]


def _kept_of(table: RequestTable, near: int) -> Kept:
    kept = np.zeros(len(table.rows), KEPT)
    kept["rank"], kept["outcome"], kept["near"] = RANKS[table.outcome], table.outcome, near
    kept["waited"] = -1 if table.waited is None else table.waited
    kept["reply_time"] = -1
    for name in ("time", "side", "source", "offset"):
        kept[name] = [getattr(row, name) for row in table.rows]
    if table.replies is not None:
        for name in ("time", "source", "offset"):
            kept[f"reply_{name}"] = [getattr(row, name) for row in table.replies]
    return kept


def _worst_first(kept: Kept) -> NDArray[np.intp]:
    return np.lexsort((kept["offset"], kept["side"], kept["time"], -kept["waited"], kept["rank"]))
