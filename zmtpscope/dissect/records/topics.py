"""Find the topics of published messages, and messages that match no subscription or group (wire.md 10.2).

The first of several frames is a topic. A single frame contains topic and content; only a subscription shows where the
topic ends. A subscription applies to messages that were complete no earlier than the subscription, so the result does
not depend on where blocks end.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.message_columns import NO_TOPIC
from zmtpscope.dissect.records.tables import MessageTable
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
"""First octets of a message that subscribes or cancels."""

COMMANDS = frozenset({"SUBSCRIBE", "CANCEL"})
"""Subscription commands of ZMTP 3.1."""
GROUP_COMMANDS = frozenset({"JOIN", "LEAVE"})
ENTERING = frozenset({"SUBSCRIBE", "JOIN"})
"""Commands after which messages may follow."""

DISTRIBUTING = PUBLISHERS_AND_RADIO | SUBSCRIBERS
"""Socket types that publish, or subscribe by messages."""

LARGEST_TOPIC = LARGEST_AWAITED_TOPIC
"""Octets of a first frame that may be a topic."""

ALL_MEMORY = 64 << 20
"""Memory in octets for the subscriptions of all open sides, as counted by `Trie.size`. One side uses at most
`LARGEST_MEMORY`, as its reader does. ZMTP-CONN-13 reports a side with more, whose first subscriptions count."""

FEW = 64
"""Limit for comparing topics with whole columns: octets of all topics, plus `PER_TOPIC` each."""
PER_TOPIC = 2
MIN_ROWS = 4
"""Minimum number of messages per topic octet for comparing topics with whole columns."""


Names = tuple[bytes, ...]
"""Topics or groups, the shorter ones first."""


class Change(NamedTuple):
    """A subscription or its cancellation, which the segment `ordinal` completed.

    `time` is the capture time of its first octet (ns). `topic` is None if it is unknown, or for another command or
    message.
    """

    ordinal: int
    offset: int
    topic: bytes | None
    entering: bool
    time: int = 0


class Unmatched(NamedTuple):
    """Complete messages of a table that match no current subscription."""

    run: MessageTable
    rows: Int64


class Subscribed(NamedTuple):
    """A side that subscribes to topics, or joins `groups`. A SUB can also send JOIN, without effect."""

    side: int
    groups: bool


class Subscriptions:
    """The current subscriptions of one side.

    `whole`: they are groups, which must equal the group of a message; topics must be a prefix.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole
        self.changes: list[Change] = []
        self.limit = LARGEST_MEMORY
        self.is_complete = True
        """Whether all current subscriptions are known."""
        self._open = Trie()
        self._weight = 0
        """Total octets of the names, plus `PER_TOPIC` each, which `FEW` limits."""
        self._most = 0
        """Octets of the longest name so far."""

    @property
    def size(self) -> int:
        """Estimated memory of the subscriptions, in octets."""
        return self._open.size

    def feed_rows(self, run: MessageTable) -> None:
        """Add the messages of a table that subscribe or cancel."""
        kinds = run.flags[run.first] & MARKED
        several = (kinds == 0) & (run.last > run.first)
        for row in np.flatnonzero((kinds != 0) | several).tolist():
            frame = run.first[row]
            if several[row] and run.head(frame, 1) not in SUBSCRIBING:  # a peer might take it as a subscription
                continue
            offset, order, time = int(run.offsets[frame]), int(run.orders[row]), int(run.times[row])
            is_entering = bool(kinds[row] != CANCEL)
            self.changes.append(Change(order, offset, None if several[row] else run.topic(row), is_entering, time))

    @property
    def few(self) -> Names:
        """All known subscriptions, shorter ones first; empty if there are many."""
        return () if self._weight > FEW else tuple(sorted(self._open, key=len))

    def assign(self, runs: Sequence[MessageTable]) -> list[Change | Unmatched]:
        """Set the topics of single-frame messages that the other side published in this block, if topics are requested.

        Returns subscription changes and unmatched messages in order of arrival.
        """
        changes, self.changes = sorted(self.changes, key=itemgetter(0, 1)), []
        ordinals = np.array([change.ordinal for change in changes], np.int64)
        parts: list[tuple[int, int, Int64]] = []
        for number, run in enumerate(runs):
            rows = np.flatnonzero(may_match(run))
            if len(rows) and not changes:
                parts.append((0, number, rows))
            elif len(rows):
                applied = ordinals.searchsorted(run.orders[rows], "right")
                cuts = np.flatnonzero(np.diff(applied)) + 1
                begins = applied[np.append(0, cuts)].tolist()
                parts += zip(begins, [number] * len(begins), np.split(rows, cuts), strict=True)
        parts.sort(key=itemgetter(0, 1))
        steps: list[Change | Unmatched] = []
        done = 0
        for count, number, rows in parts:
            steps += self._apply(changes[done:count])
            done = count
            unmatched = self._match(runs[number], rows)
            if len(unmatched) and self.is_complete:
                steps.append(Unmatched(runs[number], unmatched))
        return steps + self._apply(changes[done:])

    def _apply(self, changes: list[Change]) -> list[Change]:
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

    def _match(self, run: MessageTable, rows: Int64) -> Int64:
        """Find the topics of the messages `rows`; return the complete ones that match no subscription."""
        if self.whole:
            rows = rows[run.last[rows] == run.first[rows] + 1]
        elif self._open.count(b""):  # everything matches: only single frames need their topic
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

    def _longest(self, run: MessageTable, rows: Int64) -> Int64:
        """Return for each of `rows` the size in octets of the longest matching subscription."""
        frames = run.first[rows]
        starts, sizes = run.bodies[frames] - run.base, np.minimum(run.sizes[frames], LARGEST_TOPIC)
        found = np.full(len(rows), NO_TOPIC)
        if not self._weight:
            return found
        if self._weight <= FEW and self._weight * MIN_ROWS <= len(rows):
            return longest_names(sorted(self._open, key=len), run.data, starts, sizes, whole=self.whole)
        data, ends = run.data, starts + np.minimum(sizes, self._most + self.whole)
        heads = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        known = {head: self._length_of(head) for head in set(heads)}
        found[:] = [known[head] for head in heads]
        return found

    def _length_of(self, head: bytes) -> int:
        """Return the size in octets of the longest subscription that matches a message starting with `head`."""
        if self.whole:
            return len(head) if self._open.count(head) else NO_TOPIC
        name = self._open.longest_prefix_of(head)
        return NO_TOPIC if name is None else len(name)


