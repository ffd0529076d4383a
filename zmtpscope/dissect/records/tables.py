"""Messages and frames of one or many sides as columns, with the constants of each side that sent them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypedDict, TypeVar

import numpy as np

from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.columns import Bool, Int64, numbers
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.zmtp.content import LARGEST_AWAITED_TOPIC
from zmtpscope.zmtp.events import MARKED
from zmtpscope.zmtp.mechanisms.curve import SMALLEST_MESSAGE
from zmtpscope.zmtp.regime import Framing, Regime

HEAD_KEPT = LARGEST_AWAITED_TOPIC + 64
"""Octets kept of a message that is not kept whole: its topic or envelope, and the headers before it."""

LONGEST_SHORT, LONGEST_SHORT_ZWS = 2, 9
"""Maximum header octets, with the flags octet, of a frame whose size is not written in eight octets."""


FRAME_COLUMNS = ("offsets", "bodies", "sizes", "flags")
"""Columns of a run with one value per frame."""


LATER = 0
"""Packet reference of octets whose packets are looked up in an index on demand."""


class PacketSlice(NamedTuple):
    """The packet with this reference carried the stream octets `start..stop`."""

    packet: int
    start: int
    stop: int


class Pieces(NamedTuple):
    """The packets of consecutive stream octets.

    Piece i ends before offset `ends[i]` and was carried by `packets[i]` (0: a hole); the first piece starts at `begin`.
    """

    begin: int
    ends: list[int]
    packets: list[int]

    def slices(self, start: int, stop: int) -> list[PacketSlice]:
        """Return the packets that carried the octets `start..stop`, in stream order."""
        found = []
        for place in range(bisect_right(self.ends, start), len(self.ends)):
            piece_start = self.ends[place - 1] if place else self.begin
            if piece_start >= stop:
                break
            if self.packets[place]:
                found.append(PacketSlice(self.packets[place], max(start, piece_start), min(stop, self.ends[place])))
        return found


DATAGRAMS = 1 << 62
"""Place of datagrams in the order of connections: after all connections, by packet. Records that a datagram decides
have the same place."""


def place_of(stream: Stream) -> int:
    """Return the position of a connection, or of a datagram flow, in the order of records."""
    return DATAGRAMS if stream.conn is None else stream.conn


class Sender(NamedTuple):
    """A side that sent rows of a table: the values that all these rows share, and their octets.

    `data[0]` has the stream offset `base`; octets outside of `data` were not kept. If a value of a side changes, the
    table has two senders for this side.
    """

    stream: Stream
    regime: Regime
    confidence: str
    data: bytes
    base: int
    end: int
    """Stream offset after the last octet received. The last body may extend beyond it."""
    pieces: Pieces | None = None
    """Set only with `Options.details`."""
    version: str | None = None
    socket_type: str | None = None
    peer_socket_type: str | None = None
    has_stars: bool = False
    """Whether stars replace passwords in `data`."""

    @property
    def source(self) -> int:
        """0 for the stream as it was sent, 1 for the decrypted and unmasked stream."""
        return self.regime.source

    @property
    def sealing(self) -> int:
        """How many octets of CURVE encryption lie between the header and the body of a frame."""
        return SMALLEST_MESSAGE if self.regime.opened else 0

    @property
    def longest_short_header(self) -> int:
        """Maximum octets before a body whose size takes one octet on the wire, with CURVE encryption."""
        return (LONGEST_SHORT_ZWS if self.regime.framing is Framing.ZWS else LONGEST_SHORT) + self.sealing

    @property
    def place(self) -> tuple[int, int, int]:
        return place_of(self.stream), self.stream.side or 0, self.source

    def head(self, offset: int, size: int, limit: int | None = None) -> bytes | None:
        """Return the first octets of a body, at most `limit`, or None if they were not kept.

        The body has `size` octets at the stream offset `offset`.
        """
        start = offset - self.base
        if start < 0 or (size and start >= len(self.data)):
            return None
        return self.data[start : start + (size if limit is None else min(size, limit))]


class Senders(TypedDict):
    """The senders of a table, and for each row the index of its sender."""

    senders: list[Sender]
    sender_of: Int64 | None


def used_senders(senders: list[Sender], sender_of: Int64) -> Senders:
    used, renumbered = np.unique(sender_of, return_inverse=True)
    found = [senders[number] for number in used.tolist()]
    return {"senders": found, "sender_of": None if len(found) == 1 else renumbered}


@dataclass(slots=True, eq=False, kw_only=True)
class Table:
    """Rows as columns: messages or frames of one or many sides.

    The header of frame j is at the stream offsets `offsets[j]..bodies[j]`, its body at `bodies[j]..bodies[j] +
    sizes[j]`. `flags` are those of `zmtpscope.zmtp.events.FrameColumns`. The rows of a sender are in stream order.
    """

    senders: list[Sender]
    sender_of: Int64 | None = None
    """The index of the sender of each row; None if there is only one sender."""
    offsets: Int64
    bodies: Int64
    sizes: Int64
    flags: Int64
    orders: Int64
    """Ordinals of the segments that made the rows decidable."""
    packets: Int64
    times: Int64
    """`packets` and `times` are those of the first octets of the rows."""

    def __len__(self) -> int:
        return len(self.orders)

    def sender_at(self, row: int) -> Sender:
        return self.senders[0 if self.sender_of is None else self.sender_of[row]]

    def _senders_of(self, rows: slice | Int64) -> Senders:
        if self.sender_of is None:
            return {"senders": self.senders, "sender_of": None}
        return used_senders(self.senders, self.sender_of[rows])

    # -- of rows with one sender ---------------------------------------------------------------------------------------

    @property
    def sender(self) -> Sender:
        (sender,) = self.senders
        return sender

    @property
    def stream(self) -> Stream:
        return self.sender.stream

    @property
    def regime(self) -> Regime:
        return self.sender.regime

    @property
    def data(self) -> bytes:
        return self.sender.data

    @property
    def base(self) -> int:
        return self.sender.base

    @property
    def end(self) -> int:
        return self.sender.end

    @property
    def source(self) -> int:
        return self.sender.source

    @property
    def socket_type(self) -> str | None:
        return self.sender.socket_type

    @property
    def peer_socket_type(self) -> str | None:
        return self.sender.peer_socket_type

    def length(self, first: int, last: int) -> int:
        """Return how many octets were captured from the header of frame `first` to the end of frame `last`."""
        body = int(self.bodies[last])
        return body + min(int(self.sizes[last]), self.end - body) - int(self.offsets[first])

    def head(self, frame: int, limit: int | None = None) -> bytes | None:
        """Return the first octets of a frame's body, at most `limit`, or None if they were not kept."""
        return self.sender.head(int(self.bodies[frame]), int(self.sizes[frame]), limit)

    def change(self, **fields: Any) -> None:
        """Change values of the only sender of this table. Other tables with the same sender are not changed."""
        self.senders = [self.sender._replace(**fields)]


