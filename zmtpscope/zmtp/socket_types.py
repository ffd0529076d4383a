"""Socket types: names, ZMTP 2.0 codes, valid pairs (wire.md 4.1, 10.6)."""

from __future__ import annotations

CODES = ("PAIR", "PUB", "SUB", "REQ", "REP", "DEALER", "ROUTER", "PULL", "PUSH", "XPUB", "XSUB", "STREAM")
"""Socket types by their code in a 2.0 greeting; codes above 8 are implemented, but not specified (D24)."""

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
"""Socket types over TCP, with the types that each may be connected to."""

USUAL_PARTNERS = {
    **{one: next(iter(others)) for one, others in PEERS.items() if len(others) == 1},
    **dict.fromkeys(("PUB", "XPUB"), "SUB"),
    **dict.fromkeys(("SUB", "XSUB"), "PUB"),
}
"""The other side's socket type, assumed if only one is known.

It is the only valid type, or SUB or PUB, whose wire format XSUB and XPUB share. Types with several different peers
(REP: REQ and DEALER) are missing.
"""

DRAFT = frozenset({"CLIENT", "SERVER", "RADIO", "DISH", "SCATTER", "GATHER", "PEER", "CHANNEL"})
"""Socket types that are not in ZMTP 3.0."""

PUBLISHERS = frozenset({"PUB", "XPUB"})
SUBSCRIBERS = frozenset({"SUB", "XSUB"})

PUBLISHERS_AND_RADIO = PUBLISHERS | {"RADIO"}
SUBSCRIBERS_AND_DISH = SUBSCRIBERS | {"DISH"}

ONLY_SEND = frozenset({"PUB", "PUSH", "RADIO", "SCATTER"})
ONLY_RECEIVE = frozenset({"SUB", "PULL", "DISH", "GATHER"})
"""Socket types that only receive messages (wire.md 10.1, 10.5); subscriptions and groups are not messages."""

SINGLE_PART = ("CLIENT", "SERVER", "DISH", "SCATTER", "GATHER", "PEER", "CHANNEL")
"""Types that send only single-part messages (wire.md 10.5); RADIO sends two frames, group and body."""

ONE_WAY = PUBLISHERS_AND_RADIO | SUBSCRIBERS_AND_DISH | ONLY_SEND | ONLY_RECEIVE
"""Types that send or receive messages without replies."""

REQUEST_ID_SIZE = 4
"""Octets of the optional request id that libzmq sends before the delimiter (wire.md 10.1)."""

ROUTING = frozenset({"DEALER", "ROUTER"})
"""Types that need not send and receive in turns, and add at most an envelope to a message."""

TWO_WAY = ROUTING | {"PAIR", "CLIENT", "SERVER", "PEER", "CHANNEL"}
"""Types that send and receive at any time."""

IDENTIFIED = frozenset({"REQ", "DEALER", "ROUTER"})
"""Types whose Identity a ROUTER uses (wire.md 7.2)."""


LARGEST_IDENTITY = 255
"""Octets of an identity in every version."""


def may_meet(one: str, other: str) -> bool:
    return other in PEERS.get(one, ())


def name_of_code(code: int) -> str:
    """Return the socket type for a ZMTP 2.0 code: `2 -> "SUB"`; above 11 `unknown (N)`."""
    return CODES[code] if code < len(CODES) else f"unknown ({code})"
