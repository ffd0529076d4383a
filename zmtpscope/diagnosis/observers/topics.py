"""The messages of a publisher, counted by topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from zmtpscope import compiled
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed_facts import ObservedSubscription
from zmtpscope.diagnosis.observers.room import Remembering, Room
from zmtpscope.diagnosis.observers.timeline import Timeline
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC


class TopicKey(NamedTuple):
    """The topic of messages, up to `LONGEST_TOPIC` octets; None if it is unknown.

    If `is_frame`, the topic is the first of several frames. Otherwise it is the longest subscription with which a
    message of one frame begins, so another subscriber may have the same messages under another topic.
    """

    topic: bytes | None
    is_frame: bool


UNKNOWN = TopicKey(None, False)


class TopicRows(NamedTuple):
    key: TopicKey
    rows: Int64
    octets: int
    """Captured octets in all frames, without headers."""
    complete: int
    times: Int64
    """Start times in order, each at least as late as all earlier ones in the run."""


@compiled.where_possible
def by_topic(run: MessageTable, latest_ns: int) -> list[TopicRows]:
    """Group a publisher's messages by topic, in the order in which topics appear.

    `latest_ns` is the time of the latest message before them.
    """
    rows_of: dict[TopicKey, list[int]] = {}
    for row in range(len(run.first)):
        topic = run.topic(row)
        key = UNKNOWN if topic is None else TopicKey(topic[:LONGEST_TOPIC], bool(run.last[row] > run.first[row]))
        rows_of.setdefault(key, []).append(row)
    times = [*accumulate(run.times.tolist(), max, initial=latest_ns)][1:]
    sizes, frames = run.sizes.tolist(), [*zip(run.first.tolist(), run.last.tolist(), strict=True)]
    sizes[-1] = min(sizes[-1], max(0, run.end - int(run.bodies[-1])))  # the last body may be incomplete
    return [
        TopicRows(
            key,
            np.array(rows, np.int64),
            sum(sum(sizes[first : last + 1]) for first, last in map(frames.__getitem__, rows)),
            int(run.complete[rows].sum()),
            np.array([times[row] for row in rows], np.int64),
        )
        for key, rows in rows_of.items()
    ]


MAX_TOPICS = 4096
"""Topics of one side to follow; messages of others are only counted."""

TOPIC_COST = 1536
"""Memory of a topic with a full timeline, without its name."""

BEGINNING = 48
"""Octets to keep of a message without a separate topic."""

SEPARATORS = b" \t\r\n\0,;:|=/.([{<\"'"
"""Characters that end a topic."""

GOES_ON, ENDS, IS_BINARY = 0, 1, 2
"""What follows the subscription: the name continues or ends, or no text."""

KINDS = np.full(256, IS_BINARY, np.uint8)
KINDS[[octet for octet in range(128) if chr(octet).isalnum() or chr(octet) in "_-"]] = GOES_ON
KINDS[list(SEPARATORS)] = ENDS

Matching = Callable[[bytes], Sequence[ObservedSubscription]]


@dataclass(slots=True, eq=False)
class PublishedTopic:
    key: TopicKey
    first: Moment
    beginning: bytes
    """First octets of the first message."""
    second: bytes = b""
    """First octets of its second frame."""
    octets: int = 0
    """Octets in all frames, without headers."""
    unmatched: int = 0
    """Complete messages that no active subscription matched."""
    early: int = 0
    """Messages before the first subscription: a publisher that connects sends those queued for an earlier one."""
    timeline: Timeline = field(default_factory=Timeline)
    longer: int = 0
    """Single-frame messages in which a longer name begins with the topic."""
    longer_name: bytes = b""
    """The name in the first of them."""
    longer_first: Moment | None = None
    """The first of them."""
    is_text: bool = True
    """Whether a name or a separator always follows the topic."""

    def look_behind(self, run: MessageTable, rows: Int64, files: Sequence[str | None]) -> None:
        """Note which octet follows the topic in messages of one frame: a letter shows that the topic is longer."""
        size, first = len(self.key.topic or b""), run.first[rows]
        places = run.bodies[first] - run.base + size
        is_there = (run.sizes[first] > size) & (places < len(run.data))
        if not is_there.any():
            return
        kinds = KINDS[np.frombuffer(run.data, np.uint8)[places[is_there]]]
        self.is_text = self.is_text and not (kinds == IS_BINARY).any()
        going_on = np.flatnonzero(kinds == GOES_ON)
        if len(going_on) and self.is_text:
            row = int(rows[is_there][going_on[0]])
            self.longer += len(going_on)
            if self.longer_first is None:
                self.longer_first = Moment.of_row(run, row, files)
                self.longer_name = _first_word(run.head(int(run.first[row]), BEGINNING) or b"", size)


def _first_word(text: bytes, size: int) -> bytes:
    stop = next((place for place in range(size, len(text)) if KINDS[text[place]] != GOES_ON), len(text))
    return text[:stop]


@dataclass(slots=True, eq=False)
class PublishedTopics:
    """The topics that one side published. `left_out` counts messages of further topics, which were not stored to limit
    memory."""

    by_key: dict[TopicKey, PublishedTopic] = field(default_factory=dict)
    left_out: int = 0
    latest_ns: int = 0

    def feed(
        self,
        run: MessageTable,
        files: Sequence[str | None],
        of: Remembering,
        matching_of: Matching | None,
        room: Room,
    ) -> None:
        """Count the messages of one sender by topic, and also the messages that no subscription matches.

        `matching_of` finds the subscriptions of a topic (None: there was no subscription yet). `room` limits the
        memory, which is counted for the connection `of`.
        """
        for key, rows, octets, complete, times in by_topic(run, self.latest_ns):
            count, last_ns = len(times), int(times[-1])
            self.latest_ns = max(self.latest_ns, last_ns)
            topic = self.by_key.get(key)
            if topic is None:
                topic = self._begin(key, run, int(rows[0]), files, of, room)
                if topic is None:
                    self.left_out += count
                    continue
            topic.octets += octets
            topic.timeline.add(times)
            if key.topic and not key.is_frame and topic.is_text:
                topic.look_behind(run, rows, files)
            if matching_of is None:
                topic.early += count
                continue
            matching = () if key.topic is None else matching_of(key.topic)
            for subscription in matching:
                subscription.count(count, int(times[0]))
            if not matching:
                topic.unmatched += complete  # the topic of a truncated message is unknown

    def _begin(
        self, key: TopicKey, run: MessageTable, row: int, files: Sequence[str | None], of: Remembering, room: Room
    ) -> PublishedTopic | None:
        if len(self.by_key) >= MAX_TOPICS or not room.take(of, TOPIC_COST + len(key.topic or b"")):
            return None
        moment = Moment.of_row(run, row, files)
        first, is_alone = int(run.first[row]), run.first[row] == run.last[row]
        beginning = b"" if key.is_frame else run.head(first, BEGINNING) or b""
        second = b"" if is_alone else run.head(first + 1, BEGINNING) or b""
        found = self.by_key[key] = PublishedTopic(key, moment, beginning, second)
        return found
