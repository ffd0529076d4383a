"""Count messages by topic, connection and peer, over intervals of capture time and in total.

An interval ends with the first message after it, so the numbers depend on the order of records and not on the sizes of
batches. The time of a message is that of its last octet, or of an earlier message if that is later: a message delayed
by a loss counts when it could be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from zmtpscope.dissect import Batch, Record
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.tables import tables_and_rows
from zmtpscope.export.top.columns import Columns, UnreadMessage, columns_of, first_and_last, first_places
from zmtpscope.export.top.counters import MAX_ROWS, SENT, Counters
from zmtpscope.export.top.message_rows import Found, MessageRows
from zmtpscope.export.top.peers import ConnectionEnds, Peer, Topic
from zmtpscope.export.top.subscriptions import Subscriptions
from zmtpscope.records import from_text
from zmtpscope.zmtp.events import SUBSCRIBE
from zmtpscope.zmtp.socket_types import PUBLISHERS, USUAL_PARTNERS

KINDS = ("topic", "connection", "peer")


MAX_HELD, TABLE_COST, SENDER_COST, FRAME_COST = 8 << 20, 3000, 400, 100
"""Octets of batches to keep until their last messages are read, and the estimated cost of a table, a sender and a frame
besides the data."""

RELEVANT = ("greeting", "command", "connection")
"""Records that identify peers or change subscriptions."""


class Interval(NamedTuple):
    """A period in nanoseconds since the epoch; `end_ns` is excluded."""

    start_ns: int
    end_ns: int


class Rates:
    """The counters of one capture. Call `feed` with each batch, then `finish`.

    Both yield the intervals that have ended; read the numbers of an interval before requesting the next one.
    """

    def __init__(self, interval_ns: int | None, most_rows: int = MAX_ROWS) -> None:
        """Without `interval_ns`, one interval contains all messages. `most_rows` limits each kind of key."""
        self.interval_ns = interval_ns
        self.topics = Counters[Topic](most_rows)
        self.connections = Counters[ConnectionEnds](most_rows)
        self.peers = Counters[Peer](most_rows)
        self.counters: dict[str, Counters[Any]] = dict(
            zip(KINDS, (self.topics, self.connections, self.peers), strict=True)
        )
        self.subscriptions = Subscriptions()
        self._rows = MessageRows(self.counters)
        self._open = self._rows.connections
        self._messages = 0
        """Number of messages in all batches so far."""
        self._held = 0
        """Octets of runs that last messages keep in memory."""
        self._first: int | None = None
        """Time of the first message of the current interval."""
        self._latest = 0
        """Time of the last message or subscription."""
        self._number = -1
        """Number of the current interval since 1970."""

    @property
    def messages_before(self) -> int:
        return int(self.topics.previous[SENT].sum())

    def feed(self, batch: Batch) -> Iterator[Interval]:
        """Count the records of a batch.

        Yields each interval that ends, before later messages are counted.
        """
        order = batch.arranged()
        records = [
            (place, item) for place, item, _ in order.between if isinstance(item, Record) and item.type in RELEVANT
        ]
        changes = [(place, record.values["ts_ns"]) for place, record in records if changes_subscribers(record)]
        rows = MessageColumns.of_arrangement(order, batch.files)
        columns = columns_of(rows, self._messages, self._latest, changes)
        self._messages += len(columns)
        places = first_places(rows)
        at = low = 0
        for high in self._ends_of_intervals(columns.times):
            if low < high:
                yield from self.tick(int(columns.times[low]))
                self._first = int(columns.times[low]) if self._first is None else self._first
                ended = []
                while at < len(records) and records[at][0] <= high and not self._is_later(records[at][1]):
                    place, record = records[at]
                    at += 1
                    if record.type == "connection":  # messages of the connection may have lower places
                        ended.append(record)
                    else:
                        self._feed_record(record, place, places)
                self._count(columns.part(slice(low, high)))
                self._latest = int(columns.times[high - 1])
                for record in ended:
                    self._feed_record(record, high, places)
            while at < len(records) and records[at][0] <= high:
                place, record = records[at]
                at += 1
                if changes_subscribers(record):
                    yield from self.tick(record.values["ts_ns"])
                self._feed_record(record, place, places)
            low = high
        self._held += TABLE_COST * len(rows.tables) + FRAME_COST * len(rows.sizes)
        self._held += sum(SENDER_COST + len(sender.data) for sender in rows.senders)
        if self._held > MAX_HELD:
            self._held = 0
            for counters in self.counters.values():
                counters.read_messages()

    def tick(self, now: int) -> Iterator[Interval]:
        """Set the time to `now` (ns); yield the current interval if it is over."""
        self._latest = max(self._latest, now)
        if self.interval_ns is None:
            return
        number = self._latest // self.interval_ns
        if number > self._number:
            if self._first is not None:
                yield self._end_interval()
            self.subscriptions.end_interval()
            self._number = number

    def finish(self) -> Iterator[Interval]:
        if self._first is not None:
            yield self._end_interval()

    def subscribers(self, topic: Topic | None) -> int | None:
        """Return how many connections have subscribed to a topic; None if its sender is no publisher."""
        if topic is None or topic.name is None or topic.sender.socket_type not in PUBLISHERS:
            return None
        return self.subscriptions.count(topic.sender, topic.name)

    # -- intervals ---------------------------------------------------------------------------------------------------

    def _ends_of_intervals(self, times: Int64) -> list[int]:
        """Return indexes that divide messages with these times into intervals: 0, the end of each interval, the end of
        all.

        `times` are not decreasing.
        """
        cuts: list[int] = []
        if self.interval_ns is not None:
            cuts = (np.flatnonzero(np.diff(times // self.interval_ns)) + 1).tolist()
        return [0, *cuts, len(times)]

    def _end_interval(self) -> Interval:
        assert self._first is not None
        interval = Interval(self._first, self._latest)
        if self.interval_ns is not None:
            start = self._number * self.interval_ns
            interval = Interval(start, start + self.interval_ns)
        topics = self.topics
        for row in topics.active_rows():
            found = topics.subscribers[row] = self.subscribers(topics.keys[row])
            if found is not None:
                topics.most_subscribers[row] = max(found, topics.most_subscribers[row] or 0)
        for counters in self.counters.values():
            counters.end_interval()
        self._first = None
        return interval

    def _is_later(self, record: Record) -> bool:
        """Whether a record changes subscriptions after the end of the current interval."""
        if self.interval_ns is None or not changes_subscribers(record):
            return False
        return bool(record.values["ts_ns"] // self.interval_ns > self._number)

    # -- records -----------------------------------------------------------------------------------------------------

    def _feed_record(self, record: Record, place: int, first_places: dict[int | None, int]) -> None:
        """Count a record that precedes the message `place` of the batch.

        `first_places` has the first message of each connection. After it, a record no longer changes the name of the
        peer.
        """
        values = record.values
        conn = values["conn"]
        if record.type == "connection":
            if (ends := self._open.end(conn)) is not None:
                self.subscriptions.end_connection(ends)
            return
        ends = self._open.of_record(values)
        if place <= first_places.get(conn, place):
            ends.learn(values["side"], values["socket_type"], values["identity"])
        if changes_subscribers(record) and values["topic"] is not None:
            if ends.socket_types[1 - values["side"]] is None:  # no start: subscriptions imply a publisher
                ends.learn(1 - values["side"], USUAL_PARTNERS["SUB"], None)
            entering = values["name"] == "SUBSCRIBE"
            self.subscriptions.change(ends, values["side"], from_text(values["topic"]), entering)

    # -- messages ----------------------------------------------------------------------------------------------------

    def _count(self, columns: Columns) -> None:
        """Count the messages of one interval; subscriptions and cancellations among them change the subscribers."""
        for place in np.flatnonzero(columns.marked).tolist():
            row, sender = int(columns.rows[place]), columns.senders[columns.sender_of[place]]
            topic = columns.messages.topic().octets[row]
            if topic is not None:
                entering = bool(columns.messages.special[row] & SUBSCRIBE)
                self.subscriptions.change(self._open.of_sender(sender), sender.stream.side or 0, topic, entering)
        self._rows.count(columns.data, self._add)

    def _add(self, columns: Columns, found: Found) -> None:
        rows, firsts, lasts = first_and_last(found.topics)
        sums = columns.sums(found.topics, len(self.topics)).part(rows)
        nothing = np.zeros(len(rows), np.bool_)
        self.topics.add(self.topics.interval, rows, sums, nothing, nothing)
        self._note(self.topics, columns, rows, columns.orders[firsts], firsts, lasts)
        senders, firsts, lasts = first_and_last(columns.sender_of)
        sums = columns.sums(columns.sender_of, len(columns.senders)).part(senders)
        is_new = self._rows.new_connections(columns)[senders]
        for kind in ("connection", "peer"):
            counters, own = self.counters[kind], [each for each in found.senders if each.kind == kind]
            for each in own:
                counters.add(counters.interval, each.rows[senders], sums, each.is_received[senders], is_new)
            # sender and receiver together, because a peer can be both
            rows = np.concatenate([each.rows[senders] for each in own])
            orders = np.concatenate([2 * columns.orders[firsts] + place for place in range(len(own))])
            self._note(counters, columns, rows, orders, np.tile(firsts, len(own)), np.tile(lasts, len(own)))

    @staticmethod
    def _note(
        counters: Counters[Any], columns: Columns, rows: Int64, orders: Int64, firsts: Int64, lasts: Int64
    ) -> None:
        """Store the first and last message of each of `rows`; a row may occur more than once.

        `firsts` and `lasts` are indexes of messages, `orders` sort rows by their first messages.
        """
        counters.note(rows, columns.times[firsts], orders)
        by_last = np.argsort(lasts, kind="stable")
        places = lasts[by_last]
        tables = columns.messages.tables
        of_messages = tables_and_rows(tables, columns.messages.places[columns.rows[places]])
        ordered = (column.tolist() for column in (rows[by_last], *of_messages, columns.times[places]))
        for row, table, row_of_table, time in zip(*ordered, strict=True):
            counters.last[row] = UnreadMessage(tables[table], row_of_table, time)


def changes_subscribers(record: Record) -> bool:
    """Whether a record is a SUBSCRIBE or CANCEL, or the end of a connection, which ends its subscriptions."""
    if record.type == "command":
        return record.values["name"] in ("SUBSCRIBE", "CANCEL")
    return record.type == "connection"
