"""Dissect one message with one dissector, as on one side of a connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zmtpscope.payloads.api import About, Claim, Message, Payload, Settings
from zmtpscope.payloads.dissected import Dissected, tiled
from zmtpscope.payloads.dissectors import declared
from zmtpscope.payloads.reader import Reader
from zmtpscope.payloads.registry import Registry
from zmtpscope.payloads.side import claim_of, read
from zmtpscope.zmtp.reader import FieldNode

ABOUT = About(1, 0, "3.1", "NULL", None, None, None, 50_000, 5555)
"""A side of which only the version is known."""
NOTHING = Settings()
START = 0
"""Stream offset of the first frame's body."""

BETWEEN = 2
"""Octets between the bodies of frames: their headers."""


def dissected(
    kind: type[Payload] | Payload,
    *frames: bytes,
    settings: Settings = NOTHING,
    about: About = ABOUT,
    content: int = 0,
    topic: bytes | None = None,
    trees: bool = False,
    after_loss: bool = False,
) -> Dissected:
    """Dissect a message; the body of its first frame has stream offset 0."""
    payload = kind if isinstance(kind, Payload) else kind(settings)
    message = Message(frames, content, topic, after_loss)
    return read(payload, message, reader_of(payload, message, about, trees=trees))


def result_of(made: Dissected) -> tuple[Any, ...]:
    """Return the result of a dissector without a field tree; numbers as texts, because 1 equals True and NaN does
    not equal itself."""
    return made.protocol, made.summary, repr(made.fields), list(made.findings), list(made.sources), list(made.secrets)


def reader_of(
    payload: Payload | type[Payload], message: Message, about: About = ABOUT, *, trees: bool = False
) -> Reader:
    """Return a reader at the first content frame of a message."""
    return Reader(payload.prefix, message.frames, offsets(message.frames), message.content, about, trees=trees)


def claimed(
    kind: type[Payload] | Payload,
    *frames: bytes,
    settings: Settings = NOTHING,
    about: About = ABOUT,
    content: int = 0,
    topic: bytes | None = None,
) -> Claim:
    payload = kind if isinstance(kind, Payload) else kind(settings)
    return claim_of(payload, Message(frames, content, topic), about)


def registry_of(*kinds: type[Payload], only: str | None = None) -> Registry:
    registry = Registry(only)
    registry._known = {kind.name: declared(kind) for kind in kinds}
    return registry


def offsets(frames: Sequence[bytes]) -> list[int]:
    found, at = [], START
    for frame in frames:
        found.append(at)
        at += len(frame) + BETWEEN
    return found


def leaves_of(made: Dissected, frames: Sequence[bytes]) -> list[tuple[str, Any]]:
    """Return name and value of each leaf of a result with trees, which tile the frames (P5)."""
    return [(leaf.name, leaf.value) for leaf in assert_tiled(made, *frames) if leaf.name]


def values(nodes: list[FieldNode]) -> list[tuple[str, object]]:
    """Return name, without prefix, and value of each leaf below these nodes."""
    return [(leaf.name.partition(".")[2], leaf.value) for node in nodes for leaf in node.leaves()]


def assert_tiled(made: Dissected, *frames: bytes) -> list[FieldNode]:
    """Seam P5: the leaves of each frame tile its octets, and so do the leaves of unpacked contents. Returns the
    leaves of the frames that were read."""
    found = []
    for place, (frame, start) in enumerate(zip(frames, offsets(frames), strict=True)):
        nodes = tiled(made.nodes.get(place, []), start, frame)
        at = start
        for leaf in (leaf for node in nodes for leaf in node.leaves()):
            assert (leaf.start, leaf.length > 0) == (at, True)
            at += leaf.length
            found.append(leaf)
        assert at == start + len(frame) or not made.nodes.get(place)
    for source in made.sources:
        octets = [octet for leaf in source.tree.leaves() for octet in range(leaf.start, leaf.start + leaf.length)]
        assert octets == list(range(len(source.octets)))
    return found
