"""Message layouts on the wire, by socket type (wire.md 10)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from zmtpscope.records import to_text
from zmtpscope.zmtp.peer.events import Dropped, Message
from zmtpscope.zmtp.socket_types import ONLY_RECEIVE, ONLY_SEND, PEERS, SUBSCRIBERS
from zmtpscope.zmtp.traffic import LARGEST_GROUP


class MessageLayout(Enum):
    """The frames that a socket type adds before the parts of a message, such as an empty delimiter."""

    PLAIN = "the parts as they are"
    DELIMITED = "an empty frame, the parts"
    ENVELOPED = "addresses, an empty frame, the parts"
    GROUPED = "the group, the body"
    SINGLE = "one frame"


class Pattern(NamedTuple):
    layout: MessageLayout
    sends: bool
    receives: bool


_LAYOUTS = {
    "REQ": MessageLayout.DELIMITED,
    "REP": MessageLayout.ENVELOPED,
    "RADIO": MessageLayout.GROUPED,
    "DISH": MessageLayout.GROUPED,
    **dict.fromkeys(("CLIENT", "SERVER", "SCATTER", "GATHER", "PEER", "CHANNEL"), MessageLayout.SINGLE),
}

PATTERNS = {
    name: Pattern(_LAYOUTS.get(name, MessageLayout.PLAIN), name not in ONLY_RECEIVE, name not in ONLY_SEND)
    for name in PEERS
}


def outgoing(socket_type: str, parts: list[bytes], envelope: list[bytes]) -> list[bytes]:
    """Return the frames of a message with `parts`; `envelope` is the return address that a REP sends first.

    Raises `ValueError` if the socket type cannot send this message.
    """
    pattern = PATTERNS[socket_type]
    if not pattern.sends:
        raise ValueError(f"a {socket_type} socket sends no messages")
    if not parts:
        raise ValueError("a message has at least one part")
    if pattern.layout is MessageLayout.PLAIN and not envelope:
        return parts
    if pattern.layout is MessageLayout.SINGLE and len(parts) > 1:
        raise ValueError(f"a {socket_type} socket sends messages of one part, not of {len(parts)}")
    if envelope and pattern.layout is not MessageLayout.ENVELOPED:
        raise ValueError(f"a {socket_type} socket sends no envelope before its messages")
    if b"" in envelope:
        raise ValueError("an envelope cannot contain an empty address: an empty frame ends the envelope")
    if pattern.layout is MessageLayout.GROUPED:
        if len(parts) != 2:
            raise ValueError(f"a RADIO socket sends two parts, the group and the body, not {len(parts)}")
        check_group(parts[0])
    if pattern.layout is MessageLayout.DELIMITED:
        return [b"", *parts]
    if pattern.layout is MessageLayout.ENVELOPED:
        return [*envelope, b"", *parts]
    return parts


def check_group(group: bytes) -> None:
    if len(group) > LARGEST_GROUP or b"\0" in group:
        raise ValueError(
            f"{to_text(group[:20])!r} is not a group: use at most {LARGEST_GROUP} octets, none of them zero"
        )


def check_subscriber(socket_type: str) -> None:
    if socket_type not in SUBSCRIBERS:
        raise ValueError(f"a {socket_type} socket has no subscriptions")


def check_member(socket_type: str, group: bytes) -> None:
    """Raise `ValueError` if a socket of this type cannot join this group."""
    if socket_type != "DISH":
        raise ValueError(f"a {socket_type} socket has no groups")
    check_group(group)


def incoming(socket_type: str, frames: list[bytes]) -> Message | Dropped:
    """Return the received message, or why the socket type drops it; libzmq drops silently."""
    pattern = PATTERNS[socket_type]
    if not pattern.receives:
        return Dropped(frames, f"a {socket_type} socket receives no messages")
    if pattern.layout is MessageLayout.SINGLE and len(frames) > 1:
        return Dropped(frames, f"a {socket_type} socket receives messages of one frame, not of {len(frames)}")
    if pattern.layout is MessageLayout.GROUPED and len(frames) != 2:
        return Dropped(frames, f"a message of RADIO has two frames, not {len(frames)}")
    if pattern.layout is MessageLayout.DELIMITED:
        if frames[0]:
            return Dropped(frames, "the reply does not start with an empty frame")
        return Message(frames[1:]) if len(frames) > 1 else Dropped(frames, "no frame after the empty frame")
    if pattern.layout is MessageLayout.ENVELOPED:
        if b"" not in frames[:-1]:
            return Dropped(frames, "the request has no empty frame, which REP needs")
        delimiter = frames.index(b"")
        return Message(frames[delimiter + 1 :], tuple(frames[:delimiter]))
    return Message(frames)
