"""One request and its reply over all hops: batches in, batches out.

Brokers put addresses in front of a request and leave its frames as they are (28/REQREP), so whatever ends with the
same frames, on another connection and before the reply, is taken for a hop of it. The reply of a hop is what comes
first back on its connection with the same addresses in front, or, where a broker has put others there, what ends with
the frames of the reply. Who asks the same at the same time is taken for a hop, too, and so is who asks the same again
while there is no reply: nothing on the wire tells them apart. What findings say of other requests on these connections
is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.conversations.choosing import PLACES
from zmtpscope.dissect import Batch, MessageRun, Options, Record
from zmtpscope.dissect.records.message_columns import MessageColumns

MOST_REPLIES = 10_000
"""Messages that may be a hop of the reply, and are remembered until it comes; the others are no hops."""

OF_REQUESTS = "REQREP-"
"""How the ids of findings begin that are about a single request or reply."""

Frames = list[bytes]


class _Message(NamedTuple):
    """Row `row` of a run, and its frames."""

    run: MessageRun
    row: int
    frames: Frames

    @property
    def place(self) -> tuple[int | None, int | None]:
        """Connection and side."""
        return self.run.stream.conn, self.run.stream.side

    @property
    def packets(self) -> tuple[int, int]:
        """The first and the last."""
        packets = self.run.packets[self.row], self.run.packet_ends[self.row]
        first, last = (int(packet) & PACKET_MASK for packet in packets)
        return first, last

    def alone(self) -> MessageRun:
        """It as a run of its own."""
        return self.run.part(self.row, self.row + 1)


@dataclass
class _Hop:
    """`side` asks there; `front` are the frames in front of those of the request."""

    side: int | None
    front: Frames
    is_answered: bool = False


@dataclass
class RequestHops:
    """Takes the batches of a run, all of them; of the first message in packet `packet` it gives all hops."""

    packet: int
    options: Options
    _request: _Message | None = None
    _is_over: bool = False
    """Whether the reply came."""
    _hops: dict[int | None, _Hop] = field(default_factory=dict)
    """By connection."""
    _back: list[_Message] = field(default_factory=list)
    """What goes the other way on those that are not answered."""
    _said: set[tuple[int | None, int]] = field(default_factory=set)
    """Connection and packet of each hop."""

    def batch(self, batch: Batch) -> Batch:
        """What of a batch belongs to the request; and what became of its connections until the reply."""
        messages = () if self._is_over else _messages(batch, self.options)
        told = {"connection"} if self._is_over else PLACES
        hops = [hop for message in messages for hop in self._of(message)]
        self._said.update((hop.place[0], packet) for hop in hops for packet in hop.packets)
        records = [each for each in batch.records if each.type in told and self._is_about_hops(each)]
        return Batch(batch.files, [hop.alone() for hop in hops], [], records)

    def _is_about_hops(self, record: Record) -> bool:
        """Whether it is about the connection of one, and no other request on it."""
        conn = record.values["conn"]
        if record.type == "finding" and record.values["id"].startswith(OF_REQUESTS):
            return (conn, record.values["packet"]) in self._said
        return conn in self._hops

    def _of(self, message: _Message) -> Iterator[_Message]:
        """The messages that are known to be hops now that this one has come."""
        if self._is_over:
            return
        conn, side = message.place
        hop = self._hops.get(conn)
        if self._request is None:
            first, last = message.packets
            if first <= self.packet <= last:
                self._request = message
                self._hops[conn] = _Hop(side, [])
                yield message
        elif hop is None:
            if _ends_with(message.frames, self._request.frames):
                self._hops[conn] = _Hop(side, message.frames[: -len(self._request.frames)])
                yield message
        elif side != hop.side and not hop.is_answered:
            hop.is_answered = message.frames[: len(hop.front)] == hop.front
            if hop.is_answered:
                yield message
            elif len(self._back) < MOST_REPLIES:
                self._back.append(message)
            if conn == self._request.place[0]:
                self._is_over = True
                yield from (each for each in self._back if _ends_with(each.frames, message.frames))


def _messages(batch: Batch, options: Options) -> Iterator[_Message]:
    """The messages of a batch whose frames are known, in order."""
    order = batch.arranged()
    if not len(order.run_of):
        return
    rows = MessageColumns.of_arrangement(order, batch.files, options).records()
    for place, values in enumerate(rows):
        if values["bodies"] is not None and None not in values["bodies"]:
            yield _Message(order.runs[order.run_of[place]], int(order.row_of[place]), values["bodies"])


def _ends_with(frames: Frames, others: Frames) -> bool:
    return bool(others) and frames[-len(others) :] == others