@dataclass(slots=True, eq=False, kw_only=True)
class MessageTable(Table):
    """A table of messages: message i has the frames `first[i]..last[i]`, both included.

    It has at least one message, and all its frames belong to messages, in order. `packet_ends` and `time_ends` are the
    packets and times of the last octets of messages.
    """

    first: Int64
    last: Int64
    complete: Bool
    packet_ends: Int64
    time_ends: Int64
    payloads: list[Dissected | None] | None = None
    """Dissector results by message, except JSON that is not parsed yet (`made` parses it). None: no results."""
    texts: Bool | None = None
    """Whether each message without a result is plain text."""
    json: Bool | None = None
    """Whether each message without a result is JSON, still to be parsed."""
    topics: Int64 | None = None
    """Octets of each message's topic, at the start of its first frame (after the mark of a subscription); negative
    without a topic. None: no message has one."""

    def part(self, low: int, high: int) -> MessageTable:
        """Return the messages `low..high` (high excluded), at least one; they share the octets."""
        return self._part(low, high, self._senders_of(slice(low, high)))

    def take(self, rows: Int64) -> MessageTable:
        """Return the messages `rows` (ascending, at least one); they share the octets."""
        first = self.first[rows]
        counts = self.last[rows] - first + 1
        ends = np.cumsum(counts)
        return self._of(rows, numbers(first, counts), ends - counts, ends - 1, self._senders_of(rows))

    def by_sender(self) -> Iterator[MessageTable]:
        """Yield consecutive messages of one sender as a table each, in order."""
        if self.sender_of is None:
            yield self
            return
        cuts = np.flatnonzero(self.sender_of[1:] != self.sender_of[:-1]) + 1
        for low, high in pairwise([0, *cuts.tolist(), len(self)]):
            yield self.of_sender(low, high)

    def of_sender(self, low: int, high: int) -> MessageTable:
        """Return the messages `low..high` (high excluded), which one sender sent."""
        if self.sender_of is None and high - low == len(self):
            return self
        return self._part(low, high, {"senders": [self.sender_at(low)], "sender_of": None})

    def _part(self, low: int, high: int, senders: Senders) -> MessageTable:
        rows, begin = slice(low, high), int(self.first[low])
        frames = slice(begin, int(self.last[high - 1]) + 1)
        return self._of(rows, frames, self.first[rows] - begin, self.last[rows] - begin, senders)

    def _of(
        self, rows: slice | Int64, frames: slice | Int64, first: Int64, last: Int64, senders: Senders
    ) -> MessageTable:
        payloads = self.payloads
        if payloads is not None:
            payloads = payloads[rows] if isinstance(rows, slice) else [payloads[row] for row in rows.tolist()]
        return MessageTable(  # field by field: a loop over names takes twice as long
            **senders,
            offsets=self.offsets[frames],
            bodies=self.bodies[frames],
            sizes=self.sizes[frames],
            flags=self.flags[frames],
            first=first,
            last=last,
            complete=self.complete[rows],
            orders=self.orders[rows],
            packets=self.packets[rows],
            times=self.times[rows],
            packet_ends=self.packet_ends[rows],
            time_ends=self.time_ends[rows],
            payloads=payloads,
            texts=None if self.texts is None else self.texts[rows],
            json=None if self.json is None else self.json[rows],
            topics=None if self.topics is None else self.topics[rows],
        )

    def made(self, row: int) -> Dissected | None:
        """Return the payload of a message, parsing JSON if necessary.

        None for plain text, or if no dissector claimed it.
        """
        if self.json is not None and self.json[row]:
            from zmtpscope.payloads.json import dissected  # loaded only if used

            frame = self.last[row]
            return dissected(self.sender_at(row).head(int(self.bodies[frame]), int(self.sizes[frame])) or b"")
        return None if self.payloads is None else self.payloads[row]

    def topic(self, row: int) -> bytes | None:
        """Return the topic of a message, or None."""
        size = -1 if self.topics is None else int(self.topics[row])
        if size < 0:
            return None
        frame, sender = self.first[row], self.sender_at(row)
        start = int(self.bodies[frame]) - sender.base + bool(self.flags[frame] & MARKED)
        return sender.data[start : start + size]


