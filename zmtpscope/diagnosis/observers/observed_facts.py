"""Observations of one side of a connection."""

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
    """A request. `content` is a checksum of its frames (0: not computed), and `end` the stream offset after its last
    octet."""

    moment: Moment
    ref: str
    size: int
    content: int
    end: int
    """Offset after the last octet in the TCP stream; -1 if encrypted."""


class Answered(NamedTuple):
    """A request that received a reply, and the time (ns) that the reply took."""

    took: int
    request: ObservedRequest


MAX_LONGEST = 4
"""Slow replies to remember."""


@dataclass(slots=True, eq=False)
class ObservedRequests:
    asker: int
    is_lock_step: bool
    """Whether the asker waits for each reply, like a REQ."""
    is_guessed: bool = False
    """Whether only alternating messages show the asker."""
    counts: Counter[str] = field(default_factory=Counter)
    latency: Distribution = field(default_factory=Distribution)
    trend: Trend = field(default_factory=Trend)
    """Latencies of the replies."""
    first: ObservedRequest | None = None
    last_answered_ns: int = 0
    """Time of the newest answered request."""
    last_reply: Moment | None = None
    longest: list[Answered] = field(default_factory=list)
    """Slowest first."""
    late: ObservedRequest | None = None
    """First request whose reply came after the next request, for which the asker had waited."""
    late_count: int = 0
    takes_late: bool = False
    """Whether requests have no id (ZMQ_REQ_CORRELATE), so that a late reply seems to answer the next one."""
    unasked: ObservedRequest | None = None
    """First reply without a request."""
    without_id: ObservedRequest | None = None
    """First reply without the id that each request of the REQ contains."""
    abandoned: ObservedRequest | None = None
    """First request after which the asker asked again without a reply."""
    waiting: list[ObservedRequest] = field(default_factory=list)
    """Oldest requests without a reply, now or at the end."""
    waiting_count: int = 0
    """Number of all of them."""

    @property
    def are_displaced(self) -> bool:
        """Whether a REQ takes each late reply for the reply to its next request, because requests have no id.

        It repeated a request before the reply came, and there are not more surplus replies than abandoned requests.
        """
        left = self.counts["unanswered"] + self.waiting_count
        is_relaxed = self.is_lock_step and self.abandoned is not None
        return is_relaxed and self.unasked is not None and self.counts["unasked"] <= left


JOIN = "join"
"""Form of a group membership."""


