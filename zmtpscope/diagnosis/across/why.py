"""Explain for each message of a topic why it did or did not reach a peer, as far as a capture shows.

Published messages are known from a sibling: the other subscriber of the publisher with most messages. Without one, only
those to the peer itself are known, because a publisher of ZMTP 3.0 sends only matching ones.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from itertools import accumulate, groupby, pairwise, repeat
from operator import itemgetter
from typing import NamedTuple
from zlib import crc32

import numpy as np

from zmtpscope.diagnosis.across.deliveries import ARRIVES_NS
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.publishers import Publisher, Subscriber, publishers
from zmtpscope.diagnosis.across.words import address, duration, name_of, topic_name
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedFinding, ObservedOutage
from zmtpscope.diagnosis.observers.topics import TopicKey
from zmtpscope.dissect import Batch
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted
from zmtpscope.zmtp.events import SPECIAL
from zmtpscope.zmtp.socket_types import PUBLISHERS_AND_RADIO

MAX_MESSAGES = 4 << 20
"""Messages to remember, of 32 octets each; later ones are only counted."""

LONGEST_COMPARED = 4096

LONGEST_BEGINNING = 256
MAX_BEGINNINGS = 1 << 15
"""Different beginnings to keep, for subscriptions that are longer than the topic."""


def _numbers() -> array[int]:
    return array("q")


@dataclass(slots=True, eq=False)
class TopicMessages:
    """Messages of one connection, as columns with a value per message.

    `times` are in ns, `packets` are packet references, `marks` checksums of the contents, and `ends` the offsets in the
    TCP stream after the last octet (0 if encrypted).
    """

    times: array[int] = field(default_factory=_numbers)
    packets: array[int] = field(default_factory=_numbers)
    marks: array[int] = field(default_factory=_numbers)
    ends: array[int] = field(default_factory=_numbers)


class TopicSearch:
    """Collects the messages of one topic from all batches, by connection. Messages with missing octets are skipped."""

    def __init__(self, topic: bytes) -> None:
        self.topic = topic
        self.found: dict[str, TopicMessages] = {}
        self.beginnings: dict[int, bytes] = {}
        """First octets of the messages by their checksum, of at most `MAX_BEGINNINGS` messages."""
        self.left_out = 0
        """Number of messages for which there was no room."""
        self._files: Sequence[str | None] = ()
        self._count = 0

    def feed(self, batch: Batch) -> None:
        self._files = batch.files
        for run in batch.by_sender():
            if run.socket_type in PUBLISHERS_AND_RADIO:
                rows = self._matching(run)
                if len(rows):
                    self._remember(run, rows)

    def moment(self, time: int, packet: int) -> Moment:
        return Moment.of_packet(time, packet, self._files)

    def _matching(self, run: MessageTable) -> Int64:
        frames = run.first
        starts, size = run.bodies[frames] - run.base, len(self.topic)
        is_there = (starts >= 0) & (starts + size <= len(run.data)) & (run.sizes[frames] >= size)
        if run.socket_type == "RADIO":
            is_there &= run.sizes[frames] == size
        rows = np.flatnonzero(is_there & run.complete & ((run.flags[frames] & SPECIAL) == 0))
        octets = np.frombuffer(run.data, np.uint8)
        for place, octet in enumerate(self.topic):
            rows = rows[octets[starts[rows] + place] == octet]
        return rows

    def _remember(self, run: MessageTable, rows: Int64) -> None:
        room = MAX_MESSAGES - self._count
        self.left_out += max(0, len(rows) - room)
        rows = rows[:room]
        self._count += len(rows)
        found = self.found.setdefault(run.stream.conn_id, TopicMessages())
        found.times.frombytes(run.times[rows].tobytes())
        found.packets.frombytes(run.packets[rows].tobytes())
        last = run.last[rows]
        behind = run.bodies[last] + run.sizes[last]
        found.ends.frombytes((behind if run.source == 0 else np.zeros_like(behind)).tobytes())
        starts = run.bodies[run.first[rows]] - run.base
        ends = np.minimum(behind - run.base, starts + LONGEST_COMPARED)
        data = run.data
        marks = [crc32(data[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        found.marks.extend(marks)
        self._keep_beginnings(run, rows, marks)

    def _keep_beginnings(self, run: MessageTable, rows: Int64, marks: list[int]) -> None:
        frames = run.first[rows]
        starts = run.bodies[frames] - run.base
        ends = np.minimum(starts + np.minimum(run.sizes[frames], LONGEST_BEGINNING), len(run.data))
        for mark, start, end in zip(marks, starts.tolist(), ends.tolist(), strict=True):
            if mark not in self.beginnings:
                if len(self.beginnings) >= MAX_BEGINNINGS:
                    return
                self.beginnings[mark] = run.data[start:end]


AT_ONCE_NS = SECOND // 20
"""A message sent within this time after an outage may have waited for its end."""

GAP = "SEQUENCE-01"

Client = list[Subscriber]
"""Connections of one peer to a publisher, in order and without overlap."""


class Reason(NamedTuple):
    """Why a message arrived (`came`) or did not, as a text. `moment` is the time of the deciding event, which ends the
    sentence."""

    came: bool
    text: str
    moment: Moment | None = None


CAME = Reason(True, "came")


class Fate(NamedTuple):
    """When a message was first sent, whether it arrived, and the reason."""

    moment: Moment
    reason: Reason


class MessageRange(NamedTuple):
    """Consecutive messages with the same outcome, from number `first` to `last`; the first message of a topic has
    number 1."""

    first: int
    last: int
    begin: Moment
    end: Moment
    reason: Reason


class Answer(NamedTuple):
    """Which messages of a topic from one publisher reached one peer, and why others did not.

    `sibling` is another subscriber, which shows the published messages. `gap` is the finding about missing sequence
    numbers, or None.
    """

    publisher: str
    peer: str
    sibling: str | None
    messages: int
    ranges: list[MessageRange]
    gap: ObservedFinding | None


def peer_names(knowledge: Knowledge) -> list[str]:
    """Return identities and addresses of subscribers."""
    return list(dict.fromkeys(each.name for publisher in publishers(knowledge) for each in publisher.subscribers))


def answers(search: TopicSearch, knowledge: Knowledge, peer: str) -> Iterator[Answer]:
    """Yield the outcomes of a topic's messages for `peer`, once for each publisher and each connection at the same
    time.

    `peer` is an identity, an address, or address and port.
    """
    for publisher in publishers(knowledge):
        clients = _clients(publisher.subscribers)
        most = nlargest(2, clients, key=lambda each: _count(search, each))
        for own in clients:
            if any(_is_called(each, peer) for each in own):
                sibling = next((each for each in most if each is not own), None)
                yield _answer(search, publisher, own, sibling)


def _peer_name(client: Client) -> str:
    """Name a peer by socket type and identity, or else by its address.

    A peer with a single connection also gets its port, since others may have the same address.
    """
    first = client[0]
    side = first.connection.sides[first.side]
    where = side.ip if len(client) > 1 else address((side.ip, side.port))
    return " ".join(filter(None, (first.socket_type, side.identity or where)))


def _is_called(subscriber: Subscriber, name: str) -> bool:
    side = subscriber.connection.sides[subscriber.side]
    return name in (subscriber.identity, subscriber.ip, address((side.ip, side.port)))


def _clients(subscribers: Iterable[Subscriber]) -> list[Client]:
    """Group connections of subscribers by address and identity. Connections that overlap in time are
    separate clients."""
    clients: list[Client] = []
    for own in grouped(((each.ip, each.identity), each) for each in subscribers).values():
        is_apart = all(one.connection.last_ns <= other.connection.start.ns for one, other in pairwise(own))
        clients += [own] if is_apart else [[each] for each in own]
    return clients


class _Copy(NamedTuple):
    """One copy of a message on the wire: time (ns), packet reference, checksum of the contents, and why it arrived or
    did not."""

    time: int
    packet: int
    mark: int
    reason: Reason = CAME


def _copies(search: TopicSearch, client: Client) -> list[_Copy]:
    found: list[_Copy] = []
    for subscriber in client:
        messages = search.found.get(subscriber.connection.conn_id)
        if messages is not None:
            end = _until(subscriber)  # data after FIN or RST is not delivered
            outages = subscriber.connection.sides[1 - subscriber.side].outages
            reasons: Iterable[Reason] = repeat(CAME)
            if outages:
                reasons = map(partial(_on_its_way, outages), messages.times, messages.ends)
            copies = map(_Copy, messages.times, messages.packets, messages.marks, reasons)
            found += (copy for copy in copies if copy.time <= end)
    return sorted(found, key=itemgetter(0, 1, 2))


def _on_its_way(outages: Sequence[ObservedOutage], time: int, end: int) -> Reason:
    """Return why a message that was sent to the peer arrived, or did not.

    It was sent at `time` (ns), and its last octet is at stream offset `end`. During one of the `outages` it may be
    lost.
    """
    for outage in outages:
        if not outage.retransmissions or end <= outage.offset:
            continue
        took, again = duration(outage.duration_ns), counted(outage.retransmissions, "time")
        if not outage.is_acknowledged:
            return Reason(False, f"never acknowledged: TCP sent it again for {took}, {again}, in vain")
        if time <= outage.end_ns:
            return Reason(True, f"arrived late: TCP retransmitted for {took}, {again}, until it was acknowledged")
        if time <= outage.end_ns + AT_ONCE_NS:
            return Reason(True, f"arrived, perhaps late: sent right after {took} without any acknowledgment")
    return CAME


def _answer(search: TopicSearch, publisher: Publisher, own: Client, sibling: Client | None) -> Answer:
    got = _copies(search, own)
    published = [] if sibling is None else _copies(search, sibling)
    fates = sorted(_fates(search, own, got, published), key=lambda fate: fate.moment.ns)
    ranges = []
    number = 1
    for reason, each in groupby(fates, key=lambda fate: fate.reason):
        same = list(each)
        ranges.append(MessageRange(number, number + len(same) - 1, same[0].moment, same[-1].moment, reason))
        number += len(same)
    has_shown = sibling is not None and bool(published)
    return Answer(
        name_of(own[0].connection, 1 - own[0].side),
        _peer_name(own),
        _peer_name(sibling) if sibling is not None and has_shown else None,
        len(fates),
        ranges,
        next(filter(None, (each.connection.findings.get((GAP, 1 - each.side)) for each in own)), None),
    )


def _count(search: TopicSearch, client: Client) -> int:
    found = (search.found.get(each.connection.conn_id) for each in client)
    return sum(len(each.times) for each in found if each is not None)


def _fates(search: TopicSearch, own: Client, got: list[_Copy], published: list[_Copy]) -> Iterator[Fate]:
    """Yield the outcome of each message, from the copies that the peer received (`got`) and all published copies.

    A received copy is matched with the next published message of equal content during the peer's subscription.
    """
    waiting: dict[int, deque[_Copy]] = {}
    for copy in got:
        waiting.setdefault(copy.mark, deque()).append(copy)
    times = _Times(own)
    lost: dict[Subscriber, list[_Copy]] = {}
    last_sent: dict[Subscriber, int] = {}
    for copy in published:
        subscriber = times.at(copy.time)
        if subscriber is None:
            reason: Reason | None = times.why_not(copy.time)
        else:
            reason = _why_not_sent(subscriber, copy.time, search.topic, search.beginnings.get(copy.mark))
        equal = waiting.get(copy.mark, deque())
        while equal and equal[0].time < copy.time - ARRIVES_NS:
            alone = equal.popleft()  # no sibling got this one
            yield Fate(_moment(search, alone), alone.reason)
        if reason is not None:
            yield Fate(_moment(search, copy), reason)
        elif equal:
            if subscriber is not None:
                last_sent[subscriber] = copy.time
            yield Fate(_moment(search, copy), equal.popleft().reason)
        elif subscriber is not None:
            lost.setdefault(subscriber, []).append(copy)
    for subscriber, copies in lost.items():
        last = last_sent.get(subscriber, 0)
        dropped, behind = _why_dropped(subscriber), _why_behind(subscriber, max(last, copies[0].time), copies[-1].time)
        for copy in copies:
            yield Fate(_moment(search, copy), dropped if copy.time < last else behind)
    for equal in waiting.values():
        for copy in equal:
            yield Fate(_moment(search, copy), copy.reason)


def _moment(search: TopicSearch, copy: _Copy) -> Moment:
    return search.moment(copy.time, copy.packet)


class _Times:
    def __init__(self, own: Client) -> None:
        self._own = own
        self._starts = [each.connection.start.ns for each in own]
        self._until = list(accumulate((_until(each) for each in own), max))

    def at(self, time: int) -> Subscriber | None:
        """Return the peer's first connection at a time (ns), or None."""
        place = bisect_left(self._until, time)
        return self._own[place] if place < len(self._own) and self._starts[place] <= time else None

    def why_not(self, time: int) -> Reason:
        """Return why the peer had no connection at a time (ns)."""
        place = bisect_right(self._starts, time)
        if place == len(self._own):
            return Reason(False, "not connected any more")
        again = " again" if place else ""
        return Reason(False, f"not connected{again} before", self._own[place].connection.start)


