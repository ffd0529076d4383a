"""The state of a side that sends plain messages, between two segments.

Fast path and slow path pass it to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.payload_rows import PayloadRows
from zmtpscope.dissect.tcp.connection import NEVER, TcpState
from zmtpscope.zmtp.events import NO_FRAMES, FrameColumns

Piece = tuple[int, int, int, int]
"""The stream offset after some octets, and the fields of the `Arrival` of their segment."""


class Counts(NamedTuple):
    """Numbers of complete messages, of their frames, and of octets of bodies and headers; and the stream offset of the
    last message."""

    messages: int
    frames: int
    octets: int
    headers: int
    last: int


NO_COUNTS = Counts(0, 0, 0, 0, 0)


class PlainState(NamedTuple):
    """The state of a side that sends plain messages, between two segments.

    If the fast path does not read the side, only `tcp` is set.
    """

    tcp: TcpState
    position: int = -1
    """Stream offset of the next frame header, -1 if the fast path does not read the side."""
    held: bytes = b""
    """The last received octets: unread ones, and those of the incomplete message if they are kept."""
    frames: FrameColumns = NO_FRAMES
    """Frames of the incomplete message that have started."""
    came: tuple[Arrival, Arrival, Arrival] = (NEVER, NEVER, NEVER)
    """Segments with the first octet of the incomplete message, with that of its last frame, and with its last octet so
    far."""
    begin: int = 0
    """Stream offset from which the segments of the octets are known."""
    pieces: Sequence[Piece] = ()
    """Segments with the octets from `begin` on, as far as they are needed."""
    counts: Counts = NO_COUNTS
    """Complete messages that the fast path has read."""
    sizes: Sequence[int] = ()
    """Sizes of the last frames of complete messages."""
    awaited: Arrival | None = None
    """Segment with the first octet after the handshake, if the fast path has read it."""
    payloads: PayloadRows | None = None
    """Payload dissectors, if they have met a message."""
    is_answered: bool | None = None
    """Whether the last request has its reply; None if the fast path has not matched requests of this side."""
    last_packet: int = 0
    """Packet with the end of the last request."""