@dataclass(slots=True, eq=False, kw_only=True)
class FrameTable(Table):
    """A table of single frames of one side, made if frame records are requested.

    `messages` are the stream offsets of their messages.
    """

    messages: Int64

    def take(self, rows: Int64) -> FrameTable:
        """Return the frames `rows` (ascending, at least one); they share the octets."""
        names = (*FRAME_COLUMNS, "messages", "orders", "packets", "times")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


T = TypeVar("T", bound=Table)


def senders_of_rows(tables: Sequence[MessageTable | FrameTable]) -> Int64:
    """Return for each row of all tables together the index of its sender among the senders of all tables."""
    if len(tables) == 1 and tables[0].sender_of is not None:
        return tables[0].sender_of
    counts = [len(table) for table in tables]
    before = np.cumsum([0, *(len(table.senders) for table in tables[:-1])])
    if all(table.sender_of is None for table in tables):
        senders: Int64 = before.repeat(counts)
        return senders
    numbers_of = [np.zeros(len(table), np.int64) if table.sender_of is None else table.sender_of for table in tables]
    joined: Int64 = np.concatenate(numbers_of) + before.repeat(counts)
    return joined


def begins_of(tables: Sequence[Table]) -> list[int]:
    """Return the index of each table's first row among the rows of all tables, and of the end."""
    return [*accumulate(map(len, tables), initial=0)]


def tables_and_rows(tables: Sequence[Table], places: Int64) -> tuple[Int64, Int64]:
    """Return the table of each of the rows `places` of all tables together, and the index of the row in it."""
    begins = np.array(begins_of(tables))
    table_of = begins.searchsorted(places, "right") - 1
    return table_of, places - begins[table_of]


def table_and_row(tables: Sequence[T], begins: list[int], place: int) -> tuple[T, int]:
    """Return the table of the row `place` of all tables together, and the index of the row in it.

    `begins` are the indexes of the first rows of the tables.
    """
    number = bisect_right(begins, place) - 1
    return tables[number], place - begins[number]