def _why_not_sent(subscriber: Subscriber, time: int, topic: bytes, beginning: bytes | None) -> Reason | None:
    """Return why the publisher did not have to send a message to the subscriber; None if it had to.

    The message begins with `topic`, and with the octets `beginning` if these are known.
    """
    if not subscriber.is_filtered:
        return None  # it gets all messages, or some subscriptions are unknown
    ready = [side.ready for side in subscriber.connection.sides if side.ready is not None]
    if len(ready) < len(subscriber.connection.sides):
        return Reason(False, "the handshake was never complete")
    if max(ready).ns > time:
        return Reason(False, "the handshake was not complete before", max(ready))
    whole = topic if beginning is None or subscriber.is_of_groups else beginning
    matching = subscriber.matching(TopicKey(whole, is_frame=True))
    if any(each.moment.ns <= time and (each.until_ns is None or time <= each.until_ns) for each in matching):
        return None
    later = [each.moment for each in matching if each.moment.ns > time]
    if later:
        what = "not in the group" if subscriber.is_of_groups else "not subscribed to"
        return Reason(False, f"{what} {topic_name(topic)} before", min(later))
    if matching:
        had = "it had left the group" if subscriber.is_of_groups else "its subscription had been cancelled"
        return Reason(False, had)
    if subscriber.is_of_groups:
        return Reason(False, "not in the group on the connection that began", subscriber.connection.start)
    if subscriber.has_longer(whole):
        return Reason(False, "it may not match: the subscription of the peer is longer than this topic")
    if subscriber.has_longer(topic):
        return Reason(False, "the subscription of the peer is longer than this topic, and these do not begin with it")
    return Reason(False, "not subscribed to it on the connection that began", subscriber.connection.start)


