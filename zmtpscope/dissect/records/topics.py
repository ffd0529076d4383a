"""The topic of what is published: the first frame of several, or what the other side has subscribed to (wire.md 10.2);
and what is published although the other side has subscribed to nothing of the kind, or joined no such group.

A single frame holds topic and content in one; which octets are topic only a subscription tells. Those that are in force
are the ones that were decidable no later than the message, so it makes no difference where blocks end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.message_columns import NO_TOPIC
from zmtpscope.records import from_text
from zmtpscope.zmtp.content import LARGEST_AWAITED_TOPIC
from zmtpscope.zmtp.events import CANCEL, MARKED, SPECIAL, Command
from zmtpscope.zmtp.framing import MORE
from zmtpscope.zmtp.memberships import LARGEST_MEMORY
from zmtpscope.zmtp.socket_types import PUBLISHERS, PUBLISHERS_AND_RADIO, SUBSCRIBERS
from zmtpscope.zmtp.trie import NODE_COST, Trie

if TYPE_CHECKING:
    from zmtpscope.dissect.budget import OctetBudget

SUBSCRIBING = (b"\0", b"\1")
"""What a subscription in a message begins with."""

COMMANDS = frozenset({"SUBSCRIBE", "CANCEL"})
"""What subscribes on 3.1, ..."""
GROUP_COMMANDS = frozenset({"JOIN", "LEAVE"})
"""... what joins a group, ..."""
ENTERING = frozenset({"SUBSCRIBE", "JOIN"})
"""... and those of them behind which messages may come."""

DISTRIBUTING = PUBLISHERS_AND_RADIO | SUBSCRIBERS
"""Who publishes in messages, or may subscribe in them."""

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


Names = tuple[bytes, ...]
"""Topics or groups, the shorter ones first."""


class Change(NamedTuple):
    """A subscription (or its end) at stream offset `offset`, decidable with the segment `ordinal`; its first octet was
    captured at `time`. Without `topic` it is not known what was subscribed to, or the side said something else."""

    ordinal: int
    offset: int
    topic: bytes | None
    entering: bool
    time: int = 0


class Unmatched(NamedTuple):
    """Whole messages of a run, `rows`, that nothing in force matches."""

    run: MessageRun
    rows: Int64


class Subscribed(NamedTuple):
    """A side that subscribes to topics, or joins groups. Both are possible: a SUB that sends JOIN has no use for it."""

    side: int
    groups: bool


class Subscriptions:
    """What one side has subscribed to. `whole`: the names of groups, which messages are of, and do not begin with."""

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole
        self.changes: list[Change] = []
        """Those that were read in the block under way."""
        self.limit = LARGEST_MEMORY
        """What `size` may become."""
        self.is_complete = True
        """All that is in force is known."""
        self._open = Trie()
        self._weight = 0
        """What `FEW` limits."""
        self._most = 0
        """Octets of the longest name so far."""

    @property
    def size(self) -> int:
        """Octets of memory, about."""
        return self._open.size

    def feed_rows(self, run: MessageRun) -> None:
        """Take the messages of a run that subscribe or cancel."""
        kinds = run.flags[run.first] & MARKED
        several = (kinds == 0) & (run.last > run.first)
        for row in np.flatnonzero((kinds != 0) | several).tolist():
            frame = run.first[row]
            if several[row] and run.head(frame, 1) not in SUBSCRIBING:  # else somebody may take it as a subscription
                continue
            offset, order, time = int(run.offsets[frame]), int(run.orders[row]), int(run.times[row])
            is_entering = bool(kinds[row] != CANCEL)
            self.changes.append(Change(order, offset, None if several[row] else run.topic(row), is_entering, time))

    @property
    def few(self) -> Names:
        """All topics that are known to be in force behind the block, the shorter ones first, if they are few; else
        none."""
        return () if self._weight > FEW else tuple(sorted(self._open, key=len))

    def assign(self, runs: Sequence[MessageRun]) -> list[Change | Unmatched]:
        """Write the topics of single frames into `runs`, those that the other side has published in the block, where
        topics are wanted. What changed, and what nothing matches, in the order in which it became decidable."""
        changes, self.changes = sorted(self.changes, key=_place), []
        ordinals = np.array([change.ordinal for change in changes], np.int64)
        stretches: list[tuple[int, int, Int64]] = []
        for number, run in enumerate(runs):
            rows = np.flatnonzero(may_match(run))
            if len(rows) and not changes:
                stretches.append((0, number, rows))
            elif len(rows):
                applied = ordinals.searchsorted(run.orders[rows], "right")
                cuts = np.flatnonzero(np.diff(applied)) + 1
                begins = applied[np.append(0, cuts)].tolist()
                stretches += zip(begins, [number] * len(begins), np.split(rows, cuts), strict=True)
        stretches.sort(key=_first_two)
        steps: list[Change | Unmatched] = []
        done = 0
        for count, number, rows in stretches:
            steps += self._apply(changes[done:count])
            done = count
            unmatched = self._match(runs[number], rows)
            if len(unmatched) and self.is_complete:
                steps.append(Unmatched(runs[number], unmatched))
        return steps + self._apply(changes[done:])

    def _apply(self, changes: list[Change]) -> list[Change]:
        """From now on these changes are in force."""
        for _, _, topic, entering, _ in changes:
            if topic is None:
                self.is_complete = self.is_complete and not entering
                continue
            count = self._open.count(topic)
            if entering and (count or self.size + len(topic) + 2 * NODE_COST <= self.limit):
                self._open.add(topic)
                self._weight += 0 if count else len(topic) + PER_TOPIC
                self._most = max(self._most, len(topic))
            elif entering:
                self.is_complete = False
            elif count:
                self._open.remove(topic)
                self._weight -= len(topic) + PER_TOPIC if count == 1 else 0
        return changes

    def _match(self, run: MessageRun, rows: Int64) -> Int64:
        """Find the topics of the messages `rows`: those that have none in force, and are whole."""
        if self.whole:
            rows = rows[run.last[rows] == run.first[rows] + 1]
        elif self._open.count(b""):  # everything matches, only the topics of single frames are to be found
            rows = rows[run.last[rows] == run.first[rows]] if run.topics is not None else rows[:0]
        if not len(rows):
            return rows
        found = self._longest(run, rows)
        if run.topics is not None:
            is_single = run.last[rows] == run.first[rows]
            run.topics[rows[is_single]] = found[is_single]
        unmatched = rows[found == NO_TOPIC]
        whole: Int64 = unmatched[run.complete[unmatched]]
        return whole

    def _longest(self, run: MessageRun, rows: Int64) -> Int64:
        """Octets of the longest topic in force that each of the messages `rows` begins with."""
        frames = run.first[rows]
        starts, sizes = run.bodies[frames] - run.base, np.minimum(run.sizes[frames], LARGEST_TOPIC)
        found = np.full(len(rows), NO_TOPIC)
        if not self._weight:
            return found
        if self._weight <= FEW and self._weight * LEAST_ROWS <= len(rows):
            return longest_names(sorted(self._open, key=len), run.data, starts, sizes, whole=self.whole)
        data, ends = run.data, starts + np.minimum(sizes, self._most + self.whole)
        heads = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        known = {head: self._length_of(head) for head in set(heads)}
        found[:] = [known[head] for head in heads]
        return found

    def _length_of(self, head: bytes) -> int:
        """Octets of the longest name in force of a message that begins with `head`."""
        if self.whole:
            return len(head) if self._open.count(head) else NO_TOPIC
        name = self._open.longest_prefix_of(head)
        return NO_TOPIC if name is None else len(name)


class Topics:
    """The topics of one connection. What its sides have subscribed to is counted in `budget` until `release`."""

    def __init__(self, budget: OctetBudget) -> None:
        self._budget = budget
        self._subscriptions: dict[Subscribed, Subscriptions] = {}

    def feed(self, side: int, command: Command, arrival: Arrival) -> None:
        """Take a command of a side that may subscribe or join, or says something else; `arrival` is that of its first
        octet, with the ordinal of the segment that made it decidable."""
        name, socket_type = command.fields.get("name"), command.regime.socket_type
        is_group = name in GROUP_COMMANDS
        if not (name in COMMANDS or is_group or socket_type in SUBSCRIBERS or socket_type == "DISH"):
            return
        text = command.fields.get("group" if is_group else "topic")
        topic = None if text is None else from_text(text)
        if topic is not None and len(topic) > LARGEST_TOPIC:
            topic = None
        to = Subscribed(side, is_group or (socket_type == "DISH" and name not in COMMANDS))
        change = Change(arrival.ordinal, command.start, topic, name in ENTERING, arrival.time)
        self._of(to).changes.append(change)

    def change(self, side: int, change: Change) -> None:
        """Take what a side has subscribed to, or cancelled."""
        self._of(Subscribed(side, groups=False)).changes.append(change)

    def few_of(self, side: int) -> Names:
        """All topics that a side is known to have subscribed to, if they are few; else none."""
        subscriptions = self._subscriptions.get(Subscribed(side, groups=False))
        return () if subscriptions is None else subscriptions.few

    def assign(
        self, runs: tuple[list[MessageRun], list[MessageRun]], *, wants_topics: bool
    ) -> list[tuple[Subscribed, list[Change | Unmatched]]]:
        """Find the topics of the messages that both sides have sent in the block, and write them where they are wanted.
        Return the changes and the unmatched messages of each side that subscribes or joins."""
        published: dict[Subscribed, list[MessageRun]] = {}
        for side, own in enumerate(runs):
            for run in own:
                if run.socket_type in SUBSCRIBERS or (wants_topics and run.socket_type in PUBLISHERS):
                    run.topics = first_frames(run)
                if run.socket_type in SUBSCRIBERS:
                    self._of(Subscribed(side, groups=False)).feed_rows(run)
                elif run.socket_type in PUBLISHERS_AND_RADIO:
                    to = Subscribed(1 - side, groups=run.socket_type == "RADIO")
                    published.setdefault(to, []).append(run)
                    self._of(to)
        return [
            (to, self._assign(each, published.get(to, [])))
            for to, each in sorted(self._subscriptions.items())
            if each.changes or to in published
        ]

    def _assign(self, subscriptions: Subscriptions, published: list[MessageRun]) -> list[Change | Unmatched]:
        before = subscriptions.size
        subscriptions.limit = min(LARGEST_MEMORY, before + ALL_MEMORY - self._budget.subscriptions)
        steps = subscriptions.assign(published)
        self._count(subscriptions.size - before)
        return steps

    def release(self) -> None:
        """The connection is over: nothing of it is remembered any more."""
        self._count(-sum(each.size for each in self._subscriptions.values()))
        self._subscriptions = {}

    def _count(self, octets: int) -> None:
        self._budget.subscriptions += octets
        self._budget.held += octets

    def _of(self, to: Subscribed) -> Subscriptions:
        subscriptions = self._subscriptions.get(to)
        if subscriptions is None:
            subscriptions = self._subscriptions[to] = Subscriptions(whole=to.groups)
        return subscriptions


def longest_names(names: Sequence[bytes], data: bytes, starts: Int64, sizes: Int64, *, whole: bool = False) -> Int64:
    """Octets of the longest of `names`, the shorter ones first, with which each frame begins, or which it is as a
    `whole`; `NO_TOPIC` where there is none. Of `data` a frame is `sizes` octets from `starts` on, all of them there."""
    octets, found = np.frombuffer(data, np.uint8), np.full(len(starts), NO_TOPIC)
    for name in names:
        fits = sizes == len(name) if whole else sizes >= len(name)
        for place, octet in enumerate(name):
            fits[fits] = octets[starts[fits] + place] == octet
        found[fits] = len(name)
    return found


def first_frames(run: MessageRun) -> Int64:
    """Octets of the topic of each message that has one by itself: a subscription, or the first of several frames; of
    RADIO the group."""
    frames = run.first
    kinds, sizes = run.flags[frames] & SPECIAL, run.sizes[frames]
    marked = (kinds & MARKED) != 0
    has_topic = marked
    if run.socket_type in PUBLISHERS_AND_RADIO:
        has_topic = marked | ((kinds == 0) & (run.last > frames))
    known = has_topic & (sizes <= LARGEST_TOPIC) & _is_kept(run, sizes)
    topics: Int64 = np.where(known, sizes - marked, NO_TOPIC)
    return topics


def has_topic_in_front(run: MessageRun) -> bool:
    """Whether a publisher has sent topic and content in one frame."""
    topics = run.topics
    return topics is not None and run.socket_type in PUBLISHERS and bool(((run.last == run.first) & (topics > 0)).any())


def may_match(run: MessageRun) -> NDArray[np.bool_]:
    """Which messages are data, of whose first frame as much is there as a topic may have. (Where more frames were to
    follow, and are lost, it is none.)"""
    frames = run.first
    flags = run.flags[frames]
    is_data = ((flags & SPECIAL) == 0) & (((flags & MORE) == 0) | (run.last > frames))
    matching: NDArray[np.bool_] = is_data & _is_kept(run, np.minimum(run.sizes[frames], LARGEST_TOPIC))
    return matching


def _is_kept(run: MessageRun, sizes: Int64) -> NDArray[np.bool_]:
    """Whether the first `sizes` octets of the first frame of each message were kept."""
    starts = run.bodies[run.first] - run.base
    kept: NDArray[np.bool_] = (starts >= 0) & (sizes <= len(run.data) - starts)
    return kept


def _place(change: Change) -> tuple[int, int]:
    return change[:2]


def _first_two(stretch: tuple[int, int, Int64]) -> tuple[int, int]:
    return stretch[:2]
