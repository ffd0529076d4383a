"""Select a request and its reply on all connections (hops) through brokers, batch by batch.

A broker adds addresses before a request and leaves its frames unchanged (28/REQREP). So a message is a hop of the
request if it ends with the same frames, on another connection and before the reply. The reply of a hop is the first
later message in the other direction with the same addresses. If a broker replaced the addresses, it is the message that
ends with the frames of the reply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.conversations.choosing import PLACES
from zmtpscope.dissect import Batch, MessageTable, Options, Record
from zmtpscope.dissect.records.message_columns import MessageColumns

MAX_REPLIES = 10_000
"""Possible replies. Later messages are not considered."""

OF_REQUESTS = "REQREP-"
"""Starts the ids of findings about a single request or reply."""

Frames = list[bytes]


class _Message(NamedTuple):
    """A message as a table with one row, and its frames."""

    alone: MessageTable
    frames: Frames

    @property
    def place(self) -> tuple[int | None, int | None]:
        return self.alone.stream.conn, self.alone.stream.side

    @property
    def packets(self) -> tuple[int, int]:
        packets = self.alone.packets[0], self.alone.packet_ends[0]
        first, last = (int(packet) & PACKET_MASK for packet in packets)
        return first, last


@dataclass
class _Hop:
    """The request on one connection: side `side` sent it with the address frames `front`. `is_answered`: its reply was
    found."""

    side: int | None
    front: Frames
    is_answered: bool = False


@dataclass
class RequestHops:
    """Selects all hops of a request, the first message in packet `packet`, and of its reply."""

    packet: int
    options: Options
    _request: _Message | None = None
    _is_over: bool = False
    _hops: dict[int | None, _Hop] = field(default_factory=dict)
    _back: list[_Message] = field(default_factory=list)
    """Possible replies: messages towards the client on hops that have no reply yet."""
    _hop_packets: set[tuple[int | None, int]] = field(default_factory=set)

    def batch(self, batch: Batch) -> Batch:
        """Return a batch with the hops of the request, and the other records of their connections until the reply."""
        messages = () if self._is_over else _messages(batch, self.options)
        told = {"connection"} if self._is_over else PLACES
        hops = [hop for message in messages for hop in self._of(message)]
        self._hop_packets.update((hop.place[0], packet) for hop in hops for packet in hop.packets)
        records = [each for each in batch.records if each.type in told and self._is_about_hops(each)]
        return Batch(batch.files, [hop.alone for hop in hops], [], records)

    def _is_about_hops(self, record: Record) -> bool:
        """Whether a record is about the connection of a hop, but not about another request on it."""
        conn = record.values["conn"]
        if record.type == "finding" and record.values["id"].startswith(OF_REQUESTS):
            return (conn, record.values["packet"]) in self._hop_packets
        return conn in self._hops

    def _of(self, message: _Message) -> Iterator[_Message]:
        """Yield the messages that become known as hops by this message: itself, or earlier messages that may be its
        replies."""
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
            elif len(self._back) < MAX_REPLIES:
                self._back.append(message)
            if conn == self._request.place[0]:
                self._is_over = True
                yield from (each for each in self._back if _ends_with(each.frames, message.frames))


def _messages(batch: Batch, options: Options) -> Iterator[_Message]:
    columns = MessageColumns.of(batch, options)
    for row, values in enumerate(columns.records() if len(columns) else ()):
        if values["bodies"] is not None and None not in values["bodies"]:
            yield _Message(columns.alone(row), values["bodies"])


def _ends_with(frames: Frames, others: Frames) -> bool:
    return bool(others) and frames[-len(others) :] == others
