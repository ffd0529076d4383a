"""What is remembered of the heartbeats of a side."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from zmtpscope.meaning.moments import Moment
from zmtpscope.meaning.observers.distribution import Distribution


@dataclass(slots=True, eq=False)
class ObservedPing:
    """A PING without PONG. `heard_ns` is when its peer said something behind it, first; `is_within`: it was sent while
    a message of its peer arrived, which went on after it."""

    moment: Moment
    ref: str
    heard_ns: int | None = None
    is_within: bool = False


@dataclass(slots=True, eq=False)
class ObservedHeartbeats:
    """The PINGs that a side sends, and what became of them."""

    counts: Counter[str] = field(default_factory=Counter)
    """How many there are of each outcome."""
    interval: Distribution = field(default_factory=Distribution)
    """From one PING to the next."""
    rtt: Distribution = field(default_factory=Distribution)
    last: Moment | None = None
    """The last PING."""
    ttl_ms: int = 0
    """That of the last PING."""
    waiting: list[ObservedPing] = field(default_factory=list)
    """Those without PONG where the connection or its capture ends, or by now: the oldest."""
