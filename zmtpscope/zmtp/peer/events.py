"""Events of `Peer`: actions of the other side, in stream order."""

from __future__ import annotations

from typing import NamedTuple


class Ready(NamedTuple):
    """The handshake is complete: messages may be sent.

    All fields describe the other side. `mechanism` is None below 3.0; `socket_type` and `identity` are None if its
    version or its READY lacks them.
    """

    version: str
    mechanism: str | None
    socket_type: str | None
    identity: str | None
    metadata: tuple[tuple[str, str], ...]


class Message(NamedTuple):
    """A complete message.

    `envelope` contains the addresses before the empty delimiter frame, for a REP to reply with.
    """

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
