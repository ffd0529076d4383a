"""The subscribers of each publisher over all their connections, and the states of their subscriptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.publishers import Subscriber
from zmtpscope.diagnosis.across.resubscribing import had_time_to_subscribe, not_made_again
from zmtpscope.diagnosis.across.words import address, name_of
from zmtpscope.diagnosis.observers.observed_facts import ObservedSubscription
from zmtpscope.diagnosis.observers.subscriptions import delay_of
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.side_names import LONGEST_TYPE, named
from zmtpscope.records import SECOND
from zmtpscope.zmtp.socket_types import SUBSCRIBERS_AND_DISH

LATE_NS = SECOND // 20
"""Delay after the handshake that makes a subscription late, so that it misses messages.

Subscriptions made before connecting are sent with the handshake.
"""

NOT_AGAIN, NOT_SINCE, NEW, AGAIN, CANCELLED, HELD = "not again", "not since", "new", "again", "cancelled", ""
STATES = (NOT_AGAIN, NOT_SINCE, NEW, AGAIN, CANCELLED, HELD)
"""States of a subscription compared with the previous connection, in sort order.

`AGAIN`: repeated. `NEW`: not there before. `NOT_AGAIN`: not repeated after the publisher ended the connection.
`NOT_SINCE`: not repeated because the subscriber left, or stayed away for long.
"""

LOOKS = {NOT_AGAIN: "warn", NOT_SINCE: "muted", NEW: "good", CANCELLED: "muted"}

NO_SUBSCRIPTION = "no subscription"

Alike = tuple[str, str | None, str | None]
"""(address, identity, socket type): all that identifies a subscriber on the wire."""

LostTopic = tuple[str, bytes]
"""(conn_id, topic) of a subscription not repeated on the next connection."""


class Cell(NamedTuple):
    """A cell of the table for a subscriber: its text and style, and the value by which it is sorted (`order`)."""

    order: tuple[int, int]
    text: str
    look: str = ""


@dataclass(slots=True)
class Subscribing:
    """The connections of one subscriber to one publisher, one after the other, with its subscriptions on each."""

    connections: list[Subscriber]
    by_topic: list[dict[bytes, ObservedSubscription]] = field(init=False)
    """The last subscription to each topic, by connection."""

    def __post_init__(self) -> None:
        self.by_topic = [{each.topic: each for each in of.subscriptions} for of in self.connections]

    @property
    def last(self) -> Subscriber:
        return self.connections[-1]

    def state(self, topic: bytes, lost: frozenset[LostTopic]) -> tuple[Subscriber, ObservedSubscription, str] | None:
        """Return the last connection with a subscription to a topic, that subscription, and its state as
        text; or None."""
        place = next((place for place in reversed(range(len(self.by_topic))) if topic in self.by_topic[place]), None)
        if place is None:
            return None
        connection, subscription = self.connections[place], self.by_topic[place][topic]
        if subscription.ended_by == "cancel":
            state = CANCELLED
        elif place < len(self.by_topic) - 1:
            state = NOT_AGAIN if (connection.connection.conn_id, topic) in lost else NOT_SINCE
        elif place:
            before = self.by_topic[place - 1].get(topic)
            state = AGAIN if before is not None and before.ended_by != "cancel" else NEW
        else:
            state = HELD
        return connection, subscription, state

    def cell(self, topic: bytes, lost: frozenset[LostTopic]) -> Cell | None:
        """Return the cell of a topic: the number of messages that matched, and the state of the subscription."""
        found = self.state(topic, lost)
        if found is None:
            return None
        connection, subscription, state = found
        order, count = (STATES.index(state), subscription.messages), f"{subscription.messages:,}"
        if state in (NOT_AGAIN, NOT_SINCE):
            return Cell(order, f"{state}, {count} before", LOOKS[state])
        late = "late" if state != CANCELLED and is_late(connection, subscription) else ""
        return Cell(order, ", ".join(filter(None, (count, state, late))), LOOKS.get(state, "warn" if late else ""))

    def presence(self, knowledge: Knowledge) -> Cell:
        """Return the cell of the publisher: whether the subscriber is connected, and whether it has subscribed."""
        times = len(self.connections) - 1
        words = ["came back" if times == 1 else f"came back {times} times"] if times else []
        if not self.last.connection.is_open:
            words.append("gone")
        elif not times:
            words.append("connected")
        if self.by_topic[-1]:
            return Cell((1, times), ", ".join(words))
        if self.last.is_filtered and had_time_to_subscribe(self.last, knowledge):
            words.append(NO_SUBSCRIPTION)
            return Cell((0, times), ", ".join(words), "" if self.last.socket_type == "XSUB" else "warn")
        return Cell((1, times), ", ".join([*words, "none seen"]))


@dataclass(slots=True)
class SubscribedPublisher:
    """A publisher with its subscribers by key, and all topics to which they subscribed, lost ones first.

    `conn` is set if the publisher connects, because its other connections cannot be recognised.
    """

    name: str
    endpoint: tuple[str, int]
    conn: int | None
    subscribers: dict[str, Subscribing]
    topics: list[bytes]

    @property
    def has_groups(self) -> bool:
        return any(each.last.is_of_groups for each in self.subscribers.values())

    @property
    def conns(self) -> list[int]:
        streams = (each.connection.stream for of in self.subscribers.values() for each in of.connections)
        return [stream.conn for stream in streams if stream.conn is not None]


class Subscribers(NamedTuple):
    """All subscribers by key, first the ones with lost subscriptions, and all publishers, in order of appearance."""

    names: dict[str, str]
    publishers: list[SubscribedPublisher]
    lost: frozenset[LostTopic]


def subscribers_of(knowledge: Knowledge) -> Subscribers:
    """Return all peers that subscribed, or have a socket type that can subscribe."""
    found: dict[object, list[Subscriber]] = {}
    for connection in knowledge.connections:
        for side in (0, 1):
            own = connection.sides[side]
            if own.subscriptions is not None or own.socket_type in SUBSCRIBERS_AND_DISH:
                is_bound = connection.listener == 1 - side
                publisher = connection.endpoint if is_bound else (connection.conn_id, side)
                found.setdefault(publisher, []).append(Subscriber(connection, side))
    lost = frozenset(
        (each.before.connection.conn_id, subscription.topic)
        for each in not_made_again(knowledge)
        for subscription in each.subscriptions
    )
    clients: dict[str, Subscriber] = {}
    keys: dict[Alike, str] = {}
    publishers = []
    for connections in found.values():
        subscribing = dict(_subscribing(connections, keys))
        for key, each in subscribing.items():
            clients.setdefault(key, each.connections[0])
        publishers.append(_publisher(connections, subscribing, lost))
    ended = {conn_id for conn_id, _ in lost}
    missing = {
        key
        for publisher in publishers
        for key, each in publisher.subscribers.items()
        if any(of.connection.conn_id in ended for of in each.connections)
    }
    order = sorted(clients, key=lambda key: (key not in missing, clients[key].connection.start.ns))
    return Subscribers(_names({key: clients[key] for key in order}), publishers, lost)


def is_late(connection: Subscriber, subscription: ObservedSubscription) -> bool:
    return (delay_of(connection.connection, subscription) or 0) >= LATE_NS


def _publisher(
    connections: Sequence[Subscriber], subscribers: dict[str, Subscribing], lost: frozenset[LostTopic]
) -> SubscribedPublisher:
    first, conn_ids = connections[0], {each.connection.conn_id for each in connections}
    missed = {topic for conn_id, topic in lost if conn_id in conn_ids}
    topics = {topic for each in subscribers.values() for of in each.by_topic for topic in of}
    name, endpoint = name_of(first.connection, 1 - first.side), first.connection.endpoint
    ordered = sorted(topics, key=lambda topic: (topic not in missed, topic))
    if first.connection.listener == 1 - first.side:
        return SubscribedPublisher(name, endpoint, None, subscribers, ordered)
    conn = first.connection.stream.conn
    return SubscribedPublisher(f"{name} connection {conn}", endpoint, conn, subscribers, ordered)


def _subscribing(connections: Sequence[Subscriber], keys: dict[Alike, str]) -> Iterator[tuple[str, Subscribing]]:
    """Yield each subscriber of a publisher with its key. All publishers share `keys`.

    Connections of equal clients (`Alike`) that overlap in time are separate subscribers.
    """
    alike: dict[Alike, list[Subscriber]] = {}
    for each in connections:
        alike.setdefault((each.ip, each.identity, each.socket_type), []).append(each)
    for look, own in alike.items():
        if all(_is_over(one, other) for one, other in pairwise(own)):
            yield keys.setdefault(look, f"first {own[0].connection.conn_id}"), Subscribing(own)
        else:
            for each in own:
                yield f"{each.connection.conn_id} {each.side}", Subscribing([each])


def _is_over(one: Subscriber, other: Subscriber) -> bool:
    return not one.connection.is_open and one.connection.last_ns <= other.connection.start.ns


def _names(clients: dict[str, Subscriber]) -> dict[str, str]:
    """Return a name for each subscriber: identity or address, and if several have the same, type and
    connection number."""
    names = {key: name_of_subscriber(each) for key, each in clients.items()}
    if len(set(names.values())) < len(names):
        types = {key: safe_text(each.socket_type or "")[:LONGEST_TYPE] for key, each in clients.items()}
        names = {key: f"{types[key]} {name}".strip() for key, name in names.items()}
    times, is_one_host = Counter(names.values()), len({each.ip for each in clients.values()}) == 1
    for key, name in names.items():
        if times[name] > 1:
            conn = f"conn {clients[key].connection.stream.conn}"
            names[key] = conn if is_one_host else f"{conn} {name}"
    return names


def name_of_subscriber(subscriber: Subscriber) -> str:
    """Return the identity or address of a subscriber, without control characters."""
    connection = subscriber.connection
    if subscriber.identity:
        return named(subscriber.identity)
    return safe_text(address(connection.endpoint) if subscriber.side == connection.listener else subscriber.ip)
