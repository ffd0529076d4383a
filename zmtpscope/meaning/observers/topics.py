"""What one side of a connection published, by topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from zmtpscope.dissect.records.batch import MessageRun
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.meaning.moments import Moment
from zmtpscope.meaning.observers.observed_subscriptions import ObservedSubscription
from zmtpscope.meaning.observers.room import Remembering, Room
from zmtpscope.meaning.observers.timeline import Timeline
from zmtpscope.meaning.observers.topic_groups import TopicKey, topic_groups

MOST_TOPICS = 4096
"""Of one side; messages of others are only counted."""

TOPIC_COST = 1536
"""Octets of memory that a topic takes beside its own, with a full timeline."""

BEGINNING = 48
"""Octets that are kept of a message whose topic is no frame of its own."""

Matching = Callable[[bytes], Sequence[ObservedSubscription]]
"""The subscriptions in force that a topic begins with."""


@dataclass(slots=True, eq=False)
class PublishedTopic:
    """Messages of one topic that went over a connection."""

    key: TopicKey
    first: Moment
    beginning: bytes
    """The first octets of the first message."""
    octets: int = 0
    """In all frames, headers not counted."""
    unmatched: int = 0
    """Complete messages that no subscription in force matched."""
    early: int = 0
    """Messages before the first subscription of the connection: a publisher that connects sends what it had queued
    for the subscriptions of an earlier one."""
    timeline: Timeline = field(default_factory=Timeline)


@dataclass(slots=True, eq=False)
class PublishedTopics:
    """What one side published. `left_out` messages are of topics for which there was no room."""

    by_key: dict[TopicKey, PublishedTopic] = field(default_factory=dict)
    left_out: int = 0
    latest_ns: int = 0

    def feed(
        self,
        run: MessageRun,
        files: Sequence[str | None],
        of: Remembering,
        matching_of: Matching | None,
        room: Room,
    ) -> None:
        """Count the messages of a run, and how many of them the subscriptions in force match: `matching_of` is None
        before the first one."""
        keys, order, edges = topic_groups(run)
        times = np.maximum.accumulate(np.maximum(run.times, self.latest_ns))
        self.latest_ns = int(times[-1])
        times, octets = times[order], np.add.reduceat(_octets(run)[order], edges[:-1]).tolist()
        for key, begin, end, size in zip(keys, edges, edges[1:], octets, strict=False):
            topic = self.by_key.get(key)
            if topic is None:
                topic = self._begin(key, run, int(order[begin]), files, of, room)
                if topic is None:
                    self.left_out += end - begin
                    continue
            topic.octets += size
            topic.timeline.add(times[begin:end])
            if matching_of is None:
                topic.early += end - begin
                continue
            matching = () if key.topic is None else matching_of(key.topic)
            for subscription in matching:
                subscription.count(end - begin, int(times[begin]))
            if not matching:
                # of a message that the capture cuts off the topic is not known
                topic.unmatched += int(run.complete[order[begin:end]].sum())

    def _begin(
        self, key: TopicKey, run: MessageRun, row: int, files: Sequence[str | None], of: Remembering, room: Room
    ) -> PublishedTopic | None:
        if len(self.by_key) >= MOST_TOPICS or not room.take(of, TOPIC_COST + len(key.topic or b"")):
            return None
        moment = Moment.of_packet(int(run.times[row]), int(run.packets[row]), files)
        beginning = b"" if key.is_frame else run.head(int(run.first[row]), BEGINNING) or b""
        found = self.by_key[key] = PublishedTopic(key, moment, beginning)
        return found


def _octets(run: MessageRun) -> Int64:
    """Those in the frames of each message, as far as they are there."""
    sizes = run.sizes
    there = max(0, run.end - int(run.bodies[-1]))
    if sizes[-1] > there:
        sizes = sizes.copy()
        sizes[-1] = there
    octets: Int64 = sizes if len(sizes) == len(run.first) else np.add.reduceat(sizes, run.first)
    return octets
