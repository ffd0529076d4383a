"""Socket types: their names, the codes of ZMTP 2.0, and who may meet whom (wire.md 4.1, 10.6)."""

from __future__ import annotations

CODES = ("PAIR", "PUB", "SUB", "REQ", "REP", "DEALER", "ROUTER", "PULL", "PUSH", "XPUB", "XSUB", "STREAM")
"""The socket type codes of a 2.0 greeting; those above 8 are used by implementations only (D24)."""

HIGHEST_SPECIFIED_CODE = 8

PEERS: dict[str, frozenset[str]] = {
    "PAIR": frozenset({"PAIR"}),
    "REQ": frozenset({"REP", "ROUTER"}),
    "REP": frozenset({"REQ", "DEALER"}),
    "DEALER": frozenset({"REP", "DEALER", "ROUTER"}),
    "ROUTER": frozenset({"REQ", "DEALER", "ROUTER"}),
    "PUB": frozenset({"SUB", "XSUB"}),
    "XPUB": frozenset({"SUB", "XSUB"}),
    "SUB": frozenset({"PUB", "XPUB"}),
    "XSUB": frozenset({"PUB", "XPUB"}),
    "PUSH": frozenset({"PULL"}),
    "PULL": frozenset({"PUSH"}),
    "CLIENT": frozenset({"SERVER"}),
    "SERVER": frozenset({"CLIENT"}),
    "RADIO": frozenset({"DISH"}),
    "DISH": frozenset({"RADIO"}),
    "SCATTER": frozenset({"GATHER"}),
    "GATHER": frozenset({"SCATTER"}),
    "PEER": frozenset({"PEER"}),
    "CHANNEL": frozenset({"CHANNEL"}),
}
"""Every socket type that travels over TCP, with the types it may meet."""

USUAL_PARTNERS = {
    **{one: next(iter(others)) for one, others in PEERS.items() if len(others) == 1},
    **dict.fromkeys(("PUB", "XPUB"), "SUB"),
    **dict.fromkeys(("SUB", "XSUB"), "PUB"),
}
"""What the other side is taken for where only one is known: the one type that it may be; SUB and PUB, which on the wire
XSUB and XPUB are like. The others may meet several that differ (a REP meets REQ and DEALER): nothing is assumed."""

DRAFT = frozenset({"CLIENT", "SERVER", "RADIO", "DISH", "SCATTER", "GATHER", "PEER", "CHANNEL"})
"""Types that ZMTP 3.0 does not know."""

PUBLISHERS = frozenset({"PUB", "XPUB"})
SUBSCRIBERS = frozenset({"SUB", "XSUB"})

PUBLISHERS_AND_RADIO = PUBLISHERS | {"RADIO"}
SUBSCRIBERS_AND_DISH = SUBSCRIBERS | {"DISH"}
"""Who sends to all who asked for it, and who asks: by the topic that messages begin with, or by the group that they are
for."""

ONLY_SEND = frozenset({"PUB", "PUSH", "RADIO", "SCATTER"})
ONLY_RECEIVE = frozenset({"SUB", "PULL", "DISH", "GATHER"})
"""Types whose messages go one way (wire.md 10.1, 10.5); subscriptions and groups are no messages."""

SINGLE_PART = ("CLIENT", "SERVER", "DISH", "SCATTER", "GATHER", "PEER", "CHANNEL")
"""Types that send messages of one part only (wire.md 10.5); RADIO sends two frames, the group and the body."""

REQUEST_ID_SIZE = 4
"""Octets of the request id that libzmq puts in front of the delimiter on demand (wire.md 10.1)."""

IDENTIFIED = frozenset({"REQ", "DEALER", "ROUTER"})
"""Types whose Identity means something to a ROUTER (wire.md 7.2)."""


LARGEST_IDENTITY = 255
"""Octets of an identity, in every version."""


def may_meet(one: str, other: str) -> bool:
    """Whether sockets of these two types may be connected; False for types that are not in the table."""
    return other in PEERS.get(one, ())


def name_of_code(code: int) -> str:
    """The name of a 2.0 socket type code, `unknown (N)` above 11."""
    return CODES[code] if code < len(CODES) else f"unknown ({code})"
