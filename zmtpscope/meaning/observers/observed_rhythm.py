"""What is remembered of how regularly a side sends messages."""

from __future__ import annotations

from dataclasses import dataclass

from zmtpscope.meaning.moments import Moment


@dataclass(slots=True, eq=False)
class ObservedRhythm:
    """The messages of a side: the first came at `first_ns`, and `longest_ns` is the longest pause between two."""

    first_ns: int
    last: Moment
    longest_ns: int = 0
    second_ns: int = 0
    """The longest pause but one."""
    longest_from: Moment | None = None
    """The message before the longest pause, ..."""
    asked: int = 0
    """... and how many messages of the other side came in it, MOST_RECENT at most."""
    count: int = 0
    recent: tuple[int, ...] = ()
    """When the last of them came."""

    @property
    def lasted_ns(self) -> int:
        """From the first message to the last."""
        return self.last.ns - self.first_ns

    def since(self, time: int) -> int:
        """How many came after a time, as far as they are remembered."""
        return sum(each > time for each in self.recent)

    def has_message(self, start: int, stop: int) -> bool:
        """Whether a message is known to have come between two times."""
        if any(start < each < stop for each in self.recent):
            return True
        known = max(start, self.first_ns - 1)
        return stop < self.last.ns and stop - known > self.longest_ns