def _until(subscriber: Subscriber) -> float:
    return float("inf") if subscriber.connection.is_open else subscriber.ended_ns


def _why_dropped(subscriber: Subscriber) -> Reason:
    """Return why a message that the publisher had to send did not arrive, although later messages did."""
    return _cannot_tell(subscriber) or Reason(
        False, "dropped by the publisher (its queue for this peer was full): later ones arrived"
    )


def _why_behind(subscriber: Subscriber, first: int, last: int) -> Reason:
    """Return why the last messages of a topic, published from `first` to `last` (ns), did not arrive."""
    cannot_tell = _cannot_tell(subscriber)
    if cannot_tell is not None:
        return cannot_tell
    stalls = [stall for stall in subscriber.stalls if stall.moment.ns <= last and stall.end_ns >= first]
    if not stalls:
        return Reason(False, "did not arrive before the capture or the connection ended: dropped, or still queued")
    count = sum(stall.count for stall in stalls)
    stretches = f" in {count} stretches" if count > 1 else ""
    closed = f"closed for {duration(sum(stall.duration_ns for stall in stalls))}{stretches}"
    return Reason(False, f"dropped, or it waits: the receive window of the peer was {closed} from", stalls[0].moment)


def _cannot_tell(subscriber: Subscriber) -> Reason | None:
    if not subscriber.connection.is_whole:
        return Reason(False, "unknown: octets of its connection are missing from the capture")
    if not subscriber.is_filtered:
        return Reason(False, "unknown: its subscriptions are not in the capture")
    return None
