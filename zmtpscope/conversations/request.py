"""One request and its reply over all hops: batches in, batches out.

Brokers put addresses in front of a request and leave its frames as they are (28/REQREP), so whatever ends with the same
frames, on another connection and before the reply, is taken for a hop of it. On its way back, so is what goes the other
way on such a connection and ends with the frames of the reply. Who asks the same at the same time is taken for a hop,
too: nothing on the wire tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.conversations.choosing import PLACES
from zmtpscope.dissect import Batch, MessageRun, Options
from zmtpscope.dissect.records.message_columns import MessageColumns

MOST_REPLIES = 10_000
"""Messages that may be a hop of the reply, and are remembered until it comes; the others are no hops."""

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

    def alone(self) -> MessageRun:
        """It as a run of its own."""
        return self.run.part(self.row, self.row + 1)


@dataclass
class RequestHops:
    """Takes the batches of a run, all of them; of the first message in packet `packet` it gives all hops."""

    packet: int
    options: Options
    _request: _Message | None = None
    _is_over: bool = False
    """Whether the reply came."""
    _hops: dict[int | None, int | None] = field(default_factory=dict)
    """The connections of hops, and which side asks there."""
    _back: list[_Message] = field(default_factory=list)
    """What goes the other way on these."""

    def batch(self, batch: Batch) -> Batch:
        """What of a batch belongs to the request; and what became of its connections until the reply."""
        messages = () if self._is_over else _messages(batch, self.options)
        told = {"connection"} if self._is_over else PLACES
        runs = [hop.alone() for message in messages for hop in self._of(message)]
        records = [each for each in batch.records if each.type in told and each.values["conn"] in self._hops]
        return Batch(batch.files, runs, [], records)

    def _of(self, message: _Message) -> Iterator[_Message]:
        """The messages that are known to be hops now that this one has come."""
        if self._is_over:
            return
        conn, side = message.place
        if self._request is None:
            packets = message.run.packets[message.row], message.run.packet_ends[message.row]
            first, last = (int(packet) & PACKET_MASK for packet in packets)
            if first <= self.packet <= last:
                self._request = message
                self._hops[conn] = side
                yield message
        elif (conn, 1 - (side or 0)) == self._request.place:
            self._is_over = True
            yield message
            yield from (each for each in self._back if _ends_with(each.frames, message.frames))
        elif conn in self._hops:
            if side != self._hops[conn] and len(self._back) < MOST_REPLIES:
                self._back.append(message)
        elif _ends_with(message.frames, self._request.frames):
            self._hops[conn] = side
            yield message


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
