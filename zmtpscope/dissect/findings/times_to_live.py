"""Report sides that are silent for longer than the TTL that they announced (conformance.md, ZMTP31-PING-06).

If nothing follows a PING within its time to live, the other side should close. Any traffic counts, as in libzmq. One
more second is allowed for a close in flight.
"""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.findings.timed_events import TimedEvent
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.stream.arrivals import BlockView
from zmtpscope.records import SECOND
from zmtpscope.words import duration
from zmtpscope.zmtp.reader import Finding

MILLISECOND = 1_000_000


class Announced(NamedTuple):
    """A PING with a time to live, until octets of its side follow."""

    arrival: Arrival
    start: int
    length: int
    source: int
    ttl: int


class TimesToLive:
    def __init__(self, view: ConnectionView) -> None:
        self.view = view
        self.awaited: tuple[list[Announced], list[Announced]] = ([], [])
        """PINGs without later octets, by side."""
        self.notes: list[Note] = []

    def announce(self, ping: TimedEvent, behind: Arrival | None) -> None:
        """Add a PING; `behind` is the segment with the octet after it, if that is already captured."""
        event = ping.event
        ttl = event.fields.get("ttl_ms")
        if ttl and ping.certain:
            length = event.stop - event.start
            announced = Announced(ping.arrival, event.start, length, ping.source, ttl * MILLISECOND)
            if behind is None:
                self.awaited[ping.side].append(announced)
            else:
                self._evaluate(ping.side, announced, behind)

    def look_behind(self, block: BlockView, rows: tuple[list[int], list[int]]) -> None:
        """Check the PINGs that octets have followed in this block.

        `rows` are, for each side, the rows of the block with its octets.
        """
        for side, (own, awaited) in enumerate(zip(rows, self.awaited, strict=True)):
            for announced in awaited[:]:
                first = next((row for row in own if block.ordinals[row] > announced.arrival.ordinal), None)
                if first is not None:
                    awaited.remove(announced)
                    self._evaluate(side, announced, block.arrival(first))

    def until(self, side: int) -> int:
        """Return the time (ns) up to which the next octets of a side cause no finding; 0 if their time does not
        matter."""
        return min((each.arrival.time + each.ttl + SECOND for each in self.awaited[side]), default=0)

    def note_next_octets(self, side: int, arrival: Arrival) -> None:
        """Check the PINGs of a side; `arrival` is the segment with the first octets after them."""
        while self.awaited[side]:
            self._evaluate(side, self.awaited[side].pop(0), arrival)

    def end(self, closing: Arrival) -> None:
        """Check the last PINGs at the end of a connection; `closing` is the first FIN or RST.

        The connection was captured completely.
        """
        for side, awaited in enumerate(self.awaited):
            for announced in awaited if self.view.tcp.ended(side) else ():
                self._evaluate_silence(side, announced, closing)

    def drain(self) -> list[Note]:
        notes, self.notes = self.notes, []
        return notes

    def _evaluate(self, side: int, announced: Announced, behind: Arrival) -> None:
        """Report that `side` was silent for too long after a PING; the segment `behind` ended the silence."""
        closing = self.view.tcp.closing
        was_open = closing is None or closing[0].ordinal > behind.ordinal
        if was_open and self.view.is_whole_until(behind.ordinal):
            self._evaluate_silence(side, announced, behind)

    def _evaluate_silence(self, side: int, announced: Announced, until: Arrival) -> None:
        silent = until.time - announced.arrival.time
        if silent > announced.ttl + SECOND:
            detail = f"{duration(silent)}; its TTL is {duration(announced.ttl)}"
            finding = Finding("ZMTP31-PING-06", announced.start, announced.length, None, detail)
            decided = max(until.ordinal, announced.arrival.ordinal)
            self.notes.append(Note(side, finding, announced.arrival, decided, source=announced.source))
