"""Publishers and their subscribers. Rules compare the messages that siblings received: the subscribers of one
publisher."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from zmtpscope.diagnosis.across.endings import Ending, end_of, ending_of
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import address, name_of, topic_name
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection, ObservedStall
from zmtpscope.diagnosis.observers.observed_facts import JOIN, ObservedSubscription
from zmtpscope.diagnosis.observers.topics import PublishedTopic, TopicKey
from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC
from zmtpscope.grouping import grouped
from zmtpscope.intervals import disjoint
from zmtpscope.zmtp.socket_types import PUBLISHERS_AND_RADIO, SUBSCRIBERS_AND_DISH

FILTERING = ("3.0", "3.1")
"""Versions in which the publisher filters. Before, it sends everything, and subscriptions are not on the wire."""

BEHIND_ALL = b"\xff" * LONGEST_TOPIC
"""Suffix that sorts a prefix after all topics that begin with it."""


class Subscriber:
    def __init__(self, connection: ObservedConnection, side: int) -> None:
        self.connection = connection
        self.side = side
        own = connection.sides[side]
        self.ip = own.ip
        self.identity = own.identity
        self.socket_type = own.socket_type
        known = own.subscriptions
        self.subscriptions: list[ObservedSubscription] = [] if known is None else known.all()
        self.has_all_subscriptions = known is None or not (known.left_out or known.forgotten)
        published = connection.sides[1 - side].published
        self.topics: dict[TopicKey, PublishedTopic] = {} if published is None else published.by_key
        self.latest_ns = 0 if published is None else published.latest_ns
        """Time of the last message that it received."""
        self._intervals: dict[tuple[bytes, bool], list[tuple[int, int]]] = {}
        """Cached time ranges, by the longest subscription that a topic begins with, and whether it is the whole
        topic."""
        self.is_open = connection.is_open
        self.last_ns = connection.last_ns

    @property
    def name(self) -> str:
        return self.identity or self.ip

    @property
    def end(self) -> tuple[ObservedConnection, int]:
        """Connection and side number of the subscriber, as `names_of` takes them."""
        return self.connection, self.side

    @property
    def client(self) -> tuple[str, str | None, str | None]:
        """Address, identity and socket type, which stay the same over a reconnect."""
        return self.ip, self.identity, self.socket_type

    @property
    def is_of_groups(self) -> bool:
        """Whether the subscriber is a DISH: it joins groups, which must equal the group of a message."""
        return self.socket_type == "DISH"

    def asked_for(self, topic: bytes) -> str:
        """Describe the subscription: `subscribed to "prices"` or `joined the group "prices"`."""
        return f"{'joined the group' if self.is_of_groups else 'subscribed to'} {topic_name(topic)}"

    @property
    def messages(self) -> int:
        """Number of messages that the subscriber received, without those whose topic is unknown."""
        return sum(topic.timeline.count for topic in self.topics.values())

    def messages_between(self, start: int, end: int) -> int:
        """Return a lower bound for the number of messages that the subscriber received from `start` until
        `end` (ns)."""
        return sum(topic.timeline.between(start, end).least for topic in self.topics.values())

    @cached_property
    def ending(self) -> Ending | None:
        return ending_of(self.connection)

    @property
    def stalls(self) -> list[ObservedStall]:
        """Times during which the publisher could not send to this subscriber."""
        return self.connection.sides[1 - self.side].stalls

    @cached_property
    def stalled_ns(self) -> int:
        return max((stall.end_ns for stall in self.stalls), default=0)

    @cached_property
    def ended_ns(self) -> int:
        """Time of the end of the connection, or of its last packet. Data after FIN or RST is not delivered."""
        return end_of(self.connection, self.connection.last_ns)

    @cached_property
    def is_filtered(self) -> bool:
        """Whether the publisher sends the subscriber only matching messages, and all its subscriptions are in the
        capture.

        The ZMTP version must be known, and no octets may be missing or encrypted.
        """
        connection = self.connection
        values = connection.values
        version = min((side.version or "" for side in connection.sides), default="")
        sealed = values is None or values["sealed_0"] or values["sealed_1"]
        if connection.sides[self.side].mechanism not in ("NULL", "PLAIN") and sealed:
            return False
        return connection.is_whole and version in FILTERING and self.has_all_subscriptions

    @cached_property
    def _by_topic(self) -> dict[bytes, list[ObservedSubscription]]:
        return grouped((each.topic, each) for each in self.subscriptions)

    @cached_property
    def _sizes(self) -> list[int]:
        return sorted({len(topic) for topic in self._by_topic})

    def _longest(self, topic: bytes | None) -> bytes | None:
        """Return the longest subscription that matches a topic, or None. All other matching subscriptions are prefixes
        of it."""
        if topic is not None:
            for size in reversed(self._sizes):
                if size <= len(topic) and topic[:size] in self._by_topic:
                    return topic[:size]
        return None

    def matching(self, key: TopicKey) -> list[ObservedSubscription]:
        """Return all subscriptions, present or cancelled, that certainly match a topic."""
        topic, longest = key.topic, self._longest(key.topic)
        found: list[ObservedSubscription] = []
        if topic is not None and longest is not None:
            for size in self._sizes:
                if size > len(longest):
                    break
                found += self._by_topic.get(longest[:size], ())
            found = [each for each in found if each.matches(topic)]
        return found

    def intervals(self, key: TopicKey) -> list[tuple[int, int]]:
        """Return the disjoint time ranges (ns) in which a subscription matched a topic."""
        longest = self._longest(key.topic)
        if longest is None:
            return []
        place = longest, longest == key.topic
        found = self._intervals.get(place)
        if found is None:
            end, matching = self.last_ns, self.matching(key)
            times = [(each.moment.ns, end if each.until_ns is None else each.until_ns) for each in matching]
            found = self._intervals[place] = disjoint(times)
        return found

    @cached_property
    def _ascending(self) -> list[bytes]:
        return sorted(self._by_topic)

    def has_longer(self, topic: bytes) -> bool:
        place = bisect_left(self._ascending, topic)
        return place < len(self._ascending) and self._ascending[place].startswith(topic)

    @cached_property
    def _single(self) -> list[bytes]:
        """The topics of messages of one frame that the subscriber received, sorted."""
        return sorted(key.topic for key in self.topics if key.topic is not None and not key.is_frame)

    @cached_property
    def _single_sizes(self) -> list[int]:
        return sorted({len(topic) for topic in self._single})

    def mixes(self, key: TopicKey) -> bool:
        """Whether messages of this topic may be counted under another topic, or the reverse.

        The topic of a message of one frame is the longest subscription that it begins with, so it differs by
        subscriber.
        """
        topic, own = key.topic, self._single
        if topic is None or key.is_frame:
            return False
        place = bisect_right(own, topic)
        if place < len(own) and own[place].startswith(topic):
            return True
        shorter = (topic[:size] for size in self._single_sizes if size < len(topic))
        return any(_contains(own, each) for each in shorter)

    def places(self, topics: Sequence[bytes]) -> list[range]:
        """Return the index ranges of `topics`, in ascending order, that any present or earlier subscription matches."""
        return places_of(self.subscriptions, topics)


def _contains(ascending: Sequence[bytes], topic: bytes) -> bool:
    place = bisect_left(ascending, topic)
    return place < len(ascending) and ascending[place] == topic


def publisher_name(subscriber: Subscriber) -> str:
    return name_of(subscriber.connection, 1 - subscriber.side)


def places_of(subscriptions: Iterable[ObservedSubscription], topics: Sequence[bytes]) -> list[range]:
    """Return the index ranges of `topics`, in ascending order, that one of the subscriptions matches."""
    names: set[bytes] = set()
    groups: set[bytes] = set()
    for each in subscriptions:
        (groups if each.form == JOIN else names).add(each.topic)
    found = [range(bisect_left(topics, group), bisect_right(topics, group)) for group in sorted(groups)]
    last: bytes | None = None
    for name in sorted(names):
        if last is None or not name.startswith(last):
            last = name
            begin = bisect_left(topics, name)
            found.append(range(begin, bisect_right(topics, name + BEHIND_ALL, begin)))
    return found


@dataclass(frozen=True, eq=False)
class Publisher:
    """A publisher (PUB, XPUB, RADIO) with its subscribers in order of start.

    A listening publisher has all its subscribers. A connecting one (`endpoint` is None) has a single subscriber,
    because the wire does not show which connections belong to the same socket.
    """

    endpoint: Endpoint | None
    ip: str
    socket_type: str
    subscribers: tuple[Subscriber, ...]

    @property
    def name(self) -> str:
        return self.ip if self.endpoint is None else address(self.endpoint)

    def topic_keys(self) -> list[TopicKey]:
        return list(dict.fromkeys(key for each in self.subscribers for key in each.topics if key.topic is not None))

    @cached_property
    def ascending(self) -> tuple[list[TopicKey], list[bytes]]:
        keys = sorted(self.topic_keys())
        return keys, [key.topic or b"" for key in keys]


@once
def publishers(knowledge: Knowledge) -> tuple[Publisher, ...]:
    bound: dict[Endpoint, list[Subscriber]] = {}
    found: list[list[Subscriber]] = []
    for connection in knowledge.connections:
        publisher = connection.side_of(*PUBLISHERS_AND_RADIO)
        if publisher is None or connection.sides[1 - publisher].socket_type not in SUBSCRIBERS_AND_DISH:
            continue
        subscriber = Subscriber(connection, 1 - publisher)
        if publisher == connection.listener:
            if connection.endpoint not in bound:
                found.append(bound.setdefault(connection.endpoint, []))
            bound[connection.endpoint].append(subscriber)
        else:
            found.append([subscriber])
    return tuple(_publisher(each) for each in found)


def _publisher(subscribers: list[Subscriber]) -> Publisher:
    first = subscribers[0]
    side = first.connection.sides[1 - first.side]
    is_bound = first.connection.listener == 1 - first.side
    endpoint = first.connection.endpoint if is_bound else None
    return Publisher(endpoint, side.ip, side.socket_type or "PUB", tuple(subscribers))
