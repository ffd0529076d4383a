"""What dissectors read, and what they return: a message or datagram, and its content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from zmtpscope.payloads.values import Json
from zmtpscope.zmtp.reader import FieldNode, Finding


class Source(NamedTuple):
    """Unpacked octets of a message, with offsets of their own. Sources are numbered from 2.

    `origin` is the packed span: number of the parent source, start, stop.
    """

    number: int
    octets: bytes
    tree: FieldNode
    origin: tuple[int, int, int]


@dataclass(slots=True, eq=False)
class Dissected:
    """The dissection of one message. `nodes` are the requested field trees, by frame index."""

    protocol: str
    summary: str = ""
    fields: Json = None
    findings: Sequence[Finding] = ()
    nodes: dict[int, list[FieldNode]] = field(default_factory=dict)
    sources: Sequence[Source] = ()
    secrets: Sequence[int] = ()


class Opened(NamedTuple):
    """A nested payload. `protocol` None: no dissector claims it."""

    protocol: str | None
    summary: str
    fields: Json


def is_sound(node: Any, start: int, stop: int) -> bool:
    """Whether a node and its descendants lie within `start`..`stop` without overlap."""
    if not isinstance(node, FieldNode) or not isinstance(node.value, int | str | bytes | None):
        return False
    end = node.start + node.length
    if not start <= node.start <= end <= stop:
        return False
    if node.value is not None:
        return all(is_sound(child, node.start, end) for child in node.children)
    at = node.start
    for child in node.children:
        if not is_sound(child, at, end) or child.start != at:
            return False
        at += child.length
    return at == end


def tiled(nodes: list[FieldNode], start: int, octets: bytes) -> list[FieldNode]:
    """Complete the nodes of one level, so that they cover `octets`. Unread octets become leaves; of overlapping
    nodes the first is kept."""
    found: list[FieldNode] = []
    at, stop = start, start + len(octets)
    for node in [*nodes, FieldNode("", stop, 0)]:
        if not is_sound(node, at, stop):
            continue
        if node.start > at and (found or nodes):
            found.append(FieldNode("payload.unread", at, node.start - at, octets[at - start : node.start - start]))
        if node.length:
            found.append(node)
        at = max(at, node.start + node.length)
    return found


class Claim(IntEnum):
    """How sure a dissector is that it reads a message. YES: no other format looks like this; MAYBE: the message fits
    the format."""

    NO = 0
    MAYBE = 1
    YES = 2


class About(NamedTuple):
    """Facts about the sending side and its peer; None: unknown."""

    conn: int
    side: int
    version: str | None
    mechanism: str | None
    socket_type: str | None
    peer_socket_type: str | None
    identity: bytes | None
    src_port: int
    dst_port: int


class Message(NamedTuple):
    """One message: all frames, and the index of the first one after envelope, topic or group.

    `topic` is the first frame of a publisher's multipart message (of RADIO: the group). `after_loss`: the capture may
    lack messages before this one.
    """

    frames: Sequence[bytes]
    content: int
    topic: bytes | None
    after_loss: bool = False

    @property
    def bodies(self) -> Sequence[bytes]:
        return self.frames[self.content :]


class Settings(NamedTuple):
    """What the user gave a dissector: `argument` of `-d SELECTOR,zmtp:NAME/ARGUMENT`, and the files of `--payload-file
    NAME=FILE`, by file name."""

    argument: str | None = None
    files: Mapping[str, bytes] = {}
