"""Facts about subscriptions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from zmtpscope.diagnosis.moments import Moment

JOIN = "join"
"""The form of a group."""


@dataclass(slots=True, eq=False)
class ObservedSubscription:
    """A subscription, or a group that a DISH joined (`form` is join), and its messages.

    `moment` is the first of `times` equal ones. It matched `messages`, the first at `first_ns`.
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
    """Number of LEAVEs of a group, since a RADIO counts them."""

    def matches(self, topic: bytes) -> bool:
        """Whether it matches messages of a topic: by prefix, or for a group by equality."""
        return topic == self.topic if self.form == JOIN else topic.startswith(self.topic)

    def count(self, messages: int, first_ns: int) -> None:
        """Count matching messages."""
        self.messages += messages
        if self.first_ns is None:
            self.first_ns = first_ns


@dataclass(slots=True, eq=False)
class ObservedSubscriptions:
    """The subscriptions of one side: the active ones by topic, and the last ended ones.

    `left_out` were not followed because there were too many; `forgotten` are older ended ones.
    """

    open: dict[bytes, ObservedSubscription] = field(default_factory=dict)
    ended: deque[ObservedSubscription] = field(default_factory=deque)
    left_out: int = 0
    forgotten: int = 0

    def all(self) -> list[ObservedSubscription]:
        """Return all, in order of their subscription."""
        return sorted([*self.ended, *self.open.values()], key=lambda each: each.moment.ns)
