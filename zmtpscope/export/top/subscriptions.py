"""Count the connections of a publisher with a subscription that matches a topic.

A subscription counts until the end of the interval in which it is cancelled or its connection ends. The number
therefore includes every connection that could receive messages of the interval.
"""

from __future__ import annotations

from collections import Counter

from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC
from zmtpscope.export.top.peers import ConnectionEnds, Peer

MAX_SUBSCRIPTIONS = 131_072
"""Subscriptions to remember, about 50 MB; later ones are left out."""


class Holders:
    def __init__(self) -> None:
        self.names: dict[bytes, set[ConnectionEnds]] = {}
        self._sizes = Counter[int]()
        """Number of names by length in octets."""

    def add(self, name: bytes, connection: ConnectionEnds) -> None:
        if name not in self.names:
            self.names[name] = set()
            self._sizes[len(name)] += 1
        self.names[name].add(connection)

    def remove(self, name: bytes, connection: ConnectionEnds) -> None:
        self.names[name].discard(connection)
        if not self.names[name]:
            del self.names[name]
            self._sizes[len(name)] -= 1
            if not self._sizes[len(name)]:
                del self._sizes[len(name)]

    def count(self, topic: bytes) -> int:
        """Return how many connections have a subscription that is a prefix of `topic`."""
        sizes = [size for size in self._sizes if size <= len(topic)]
        found = [self.names[name] for size in sizes if (name := topic[:size]) in self.names]
        return len(found[0]) if len(found) == 1 else len(set().union(*found))


class Subscriptions:
    def __init__(self, most: int = MAX_SUBSCRIPTIONS) -> None:
        self.most = most
        self.left_out = 0
        self._held: dict[ConnectionEnds, tuple[Peer, Counter[bytes]]] = {}
        """Publisher of each subscriber's connection, and its subscriptions to each topic."""
        self._holders: dict[Peer, Holders] = {}
        self._size = 0
        self._ended: dict[tuple[ConnectionEnds, bytes], None] = {}
        """Subscriptions that ended in the current interval."""

    def change(self, connection: ConnectionEnds, side: int, topic: bytes, entering: bool) -> None:
        """Add a subscription of `side`, or if not `entering` cancel an equal one."""
        topic = topic[:LONGEST_TOPIC]
        publisher = connection.peers[1 - side]
        counts = self._held[connection][1] if connection in self._held else Counter[bytes]()
        if not entering:
            if counts[topic]:
                counts[topic] -= 1
                if not counts[topic]:
                    self._ended[connection, topic] = None
        elif topic in counts:
            counts[topic] += 1
        elif self._size >= self.most:
            self.left_out += 1
        else:
            counts[topic] = 1
            self._size += 1
            self._held[connection] = publisher, counts
            self._holders.setdefault(publisher, Holders()).add(topic, connection)

    def end_connection(self, connection: ConnectionEnds) -> None:
        if connection in self._held:
            for topic in self._held[connection][1]:
                self._held[connection][1][topic] = 0
                self._ended[connection, topic] = None

    def end_interval(self) -> None:
        for connection, topic in self._ended:
            publisher, counts = self._held[connection]
            if counts[topic]:
                continue  # subscribed again
            del counts[topic]
            self._size -= 1
            if not counts:
                del self._held[connection]
            holders = self._holders[publisher]
            holders.remove(topic, connection)
            if not holders.names:
                del self._holders[publisher]
        self._ended = {}

    def count(self, publisher: Peer, topic: bytes) -> int:
        """Return how many connections of a publisher have a subscription that is a prefix of `topic`."""
        holders = self._holders.get(publisher)
        return 0 if holders is None else holders.count(topic)
