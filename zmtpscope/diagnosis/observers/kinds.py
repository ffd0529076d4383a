"""Kinds of messages, such as `get` and `set`, and which of them the other side answers."""

from __future__ import annotations

from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedKinds
from zmtpscope.diagnosis.observers.observer import Rows
from zmtpscope.diagnosis.observers.run_summaries import MAX_RECENT

MAX_LEARNED = 32
"""Number of first messages of a side that show its kinds."""


class Kinds:
    """Follows the kinds of both sides."""

    def __init__(self, observed: ObservedConnection) -> None:
        self.observed = observed
        self._side: int | None = None
        """The side that sent the last message."""
        self._turn: list[bytes] = []
        """Kinds of its messages since the last one of the other side."""
        self._learned = [0, 0]

    @property
    def is_over(self) -> bool:
        """Whether the kinds of both sides are known."""
        return not self._turn and min(self._learned) >= MAX_LEARNED

    def forget(self) -> None:
        for side in self.observed.sides:
            side.kinds = None

    def note_last(self, rows: Rows) -> None:
        """Note the kinds of a side's last messages, which the other side has not answered."""
        for number, side in enumerate(self.observed.sides):
            if side.kinds is None and rows.sides[number]:
                side.kinds = ObservedKinds(first=rows.first_frames(number, 0, 1)[0].kind)
            if side.kinds is not None:
                last = rows.last_turn(number)[-MAX_RECENT:]
                recent = [each.kind for each in rows.first_frames(number, last.start, last.stop)] if last else []
                before = () if rows.sides[1 - number] else side.kinds.since
                side.kinds.since = (*before, *recent)[-MAX_RECENT:]

    def _wanted(self, side: int) -> int:
        """Return how many more messages of a side show its kinds."""
        return MAX_LEARNED - self._learned[side]

    def learn_rows(self, rows: Rows) -> None:
        for side, begin, end, _, _ in rows.turns():
            if self.is_over:
                break
            self.learn(rows, side, begin, end)

    def learn(self, rows: Rows, side: int, begin: int, end: int) -> None:
        """Process a turn of a side, with messages at these positions."""
        if side != self._side:
            if self._side is not None:
                observed = self.observed.sides[self._side].kinds
                assert observed is not None
                observed.answered(self._turn)
            self._side, self._turn = side, []
        wanted = min(end - begin, MAX_LEARNED - self._learned[side])
        self._learned[side] += wanted
        if begin + wanted < end:
            self._turn = []  # its last message is not known
        else:
            self._turn += [rows.first(side, position).kind for position in range(begin, end)]
