"""Collect the events to draw from batches, in order of time.

Memory is bounded by `MAX_STEPS`; later events are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from zmtpscope.dissect import Batch, Options, Record
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.export.diagram.events import HEARTBEATS, BatchEvents, Event, MessageEvents, Values, event_of_record
from zmtpscope.export.diagram.folding import Fold, Step
from zmtpscope.export.diagram.repeats import Repeats
from zmtpscope.export.front import Files
from zmtpscope.export.time_order import Item, TimeOrder
from zmtpscope.export.values import record_values

MAX_STEPS = 10_000
"""Steps to keep; fewer are drawn, since repeats are folded further when all peers are known."""

Source = tuple[Record | BatchEvents, Files]


class EventSequence:
    """The events of a capture to draw.

    `chat`: include findings about normal events. `folds`: of repeated events draw the first and the last.
    """

    def __init__(self, options: Options, *, chat: bool = False, folds: bool = True) -> None:
        self.folds = folds
        self.connections: dict[int, Values] = {}
        """Records of connections with drawn events."""
        self.left_out: Counter[str] = Counter()
        """Events beyond the limit, by name."""
        self.until: int | None = None
        """Time of the last event beyond the limit."""
        self._options = options
        self._chat = chat
        self._order = TimeOrder(self._source_of)
        self._repeats = Repeats(lambda event: event.key, folds=folds)
        self._heartbeats: dict[int, Heartbeats] = {}
        self._aside: list[Step] = []
        """Heartbeats, which are folded separately."""
        self._counted: dict[Hashable, tuple[MessageEvents, int, str]] = {}
        """The last message that was only counted, with its row and name, by key."""
        self._drawn: set[int] = set()
        """Open connections with drawn events."""

    @property
    def steps(self) -> list[Step]:
        """The events to draw, and the lines for repeated events, in order of time."""
        return sorted([*self._repeats.steps, *self._aside], key=lambda step: step.time)

    def feed(self, batch: Batch) -> None:
        self._take(self._order.feed(batch))

    def finish(self) -> None:
        self._take(self._order.finish())
        self._repeats.finish()
        for heartbeats in self._heartbeats.values():
            self._aside += heartbeats.finish()
        self._heartbeats.clear()

    def _source_of(self, item: Item, files: Files) -> Source:
        if isinstance(item, Record):
            return item, files
        assert isinstance(item, MessageColumns), "frames were not requested"
        return BatchEvents(item, self._options), files

    def _take(self, ranges: Iterable[tuple[Source, list[int]]]) -> None:
        for (source, files), rows in ranges:
            if isinstance(source, Record):
                self._take_record(record_values(source, self._options), files)
                continue
            for events, low, high in source.by_sender(rows):
                if self._has_room:
                    self._take_messages(events, low, high)
                else:
                    self._leave_out("message", high - low, int(events.times[high - 1]))
        self._keep_counted()  # its references keep large objects in memory

    @property
    def _has_room(self) -> bool:
        return len(self._repeats) + len(self._aside) < MAX_STEPS

    def _leave_out(self, name: str, count: int, time: int) -> None:
        self.left_out[name] += count
        self.until = max(time, self.until or time)

    def _take_record(self, values: Values, files: Files) -> None:
        conn = values["conn"]
        if values["record"] == "connection":
            if (heartbeats := self._heartbeats.pop(conn, None)) is not None:
                self._aside += heartbeats.finish()
            if conn in self._drawn or self._has_room:
                self.connections[conn] = values
            self._drawn.discard(conn)
            return
        event = event_of_record(values, files, chat=self._chat)
        if event is None:
            return
        if not self._has_room:
            self._leave_out(event.kind, 1, event.time)
            return
        if conn is not None:
            self._drawn.add(conn)
        if self.folds and conn is not None and event.name in HEARTBEATS and event.kind == "command":
            if conn not in self._heartbeats:
                self._heartbeats[conn] = Heartbeats()
            self._aside += self._heartbeats[conn].feed(event)
        else:
            self._keep_counted()
            self._repeats.feed(event)

    def _take_messages(self, events: MessageEvents, low: int, high: int) -> None:
        if events.ends.conn is not None:
            self._drawn.add(events.ends.conn)
        for name, begin, end in events.alike(low, high):
            self._take_alike(events, name, begin, end)

    def _take_alike(self, events: MessageEvents, name: str, row: int, high: int) -> None:
        """Add consecutive messages `row..high` of one sender that have the same name; `high` is excluded.

        Repeated ones are counted many at a time.
        """
        repeats, key, times = self._repeats, events.key(name), events.times
        while row < high:
            if repeats.only_counts(key):
                repeats.count(key, name, high - row, int(times[row]), int(times[high - 1]))
                self._counted[key] = events, high - 1, name
                return
            self._keep_counted()
            repeats.feed(events.event(row, name))
            row += 1
            between = high - 1 - row
            if repeats.can_pass_by(key, between):
                repeats.pass_by(between, name, int(times[high - 2]))
                row = high - 1

    def _keep_counted(self) -> None:
        for events, row, name in self._counted.values():
            self._repeats.keep(events.event(row, name))
        self._counted.clear()


class Heartbeats:
    """PINGs and PONGs of one connection.

    The first answered PING and all unanswered ones are drawn; the others are counted.
    """

    def __init__(self) -> None:
        self._open: list[Event | None] = [None, None]
        """Unanswered PING of each side."""
        self._names: Counter[str] = Counter()
        self._since = self._until = 0
        self._cycle: tuple[Event, ...] = ()
        """First answered PING with its PONG."""

    def feed(self, event: Event) -> list[Event]:
        """Add a PING or PONG; return the events that are to be drawn now."""
        is_answer = HEARTBEATS[event.name]
        assert event.side is not None
        asker = 1 - event.side if is_answer else event.side
        asked, self._open[asker] = self._open[asker], None if is_answer else event
        if not is_answer:
            return [] if asked is None else [asked]
        if asked is None:
            return [event]
        if not self._cycle:
            self._cycle = (asked, event)
            return [asked, event]
        if not self._names:
            self._since = asked.time
        self._names.update((asked.name, event.name))
        self._until = event.time
        return []

    def finish(self) -> list[Step]:
        steps: list[Step] = [asked for asked in self._open if asked is not None]
        if self._names:
            steps.append(Fold(self._since, self._until, self._names, self._cycle, in_order=False))
        return steps
