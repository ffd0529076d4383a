"""Match replies with requests by their envelopes: the frames before the empty delimiter frame."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from zmtpscope import compiled
from zmtpscope.dissect.findings.envelopes import LARGEST_ENVELOPE
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.zmtp.events import SPECIAL

Envelope = tuple[bytes, ...]


class MessageRow(NamedTuple):
    """A message with an envelope.

    `order` is the segment that completed it; `packet` and `time` (ns) are those of its first octet. By the time
    `captured` (ns), all earlier data of its side was captured. `content` is a checksum.
    """

    order: int
    captured: int
    side: int
    key: Envelope | None
    """The envelope, for matching; None if not kept or too large."""
    time: int
    packet: int
    offset: int
    length: int
    size: int
    source: int
    envelope: Envelope
    """Addresses in the envelope, as far as kept."""
    is_nested: bool
    """Whether another envelope follows the delimiter."""
    run: MessageTable | None
    """The run with the message in row `row`, while its batch is processed."""
    row: int
    content: int = 0
    """`content_of` it; 0 if not computed."""


by_order = attrgetter("order")
by_captured = attrgetter("captured")
by_time = attrgetter("time")


@compiled.where_possible
def enveloped(run: MessageTable, side: int, captured: int, addressed: bool) -> list[MessageRow]:
    """Return the messages of one sender that have an empty delimiter frame with frames after it.

    `addressed`: only messages with an address frame before the delimiter. By the time `captured` (ns), all earlier data
    of the side was captured.
    """
    sizes, bodies, flags = run.sizes.tolist(), run.bodies.tolist(), run.flags.tolist()
    there = [min(size, max(run.end - body, 0)) for size, body in zip(sizes, bodies, strict=True)]
    orders, times, packets = run.orders.tolist(), run.times.tolist(), run.packets.tolist()
    found: list[MessageRow] = []
    for row, (first, last) in enumerate(zip(run.first.tolist(), run.last.tolist(), strict=True)):
        delimiter = _next_empty(sizes, first, last)
        if delimiter == last or flags[first] & SPECIAL or (addressed and delimiter == first):
            continue
        captured = max(captured, times[row])
        inner = _next_empty(sizes, min(delimiter + 1, last), last)
        offset = int(run.offsets[first])
        envelope = tuple(run.head(frame) or b"" for frame in range(first, delimiter))
        kept = list(map(len, envelope))
        is_known = kept == sizes[first:delimiter] and sum(kept) <= LARGEST_ENVELOPE
        found.append(
            MessageRow(
                order=orders[row],
                captured=captured,
                side=side,
                key=envelope if is_known else None,
                time=times[row],
                packet=packets[row],
                offset=offset,
                length=bodies[last] + there[last] - offset,
                size=sum(there[first : last + 1]),
                source=run.source,
                envelope=envelope,
                is_nested=delimiter + 1 < inner < last,
                run=run,
                row=row,
            )
        )
    return found


def _next_empty(sizes: list[int], first: int, last: int) -> int:
    frame = first
    while frame < last and sizes[frame]:
        frame += 1
    return frame


@compiled.where_possible
def content_of(run: MessageTable, row: int, is_work: bool = False) -> int:
    """Return a checksum of the frames after the delimiter, as far as they are kept, and of their sizes; never 0.

    `is_work`: a ROUTER sends the message to a worker, so the envelope of the client comes first and is skipped, too.
    """
    begin, sizes = _content(run, row)
    skipped = _next_empty(sizes, 0, len(sizes) - 1) + 1 if is_work else 0
    pieces = [
        size.to_bytes(8) + (run.head(frame) or b"") for frame, size in enumerate(sizes[skipped:], begin + skipped)
    ]
    return int.from_bytes(blake2b(b"".join(pieces), digest_size=8).digest(), signed=True) or 1


def only_frame(run: MessageTable, row: int) -> bytes | None:
    """Return the frame after the delimiter, if it is the only one and was kept, otherwise None."""
    frame, sizes = _content(run, row)
    return run.head(frame) if len(sizes) == 1 else None


def _content(run: MessageTable, row: int) -> tuple[int, list[int]]:
    """Return the index of the first frame after the delimiter, and the sizes of all frames from there on."""
    first, last = int(run.first[row]), int(run.last[row])
    sizes = run.sizes[first : last + 1].tolist()
    begin = _next_empty(sizes, 0, last - first) + 1
    return first + begin, sizes[begin:]


class Anew(NamedTuple):
    """A client repeated its request before a reply came: when (ns), and at which segment."""

    captured: int
    order: int


class OpenRequests:
    """The unanswered requests of one side, numbered in order."""

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
        """Return the time (ns) of the newest unanswered request, or 0."""
        return self.rows[next(reversed(self.rows))].captured if self.rows else 0

    def oldest(self, count: int) -> list[MessageRow]:
        return [self._forget(number) for number in [*islice(self.rows, count)]]

    def given_up(self, time: int) -> tuple[list[MessageRow], list[Anew]]:
        """Remove requests whose client sent another one before `time` (ns). Return them, each with the event that shows
        it."""
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
        """Return the index in `same` of the newest request that was captured by the time `captured` (ns), or 0."""
        return max(0, bisect_right(same, captured, key=self._captured_of) - 1)


class Paired(NamedTuple):
    """Requests with their replies, row by row. `late`: the client had repeated the request before the reply came."""

    requests: list[MessageRow]
    replies: list[MessageRow]
    late: list[bool]


@compiled.where_possible
def pair(
    waiting: OpenRequests, messages: Sequence[MessageRow], asker: int, in_order: bool
) -> tuple[Paired, list[MessageRow]]:
    """Match requests with replies by envelope. Return the pairs, and the replies without a request.

    `waiting` are the unanswered requests so far, and `messages` the next messages of both sides, in order of capture;
    side `asker` sends requests. If `in_order`, a reply answers the oldest request with its envelope. Otherwise it
    answers the newest one: a client that repeats a request no longer waits for the older one.
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
