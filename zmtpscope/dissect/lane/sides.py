"""What the lane remembers of one side that does not change while it is there; what does are columns (`slots.py`)."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.connection.message_rows import MessageRows
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.payload_rows import PayloadRows
from zmtpscope.dissect.records.topics import Names
from zmtpscope.dissect.stream.reading import Reading
from zmtpscope.zmtp.regime import Regime

MOST_OPEN, MOST_HELD = 64, 16 << 10
"""Frames of a message under way, and octets that are held, at most."""

ASKS, REPLIES = 1, 2
NO_ROLES = 0, 0
ROLES: dict[tuple[str | None, str | None], tuple[int, int]] = {
    ("REQ", "REP"): (ASKS, REPLIES),
    ("REQ", "ROUTER"): (ASKS, REPLIES),
    ("REP", "REQ"): (REPLIES, ASKS),
    ("ROUTER", "REQ"): (REPLIES, ASKS),
}
"""Who asks and who replies, by the socket types of both sides."""

LARGEST_PLACE = 1 << 48
"""Stream offsets are numbers of 64 bits here; where a body that is announced ends need not be one."""


class LaneSide(NamedTuple):
    """A side that sends plain messages. What all of its rows have in common stands here as well as where it belongs,
    since that is five objects away."""

    reading: Reading | None
    """What reads the side when it is released; None where nothing was read of it but in the lane."""
    stream: Stream
    regime: Regime
    confidence: str
    version: str | None
    peer_socket_type: str | None
    settled: int
    limit: int
    """Octets of a message that is written whole."""
    payloads: PayloadRows | None
    """Who is asked what rides inside the messages, where they are judged."""
    judge: MessageRows | None
    """Who looks at the messages; None where there is nothing to be said of them."""
    is_written: bool
    """Whether message rows are written."""
    keeps: bool
    """Whether the octets of the message under way are wanted."""
    awaits: bool
    """Whether it matters when the first octets behind its handshake come."""
    role: int = 0
    """`ASKS` or `REPLIES`, where its messages have to alternate with those of the other side; else 0."""
    subscribed: Names = ()
    """What the other side has subscribed to, where each of its messages has to begin with one of these; else nothing.
    """

    @property
    def wants_rows(self) -> bool:
        """Whether rows are made of the messages."""
        if self.judge is None or self.is_written:
            return self.is_written
        return self.reading is not None and self.reading.messages.are_wanted()

    @property
    def is_looked_into(self) -> bool:
        """Whether somebody wants to know what is inside the messages, which are judged."""
        return self.is_written or (self.payloads is not None and self.payloads.wants_rows)
