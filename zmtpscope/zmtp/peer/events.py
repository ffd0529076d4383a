"""Events of a peer: the actions of the other side, in stream order."""

from __future__ import annotations

from typing import NamedTuple


class Ready(NamedTuple):
    """The handshake is complete: messages may be sent.

    `version` is the version in force; `mechanism` is None below 3.0. `socket_type` and `identity` (a `text`) are the
    other side's, or None if its version or READY does not contain them; `metadata` contains all its properties.
    """

    version: str
    mechanism: str | None
    socket_type: str | None
    identity: str | None
    metadata: tuple[tuple[str, str], ...]


class Message(NamedTuple):
    """A whole message of the application; `envelope` contains the addresses before the delimiter (REP)."""

    parts: list[bytes]
    envelope: tuple[bytes, ...] = ()


class Subscription(NamedTuple):
    """The other side subscribes to `topic`, or cancels the subscription."""

    topic: bytes
    begins: bool


class Membership(NamedTuple):
    """The other side joins or leaves `group`."""

    group: str
    begins: bool


class Pong(NamedTuple):
    """The answer to a PING with this context."""

    context: bytes


class Dropped(NamedTuple):
    """A message that the socket type does not accept, and the `reason`."""

    parts: list[bytes]
    reason: str


PeerEvent = Ready | Message | Subscription | Membership | Pong | Dropped
