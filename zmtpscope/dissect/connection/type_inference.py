"""Infer the socket types of sides whose start was not captured (decisions/analyser.md).

An inferred type applies from the segment that shows it. It therefore depends neither on the size of blocks nor on later
segments, and messages already written never change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.tables import FrameTable, MessageTable
from zmtpscope.dissect.records.topics import Change
from zmtpscope.zmtp.events import CANCEL, SPECIAL, SUBSCRIBE
from zmtpscope.zmtp.framing import MORE
from zmtpscope.zmtp.regime import Framing, Regime, regime
from zmtpscope.zmtp.socket_types import SUBSCRIBERS, USUAL_PARTNERS

if TYPE_CHECKING:
    from zmtpscope.dissect.budget import OctetBudget
    from zmtpscope.dissect.stream.side_stream import SideStream

MIN_MATCHES = 3
"""Number of consecutive new messages that must match a subscription: a reply to a request is only one."""

MAX_HEADS, HEAD = 256, 32
"""Distinct message starts to remember per side, and their size. Above, only commands show a subscriber."""
HEAD_COST = 96
MAX_ASKED = 64
"""Subscriptions per side that wait for messages."""
MAX_MESSAGES = 65_536

R = TypeVar("R", MessageTable, FrameTable)


class MessageStart(NamedTuple):
    """The start of an unencrypted message, as evidence for socket types.

    `order` is its position among all messages of the connection, `head` are its first octets. `subscription`: it is one
    frame that begins with `00` or `01`.
    """

    order: int
    side: int
    offset: int
    packet: int
    head: bytes
    subscription: bool


@dataclass(slots=True)
class Asked:
    """A message that may be a subscription to `topic`.

    `is_new`: no earlier message began with the topic. `matches` counts matching messages of the other side since this
    side last sent one.
    """

    topic: bytes
    packet: int
    offset: int
    is_new: bool
    matches: int = 0


class TypeInference:
    """Infers the socket types of a connection on which at least one side has not announced its type."""

    def __init__(self, view: ConnectionView, budget: OctetBudget) -> None:
        self.view = view
        self.budget = budget
        self.types: list[str | None] = [None, None]
        self.since = 0
        """Ordinal of the segment that shows the types."""
        self.is_over = False
        self._commands: list[tuple[int, int]] = []
        """(ordinal, side) of SUBSCRIBE and CANCEL."""
        self._watches_messages = True
        self._looked_at = 0
        self._sent_other = [False, False]
        """Whether each side has sent messages that cannot be subscriptions."""
        self._last_packets = [0, 0]
        """The last packet that began a message."""
        self._heads: tuple[set[bytes], set[bytes]] = (set(), set())
        """First octets of messages."""
        self._asked: tuple[dict[bytes, Asked], dict[bytes, Asked]] = ({}, {})

    def feed(self, side: int, ordinal: int) -> None:
        """Add a SUBSCRIBE or CANCEL of `side`, completed by the segment `ordinal`.

        Only subscribers send these commands.
        """
        self._commands.append((ordinal, side))

    def evaluate(self, runs: tuple[list[MessageTable], list[MessageTable]]) -> list[tuple[int, Change]]:
        """Examine the commands and messages of a block, before other parts use them.

        Returns (side, change) for each earlier message that turns out to be a subscription.
        """
        if self.is_over:
            return []
        found = min([*self._commands, *self._by_the_other_side()], default=None)
        one_by_one = self._watches_messages and not self._take_at_once(runs)
        for message in sorted(_messages(runs), key=itemgetter(0, 1, 2)) if one_by_one else ():
            if found is not None and message.order >= found[0]:
                break
            if self._shows_subscriber(message):
                found = message.order, 1 - message.side
                break
        if found is None:
            return []
        self.since, side = found
        asked = [(side, Change(self.since, each.offset, each.topic, True)) for each in self._asked[side].values()]
        self._find(side)
        return asked

    def apply(self, run: R) -> list[R]:
        """Set the inferred types in a table; return its parts, divided where a type becomes known."""
        side = run.stream.side or 0
        if (self.types[0] is None and self.types[1] is None) or run.orders[-1] < self.since:
            return [run]
        cut = int(run.orders.searchsorted(self.since))
        before, behind = np.arange(cut), np.arange(cut, len(run.orders))
        after = run.take(behind) if cut else run
        found = self.types[side]
        if found is not None and after.regime.socket_type is None:
            after.change(regime=_with_type(after.regime, found), socket_type=found)
            if isinstance(after, MessageTable) and found in SUBSCRIBERS:
                _mark(after)
        return [run.take(before), after] if cut else [after]

    def release(self) -> None:
        """Forget all messages and stop watching."""
        if self._watches_messages:
            self.budget.held -= HEAD_COST * sum(map(len, self._heads))
            self._heads, self._asked, self._watches_messages = (set(), set()), ({}, {}), False
            for stream in self.view.streams:
                if stream.is_midstream:
                    stream.messages.require_rows(False)

    # -- evidence ----------------------------------------------------------------------------------------------------

    def _by_the_other_side(self) -> Iterator[tuple[int, int]]:
        """Yield (ordinal, side) for each side whose known type implies the type of the other side."""
        for side, stream in enumerate(self.view.streams):
            known = stream.units.type_known
            if known is not None and stream.socket_type in USUAL_PARTNERS:
                yield known, side

    def _find(self, side: int) -> None:
        """Set the types of both sides, since `side` is known to subscribe, or has a known type."""
        own = self.view.streams[side].socket_type
        types = own or "SUB", USUAL_PARTNERS.get(own or "SUB")
        for each, found in zip((side, 1 - side), types, strict=True):
            stream = self.view.streams[each]
            is_silent = stream.reading is None and self.view.tcp.listener is None
            if not self._type_was_known(stream) and (stream.is_midstream or is_silent):
                self.types[each] = stream.inferred_type = found
        self.is_over = True
        self.release()

    def _type_was_known(self, stream: SideStream) -> bool:
        """Whether the type of a side was known before the inference. A later announcement applies from then on."""
        known = stream.units.type_known
        return stream.assumed_type is not None or (known is not None and known <= self.since)

    def _take_at_once(self, runs: tuple[list[MessageTable], list[MessageTable]]) -> bool:
        """Add all messages of a block in one step, which is much faster; return whether this was possible.

        It is possible if only one side has sent messages, as publishers do, and they are no evidence.
        """
        side = 0 if runs[0] else 1
        own = [run for run in runs[side] if run.regime.framing is Framing.V2]
        if runs[1 - side] or self._asked[1 - side] or any(_may_subscribe(run).any() for run in own):
            return False
        heads = self._heads[side]
        before = len(heads)
        for run in own:
            starts = run.bodies[run.first] - run.base
            sizes = np.where(starts < 0, 0, np.minimum(run.sizes[run.first], HEAD))  # of the octets kept
            data = run.data
            heads.update(
                {data[start : start + size] for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)}
            )
            self._looked_at += len(run.first)
            self._last_packets[side] = max(self._last_packets[side], int(run.packets.max()))
            self._sent_other[side] = True
        self.budget.held += HEAD_COST * (len(heads) - before)
        for asked in self._asked[side].values() if own else ():
            asked.matches = 0
        self._limit(side)
        return True

    def _limit(self, side: int) -> None:
        """Stop watching the messages of a side if they cannot be evidence, or use too much memory."""
        is_full = len(self._heads[side]) > MAX_HEADS or self._looked_at > MAX_MESSAGES or self.budget.is_exceeded
        if all(self._sent_other) or is_full:
            self.release()

    def _shows_subscriber(self, message: MessageStart) -> bool:
        """Whether this message completes the evidence that the other side is a subscriber.

        The other side must have sent only subscriptions, and this must be the first message that one of them matches.
        """
        if not self._watches_messages:
            return False
        side, other = message.side, 1 - message.side
        self._looked_at += 1
        if message.subscription:
            self._take_subscription(message)
        else:
            self._sent_other[side] = True
        self._last_packets[side] = max(self._last_packets[side], message.packet)
        for asked in self._asked[side].values():
            asked.matches = 0
        head = message.head[:HEAD]
        asked_for = [asked for topic, asked in self._asked[other].items() if head.startswith(topic)]
        if asked_for and not self._sent_other[other]:
            longest = asked_for[0] if len(asked_for) == 1 else max(asked_for, key=_topic_size)
            longest.is_new &= message.packet > longest.packet  # otherwise it was only read later
            longest.matches += longest.is_new and message.packet > self._last_packets[other]
            if longest.matches >= MIN_MATCHES:
                return True
        if head not in self._heads[side]:
            self._heads[side].add(head)
            self.budget.held += HEAD_COST
        self._limit(side)
        return False

    def _take_subscription(self, message: MessageStart) -> None:
        topic, asked = message.head[1:], self._asked[message.side]
        if message.head[0] and 0 < len(topic) <= HEAD and len(asked) < MAX_ASKED:
            is_new = not any(head.startswith(topic) for head in self._heads[1 - message.side])
            asked.setdefault(topic, Asked(topic, message.packet, message.offset, is_new))
        elif not message.head[0]:
            asked.pop(topic, None)


def _topic_size(asked: Asked) -> int:
    return len(asked.topic)


def _messages(runs: tuple[list[MessageTable], list[MessageTable]]) -> Iterator[MessageStart]:
    for side, own in enumerate(runs):
        for run in own:
            if run.regime.framing is not Framing.V2:
                continue
            firsts, orders, packets = run.first.tolist(), run.orders.tolist(), run.packets.tolist()
            for row, (frame, may_be) in enumerate(zip(firsts, _may_subscribe(run).tolist(), strict=True)):
                head = run.head(frame, 1 + HEAD) or b""
                yield MessageStart(orders[row], side, int(run.offsets[frame]), packets[row], head, may_be)


def _may_subscribe(run: MessageTable) -> NDArray[np.bool_]:
    """Return which messages are one frame that begins with `00` or `01`."""
    frames = run.first
    may_be: NDArray[np.bool_] = (run.last == frames) & ((run.flags[frames] & SPECIAL) == 0) & (run.sizes[frames] > 0)
    starts = run.bodies[frames] - run.base
    may_be &= (starts >= 0) & (starts < len(run.data))
    octets = np.frombuffer(run.data, np.uint8)
    may_be[may_be] = octets[starts[may_be]] <= 1
    return may_be


def _with_type(now: Regime, socket_type: str) -> Regime:
    return regime(
        now.framing,
        now.version,
        now.mechanism,
        now.phase,
        now.form,
        now.role,
        socket_type,
        now.early,
        now.opened,
    )


def _mark(run: MessageTable) -> None:
    """Mark the messages that subscribe or cancel, as for a known subscriber."""
    flags = run.flags.copy()
    for frame in run.first[(flags[run.first] & (SPECIAL | MORE)) == 0].tolist():
        head = run.head(frame, 1)
        if head in (b"\0", b"\1"):
            flags[frame] |= SUBSCRIBE if head == b"\1" else CANCEL
    run.flags = flags
