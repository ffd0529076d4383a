"""A peer of any version, mechanism and socket type, without I/O or clock."""

from __future__ import annotations

from zmtpscope.zmtp.peer.errors import (
    ClosedHalfWay,
    Mismatch,
    NotZmtp,
    PeerError,
    Refused,
    TooSlow,
    UnfitSocketType,
    Violation,
)
from zmtpscope.zmtp.peer.events import Dropped, Membership, Message, PeerEvent, Pong, Ready, Subscription
from zmtpscope.zmtp.peer.peer import Peer
from zmtpscope.zmtp.peer.settings import (
    CurveClient,
    CurveServer,
    Heartbeat,
    Limits,
    Null,
    PlainClient,
    PlainServer,
    Security,
    Settings,
)

__all__ = (
    "ClosedHalfWay",
    "CurveClient",
    "CurveServer",
    "Dropped",
    "Heartbeat",
    "Limits",
    "Membership",
    "Message",
    "Mismatch",
    "NotZmtp",
    "Null",
    "Peer",
    "PeerError",
    "PeerEvent",
    "PlainClient",
    "PlainServer",
    "Pong",
    "Ready",
    "Refused",
    "Security",
    "Settings",
    "Subscription",
    "TooSlow",
    "UnfitSocketType",
    "Violation",
)
