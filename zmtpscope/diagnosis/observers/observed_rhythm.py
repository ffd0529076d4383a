"""Facts about the rhythm of a side's messages."""

from __future__ import annotations

from dataclasses import dataclass

from zmtpscope.diagnosis.moments import Moment

MIN_TURNS = 4
"""Minimum number of turns that show which side begins an exchange."""


@dataclass(slots=True, eq=False)
class ObservedRhythm:
    """The messages of a side: the first at `first_ns`; `longest_ns` is the longest pause."""

    first_ns: int
    last: Moment
    longest_ns: int = 0
    second_ns: int = 0
    """The second longest pause."""
    longest_from: Moment | None = None
    """The message before the longest pause."""
    asked: int = 0
    """Number of messages from the other side in the longest pause, at most MAX_RECENT."""
    count: int = 0
    recent: tuple[int, ...] = ()
    """Times of the last messages."""
    turns: int = 0
    """Number of its first turns that the other side followed."""
    openings: int = 0
    """Number of these that came long after the other side's last message, and were answered promptly."""

    @property
    def lasted_ns(self) -> int:
        """The time from the first message to the last."""
        return self.last.ns - self.first_ns

    @property
    def opens(self) -> bool:
        """Whether this side begins the exchanges, and the other one answers."""
        return self.turns >= MIN_TURNS and self.openings * 3 >= self.turns * 2

    def since(self, time: int) -> int:
        """Return the number of remembered messages after a time."""
        return sum(each > time for each in self.recent)

    def has_message(self, start: int, stop: int) -> bool:
        """Whether a message is known to have come between two times."""
        if any(start < each < stop for each in self.recent):
            return True
        known = max(start, self.first_ns - 1)
        return stop < self.last.ns and stop - known > self.longest_ns
