"""The state of a side that does not change in the lane; changing state is in columns (`slots.py`)."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.connection.message_rows import MessageRows
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.payload_rows import PayloadRows
from zmtpscope.dissect.records.topics import Names
from zmtpscope.dissect.stream.reading import Reading
from zmtpscope.zmtp.regime import Regime

MAX_OPEN, MAX_HELD = 64, 16 << 10
"""Maximum frames of an incomplete message, and maximum octets held."""

ASKS, REPLIES = 1, 2
NO_ROLES = 0, 0
ROLES: dict[tuple[str | None, str | None], tuple[int, int]] = {
    ("REQ", "REP"): (ASKS, REPLIES),
    ("REQ", "ROUTER"): (ASKS, REPLIES),
    ("REP", "REQ"): (REPLIES, ASKS),
    ("ROUTER", "REQ"): (REPLIES, ASKS),
}
"""Whether each side sends requests or replies, by the socket types of both sides."""

LARGEST_PLACE = 1 << 48
"""Upper limit for stream offsets: they have 64 bits here, and the end of an announced body may exceed that."""


class LaneSide(NamedTuple):
    """A side that sends plain messages.

    Values common to all of its rows are copied here, since their owners are five objects away.
    """

    reading: Reading | None
    """Reads the side after its release; None if only the lane has read it."""
    stream: Stream
    regime: Regime
    confidence: str
    version: str | None
    peer_socket_type: str | None
    settled: int
    limit: int
    """Maximum octets of a message that is written whole."""
    payloads: PayloadRows | None
    """Payload dissectors, if rules check the messages."""
    judge: MessageRows | None
    """Checks the messages; None if no rule applies."""
    is_written: bool
    """Whether message rows are written."""
    keeps: bool
    """Whether to keep the octets of the incomplete message."""
    awaits: bool
    """Whether the time of the first octets after its handshake matters."""
    role: int = 0
    """`ASKS` or `REPLIES` if its messages must alternate with those of the other side, otherwise 0."""
    subscribed: Names = ()
    """Subscriptions of the other side if each message must match one of them, otherwise empty."""

    @property
    def wants_rows(self) -> bool:
        """Whether rows are made of the messages."""
        if self.judge is None or self.is_written:
            return self.is_written
        return self.reading is not None and self.reading.messages.are_wanted()

    @property
    def is_looked_into(self) -> bool:
        """Whether the checked messages are also dissected."""
        return self.is_written or (self.payloads is not None and self.payloads.wants_rows)
