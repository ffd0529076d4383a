"""What the tests of payload dissectors share: one message, read as the door reads it."""

from __future__ import annotations

from itertools import accumulate

from zmtpscope.payloads.api import About, Claim, Message, Payload, Settings
from zmtpscope.payloads.reader import Dissected, Reader
from zmtpscope.payloads.side import read

ABOUT = About(1, 0, "3.1", "NULL", "PUSH", "PULL", None, 40000, 5555)
NO_SETTINGS = Settings()
START = 2
"""Where the body of the first frame stands in its stream."""


def dissected(
    kind: type[Payload],
    *frames: bytes,
    settings: Settings = NO_SETTINGS,
    about: About = ABOUT,
    content: int = 0,
    topic: bytes | None = None,
    trees: bool = False,
) -> Dissected:
    """What a new dissector makes of one message."""
    offsets = list(accumulate((len(frame) + 2 for frame in frames), initial=START))[: len(frames)]
    reader = Reader(kind.prefix, frames, offsets, content, about, trees=trees)
    return read(kind(settings), Message(frames, content, topic), reader)


def claimed(
    kind: type[Payload],
    *frames: bytes,
    settings: Settings = NO_SETTINGS,
    about: About = ABOUT,
    content: int = 0,
    topic: bytes | None = None,
) -> Claim:
    """What a new dissector says of one message."""
    return kind(settings).claim(Message(frames, content, topic), about)