class Topics:
    """Finds the topics of one connection. `budget` counts the memory of its subscriptions until `release`."""

    def __init__(self, budget: OctetBudget) -> None:
        self._budget = budget
        self._subscriptions: dict[Subscribed, Subscriptions] = {}

    def feed(self, side: int, command: Command, arrival: Arrival) -> None:
        """Add a command if its side may subscribe or join.

        `arrival` is that of its first octet, with the ordinal of the segment that completed it.
        """
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
        self._of(Subscribed(side, groups=False)).changes.append(change)

    def few_of(self, side: int) -> Names:
        """Return all known subscriptions of a side; empty if there are many."""
        subscriptions = self._subscriptions.get(Subscribed(side, groups=False))
        return () if subscriptions is None else subscriptions.few

    def assign(
        self, runs: tuple[list[MessageTable], list[MessageTable]], *, wants_topics: bool
    ) -> list[tuple[Subscribed, list[Change | Unmatched]]]:
        """Find the topics of both sides' messages in this block, and set them with `wants_topics`.

        Returns subscription changes and unmatched messages, for each subscribing side.
        """
        published: dict[Subscribed, list[MessageTable]] = {}
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

    def _assign(self, subscriptions: Subscriptions, published: list[MessageTable]) -> list[Change | Unmatched]:
        before = subscriptions.size
        subscriptions.limit = min(LARGEST_MEMORY, before + ALL_MEMORY - self._budget.subscriptions)
        steps = subscriptions.assign(published)
        self._count(subscriptions.size - before)
        return steps

    def release(self) -> None:
        """Forget the subscriptions of an ended connection."""
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
    """Return for each frame the size of the longest of `names` that is its prefix; `NO_TOPIC` if none is.

    With `whole`, the name must equal the frame. `names` are sorted by length. Frame i is `data[starts[i] : starts[i] +
    sizes[i]]`.
    """
    octets, found = np.frombuffer(data, np.uint8), np.full(len(starts), NO_TOPIC)
    for name in names:
        fits = sizes == len(name) if whole else sizes >= len(name)
        for place, octet in enumerate(name):
            fits[fits] = octets[starts[fits] + place] == octet
        found[fits] = len(name)
    return found


def first_frames(run: MessageTable) -> Int64:
    """Return the topic size of messages whose first frame is only a topic or group, otherwise `NO_TOPIC`.

    These are subscriptions, and messages of several frames from a publisher or RADIO.
    """
    frames = run.first
    kinds, sizes = run.flags[frames] & SPECIAL, run.sizes[frames]
    marked = (kinds & MARKED) != 0
    has_topic = marked
    if run.socket_type in PUBLISHERS_AND_RADIO:
        has_topic = marked | ((kinds == 0) & (run.last > frames))
    known = has_topic & (sizes <= LARGEST_TOPIC) & _is_kept(run, sizes)
    topics: Int64 = np.where(known, sizes - marked, NO_TOPIC)
    return topics


def has_topic_in_front(table: MessageTable) -> bool:
    """Whether a publisher has sent topic and content in one frame."""
    topics, publishes = table.topics, [sender.socket_type in PUBLISHERS for sender in table.senders]
    if topics is None or not any(publishes):
        return False
    has_topic = (table.last == table.first) & (topics > 0)
    if table.sender_of is not None and not all(publishes):
        has_topic &= np.array(publishes)[table.sender_of]
    return bool(has_topic.any())


def may_match(run: MessageTable) -> NDArray[np.bool_]:
    """Return which messages are data with enough octets to be compared with topics.

    A first frame whose following frames are lost does not count.
    """
    frames = run.first
    flags = run.flags[frames]
    is_data = ((flags & SPECIAL) == 0) & (((flags & MORE) == 0) | (run.last > frames))
    matching: NDArray[np.bool_] = is_data & _is_kept(run, np.minimum(run.sizes[frames], LARGEST_TOPIC))
    return matching


def _is_kept(run: MessageTable, sizes: Int64) -> NDArray[np.bool_]:
    """Return for which messages the first `sizes` octets of the first frame were kept."""
    starts = run.bodies[run.first] - run.base
    kept: NDArray[np.bool_] = (starts >= 0) & (sizes <= len(run.data) - starts)
    return kept
