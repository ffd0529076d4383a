"""Rules for single messages: conditions over columns, by socket type of the sender (conformance.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.zmtp.events import SPECIAL
from zmtpscope.zmtp.framing import MORE
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.socket_types import PUBLISHERS, REQUEST_ID_SIZE, SINGLE_PART, SUBSCRIBERS


class RowRule(NamedTuple):
    """A rule for messages.

    The messages whose indexes `broken` returns raise the finding `id`; `peer` limits the rule to this receiving socket
    type.
    """

    id: str
    broken: Callable[[MessageTable], Int64]
    peer: str | None = None


def _plain(run: MessageTable) -> Int64:
    return np.flatnonzero(((run.flags[run.first] & SPECIAL) == 0) & run.complete)


def _multipart(run: MessageTable) -> Int64:
    plain = _plain(run)
    several: Int64 = plain[run.last[plain] > run.first[plain]]
    return several


def _without_delimiter(run: MessageTable) -> Int64:
    """Return the indexes of messages without an empty frame before the last frame."""
    plain = _plain(run)
    empty = np.concatenate(([0], np.cumsum((run.sizes == 0) & ((run.flags & MORE) != 0))))
    without: Int64 = plain[empty[run.last[plain]] == empty[run.first[plain]]]
    return without


def _does_not_begin_with_delimiter(run: MessageTable) -> Int64:
    """Return the indexes of messages that start neither with an empty frame nor with a request id and an empty frame.

    A message of one empty frame is a probe.
    """
    plain = _plain(run)
    first, last = run.first[plain], run.last[plain]
    second = np.minimum(first + 1, last)
    delimited = run.sizes[first] == 0
    numbered = (run.sizes[first] == REQUEST_ID_SIZE) & (last > second) & (run.sizes[second] == 0)
    neither: Int64 = plain[~(delimited | numbered)]
    return neither


ROW_RULES: dict[str, tuple[RowRule, ...]] = {
    "PULL": (RowRule("PIPELINE-01", _plain),),
    "SUB": (RowRule("ZMTP-SUB-07", _plain),),
    "REQ": (RowRule("REQREP-01", _does_not_begin_with_delimiter),),
    "REP": (RowRule("REQREP-03", _without_delimiter),),
    "ROUTER": (RowRule("REQREP-03", _does_not_begin_with_delimiter, peer="REQ"),),
    "DEALER": (RowRule("REQREP-05", _without_delimiter, peer="REP"),),
    **{name: (RowRule("TS-01", _multipart),) for name in SINGLE_PART},
}


JUDGED_TYPES = frozenset(ROW_RULES) | PUBLISHERS | SUBSCRIBERS | {"RADIO"}
"""Sender socket types with findings: by these rules, or by comparison with the other side."""


def broken_rows(run: MessageTable) -> list[tuple[str, Int64]]:
    """Return (finding id, indexes of messages) for every broken rule.

    Messages after lost octets are not checked: the first one may be the rest of a message.
    """
    rules = ROW_RULES.get(run.socket_type or "", ()) if run.sender.confidence == "proven" else ()
    return [(rule.id, rule.broken(run)) for rule in rules if rule.peer is None or rule.peer == run.peer_socket_type]


def note_on(run: MessageTable, row: int, side: int, finding_id: str) -> Note:
    first, last = int(run.first[row]), int(run.last[row])
    start = int(run.offsets[first])
    length = int(run.bodies[last] + run.sizes[last]) - start
    arrival = Arrival(int(run.orders[row]), int(run.packets[row]), int(run.times[row]))
    return Note(side, Finding(finding_id, start, length), arrival, arrival.ordinal, source=run.source)
