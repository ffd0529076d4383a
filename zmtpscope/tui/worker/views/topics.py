"""The view of topics: number, rate and size of their messages, and their last values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC
from zmtpscope.export.preview import quoted
from zmtpscope.export.statistics.report import Look, sparkline
from zmtpscope.export.top.subscriptions import Holders
from zmtpscope.export.top.table import scaled
from zmtpscope.filter.writing import begins_with, equals, every
from zmtpscope.records import SECOND, to_text
from zmtpscope.store import Store
from zmtpscope.tui.requests import Table, Wanted
from zmtpscope.tui.worker.views.known_connections import KnownConnection, KnownConnections
from zmtpscope.tui.worker.views.last_values import LastValues
from zmtpscope.tui.worker.views.subscription_changes import changes_of
from zmtpscope.tui.worker.views.tables import Column, Line, seconds, table_of
from zmtpscope.tui.worker.views.topic_counts import MESSAGES, TOPIC, TopicCounts
from zmtpscope.tui.worker.views.topic_tree import Node, nodes_of, separator_of
from zmtpscope.tui.worker.views.view import AS_IT_IS, CountingView, Step
from zmtpscope.words import counted

LONGEST_NAME = 80

HISTORY = 16
"""Number of characters of a plot over the capture."""

MAX_EXAMINED = 4096
"""Maximum rows of a line examined for senders and subscribers."""

MAX_SUBSCRIPTIONS = 16_384
"""Maximum distinct subscriptions remembered."""


MAX_LINES = 2000

TIME = attrgetter("time")
"""The order of `Counted` by its last message."""

Address = tuple[str | None, int | None]


class Counted(NamedTuple):
    """The counts of one or several topics, or of a topic on one connection; `rows` are indexes in `TopicCounts`.

    `pair` are the record numbers of the last two messages, and `time` is that of the last one.
    """

    topic: bytes | None
    """The topic; None for several topics, or for messages without topic."""
    rows: Int64
    messages: int
    octets: int
    pair: tuple[int, int]
    time: int


class Tree(NamedTuple):
    topics_then: int
    """Number of topics when it was made."""
    separator: bytes | None
    nodes: Sequence[Node]

    @classmethod
    def of(cls, topics: Sequence[bytes | None]) -> Tree:
        ordered = sorted(topic for topic in topics if topic is not None)
        separator = separator_of(ordered)
        return cls(len(topics), separator, nodes_of(ordered, separator))


class Sums:
    """Counts summed over all senders of a topic; `by_topic` is the number of messages of each."""

    def __init__(self, counts: TopicCounts) -> None:
        self._counts = counts
        topic_of = counts.columns[TOPIC]
        self.by_topic: list[int] = np.bincount(topic_of, counts.columns[MESSAGES]).astype(np.int64).tolist()
        self._rows = np.argsort(topic_of, kind="stable")
        self._edges = np.append(0, np.cumsum(np.bincount(topic_of))).tolist()
        self._columns: list[list[int]] = counts.columns[:TOPIC].tolist()

    def messages(self, topics: Sequence[bytes]) -> int:
        return sum(self.by_topic[self._counts.number(topic)] for topic in topics)

    def of_topics(self, topics: Sequence[bytes | None]) -> Counted:
        edges = self._edges
        numbers = [self._counts.number(topic) for topic in topics]
        rows = [self._rows[edges[number] : edges[number + 1]] for number in numbers]
        return self.of_rows(rows[0] if len(rows) == 1 else np.concatenate(rows))

    def of_rows(self, rows: Int64) -> Counted:
        messages, octets, last, before, times = self._columns
        numbers = rows.tolist()
        newest = max(numbers, key=last.__getitem__)
        return Counted(
            None,
            rows,
            sum(messages[row] for row in numbers),
            sum(octets[row] for row in numbers),
            (last[newest], before[newest]),
            times[newest],
        )


class TopicsView(CountingView):
    """A tree of topics. Below a topic that is sent on several connections are rows for these."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._known = KnownConnections()
        self._counts = TopicCounts()
        self._holders: dict[Address, Holders] = {}
        """Subscriptions by the address of the publisher."""
        self._subscriptions: set[tuple[int, bytes]] = set()
        self._values = LastValues(store)
        self._tree = Tree.of([])

    def feed(self, step: Step) -> None:
        for change in changes_of(step, self._known):
            subscription = change.connection.number, change.topic
            is_known = not change.is_new or subscription in self._subscriptions
            if not is_known and len(self._subscriptions) < MAX_SUBSCRIPTIONS:
                self._subscriptions.add(subscription)
                publisher = change.connection.ends.addresses[1 - change.side]
                self._holders.setdefault(publisher, Holders()).add(change.topic, change.connection.ends)
        for messages in step.messages:
            self._counts.count(messages, self.store.first_time)

    def table(self, wanted: Wanted = AS_IT_IS) -> Table:
        """Return the rows of topics by name, then a row for messages without a topic."""
        if len(self._counts.topics) != self._tree.topics_then:
            self._tree = Tree.of(self._counts.topics)
        sums = Sums(self._counts)
        lines: Iterable[Line] = self._lines(self._tree.nodes, sums)
        if None in self._counts.topics:
            lines = chain(lines, [self._topic(None, "(no topic)", sums)])
        return table_of(self._columns(), lines, wanted, self._text(), self._read)

    # -- columns -------------------------------------------------------------------------------------------------------

    def _columns(self) -> Sequence[Column]:
        duration, subscribers = self._duration, self._subscribers

        def rate(count: int) -> str:
            return scaled(count / duration * SECOND) if duration > 0 else ""

        return (
            Column("topic", "TOPIC", is_name=True),
            Column("from", "FROM", self._senders, order=self._senders, is_name=True),
            Column("messages", "MSGS", scaled, is_number=True),
            Column("rate", "MSG/S", rate, is_number=True, rank=1),
            Column("octets", "OCTETS", scaled, is_number=True, rank=3),
            Column("subscribers", "SUBS", lambda counted: str(subscribers(counted)), is_number=True, order=subscribers),
            Column("last", "LAST VALUE", lambda counted: self._values[counted.pair].text, order=TIME),
            Column("change", "CHANGE", lambda counted: self._values[counted.pair].change or "", order=TIME, rank=2),
            Column("history", "HISTORY", self._history, order=TIME, is_plot=True),
        )

    @property
    def _duration(self) -> int:
        return self._counts.last_ns - (self._counts.first_ns or 0)

    def _sides(self, counted: Counted) -> Iterator[tuple[KnownConnection, int]]:
        for conn, side in {self._counts.keys[row][1:] for row in counted.rows[:MAX_EXAMINED].tolist()}:
            if (connection := self._known.get(conn)) is not None:
                yield connection, side

    def _senders(self, counted: Counted) -> str:
        """Return the name of the sender, or the number of senders."""
        names = {connection.name(side) for connection, side in self._sides(counted)}
        return f"{len(names)} senders" if len(names) > 1 else next(iter(names), "")

    def _subscribers(self, counted: Counted) -> int:
        """Return on how many connections of its senders a topic was ever subscribed to."""
        assert counted.topic is not None
        senders = {connection.ends.addresses[side] for connection, side in self._sides(counted)}
        return sum(self._holders[sender].count(counted.topic) for sender in senders if sender in self._holders)

    def _history(self, counted: Counted) -> str:
        return sparkline(self._counts.bars(counted.rows), HISTORY, Look(HISTORY, is_unicode=True))

    def _read(self, lines: Sequence[Line]) -> None:
        self._values.read(line.values["last"].pair for line in lines if "last" in line.values)

    def _text(self) -> list[str]:
        counts, separator = self._counts, self._tree.separator
        words = [
            counted(len(counts.topics) - (None in counts.topics), "topic"),
            counted(int(counts.columns[MESSAGES].sum()), "message"),
        ]
        if counts.keys:
            words.append(f"over {seconds(self._duration)}")
        if separator is not None:
            words.append(f"as a tree by {quoted(separator.decode())}")
        text = [", ".join(words)]
        if counts.left_out:
            text.append(f"{counted(counts.left_out, 'message')} of more topics and connections than are told apart")
        return text + self._known.left_out()

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _lines(self, nodes: Sequence[Node], sums: Sums) -> Iterator[Line]:
        """Yield the rows of one level of the tree; if there are too many, the ones with most messages."""
        shown = nodes
        if len(nodes) > MAX_LINES:
            messages = np.array([sums.messages(node.topics) for node in nodes])
            shown = [nodes[place] for place in np.sort(np.argsort(-messages, kind="stable")[:MAX_LINES]).tolist()]
        for node in shown:
            yield self._node(node, sums)
        if len(shown) < len(nodes):
            label = f"and {len(nodes) - len(shown)} more with fewer messages"
            yield Line(f"others behind {to_text(nodes[0].prefix)}", {"topic": label})

    def _node(self, node: Node, sums: Sums) -> Line:
        label = quoted(to_text(node.label), LONGEST_NAME)
        if not node.is_group:
            return self._topic(node.topics[0], label, sums)
        prefix = to_text(node.prefix)
        return Line(
            f"group {prefix}",
            self._values_of(label, sums.of_topics(node.topics)),
            self._data(begins_with("topic", prefix)),
            children=lambda: list(self._lines(nodes_of(node.topics, self._tree.separator, node.prefix), sums)),
            is_sorted=True,
        )

    def _topic(self, topic: bytes | None, label: str, sums: Sums) -> Line:
        counted = sums.of_topics([topic])._replace(topic=topic)
        key = "no topic" if topic is None else f"topic {to_text(topic)}"
        below = partial(self._by_connection, key, counted.rows, _filter_of(topic), sums)
        return Line(
            key,
            self._values_of(label, counted),
            self._data(_filter_of(topic)),
            children=below if len(counted.rows) > 1 else None,
            is_sorted=True,
        )

    def _by_connection(self, key: str, rows: Int64, filter: str, sums: Sums) -> list[Line]:
        lines = []
        for (_, conn, side), row in sorted((self._counts.keys[row], row) for row in rows.tolist()):
            known = self._known.get(conn)
            label = f"on connection {conn}" if known is None else f"to {known.name(1 - side)}"
            values = self._values_of(label, sums.of_rows(np.array([row])))
            on_it = every(filter, f"conn == {conn}", f"side == {side}")
            lines.append(Line(f"{key} on {conn} {side}", values, self._data(on_it)))
        return lines

    @staticmethod
    def _values_of(label: str, counted: Counted) -> dict[str, Any]:
        return {
            "topic": label,
            "messages": counted.messages,
            "rate": counted.messages,
            "octets": counted.octets,
            "subscribers": None if counted.topic is None else counted,
            **dict.fromkeys(("from", "last", "change", "history"), counted),
        }

    def _data(self, filter: str) -> str:
        return every(filter, "kind in {data, encrypted}") if self._counts.has_marked else filter


def _filter_of(topic: bytes | None) -> str:
    if topic is None:
        return "not topic and record == message"
    text = to_text(topic)
    return begins_with("topic", text) if len(topic) == LONGEST_TOPIC else equals("topic", text)
