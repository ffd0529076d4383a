"""The topic of what is published: the first frame of several, or what the other side has subscribed to (wire.md 10.2).

A single frame holds topic and content in one; which octets are topic only a subscription tells. Those that are in force
are the ones that were decidable no later than the message, so it makes no difference where blocks end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.message_columns import NO_TOPIC
from zmtpscope.records import from_text
from zmtpscope.zmtp.content import LARGEST_AWAITED_TOPIC
from zmtpscope.zmtp.events import MARKED, SPECIAL, SUBSCRIBE, Command
from zmtpscope.zmtp.framing import MORE
from zmtpscope.zmtp.memberships import LARGEST_MEMORY
from zmtpscope.zmtp.socket_types import PUBLISHERS, SUBSCRIBERS
from zmtpscope.zmtp.trie import NODE_COST, Trie

if TYPE_CHECKING:
    from zmtpscope.dissect.budget import OctetBudget

COMMANDS = frozenset({"SUBSCRIBE", "CANCEL"})
"""What subscribes on 3.1."""

LARGEST_TOPIC = LARGEST_AWAITED_TOPIC
"""Octets of a first frame that may be a topic."""

ALL_MEMORY = 64 << 20
"""Octets of memory for the subscriptions of all sides that are open, as `Trie.size` counts them. One side has no more
than its reader remembers, `LARGEST_MEMORY`: ZMTP-CONN-13 says where there are more, and the first of them count."""

FEW = 64
"""Octets of all topics (and `PER_TOPIC` for each) up to which they are compared with whole columns of messages."""
PER_TOPIC = 2
LEAST_ROWS = 4
"""So many messages for each of these octets are worth it."""


class Change(NamedTuple):
    """A subscription (or its end) at stream offset `offset`, decidable with the segment `ordinal`."""

    ordinal: int
    offset: int
    topic: bytes
    entering: bool


class Subscriptions:
    """What one side has subscribed to."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        """Those that were read in the block under way."""
        self.limit = LARGEST_MEMORY
        """What `size` may become."""
        self._open = Trie()
        self._weight = 0
        """What `FEW` limits."""

    @property
    def size(self) -> int:
        """Octets of memory, about."""
        return self._open.size

    def feed_rows(self, run: MessageRun) -> None:
        """Take the messages of a run that subscribe or cancel."""
        kinds = run.flags[run.first] & MARKED
        for row in np.flatnonzero(kinds).tolist():
            topic = run.topic(row)
            if topic is not None:
                offset = int(run.offsets[run.first[row]])
                self.changes.append(Change(int(run.orders[row]), offset, topic, bool(kinds[row] == SUBSCRIBE)))

    def assign(self, runs: Sequence[MessageRun]) -> None:
        """Write the topics of single frames into `runs`, those that the other side has published in the block."""
        changes, self.changes = sorted(self.changes), []
        ordinals = np.array([change.ordinal for change in changes], np.int64)
        stretches: list[tuple[int, int, Int64]] = []
        for number, run in enumerate(runs):
            rows = np.flatnonzero(may_match(run))
            if len(rows):
                applied = ordinals.searchsorted(run.orders[rows], "right")
                cuts = np.flatnonzero(np.diff(applied)) + 1
                begins = applied[np.append(0, cuts)].tolist()
                stretches += zip(begins, [number] * len(begins), np.split(rows, cuts), strict=True)
        stretches.sort(key=_first_two)
        done = 0
        for count, number, rows in stretches:
            self._apply(changes[done:count])
            done = count
            topics = runs[number].topics
            assert topics is not None
            topics[rows] = self._longest(runs[number], rows)
        self._apply(changes[done:])

    def _apply(self, changes: list[Change]) -> None:
        """From now on these changes are in force."""
        for _, _, topic, entering in changes:
            count = self._open.count(topic)
            if entering and (count or self.size + len(topic) + 2 * NODE_COST <= self.limit):
                self._open.add(topic)
                self._weight += 0 if count else len(topic) + PER_TOPIC
            elif count and not entering:
                self._open.remove(topic)
                self._weight -= len(topic) + PER_TOPIC if count == 1 else 0

    def _longest(self, run: MessageRun, rows: Int64) -> Int64:
        """Octets of the longest topic in force that each of the messages `rows` begins with."""
        frames = run.first[rows]
        starts, sizes = run.bodies[frames] - run.base, np.minimum(run.sizes[frames], LARGEST_TOPIC)
        found = np.full(len(rows), NO_TOPIC)
        if not self._weight:
            return found
        if self._weight <= FEW and self._weight * LEAST_ROWS <= len(rows):
            octets = np.frombuffer(run.data, np.uint8)
            for topic in sorted(self._open, key=len):
                begins = sizes >= len(topic)
                for place, octet in enumerate(topic):
                    begins[begins] = octets[starts[begins] + place] == octet
                found[begins] = len(topic)
            return found
        data, longest = run.data, self._open.longest_prefix_of
        for row, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
            if (name := longest(data[start : start + size])) is not None:
                found[row] = len(name)
        return found


class Topics:
    """The topics of one connection. What its sides have subscribed to is counted in `budget` until `release`."""

    def __init__(self, budget: OctetBudget) -> None:
        self._budget = budget
        self._sides: list[Subscriptions | None] = [None, None]

    def feed(self, side: int, command: Command, ordinal: int) -> None:
        """Take a SUBSCRIBE or CANCEL of a side, decidable with the segment `ordinal`."""
        topic = from_text(command.fields.get("topic") or "")
        if len(topic) <= LARGEST_TOPIC and "topic" in command.fields:
            entering = command.fields["name"] == "SUBSCRIBE"
            self.change(side, Change(ordinal, command.start, topic, entering))

    def change(self, side: int, change: Change) -> None:
        """Take what a side has subscribed to, or cancelled."""
        self._of(side).changes.append(change)

    def assign(self, runs: tuple[list[MessageRun], list[MessageRun]]) -> None:
        """Find the topics of the messages that both sides have sent in the block."""
        for side, own in enumerate(runs):
            for run in own:
                if run.socket_type in PUBLISHERS or run.socket_type in SUBSCRIBERS:
                    run.topics = first_frames(run)
                    if run.socket_type in SUBSCRIBERS and (run.topics != NO_TOPIC).any():
                        self._of(side).feed_rows(run)
        for side, subscriptions in enumerate(self._sides):
            if subscriptions is not None:
                before = subscriptions.size
                subscriptions.limit = min(LARGEST_MEMORY, before + ALL_MEMORY - self._budget.subscriptions)
                subscriptions.assign([run for run in runs[1 - side] if run.socket_type in PUBLISHERS])
                self._count(subscriptions.size - before)

    def release(self) -> None:
        """The connection is over: nothing of it is remembered any more."""
        self._count(-sum(each.size for each in self._sides if each is not None))
        self._sides = [None, None]

    def _count(self, octets: int) -> None:
        self._budget.subscriptions += octets
        self._budget.held += octets

    def _of(self, side: int) -> Subscriptions:
        subscriptions = self._sides[side]
        if subscriptions is None:
            subscriptions = self._sides[side] = Subscriptions()
        return subscriptions


def first_frames(run: MessageRun) -> Int64:
    """Octets of the topic of each message that has one by itself: a subscription, or the first of several frames."""
    frames = run.first
    kinds, sizes = run.flags[frames] & SPECIAL, run.sizes[frames]
    marked = (kinds & MARKED) != 0
    has_topic = marked
    if run.socket_type in PUBLISHERS:
        has_topic = marked | ((kinds == 0) & (run.last > frames))
    known = has_topic & (sizes <= LARGEST_TOPIC) & _is_kept(run, sizes)
    topics: Int64 = np.where(known, sizes - marked, NO_TOPIC)
    return topics


def may_match(run: MessageRun) -> NDArray[np.bool_]:
    """Which messages are single frames of data, as much of which is there as a topic may have. (Where more frames were
    to follow, and are lost, it is none.)"""
    frames = run.first
    single = ((run.flags[frames] & (SPECIAL | MORE)) == 0) & (run.last == frames)
    matching: NDArray[np.bool_] = single & _is_kept(run, np.minimum(run.sizes[frames], LARGEST_TOPIC))
    return matching


def _is_kept(run: MessageRun, sizes: Int64) -> NDArray[np.bool_]:
    """Whether the first `sizes` octets of the first frame of each message were kept."""
    starts = run.bodies[run.first] - run.base
    kept: NDArray[np.bool_] = (starts >= 0) & (sizes <= len(run.data) - starts)
    return kept


def _first_two(stretch: tuple[int, int, Int64]) -> tuple[int, int]:
    return stretch[:2]
