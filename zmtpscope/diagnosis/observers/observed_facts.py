"""Facts about one side of a connection."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.durations import Distribution, Trend
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.records import empty_own


@dataclass(slots=True, eq=False)
class ObservedRequest:
    """A request; `content` is a checksum, or 0 if not computed."""

    moment: Moment
    ref: str
    size: int
    content: int
    end: int
    """Offset after the last octet in the TCP stream; -1 if encrypted."""


class Answered(NamedTuple):
    """A request with the latency of its reply (ns)."""

    took: int
    request: ObservedRequest


MAX_LONGEST = 4
"""Slow replies to remember for a connection."""


@dataclass(slots=True, eq=False)
class ObservedRequests:
    asker: int
    is_lock_step: bool
    """Whether the asker is a REQ, which waits for the reply before it asks again."""
    is_guessed: bool = False
    """Whether the socket types are unknown, and alternating messages show the asker."""
    counts: Counter[str] = field(default_factory=Counter)
    latency: Distribution = field(default_factory=Distribution)
    trend: Trend = field(default_factory=Trend)
    """Latencies of the replies."""
    first: ObservedRequest | None = None
    last_answered_ns: int = 0
    """Time of the newest request with a reply."""
    last_reply: Moment | None = None
    longest: list[Answered] = field(default_factory=list)
    """Slowest replies, slowest first."""
    late: ObservedRequest | None = None
    """The first request whose reply arrived after the asker's next request."""
    takes_late: bool = False
    """Whether the asker takes a late reply for the answer to its next request, because requests have no id
    (ZMQ_REQ_CORRELATE)."""
    unasked: ObservedRequest | None = None
    """First reply that belongs to no request."""
    without_id: ObservedRequest | None = None
    """First reply without an id, although each request of the REQ contains one before the empty frame."""
    abandoned: ObservedRequest | None = None
    """The first request without a reply when the asker asked again."""
    waiting: list[ObservedRequest] = field(default_factory=list)
    """Oldest requests without a reply, now or at the end of the connection or the capture."""
    waiting_count: int = 0
    """Number of all waiting requests."""

    @property
    def are_displaced(self) -> bool:
        """Whether a REQ takes late replies for the answers to its next requests.

        It asked again before a reply arrived, requests have no id, and the surplus replies are not more than the
        requests that it abandoned.
        """
        left = self.counts["unanswered"] + self.waiting_count
        is_relaxed = self.is_lock_step and self.abandoned is not None
        return is_relaxed and self.unasked is not None and self.counts["unasked"] <= left


JOIN = "join"
"""Form of a membership in a group."""


@dataclass(slots=True, eq=False)
class ObservedSubscription:
    """A subscription, or a group that a DISH joined (`form` is join), and its messages.

    The side subscribed `times` times, first at `moment`. `messages` matched, the first at `first_ns`.
    """

    topic: bytes
    form: str
    moment: Moment
    source: int
    offset: int
    length: int
    times: int = 1
    until_ns: int | None = None
    ended_by: Literal["cancel", "close"] | None = None
    messages: int = 0
    first_ns: int | None = None

    left: int = 0
    """Number of LEAVEs of a group: a RADIO counts JOINs and LEAVEs."""

    def matches(self, topic: bytes) -> bool:
        """Whether a message of a topic belongs to it: a subscription is a prefix, a group is equal."""
        return topic == self.topic if self.form == JOIN else topic.startswith(self.topic)

    def count(self, messages: int, first_ns: int) -> None:
        self.messages += messages
        if self.first_ns is None:
            self.first_ns = first_ns


@dataclass(slots=True, eq=False)
class ObservedSubscriptions:
    """Subscriptions of one side: active ones by topic, and the last ended ones.

    `left_out` is the number of subscriptions that were too many to follow; `forgotten` that of older ended ones.
    """

    open: dict[bytes, ObservedSubscription] = field(default_factory=dict)
    ended: deque[ObservedSubscription] = field(default_factory=deque)
    left_out: int = 0
    forgotten: int = 0

    def all(self) -> list[ObservedSubscription]:
        return sorted([*self.ended, *self.open.values()], key=lambda each: each.moment.ns)


@dataclass(slots=True, eq=False)
class ObservedPing:
    """A PING without a PONG.

    Its peer first sent anything afterwards at `heard_ns`. `is_within`: the PING was sent while a message of the peer
    was arriving.
    """

    moment: Moment
    ref: str
    heard_ns: int | None = None
    is_within: bool = False


