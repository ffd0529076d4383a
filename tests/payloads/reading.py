"""What the tests of payload dissectors share: one message, read as the door reads it."""

from __future__ import annotations

from zmtpscope.payloads.api import About, Claim, Message, Payload, Settings
from zmtpscope.payloads.reader import Dissected, Reader
from zmtpscope.payloads.side import read

ABOUT = About(1, 0, "3.1", "NULL", "PUSH", "PULL", None, 40000, 5555)
NOTHING_GIVEN = Settings()
START = 100
"""Where the body of the first frame stands in its stream."""


def dissected(
    kind: type[Payload],
    *frames: bytes,
    settings: Settings = NOTHING_GIVEN,
    about: About = ABOUT,
    content: int = 0,
    topic: bytes | None = None,
    trees: bool = False,
) -> Dissected:
    """What a new dissector of that kind makes of one message, claimed first as it would be."""
    payload, message = kind(settings), Message(frames, content, topic)
    if frames[content:]:
        payload.claim(message, about)
    offsets = [START]
    for frame in frames:
        offsets.append(offsets[-1] + len(frame) + 2)
    reader = Reader(kind.prefix, frames, offsets[:-1] or offsets, content, about, trees=trees)
    return read(payload, message, reader)


def claimed(
    kind: type[Payload],
    *frames: bytes,
    settings: Settings = NOTHING_GIVEN,
    about: About = ABOUT,
    content: int = 0,
    topic: bytes | None = None,
) -> Claim:
    """What a new dissector of that kind says of one message."""
    return kind(settings).claim(Message(frames, content, topic), about)
