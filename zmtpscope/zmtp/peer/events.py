"""What a peer hands up: what the other side said, in the order of its stream."""

from __future__ import annotations

from typing import NamedTuple


class Ready(NamedTuple):
    """The handshake is complete: messages may be sent.

    `version` is the one in force; `mechanism` is None below 3.0. `socket_type` and `identity` (a `text`) are those of
    the other side, None where its version or its READY does not say; `metadata` all that it said of itself.
    """

    version: str
    mechanism: str | None
    socket_type: str | None
    identity: str | None
    metadata: tuple[tuple[str, str], ...]


class Message(NamedTuple):
    """A whole message as the application sent it; `envelope` are the addresses in front of the delimiter (REP)."""

    parts: list[bytes]
    envelope: tuple[bytes, ...] = ()


class Subscription(NamedTuple):
    """The other side subscribes to `topic`, or cancels that."""

    topic: bytes
    begins: bool


class Membership(NamedTuple):
    """The other side joins `group`, or leaves it."""

    group: str
    begins: bool


class Pong(NamedTuple):
    """The answer to a PING with this context."""

    context: bytes


class Dropped(NamedTuple):
    """A message that the socket type does not take; `reason` says why."""

    parts: list[bytes]
    reason: str


PeerEvent = Ready | Message | Subscription | Membership | Pong | Dropped