@dataclass(slots=True, eq=False)
class ObservedHeartbeats:
    """PINGs of one side."""

    counts: Counter[str] = field(default_factory=Counter)
    interval: Distribution = field(default_factory=Distribution)
    """Times from one PING to the next."""
    rtt: Distribution = field(default_factory=Distribution)
    last: Moment | None = None
    ttl_ms: int = 0
    waiting: list[ObservedPing] = field(default_factory=list)
    """Oldest PINGs without a PONG, now or at the end of the connection or the capture."""


MAX_CALLS = 64
"""Unanswered calls to remember for a side; newer ones are dropped."""


class OpenCall(NamedTuple):
    """A call without a reply."""

    moment: Moment
    name: str
    needs_reply: bool
    """Whether its protocol requires a reply, and soon."""


@dataclass(slots=True, eq=False)
class ObservedCalls:
    open: dict[str, OpenCall] = field(default_factory=dict)
    """Calls without a reply, by id, each with its moment and name."""
    answered: int = 0
    latency: Distribution = field(default_factory=Distribution)
    last_answered_ns: int = 0
    last_reply_ns: int = 0
    trend: Trend = field(default_factory=Trend)
    """Latencies of the replies."""
    is_incomplete: bool = False
    """Whether calls were dropped."""

    def reply(self, id_: str | None, ns: int) -> str | None:
        """Remove the call that a reply belongs to (without an id, the oldest) and return its name, or None if it was
        not open."""
        called = self.open.pop(next(iter(self.open), "") if id_ is None else id_, None)
        if called is None:
            return None
        self.answered += 1
        self.last_reply_ns = ns
        self.latency.add([max(0, ns - called.moment.ns)], self.trend)
        self.last_answered_ns = max(self.last_answered_ns, called.moment.ns)
        return called.name


FOR_EVER = 1 << 62


@dataclass(slots=True, eq=False)
class ObservedOrder:
    """Messages of `asker` and of the other side, paired by order: the n-th with the n-th."""

    asker: int
    least_ns: int = FOR_EVER
    trend: Trend = field(default_factory=Trend)
    """Latencies of the replies."""
    since_last: tuple[int, ...] = ()
    """Times of the last replies since the last message of the asker (ns)."""
    last_reply_ns: int = 0
    waiting_count: int = 0
    oldest: Moment | None = None
    """The oldest message that waits."""
    newest_ns: int = 0
    """Time of the newest message that waits."""


@dataclass(slots=True, eq=False)
class ObservedReplies:
    """Replies to all calls of one name. `error` is the text of the first error, at `moment`."""

    count: int = 0
    errors: int = 0
    error: str = ""
    moment: Moment | None = None
    last_ns: int = 0

    def add(self, error: str | None, moment: Moment) -> None:
        """Count a reply; `error` None: the call succeeded."""
        self.count += 1
        if error is not None:
            self.errors += 1
            self.last_ns = moment.ns
            if self.moment is None:
                self.error, self.moment = error, moment


MAX_IDS = 64
"""Requests, and responses, to remember for a side."""


@dataclass(slots=True, eq=False)
class ObservedJupyter:
    requests: int = 0
    asked: dict[str, Moment] = field(default_factory=dict)
    """First requests, by id."""
    responses: dict[str, int] = field(default_factory=dict)
    """Time of the last response to each request, by id."""
    response_count: int = 0
    forgot_ns: int = 0
    """Time of the last response dropped from `responses`."""
    busy: Moment | None = None
    """Start of the last published status, if that is not idle."""
    busy_with: str | None = None
    """Id of the request that led to this status."""
    shuts_down: bool = False
    """Whether a kernel agreed to shut down."""


MIN_OPENINGS = 4
"""Turns that are enough to show which side begins an exchange."""


