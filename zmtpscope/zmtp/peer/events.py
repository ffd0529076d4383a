"""Actions of the other side, in stream order."""

from __future__ import annotations

from typing import NamedTuple


class Ready(NamedTuple):
    """The handshake is complete: messages may be sent.

    `mechanism` is None below 3.0. The other fields are the other side's; `socket_type` and `identity` are None if its
    version or READY lacks them.
    """

    version: str
    mechanism: str | None
    socket_type: str | None
    identity: str | None
    metadata: tuple[tuple[str, str], ...]


class Message(NamedTuple):
    """A whole message; `envelope` contains the addresses before the delimiter (REP)."""

    parts: list[bytes]
    envelope: tuple[bytes, ...] = ()


class Subscription(NamedTuple):
    topic: bytes
    begins: bool


class Membership(NamedTuple):
    group: str
    begins: bool


class Pong(NamedTuple):
    context: bytes


class Dropped(NamedTuple):
    parts: list[bytes]
    reason: str


PeerEvent = Ready | Message | Subscription | Membership | Pong | Dropped