@dataclass(slots=True, eq=False)
class ObservedSubscription:
    """A subscription, or a group that a DISH joined (`form` is join).

    It was made `times` times, first at `moment`, and cancelled `left` times; it ended at `until_ns` (None: active).
    `messages` messages matched, the first at `first_ns`.
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
    """LEAVEs of a group: a RADIO counts JOINs and LEAVEs."""

    def matches(self, topic: bytes) -> bool:
        """Whether the subscription is a prefix of `topic`; a group must be equal to it."""
        return topic == self.topic if self.form == JOIN else topic.startswith(self.topic)

    def count(self, messages: int, first_ns: int) -> None:
        self.messages += messages
        if self.first_ns is None:
            self.first_ns = first_ns


@dataclass(slots=True, eq=False)
class ObservedSubscriptions:
    """The subscriptions of one side: active ones by topic, and the last ended ones.

    To limit memory, `left_out` subscriptions were not stored at all, and `forgotten` ended ones were dropped.
    """

    open: dict[bytes, ObservedSubscription] = field(default_factory=dict)
    ended: deque[ObservedSubscription] = field(default_factory=deque)
    left_out: int = 0
    forgotten: int = 0

    def all(self) -> list[ObservedSubscription]:
        return sorted([*self.ended, *self.open.values()], key=lambda each: each.moment.ns)


@dataclass(slots=True, eq=False)
class ObservedPing:
    """A PING without a PONG. `next_data_ns` is the time of the next data of its peer, or None.

    `is_within`: a message of the peer was still arriving when the PING was sent.
    """

    moment: Moment
    ref: str
    next_data_ns: int | None = None
    is_within: bool = False


@dataclass(slots=True, eq=False)
class ObservedHeartbeats:
    """The PINGs of one side: counts by outcome, intervals and latencies (ns), and the last pending ones."""

    counts: Counter[str] = field(default_factory=Counter)
    interval: Distribution = field(default_factory=Distribution)
    """Times from one PING to the next."""
    rtt: Distribution = field(default_factory=Distribution)
    last: Moment | None = None
    ttl_ms: int = 0
    waiting: list[ObservedPing] = field(default_factory=list)
    """Oldest PINGs without a PONG, now or at the end."""


MAX_CALLS = 64
"""Unanswered calls to remember for a side; later ones are dropped."""


class OpenCall(NamedTuple):
    """A remote call without a reply. `needs_reply`: its protocol requires one."""

    moment: Moment
    name: str
    needs_reply: bool
    """Whether its protocol requires a reply, and soon."""


@dataclass(slots=True, eq=False)
class ObservedCalls:
    open: dict[str, OpenCall] = field(default_factory=dict)
    """Calls without a reply, by id."""
    answered: int = 0
    latency: Distribution = field(default_factory=Distribution)
    last_answered_ns: int = 0
    last_reply_ns: int = 0
    trend: Trend = field(default_factory=Trend)
    """Latencies of the replies."""
    is_incomplete: bool = False
    """Whether calls were dropped."""

    def reply(self, id_: str | None, ns: int) -> str | None:
        """Remove the call that a reply at `ns` answers, and return its name; None if there is no such call.

        It is the call with the id `id_`, or the oldest one if the reply has no id.
        """
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
    """Latencies and pending messages, if the n-th message of the side `asker` is a request and the n-th of the other
    its reply."""

    asker: int
    least_ns: int = FOR_EVER
    trend: Trend = field(default_factory=Trend)
    """Latencies of the replies."""
    since_last: tuple[int, ...] = ()
    """Times (ns) from the asker's last message to each of the last replies."""
    last_reply_ns: int = 0
    waiting_count: int = 0
    oldest: Moment | None = None
    """The oldest waiting message."""
    newest_ns: int = 0
    """Time of the newest waiting message."""


@dataclass(slots=True, eq=False)
class ObservedReplies:
    """Replies to calls with the same name: their number, and how many were errors. `error` is the first error, at
    `moment`."""

    count: int = 0
    errors: int = 0
    error: str = ""
    moment: Moment | None = None
    last_ns: int = 0

    def add(self, error: str | None, moment: Moment) -> None:
        """Count a reply at `moment`. `error` is the error in it, or None."""
        self.count += 1
        if error is not None:
            self.errors += 1
            self.last_ns = moment.ns
            if self.moment is None:
                self.error, self.moment = error, moment


MAX_IDS = 64
"""Requests, and responses, to remember of a side."""


@dataclass(slots=True, eq=False)
class ObservedJupyter:
    requests: int = 0
    asked: dict[str, Moment] = field(default_factory=dict)
    """First requests, by id."""
    responses: dict[str, int] = field(default_factory=dict)
    """Time of the last response, by id of the request."""
    response_count: int = 0
    forgot_ns: int = 0
    """Time of the last response dropped from `responses`."""
    busy: Moment | None = None
    """Time of the last status, if not idle."""
    busy_with: str | None = None
    """Id of the request that caused it."""
    shuts_down: bool = False
    """Whether a kernel agreed to shut down."""


MIN_OPENINGS = 4
"""Turns that show which side begins an exchange."""