@dataclass(slots=True, eq=False)
class ObservedRhythm:
    """Times of a side's messages, the first at `first_ns`; `longest_ns` is the longest pause."""

    first_ns: int
    last: Moment
    longest_ns: int = 0
    second_ns: int = 0
    longest_from: Moment | None = None
    """The message before the longest pause."""
    asked: int = 0
    """Messages of the other side in the longest pause, up to MAX_RECENT."""
    asked_for_ns: int = 0
    """Time from the first of these messages to the end of the longest pause."""
    count: int = 0
    recent: tuple[int, ...] = ()
    turns: int = 0
    """Turns that the other side answered, as far as counted."""
    openings: int = 0
    """Turns that began long after the other side's last message, and were answered promptly."""

    @property
    def lasted_ns(self) -> int:
        return self.last.ns - self.first_ns

    def opens(self, other: ObservedRhythm) -> bool:
        """Whether this side begins the exchanges, and the other one answers."""
        return self.openings >= max(MIN_OPENINGS, self.turns / 4, 4 * other.openings)

    def since(self, time: int) -> int:
        return sum(each > time for each in self.recent)

    def has_message(self, start: int, stop: int) -> bool:
        """Whether a message is known between two times."""
        if any(start < each < stop for each in self.recent):
            return True
        known = max(start, self.first_ns - 1)
        return stop < self.last.ns and stop - known > self.longest_ns


MAX_KINDS = 16
"""Kinds to distinguish. With more, each message begins differently."""

MIN_OF_KIND = 8
"""Number of answered messages that show that all of their kind are answered."""


@dataclass(slots=True, eq=False)
class ObservedKinds:
    """Kinds of the first messages of a side, and of its unanswered ones.

    `counts`: by kind, messages before an answer of the other side, and those of them directly before it.
    """

    counts: dict[bytes, list[int]] = field(default_factory=dict)
    are_many: bool = False
    first: bytes = b""
    """Kind of the first message."""
    since: tuple[bytes, ...] = ()
    """Kinds of the last messages since the other side sent one."""

    def answered(self, turn: Sequence[bytes]) -> None:
        """Count messages of which the other side answered the last one."""
        for place, kind in enumerate(turn, 1):
            if kind not in self.counts and len(self.counts) == MAX_KINDS:
                self.are_many = True
                return
            count = self.counts.setdefault(kind, [0, 0])
            count[0] += 1
            count[1] += place == len(turn)

    def is_answered(self, kind: bytes) -> bool | None:
        """Whether messages of a kind precede answers at least half as often as those of other kinds. None: unknown."""
        if self.are_many or kind not in self.counts:
            return None
        most = max(answers / messages for messages, answers in self.counts.values())
        messages, answers = self.counts[kind]
        return 2 * answers >= most * messages

    def is_always_answered(self, kind: bytes) -> bool:
        """Whether nearly all messages of a kind, at least eight, were directly before an answer."""
        messages, answers = self.counts.get(kind, (0, 0))
        return not self.are_many and answers >= MIN_OF_KIND and 5 * answers >= 4 * messages


MAX_ARRIVALS = 8


@dataclass(slots=True, eq=False)
class ObservedRound:
    """An identical message that arrived several times on one connection."""

    first: Moment
    last_ns: int
    count: int = 0
    times: list[int] = field(default_factory=list)
    """Times of the first arrivals."""

    def come(self, ns: int) -> None:
        self.count += 1
        self.last_ns = ns
        if len(self.times) < MAX_ARRIVALS:
            self.times.append(ns)


@dataclass(slots=True, eq=False)
class ObservedSizes:
    """Octets of the largest frame in a side's last message, and in all earlier ones (0 if none).

    The first octet of the last message has the time `began_ns`, its end is at `last`.
    """

    last: Moment
    began_ns: int
    of_last: int
    before: int

    @property
    def largest(self) -> int:
        return max(self.of_last, self.before)


@dataclass(slots=True, eq=False)
class ObservedMessages:
    """Last messages of a side, as `RunSummary.last`; packets refer to `files`.

    `are_all`: there were no others.
    """

    octets: bytes
    files: Sequence[str | None]
    are_all: bool

    @property
    def columns(self) -> Int64:
        """Return the times (ns), packet references, and offsets after the last octets in the TCP stream."""
        columns: Int64 = np.frombuffer(self.octets, np.int64).reshape(-1, 3).T
        return columns


PLACES = {name: place for place, name in enumerate(empty_own("connection"))}
"""Index of each own field of a connection's record."""


class ConnectionValues(Mapping[str, Any]):
    """Own fields of a connection's record, in a third of the memory of a dict: thousands are remembered."""

    __slots__ = ("_row",)

    def __init__(self, own: Mapping[str, Any]) -> None:
        """Keep these fields, which have the order of `PLACES`."""
        self._row = tuple(own.values())

    def __getitem__(self, name: str) -> Any:
        return self._row[PLACES[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)
