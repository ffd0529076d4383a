from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.matching import MessageRow
from zmtpscope.diagnosis.observers.observer import DerivedTable, derived
from zmtpscope.dissect import Record
from zmtpscope.dissect.identity import Stream
from zmtpscope.records import to_text

ANSWERED, LATE, OPEN, UNANSWERED, UNASKED, UNKNOWN = range(6)
OUTCOMES = ("answered", "late", "open", "unanswered", "unasked", "unknown")


@dataclass(slots=True, eq=False)
class RequestTable(DerivedTable):
    """Derived `request` records as columns: requests of one side with the same outcome, or replies without a request.

    `rows` are the requests (for the outcome `UNASKED` the replies), and `replies` their replies. `decided` are the
    ordinals of the segments that decided the outcome, and `until` the times (ns) of the replies, or when the client
    gave up.
    """

    stream: Stream
    socket_types: tuple[str | None, str | None]
    files: Sequence[str | None]
    outcome: int
    rows: Sequence[MessageRow]
    decided: Sequence[int]
    until: Sequence[int] | None
    replies: Sequence[MessageRow] | None
    lost_from: int | None
    """Offset in the asker's stream from which no octets were acknowledged."""

    @property
    def waited(self) -> list[int] | None:
        """How long each request waited (ns), until its reply or until it was given up; None if that is unknown."""
        until = self.until if self.replies is None else [reply.time for reply in self.replies]
        if until is None:
            return None
        return [end - row.time if end > row.time else 0 for row, end in zip(self.rows, until, strict=True)]

    def records(self) -> Iterator[Record]:
        waited = self.waited
        for place, row in enumerate(self.rows):
            own = self._message(row)
            if waited is not None:
                own["waited_ns"] = waited[place]
            if self.replies is not None:
                own["acknowledged"] = True
                own["latency_ns"] = own["waited_ns"]
                own.update(_reply(self.replies[place]))
            moment = Moment.of_packet(row.time, row.packet, self.files)
            yield derived("request", self.decided[place], moment, self.stream, **own)

    def _message(self, row: MessageRow) -> dict[str, Any]:
        values: dict[str, Any] = {
            "outcome": OUTCOMES[self.outcome],
            "socket_type": self.socket_types[0],
            "peer_socket_type": self.socket_types[1],
            "source": row.source,
            "envelope": list(map(to_text, row.envelope)),
        }
        if self.outcome == UNASKED:
            return values | _reply(row)
        if self.lost_from is not None and row.source == 0 and row.offset + row.length > self.lost_from:
            values["acknowledged"] = False
        return values | {"offset": row.offset, "length": row.length, "size": row.size}


def _reply(row: MessageRow) -> dict[str, int]:
    return {
        "reply_ts_ns": row.time,
        "reply_packet": row.packet & PACKET_MASK,
        "reply_offset": row.offset,
        "reply_size": row.size,
    }
