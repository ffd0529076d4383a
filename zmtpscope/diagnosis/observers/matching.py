from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from zmtpscope import compiled
from zmtpscope.diagnosis.observers.request_rows import Envelope, MessageRow


class Anew(NamedTuple):
    """When an asker asked again before a reply, and the segment that shows this."""

    captured: int
    order: int


class OpenRequests:
    """Unanswered requests of one asker, by number, in order."""

    def __init__(self) -> None:
        self.rows: OrderedDict[int, MessageRow] = OrderedDict()
        self.by_key: dict[Envelope | None, deque[int]] = {}
        """Numbers of requests with the same envelope, oldest first."""
        self.anew: OrderedDict[int, Anew] = OrderedDict()
        """Requests after which the asker asked again, in this order."""
        self.count = 0
        """Number of the next request."""
        self.newest_captured = 0

    def __len__(self) -> int:
        return len(self.rows)

    def latest(self) -> int:
        """Return the capture time of the newest open request, or 0."""
        return self.rows[next(reversed(self.rows))].captured if self.rows else 0

    def oldest(self, count: int) -> list[MessageRow]:
        return [self._forget(number) for number in [*islice(self.rows, count)]]

    def given_up(self, time: int) -> tuple[list[MessageRow], list[Anew]]:
        """Forget requests whose asker asked again before a time; return them with these events."""
        numbers: list[tuple[int, Anew]] = []
        while self.anew and self.anew[first := next(iter(self.anew))].captured < time:
            numbers.append((first, self.anew.pop(first)))
        numbers.sort()
        return [self._forget(number) for number, _ in numbers], [anew for _, anew in numbers]

    def _forget(self, number: int) -> MessageRow:
        row = self.rows.pop(number)
        same = self.by_key[row.key]
        same.remove(number)
        if not same:
            del self.by_key[row.key]
        self.anew.pop(number, None)
        return row

    def _captured_of(self, number: int) -> int:
        return self.rows[number].captured

    def last_before(self, same: deque[int], captured: int) -> int:
        """Return the index of the newest request until a time, or 0."""
        return max(0, bisect_right(same, captured, key=self._captured_of) - 1)


class Paired(NamedTuple):
    """Requests, and their replies. `late`: the asker had asked again before the reply."""

    requests: list[MessageRow]
    replies: list[MessageRow]
    late: list[bool]


@compiled.where_possible
def pair(
    waiting: OpenRequests, messages: Sequence[MessageRow], asker: int, in_order: bool
) -> tuple[Paired, list[MessageRow]]:
    """Match messages of both sides, in order of capture, with `waiting`, by envelope; also return replies without
    request.

    A reply answers the oldest request if replies are `in_order`. Otherwise it answers the newest one: an asker that
    asks again no longer waits for older ones.
    """
    paired, early = Paired([], [], []), list[MessageRow]()
    rows, by_key = waiting.rows, waiting.by_key
    for message in messages:
        same = by_key.get(message.key)
        if message.side == asker:
            if same is None:
                same = by_key[message.key] = deque()
            elif not in_order and same[-1] not in waiting.anew:
                waiting.anew[same[-1]] = Anew(message.captured, message.order)
            same.append(waiting.count)
            rows[waiting.count] = message
            waiting.count += 1
            waiting.newest_captured = message.captured
            continue
        if same is None:
            early.append(message)
            continue
        place = 0 if in_order else len(same) - 1
        if not in_order and rows[same[place]].captured > message.captured:
            place = waiting.last_before(same, message.captured)
        number = same[place]
        request, anew = rows[number], waiting.anew.get(number)
        if request.captured > message.captured or (anew is not None and anew.captured <= message.captured):
            early.append(message)
            continue
        paired.requests.append(request)
        paired.replies.append(message)
        paired.late.append(number != waiting.count - 1 and waiting.newest_captured <= message.captured)
        del rows[number]
        del same[place]
        if not same:
            del by_key[message.key]
        if anew is not None:
            del waiting.anew[number]
    return paired, early
