"""The subscriptions of each side, and the messages that match them.

Subscriptions are counted as in libzmq: one CANCEL ends any number of equal subscriptions (wire.md 10.2), but each LEAVE
only one JOIN (10.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import JOIN, ObservedSubscription, ObservedSubscriptions
from zmtpscope.diagnosis.observers.observer import DerivedTable, Observer, Rows, SocketTypes, derived
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.diagnosis.observers.topics import PublishedTopics
from zmtpscope.dissect import Record
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC
from zmtpscope.dissect.records.topics import COMMANDS, ENTERING, GROUP_COMMANDS, first_frames
from zmtpscope.records import from_text, to_text
from zmtpscope.zmtp.events import MARKED, SUBSCRIBE
from zmtpscope.zmtp.socket_types import PUBLISHERS_AND_RADIO, SUBSCRIBERS
from zmtpscope.zmtp.trie import NODE_COST, Trie

MAX_OPEN = 16_384
"""Active subscriptions of a side to follow."""

MAX_ENDED = 1024
"""Ended subscriptions to remember; the oldest are forgotten."""

SUBSCRIPTION_COST = 640 + 2 * NODE_COST
"""Memory of a subscription without its topic."""


class Change(NamedTuple):
    """A subscription that begins (`is_new`) or ends. The segment `ordinal` decided it; the other fields locate its
    octets."""

    ordinal: int
    source: int
    offset: int
    length: int
    topic: bytes
    is_new: bool
    form: str
    moment: Moment


class Subscriptions:
    def __init__(self, observed: ObservedConnection, side: int, room: Room) -> None:
        self.observed = observed
        self.side = side
        self.room = room
        self._known: ObservedSubscriptions | None = None
        self._changes: list[Change] = []
        """Changes not in force yet."""
        self._topics = Trie()
        self._matching: dict[bytes, list[ObservedSubscription]] = {}
        """Cached matches of topics, since the last change."""
        self._ended: list[tuple[ObservedSubscription, int]] = []
        """Those ended since the last `derive`, each with the deciding segment."""

    def feed(self, record: Record) -> None:
        """Apply a command SUBSCRIBE, CANCEL, JOIN or LEAVE."""
        values = record.values
        is_group, is_new = values["name"] in GROUP_COMMANDS, values["name"] in ENTERING
        name = values["group" if is_group else "topic"]
        if name is not None:
            place = record.order[0], values["source"], values["offset"], values["length"]
            form = JOIN if is_group else "command"
            self._changes.append(Change(*place, from_text(name)[:LONGEST_TOPIC], is_new, form, Moment.of(values)))

    def feed_rows(self, rows: Rows) -> None:
        """Apply messages that subscribe or cancel, as ZMTP before 3.1 has no commands for that."""
        for run in rows.sides[self.side]:
            kinds = run.flags[run.first] & MARKED
            for row in np.flatnonzero(kinds).tolist():
                topic, frame = run.topic(row), int(run.first[row])
                if topic is not None:
                    place = int(run.orders[row]), run.source, int(run.offsets[frame]), run.length(frame, frame)
                    moment = Moment.of_row(run, row, rows.files)
                    is_new = bool(kinds[row] == SUBSCRIBE)
                    self._changes.append(Change(*place, topic[:LONGEST_TOPIC], is_new, "message", moment))

    def parts(self, run: MessageTable) -> Iterator[MessageTable]:
        """Yield the messages of the publisher in parts, so that the same subscriptions are active for all messages of a
        part.

        Before a part is yielded, subscriptions that precede it become active.
        """
        self._changes.sort()
        orders = run.orders
        begin = 0
        while begin < len(orders):
            self._put_in_force(int(orders[begin]))
            end = len(orders)
            if self._changes:
                end = int(orders.searchsorted(self._changes[0].ordinal))
            yield run if end - begin == len(orders) else run.part(begin, end)
            begin = end

    @property
    def has_begun(self) -> bool:
        return self._known is not None

    def matching(self, topic: bytes) -> list[ObservedSubscription]:
        found = self._matching.get(topic)
        if found is None:
            known = {} if self._known is None else self._known.open
            found = [each for name in self._topics.prefixes_of(topic) if (each := known[name]).matches(topic)]
            if len(self._matching) == MAX_OPEN:
                self._matching.clear()
            self._matching[topic] = found
        return found

    def derive(self) -> list[DerivedTable]:
        if self._changes:
            self._changes.sort()
            self._put_in_force(self._changes[-1].ordinal)
        ended, self._ended = self._ended, []
        return [SubscriptionTable(self.observed, self.side, ended)] if ended else []

    def finish(self, ordinal: int) -> list[DerivedTable]:
        tables = self.derive()
        if self._known is not None:
            for subscription in self._known.open.values():
                if not self.observed.is_open:
                    subscription.until_ns, subscription.ended_by = self.observed.last_ns, "close"
                self._ended.append((subscription, ordinal))
        return tables + self.derive()

    # -- changes -----------------------------------------------------------------------------------------------------

    def _put_in_force(self, ordinal: int) -> None:
        if not self._changes or self._changes[0].ordinal > ordinal:
            return
        if self._known is None:
            self._known = self.observed.sides[self.side].subscriptions = ObservedSubscriptions()
        count = next((at for at, each in enumerate(self._changes) if each.ordinal > ordinal), len(self._changes))
        for change in self._changes[:count]:
            if change.is_new:
                self._subscribe(change, self._known)
            else:
                self._cancel(change, self._known)
        del self._changes[:count]
        self._matching.clear()

    def _subscribe(self, change: Change, known: ObservedSubscriptions) -> None:
        held = known.open.get(change.topic)
        if held is not None:
            held.times += 1
        elif len(known.open) >= MAX_OPEN or not self.room.take(self.observed, _cost(change.topic)):
            known.left_out += 1
        else:
            place = change.source, change.offset, change.length
            known.open[change.topic] = ObservedSubscription(change.topic, change.form, change.moment, *place)
            self._topics.add(change.topic)

    def _cancel(self, change: Change, known: ObservedSubscriptions) -> None:
        held = known.open.get(change.topic)
        if held is None:
            return  # the subscription predates the capture
        held.left += 1
        if held.form == JOIN and held.left < held.times:
            return
        del known.open[change.topic]
        held.until_ns, held.ended_by = change.moment.ns, "cancel"
        self._ended.append((held, change.ordinal))
        known.ended.append(held)
        if len(known.ended) > MAX_ENDED:
            self.room.give_back(self.observed, _cost(known.ended.popleft().topic))
            known.forgotten += 1
        self._topics.remove(change.topic)


def _cost(topic: bytes) -> int:
    return SUBSCRIPTION_COST + len(topic)


def delay_of(connection: ObservedConnection, subscription: ObservedSubscription) -> int | None:
    """Return the time (ns) from the end of the handshake to a subscription; None if the handshake was not captured."""
    ready = [side.ready.ns for side in connection.sides if side.ready is not None]
    return max(0, subscription.moment.ns - max(ready)) if len(ready) == 2 else None


def ref_of_subscription(connection: ObservedConnection, side: int, subscription: ObservedSubscription) -> str:
    record = "message" if subscription.form == "message" else "command"
    return f"{connection.conn_id}/{side}/{subscription.source}/{subscription.offset}/{record}"


@dataclass(slots=True, eq=False)
class SubscriptionTable(DerivedTable):
    """Derived `subscription` records: ended subscriptions of a side, each with the segment that decided its end."""

    observed: ObservedConnection
    side: int
    ended: list[tuple[ObservedSubscription, int]]

    def records(self) -> Iterable[Record]:
        stream = self.observed.stream_of(self.side)
        for subscription, ordinal in self.ended:
            yield derived(
                "subscription",
                ordinal,
                subscription.moment,
                stream,
                source=subscription.source,
                offset=subscription.offset,
                length=subscription.length,
                topic=to_text(subscription.topic),
                form=subscription.form,
                until_ns=subscription.until_ns,
                ended_by=subscription.ended_by,
                times=subscription.times,
                delay_ns=delay_of(self.observed, subscription),
                messages=subscription.messages,
                first_ns=subscription.first_ns,
            )


class PublishingObserver(Observer):
    """Follows the subscriptions of both sides, and counts the messages that they match."""

    types = frozenset({"command"})
    begins_with = COMMANDS | GROUP_COMMANDS

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self.subscriptions = Subscriptions(observed, 0, room), Subscriptions(observed, 1, room)

    @classmethod
    def follows(cls, socket_types: SocketTypes) -> bool:
        return any(each in SUBSCRIBERS or each in PUBLISHERS_AND_RADIO for each in socket_types)

    def record(self, record: Record) -> None:
        side = None if record.stream is None else record.stream.side
        if record.own["name"] in self.begins_with and side is not None:
            self.subscriptions[side].feed(record)

    def rows(self, rows: Rows) -> None:
        for own, runs in zip(self.subscriptions, rows.runs, strict=True):
            if any(run.sender.socket_type in SUBSCRIBERS for run in runs):
                own.feed_rows(rows)
        for side in (0, 1):
            published = [run.messages for run in rows.in_order(side) if run.sender.socket_type in PUBLISHERS_AND_RADIO]
            if published:
                self._count(side, published, rows)

    def _count(self, side: int, runs: list[MessageTable], rows: Rows) -> None:
        own, to = self.observed.sides[side], self.subscriptions[1 - side]
        if own.published is None:
            own.published = PublishedTopics()
        for run in runs:
            if run.socket_type == "RADIO":
                run = replace(run, topics=first_frames(run))
            for part in to.parts(run):
                matching = to.matching if to.has_begun else None
                own.published.feed(part, rows.files, self.observed, matching, self.room)

    def derive(self) -> list[DerivedTable]:
        return [table for each in self.subscriptions for table in each.derive()]

    def finish(self, ordinal: int) -> list[DerivedTable]:
        return [table for each in self.subscriptions for table in each.finish(ordinal)]
