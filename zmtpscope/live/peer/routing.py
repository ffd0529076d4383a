"""Routing of outgoing messages, by socket type."""

from __future__ import annotations

from enum import Enum

from zmtpscope.zmtp.peer.patterns import PATTERNS


class Route(Enum):
    """Selection of the connections that get a message."""

    ROUND_ROBIN = "to one after the other"
    ALL = "to everybody who wants them"
    BACK = "to the one that asked last"
    NAMED = "to the one that the first part names"


ROUTES: dict[str, Route] = {
    **dict.fromkeys(PATTERNS, Route.ROUND_ROBIN),
    **dict.fromkeys(("PUB", "XPUB", "RADIO", "XSUB"), Route.ALL),
    **dict.fromkeys(("ROUTER", "SERVER", "PEER"), Route.NAMED),
    "REP": Route.BACK,
}
