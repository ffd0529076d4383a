"""Facts about the calls of a side: requests with an id that their replies repeat."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmtpscope.diagnosis.moments import Moment

MAX_OPEN = 64
"""Maximum number of calls without reply to remember for a side; newer ones are dropped."""


@dataclass(slots=True, eq=False)
class ObservedCalls:
    """The calls of a side."""

    open: dict[str, tuple[Moment, str]] = field(default_factory=dict)
    """Calls without reply, by id: moment and name."""
    answered: int = 0
    longest_ns: int = 0
    """The longest latency of a reply."""
    last_answered_ns: int = 0
    """The time of the last call that has a reply."""
    is_incomplete: bool = False
    """There were more calls than remembered."""

    def reply(self, id_: str | None, ns: int) -> bool:
        """Remove the call that a reply belongs to (without an id, the oldest), and return whether it was open."""
        called = self.open.pop(next(iter(self.open), "") if id_ is None else id_, None)
        if called is not None:
            self.answered += 1
            self.longest_ns = max(self.longest_ns, ns - called[0].ns)
            self.last_answered_ns = max(self.last_answered_ns, called[0].ns)
        return called is not None
