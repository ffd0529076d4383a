"""One message through one dissector, as a side of a connection would have it read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zmtpscope.payloads.api import About, Claim, Message, Payload, Settings
from zmtpscope.payloads.reader import Dissected, Reader, tiled
from zmtpscope.payloads.side import claim_of, read
from zmtpscope.zmtp.reader import FieldNode

NOBODY = About(1, 0, "3.1", "NULL", "DEALER", "ROUTER", None, 50_000, 5555)
"""A side of which nothing special is known."""

BETWEEN = 2
"""Octets between the bodies of frames: their headers."""


def dissected(
    kind: type[Payload] | Payload,
    *frames: bytes,
    settings: Settings = Settings(),  # noqa: B008
    about: About = NOBODY,
    content: int = 0,
    topic: bytes | None = None,
    trees: bool = False,
) -> Dissected:
    """What a dissector makes of a message whose first frame's body has stream offset 0."""
    payload = kind if isinstance(kind, Payload) else kind(settings)
    message = Message(frames, content, topic)
    reader = Reader(payload.prefix, frames, offsets(frames), content, about, trees=trees)
    return read(payload, message, reader)


def claimed(
    kind: type[Payload] | Payload,
    *frames: bytes,
    settings: Settings = Settings(),  # noqa: B008
    about: About = NOBODY,
    content: int = 0,
    topic: bytes | None = None,
) -> Claim:
    """What a dissector says of a message when it is asked."""
    payload = kind if isinstance(kind, Payload) else kind(settings)
    return claim_of(payload, Message(frames, content, topic), about)


def offsets(frames: Sequence[bytes]) -> list[int]:
    """Where the bodies of the frames stand in their stream."""
    found, at = [], 0
    for frame in frames:
        found.append(at)
        at += len(frame) + BETWEEN
    return found


def leaves(made: Dissected, frames: Sequence[bytes]) -> Iterator[FieldNode]:
    """The leaves of all frames, what nobody read included."""
    for place, (frame, start) in enumerate(zip(frames, offsets(frames), strict=True)):
        nodes = tiled(made.nodes.get(place, []), start, frame) or [FieldNode("", start, len(frame), frame)]
        for node in nodes:
            yield from node.leaves()


def assert_tiled(made: Dissected, frames: Sequence[bytes]) -> None:
    """Seam P5: the leaves of each frame tile its octets, and so do those of everything that was packed inside."""
    for place, (frame, start) in enumerate(zip(frames, offsets(frames), strict=True)):
        for node in made.nodes.get(place, []):
            assert start <= node.start
            assert node.start + node.length <= start + len(frame)
    at = [(leaf.start, leaf.start + leaf.length) for leaf in leaves(made, frames) if leaf.length]
    wanted = [
        octet
        for frame, start in zip(frames, offsets(frames), strict=True)
        for octet in range(start, start + len(frame))
    ]
    assert [octet for start, stop in at for octet in range(start, stop)] == wanted
    for source in made.sources:
        octets = [octet for leaf in source.tree.leaves() for octet in range(leaf.start, leaf.start + leaf.length)]
        assert octets == list(range(len(source.octets)))
