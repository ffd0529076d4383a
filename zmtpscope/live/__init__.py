"""ZMTP sockets, live capture, and recording of a program's CURVE keys."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zmtpscope.live.peer.api import bind, connect
    from zmtpscope.live.peer.connection import Unreachable
    from zmtpscope.live.peer.socket import Socket
    from zmtpscope.zmtp.peer import (
        ClosedHalfWay,
        CurveClient,
        CurveServer,
        Heartbeat,
        Limits,
        Mismatch,
        NotZmtp,
        PeerError,
        PlainClient,
        PlainServer,
        Refused,
        TooSlow,
        UnfitSocketType,
        Violation,
    )

__all__ = (
    "ClosedHalfWay",
    "CurveClient",
    "CurveServer",
    "Heartbeat",
    "Limits",
    "Mismatch",
    "NotZmtp",
    "PeerError",
    "PlainClient",
    "PlainServer",
    "Refused",
    "Socket",
    "TooSlow",
    "UnfitSocketType",
    "Unreachable",
    "Violation",
    "bind",
    "connect",
)

_MODULES = {
    **dict.fromkeys(("bind", "connect"), "zmtpscope.live.peer.api"),
    "Socket": "zmtpscope.live.peer.socket",
    "Unreachable": "zmtpscope.live.peer.connection",
}


def __getattr__(name: str) -> Any:
    """Import the sockets when they are first used, since the capture process does not need them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "zmtpscope.zmtp.peer")), name)
