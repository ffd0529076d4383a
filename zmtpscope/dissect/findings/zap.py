"""Match ZAP requests and replies of a connection by request id (27/ZAP)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.notes import Note
from zmtpscope.zmtp.reader import Finding

MAX_REQUESTS = 4096
"""Open requests; the oldest is forgotten."""
MAX_WRITTEN = 10


class ZapMessage(NamedTuple):
    """A ZAP request or reply of `side`; its message is at offset `unit` of `source`."""

    arrival: Arrival
    side: int
    unit: int
    length: int
    source: int
    fields: dict[str, Any]


class ZapRequests:
    def __init__(self) -> None:
        self._messages: list[ZapMessage] = []
        self.open: OrderedDict[tuple[int, str], None] = OrderedDict()
        """Open requests by requesting side and request id."""
        self.unasked: list[ZapMessage] = []
        """Replies without a request."""

    def add(self, message: ZapMessage) -> None:
        """Add a message of the current block. Call `evaluate` after the block."""
        self._messages.append(message)

    def evaluate(self) -> None:
        """Find replies without a request, in capture order.

        They are reported at the end, because the request may be missing in the capture.
        """
        if not self._messages:
            return
        messages, self._messages = sorted(self._messages, key=_order), []
        for message in messages:
            id_ = message.fields.get("request_id")
            if id_ is None:
                continue
            if message.fields["kind"] == "request":
                self.open[message.side, id_] = None
                if len(self.open) > MAX_REQUESTS:
                    self.open.popitem(last=False)
            elif (1 - message.side, id_) in self.open:
                del self.open[1 - message.side, id_]
            elif len(self.unasked) < MAX_WRITTEN:
                self.unasked.append(message)

    def end(self, arrival: Arrival) -> Iterator[Note]:
        """Yield findings at the end of a connection without gaps."""
        for message in self.unasked:
            detail = f'no request has the id "{message.fields["request_id"]}"'
            finding = Finding("ZAP-02", message.unit, message.length, None, detail)
            yield Note(
                message.side, finding, message.arrival, arrival.ordinal, unit=message.unit, source=message.source
            )


def _order(message: ZapMessage) -> tuple[int, int, int]:
    return message.arrival.ordinal, message.side, message.unit
