"""One message for one dissector, as `zmtpscope.payloads.side` hands it over."""

from __future__ import annotations

from zmtpscope.payloads.api import About, Claim, Message, Payload, Reader, Settings
from zmtpscope.payloads.reader import Dissected
from zmtpscope.payloads.side import claim_of, read

ABOUT = About(1, 0, "3.1", "NULL", None, None, None, 1024, 5555)
"""A side of which only the version is known."""
NOTHING = Settings()


def dissected(
    kind: type[Payload],
    *frames: bytes,
    settings: Settings = NOTHING,
    about: About = ABOUT,
    content: int = 0,
    topic: bytes | None = None,
    trees: bool = False,
) -> Dissected:
    """What a new dissector makes of a message; the body of each frame begins 2 octets behind the one before."""
    message = Message(frames, content, topic)
    return read(kind(settings), message, reader_of(kind, message, about, trees=trees))


def claimed(
    kind: type[Payload],
    *frames: bytes,
    settings: Settings = NOTHING,
    about: About = ABOUT,
    content: int = 0,
    topic: bytes | None = None,
) -> Claim:
    """Whether a new dissector claims a message."""
    return claim_of(kind(settings), Message(frames, content, topic), about)


def reader_of(kind: type[Payload], message: Message, about: About = ABOUT, *, trees: bool = False) -> Reader:
    """A reader of a message."""
    offsets, offset = [], 2
    for frame in message.frames:
        offsets.append(offset)
        offset += len(frame) + 2
    return Reader(kind.prefix, message.frames, offsets, message.content, about, trees=trees)
