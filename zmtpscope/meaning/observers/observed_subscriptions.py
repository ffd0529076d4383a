"""What is remembered of subscriptions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from zmtpscope.meaning.moments import Moment

JOIN = "join"
"""The form of a group."""


@dataclass(slots=True, eq=False)
class ObservedSubscription:
    """A subscription, or a group that a DISH joined (`form` is join), while it was in force. `moment` is that of the
    first of `times` equal ones; what it matched is counted in `messages`, the first of which came at `first_ns`."""

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
    """How many of the equal ones have ended, of a group: a RADIO counts them."""

    def matches(self, topic: bytes) -> bool:
        """Whether messages of a topic are asked for: they begin with it, or are for this group."""
        return topic == self.topic if self.form == JOIN else topic.startswith(self.topic)

    def count(self, messages: int, first_ns: int) -> None:
        """So many messages came that it matches."""
        self.messages += messages
        if self.first_ns is None:
            self.first_ns = first_ns


@dataclass(slots=True, eq=False)
class ObservedSubscriptions:
    """The subscriptions of one side: those in force, by topic, and the last ones that have ended. `left_out` are those
    that were not followed since there were too many, `forgotten` those that had ended before others."""

    open: dict[bytes, ObservedSubscription] = field(default_factory=dict)
    ended: deque[ObservedSubscription] = field(default_factory=deque)
    left_out: int = 0
    forgotten: int = 0

    def all(self) -> list[ObservedSubscription]:
        """As they were made."""
        return sorted([*self.ended, *self.open.values()], key=lambda each: each.moment.ns)
