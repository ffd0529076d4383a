"""What is remembered of the calls of a side: requests with an id that their replies repeat."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmtpscope.meaning.moments import Moment

MOST_OPEN = 64
"""Calls of a side without reply that are remembered; of more the newest are not."""


@dataclass(slots=True, eq=False)
class ObservedCalls:
    """The calls of a side."""

    open: dict[str, tuple[Moment, str]] = field(default_factory=dict)
    """Those without reply, by id: when, and what is called."""
    answered: int = 0
    longest_ns: int = 0
    """How long a reply took at most."""
    last_answered_ns: int = 0
    """When the last of those was made that have a reply."""
    is_incomplete: bool = False
    """There were more than are remembered."""

    def call(self, id_: str, moment: Moment, name: str) -> None:
        """Remember a call."""
        if len(self.open) < MOST_OPEN:
            self.open.setdefault(id_, (moment, name))
        else:
            self.is_incomplete = True

    def reply(self, id_: str | None, ns: int) -> None:
        """Something came that belongs to a call; without an id to the oldest."""
        called = self.open.pop(next(iter(self.open), "") if id_ is None else id_, None)
        if called is not None:
            self.answered += 1
            self.longest_ns = max(self.longest_ns, ns - called[0].ns)
            self.last_answered_ns = max(self.last_answered_ns, called[0].ns)
