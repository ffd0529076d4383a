"""The view of subscriptions: who has subscribed to what, when, and what came of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, starmap

from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC
from zmtpscope.export.preview import quoted
from zmtpscope.export.top.table import scaled
from zmtpscope.export.words import counted
from zmtpscope.filter.quoting import begins_with, every
from zmtpscope.meaning.resubscribing import NotMadeAgain, not_made_again
from zmtpscope.meaning.subscriptions import ref_of_subscription
from zmtpscope.meaning.words import name_of
from zmtpscope.records import SECOND, to_text
from zmtpscope.store import Store
from zmtpscope.tui.requests import Sort
from zmtpscope.tui.worker.views.derived import DerivedView
from zmtpscope.tui.worker.views.known_connections import KnownConnection, KnownConnections
from zmtpscope.tui.worker.views.subscription_changes import Change, changes_of
from zmtpscope.tui.worker.views.tables import Column, Line, seconds, table_of
from zmtpscope.tui.worker.views.times import since_start
from zmtpscope.tui.worker.views.topic_counts import TopicCounts
from zmtpscope.tui.worker.views.view import Step, ViewTable
from zmtpscope.zmtp.socket_types import SUBSCRIBERS

MOST_SUBSCRIPTIONS = 16_384
"""Topics and connections that are told apart."""

LONGEST_NAME = 80
"""Characters of a topic that are shown."""

LATE_NS = SECOND // 20
"""A subscription that comes so long after the handshake misses what is published until then. (Those of an application
that subscribes before it connects come with the handshake.)"""

EVERYTHING = "(everything)"
NOT_MADE_AGAIN = "not made again after the reconnect"


@dataclass(slots=True)
class Subscription:
    """What a side of a connection has subscribed to: since when, and by which record."""

    connection: KnownConnection
    side: int
    topic: bytes
    since_ns: int
    number: int
    cancelled_ns: int | None = None

    @property
    def delay(self) -> int | None:
        """How long after the handshake it came, in nanoseconds; None where the capture lacks that."""
        ready = self.connection.ready_ns
        return None if ready is None else max(0, self.since_ns - ready)

    @property
    def until_ns(self) -> int | None:
        """When it was cancelled, or its connection ended."""
        return self.connection.ended_ns if self.cancelled_ns is None else self.cancelled_ns

    @property
    def state(self) -> str:
        """What became of it."""
        if self.cancelled_ns is not None:
            return "cancelled"
        return "subscribed" if self.connection.ended_ns is None else "until the connection ended"


class Matches:
    """How many messages there are that begin with a subscription, by the connection and side that sent them."""

    def __init__(self, counts: TopicCounts) -> None:
        self._topics: dict[tuple[int, int], list[bytes]] = {}
        self._sums: dict[tuple[int, int], list[int]] = {}
        keyed = zip(counts.keys, counts.messages.tolist(), strict=True)
        for key, count in sorted((key, count) for key, count in keyed if key.topic is not None):
            side = key.conn, key.side
            self._topics.setdefault(side, []).append(key.topic or b"")
            self._sums.setdefault(side, []).append(count)
        for sender, each in self._sums.items():
            self._sums[sender] = list(accumulate(each, initial=0))

    def of_subscription(self, subscription: Subscription) -> int:
        """Those that the other side of its connection sent."""
        sender = subscription.connection.number, 1 - subscription.side
        topics, prefix = self._topics.get(sender, []), subscription.topic
        first = bisect_left(topics, prefix)
        behind = bisect_right(topics, prefix + b"\xff" * (LONGEST_TOPIC + 1))
        return self._sums[sender][behind] - self._sums[sender][first] if topics else 0


class SubscriptionsView(DerivedView):
    """A line for each topic that a connection subscribed to, for each that it had before it connected again and has not
    since, and for each subscriber that never subscribed."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._known = KnownConnections()
        self._counts = TopicCounts()
        self._subscriptions: dict[tuple[int, int, bytes], Subscription] = {}
        self._left_out = 0

    def feed(self, step: Step) -> None:
        """Count the next records, and derive from them."""
        super().feed(step)
        for change in changes_of(step, self._known):
            self._change(change)
        for messages in step.messages:
            self._counts.count(messages, self.store.first_time)

    def _change(self, change: Change) -> None:
        key = change.connection.number, change.side, change.topic
        subscription = self._subscriptions.get(key)
        if subscription is None:
            if not change.is_new:
                return  # of something from before the capture
            if len(self._subscriptions) == MOST_SUBSCRIPTIONS:
                self._left_out += 1
                return
            of_it = change.connection, change.side, change.topic, change.time, change.number
            subscription = self._subscriptions[key] = Subscription(*of_it)
        subscription.cancelled_ns = None if change.is_new else change.time

    def table(self, sort: Sort | None = None, opened: Collection[str] = (), most: int = 1000) -> ViewTable:
        """What was not made again after a reconnect, then all by connection, in the order in which they were made."""
        shown_time, matches = since_start(self.store), Matches(self._counts)
        columns = (
            Column("subscriber", "SUBSCRIBER"),
            Column("publisher", "AT"),
            Column("topic", "SUBSCRIBED TO"),
            Column("since", "SINCE", shown_time, is_number=True),
            Column("delay", "AFTER HANDSHAKE", seconds, is_number=True),
            Column("messages", "MATCHED", scaled, is_number=True),
            Column("state", "STATE"),
            Column("until", "UNTIL", shown_time, is_number=True),
        )
        subscriptions = sorted(self._subscriptions.values(), key=lambda each: (each.connection.number, each.number))
        lost = list(not_made_again(self.knowledge))
        lines = chain(
            (line for each in lost for line in self._lost(each)),
            (self._line(each, matches) for each in subscriptions),
            starmap(self._silent, self._without()),
        )
        return table_of(columns, lines, sort, opened, most, list(self._text(subscriptions, matches, lost)))

    def _lost(self, lost: NotMadeAgain) -> Iterator[Line]:
        connection, side = lost.before.connection, lost.before.side
        who = name_of(lost.after.connection, lost.after.side), name_of(lost.after.connection, 1 - lost.after.side)
        for each in lost.subscriptions:
            shown = quoted(to_text(each.topic), LONGEST_NAME) if each.topic else EVERYTHING
            values = (*who, shown, each.moment.ns, None, None, NOT_MADE_AGAIN, lost.after.connection.start.ns)
            ref = ref_of_subscription(connection, side, each)
            yield Line(f"lost {ref}", values, "", "warn", partial(self.store.find, ref))

    def _line(self, subscription: Subscription, matches: Matches) -> Line:
        known, side, topic = subscription.connection, subscription.side, subscription.topic
        conn, text = known.number, to_text(topic)
        matched = matches.of_subscription(subscription)
        values = (
            known.name(side),
            known.name(1 - side),
            quoted(text, LONGEST_NAME) if topic else EVERYTHING,
            subscription.since_ns,
            subscription.delay,
            matched,
            subscription.state,
            subscription.until_ns,
        )
        kinds = "kind in {data, encrypted}" if self._counts.has_marked else "record == message"
        filter = every(f"conn == {conn}", f"side == {1 - side}", begins_with("topic", text), kinds)
        style = "warn" if (subscription.delay or 0) >= LATE_NS else ""
        return Line(f"{conn} {side} {text}", values, filter, style, subscription.number)

    def _without(self) -> Iterator[tuple[KnownConnection, int]]:
        """Sides that said they are subscribers, and of which no subscription was seen."""
        subscribed = {(conn, side) for conn, side, _ in self._subscriptions}
        for known in sorted(self._known, key=lambda each: each.number):
            for side in (0, 1):
                is_subscriber = known.ends.socket_types[side] in SUBSCRIBERS
                if is_subscriber and (known.number, side) not in subscribed:
                    yield known, side

    @staticmethod
    def _silent(known: KnownConnection, side: int) -> Line:
        conn = known.number
        values = (known.name(side), known.name(1 - side), None, None, None, None, "has not subscribed", None)
        return Line(f"{conn} {side} without", values, f"conn == {conn} and side == {side}", "warn")

    def _text(
        self, subscriptions: Collection[Subscription], matches: Matches, lost: Collection[NotMadeAgain]
    ) -> Iterator[str]:
        words = [counted(len(subscriptions), "subscription")]
        without = sum(1 for _ in self._without())
        if without:
            words.append(f"{counted(without, 'subscriber')} without any")
        unmatched = sum(not matches.of_subscription(each) for each in subscriptions)
        if unmatched:
            words.append(f"{unmatched} that no message matched")
        not_again = sum(len(each.subscriptions) for each in lost)
        if not_again:
            words.append(f"{not_again} that {'was' if not_again == 1 else 'were'} not made again after a reconnect")
        yield ", ".join(words)
        late = sum((each.delay or 0) >= LATE_NS for each in subscriptions)
        if late:
            after = f"more than {LATE_NS // 1_000_000} ms after the handshake"
            yield f"{late} of them {after}: what was published before did not reach the subscriber"
        if self._left_out:
            yield f"{counted(self._left_out, 'subscription')} more than the {MOST_SUBSCRIPTIONS} that are told apart"
        yield from self._known.left_out()
