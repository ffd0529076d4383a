"""Facts about the heartbeats of a side."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.distribution import Distribution


@dataclass(slots=True, eq=False)
class ObservedPing:
    """A PING without PONG.

    `heard_ns` is when its peer first sent anything after it. `is_within`: it was sent while a message of its peer was
    arriving.
    """

    moment: Moment
    ref: str
    heard_ns: int | None = None
    is_within: bool = False


@dataclass(slots=True, eq=False)
class ObservedHeartbeats:
    """The PINGs of a side and their outcomes."""

    counts: Counter[str] = field(default_factory=Counter)
    """Number of PINGs by outcome."""
    interval: Distribution = field(default_factory=Distribution)
    """Times from one PING to the next."""
    rtt: Distribution = field(default_factory=Distribution)
    last: Moment | None = None
    """The last PING."""
    ttl_ms: int = 0
    """TTL of the last PING."""
    waiting: list[ObservedPing] = field(default_factory=list)
    """The oldest PINGs without PONG at the end of the connection or capture, or by now."""
