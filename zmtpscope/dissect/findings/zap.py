"""ZAP across the two sides of a connection: a reply has the id of a request (27/ZAP)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.notes import Note
from zmtpscope.zmtp.reader import Finding

MOST_REQUESTS = 4096
"""Requests without a reply that are remembered; the oldest is forgotten."""
MOST_TOLD = 10


class Turn(NamedTuple):
    """A request or reply of `side`, by its fields; its message stands at offset `unit` of `source`."""

    arrival: Arrival
    side: int
    unit: int
    length: int
    source: int
    fields: dict[str, Any]


class ZapTalk:
    """What is asked and answered on one connection."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        """Those of the block under way."""
        self.open: OrderedDict[tuple[int, str], None] = OrderedDict()
        """Who asked, and the id."""
        self.unasked: list[Turn] = []
        """Replies to nothing."""

    def evaluate(self) -> None:
        """Find the replies to nothing, in the order of capture. A request that is missing may still be lost, so that is
        told at the end."""
        turns, self.turns = sorted(self.turns, key=_order), []
        for turn in turns:
            id_ = turn.fields.get("request_id")
            if id_ is None:
                continue
            if turn.fields["kind"] == "request":
                self.open[turn.side, id_] = None
                if len(self.open) > MOST_REQUESTS:
                    self.open.popitem(last=False)
            elif (1 - turn.side, id_) in self.open:
                del self.open[1 - turn.side, id_]
            elif len(self.unasked) < MOST_TOLD:
                self.unasked.append(turn)

    def end(self, arrival: Arrival) -> Iterator[Note]:
        """The connection is over, and nothing of it is missing: replies that nobody asked for."""
        for turn in self.unasked:
            detail = f'nobody asked with the id "{turn.fields["request_id"]}"'
            finding = Finding("ZAP-02", turn.unit, turn.length, None, detail)
            yield Note(turn.side, finding, turn.arrival, arrival.ordinal, unit=turn.unit, source=turn.source)


def _order(turn: Turn) -> tuple[int, int, int]:
    return turn.arrival.ordinal, turn.side, turn.unit
