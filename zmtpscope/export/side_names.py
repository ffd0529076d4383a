"""Names of the two sides of a connection: the full address for the first line, a short name for later ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zmtpscope.dissect.identity import Stream
from zmtpscope.export.preview import quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.records import from_text
from zmtpscope.words import host_port

LONGEST_TYPE, LONGEST_IDENTITY, LONGEST_SHORT_IDENTITY = 12, 16, 12
ZRE_IDENTITY = 17
"""Octets of a ZRE node's identity: 01 and its UUID."""

OPENER = 0
"""The side whose port is different each time and therefore meaningless."""


class SideNames:
    """The names of one side of a connection.

    `full` has all known details, `short` is for narrow columns, `typed` has address and socket type.
    """

    def __init__(self, address: str, port: int | None, side: int) -> None:
        self.address = self.full = self.typed = address
        self.socket_type: str | None = None
        self.identity: str | None = None
        self._port, self._side = port, side
        self.short = short_name(None, None, port, side)

    def learn(self, socket_type: str | None, identity: str | None) -> bool:
        """Store what a greeting or command announces; return whether it is new."""
        before = self.socket_type, self.identity
        self.socket_type, self.identity = socket_type or self.socket_type, identity or self.identity
        if before == (self.socket_type, self.identity):
            return False
        self.typed = (
            f"{self.address} {safe_text(self.socket_type)[:LONGEST_TYPE]}" if self.socket_type else self.address
        )
        self.full = f"{self.typed} {named(self.identity)}" if self.identity else self.typed
        self.short = short_name(self.socket_type, self.identity, self._port, self._side)
        return True


def side_names(stream: Stream) -> tuple[SideNames, SideNames]:
    """Return the names of side 0 and side 1, or of sender and receiver of a datagram."""
    one, other = stream.ends
    return SideNames(host_port(*one), one[1], 0), SideNames(host_port(*other), other[1], 1)


def named(identity: str, limit: int = LONGEST_IDENTITY) -> str:
    """Format an identity in at most `limit` characters; of a ZRE node in the usual form (zre.md 3 and 8)."""
    octets = from_text(identity)
    if len(octets) == ZRE_IDENTITY and octets[0] == 1:
        return f"ZRE {octets[1:4].hex().upper()}"
    return quoted(identity, limit)


def name_and_type(socket_type: str | None, identity: str | None) -> list[str]:
    words = [named(identity)] if identity else []
    return [*words, safe_text(socket_type)[:LONGEST_TYPE]] if socket_type else words


def short_name(socket_type: str | None, identity: str | None, port: int | None, side: int) -> str:
    """Return a short name: `"worker-1"`, `SUB`, `PUB:5556`, `:5556`.

    The listener keeps its port, which also names a side without identity and socket type.
    """
    if identity:
        name = named(identity, LONGEST_SHORT_IDENTITY)
    elif socket_type:
        name = safe_text(socket_type)[:LONGEST_TYPE]
    else:
        return f":{port}"
    return name if side == OPENER else f"{name}:{port}"


def name_of_side(values: Mapping[str, Any], side: int) -> str:
    return short_name(values[f"socket_type_{side}"], values[f"identity_{side}"], values[f"port_{side}"], side)
