"""Facts about the requests of a connection."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.distribution import Distribution
from zmtpscope.diagnosis.observers.trend import Trend


@dataclass(slots=True, eq=False)
class ObservedRequest:
    """A request; `content` is a checksum of its content, or 0 if not computed."""

    moment: Moment
    ref: str
    size: int
    content: int
    end: int
    """Offset in the TCP stream after its last octet; -1 if encrypted."""


class Answered(NamedTuple):
    """A request with the latency of its reply (ns)."""

    took: int
    request: ObservedRequest


MAX_LONGEST = 4
"""Maximum number of slow replies to remember for a connection."""


@dataclass(slots=True, eq=False)
class ObservedRequests:
    """The requests of one side of a connection, and their outcomes."""

    asker: int
    is_lock_step: bool
    """The asker is a REQ, which waits for the reply before it asks again."""
    is_guessed: bool = False
    """The start was not captured, and the asker is inferred from alternating messages."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of requests by outcome."""
    latency: Distribution = field(default_factory=Distribution)
    trend: Trend = field(default_factory=Trend)
    """Change of latency, if the asker waits for each reply."""
    first: ObservedRequest | None = None
    last_reply: Moment | None = None
    """The last reply to a request."""
    longest: list[Answered] = field(default_factory=list)
    """The slowest replies, slowest first."""
    late: ObservedRequest | None = None
    """The first request whose reply came after the asker had asked again."""
    takes_late: bool = False
    """Requests have no id (ZMQ_REQ_CORRELATE), so the asker takes a late reply for the answer to its next request."""
    unasked: ObservedRequest | None = None
    """The first reply without a request."""
    without_id: ObservedRequest | None = None
    """The first reply with only the empty frame, although each request of the REQ has an id before it."""
    abandoned: ObservedRequest | None = None
    """The first request still unanswered when the asker asked again."""
    waiting: list[ObservedRequest] = field(default_factory=list)
    """The oldest requests without reply at the end of the connection or capture, or by now."""
    waiting_count: int = 0
    """Number of all waiting requests."""
