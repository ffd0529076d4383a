"""Sides that are silent for longer than they said they would be (conformance.md 1.5, ZMTP31-PING-06).

A PING announces a time to live: where nothing follows for so long, the other side should close. What follows first is
all that counts, whatever it is; libzmq, too, stops its clock there. A second more is allowed, for a close under way.
"""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.durations import SECOND, duration
from zmtpscope.dissect.findings.timed_events import TimedEvent
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.stream.arrivals import BlockView
from zmtpscope.zmtp.reader import Finding

MILLISECOND = 1_000_000


class Announced(NamedTuple):
    """A PING that announced a time to live, with nothing behind it yet."""

    arrival: Arrival
    start: int
    length: int
    source: int
    ttl: int
    """Nanoseconds."""


class TimesToLive:
    """The times to live that both sides of one connection announce."""

    def __init__(self, view: ConnectionView) -> None:
        self.view = view
        self.awaited: tuple[list[Announced], list[Announced]] = ([], [])
        """By side: those behind which nothing has come."""
        self.notes: list[Note] = []

    def announce(self, ping: TimedEvent, behind: Arrival | None) -> None:
        """A PING was read; `behind` is the segment with the octet behind it, where that had come already."""
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
        """See what of a block comes behind the PINGs; `rows` are those with octets of either side."""
        for side, (own, awaited) in enumerate(zip(rows, self.awaited, strict=True)):
            for announced in awaited[:]:
                first = next((row for row in own if block.ordinals[row] > announced.arrival.ordinal), None)
                if first is not None:
                    awaited.remove(announced)
                    self._evaluate(side, announced, block.arrival(first))

    def end(self, closing: Arrival) -> None:
        """The connection of which nothing is missing was closed; `closing` is the first FIN or RST."""
        for side, awaited in enumerate(self.awaited):
            for announced in awaited if self.view.tcp.ended(side) else ():
                self._evaluate_silence(side, announced, closing)

    def drain(self) -> list[Note]:
        """What is to be said, of what was not given yet."""
        notes, self.notes = self.notes, []
        return notes

    def _evaluate(self, side: int, announced: Announced, behind: Arrival) -> None:
        """The side has said something again, with the segment `behind`."""
        closing = self.view.tcp.closing
        was_open = closing is None or closing[0].ordinal > behind.ordinal
        if was_open and self.view.is_whole_until(behind.ordinal):
            self._evaluate_silence(side, announced, behind)

    def _evaluate_silence(self, side: int, announced: Announced, until: Arrival) -> None:
        silent = until.time - announced.arrival.time
        if silent > announced.ttl + SECOND:
            detail = f"{duration(silent)}, and {duration(announced.ttl)} were announced"
            finding = Finding("ZMTP31-PING-06", announced.start, announced.length, None, detail)
            decided = max(until.ordinal, announced.arrival.ordinal)
            self.notes.append(Note(side, finding, announced.arrival, decided, source=announced.source))
