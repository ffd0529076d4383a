"""What is remembered of the requests of a connection."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.meaning.moments import Moment
from zmtpscope.meaning.observers.distribution import Distribution
from zmtpscope.meaning.observers.trend import Trend


@dataclass(slots=True, eq=False)
class ObservedRequest:
    """A request. `content` is a number made of what it asks, 0 where that was not made."""

    moment: Moment
    ref: str
    size: int
    content: int
    end: int
    """Offset in the TCP stream behind its last octet; -1 where it stands in boxes."""


class Answered(NamedTuple):
    """A request, and how long its reply took (ns)."""

    took: int
    request: ObservedRequest


MOST_LONGEST = 4
"""So many replies of a connection that took longest are remembered."""


@dataclass(slots=True, eq=False)
class ObservedRequests:
    """The requests that one side makes on a connection, and what became of them."""

    asker: int
    is_lock_step: bool
    """The asker is a REQ, and so waits for the reply before it asks again."""
    is_guessed: bool = False
    """The capture lacks the start, and only that both sides take turns shows who asks."""
    counts: Counter[str] = field(default_factory=Counter)
    """How many there are of each outcome."""
    latency: Distribution = field(default_factory=Distribution)
    trend: Trend = field(default_factory=Trend)
    """How latency changes, where the asker waits for each reply."""
    first: ObservedRequest | None = None
    last_reply: Moment | None = None
    """The last that answered a request."""
    longest: list[Answered] = field(default_factory=list)
    """The replies that took longest, the one that took longest of all first."""
    late: ObservedRequest | None = None
    """The first request whose reply came when the asker had asked anew."""
    takes_late: bool = False
    """The requests have no id (ZMQ_REQ_CORRELATE), so the asker takes a late reply for the answer to its next one."""
    unasked: ObservedRequest | None = None
    """The first reply to nobody."""
    without_id: ObservedRequest | None = None
    """The first reply with nothing but the empty frame in front, though each request of the REQ has an id there."""
    abandoned: ObservedRequest | None = None
    """The first that was not answered when the asker asked anew."""
    waiting: list[ObservedRequest] = field(default_factory=list)
    """The oldest that have no reply where the connection or its capture ends, or by now."""
    waiting_count: int = 0
    """How many wait in all."""