@dataclass(slots=True, eq=False)
class ObservedRhythm:
    """The times of a side's messages: first, last and recent ones, and the longest pauses between two (ns)."""

    first_ns: int
    last: Moment
    longest_ns: int = 0
    second_ns: int = 0
    longest_from: Moment | None = None
    """The message before the longest pause."""
    asked: int = 0
    """The other side's messages in it, up to MAX_RECENT."""
    asked_for_ns: int = 0
    """Time from the first of them to the end of the pause."""
    count: int = 0
    recent: tuple[int, ...] = ()
    turns: int = 0
    """Counted turns that the other side answered."""
    openings: int = 0
    """Those that began long after the other side's last message, with a prompt answer."""

    @property
    def lasted_ns(self) -> int:
        return self.last.ns - self.first_ns

    def opens(self, other: ObservedRhythm) -> bool:
        """Whether this side sends first in the exchanges of messages, and the `other` side answers."""
        return self.openings >= max(MIN_OPENINGS, self.turns / 4, 4 * other.openings)

    def since(self, time: int) -> int:
        return sum(each > time for each in self.recent)

    def has_message(self, start: int, stop: int) -> bool:
        """Whether the side is known to have sent a message between `start` and `stop` (ns)."""
        if any(start < each < stop for each in self.recent):
            return True
        known = max(start, self.first_ns - 1)
        return stop < self.last.ns and stop - known > self.longest_ns


MAX_KINDS = 16
"""If there are more kinds, each message begins differently."""

MIN_OF_KIND = 8
"""Answered messages that show that all of their kind are answered."""


@dataclass(slots=True, eq=False)
class ObservedKinds:
    """Which kinds of messages (commands such as `get`) of a side were answered, from its first messages.

    `counts` contains for each kind: the messages before an answer of the other side, and how many of them were directly
    before it. `since` are the kinds of the last, unanswered messages.
    """

    counts: dict[bytes, list[int]] = field(default_factory=dict)
    are_many: bool = False
    first: bytes = b""
    """Kind of the first message."""
    since: tuple[bytes, ...] = ()
    """Kinds of the last messages after the other side's last one."""

    def answered(self, turn: Sequence[bytes]) -> None:
        """Count the kinds of successive messages (`turn`) after which the other side sent an answer."""
        for place, kind in enumerate(turn, 1):
            if kind not in self.counts and len(self.counts) == MAX_KINDS:
                self.are_many = True
                return
            count = self.counts.setdefault(kind, [0, 0])
            count[0] += 1
            count[1] += place == len(turn)

    def is_answered(self, kind: bytes) -> bool | None:
        """Whether messages of a kind are answered: they precede answers at least half as often as any other kind. None:
        unknown."""
        if self.are_many or kind not in self.counts:
            return None
        most = max(answers / messages for messages, answers in self.counts.values())
        messages, answers = self.counts[kind]
        return 2 * answers >= most * messages

    def is_always_answered(self, kind: bytes) -> bool:
        """Whether nearly all messages of a kind, and at least eight, were directly followed by an answer."""
        messages, answers = self.counts.get(kind, (0, 0))
        return not self.are_many and answers >= MIN_OF_KIND and 5 * answers >= 4 * messages


MAX_ARRIVALS = 8


@dataclass(slots=True, eq=False)
class ObservedRound:
    """A message whose octets arrived several times on one connection, with the times (ns)."""

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
    """The size of the largest frame in a side's last message, and in all earlier messages (0 if none).

    The last message arrived from `began_ns` until `last`.
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
    """The last messages of a side, packed as in `RunSummary.last`. `are_all`: the side sent no others."""

    octets: bytes
    files: Sequence[str | None]
    are_all: bool

    @property
    def columns(self) -> Int64:
        """Return three rows: times (ns), packet references, and stream offsets after the last octet of each message."""
        columns: Int64 = np.frombuffer(self.octets, np.int64).reshape(-1, 3).T
        return columns


PLACES = {name: place for place, name in enumerate(empty_own("connection"))}
"""Index of each own field of a connection's record."""


class ConnectionValues(Mapping[str, Any]):
    """The fields of a connection's record as a mapping, in a third of the memory of a dict."""

    __slots__ = ("_row",)

    def __init__(self, own: Mapping[str, Any]) -> None:
        """Store the fields `own`, whose order must be that of `PLACES`."""
        self._row = tuple(own.values())

    def __getitem__(self, name: str) -> Any:
        return self._row[PLACES[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)
