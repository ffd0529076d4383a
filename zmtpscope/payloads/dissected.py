"""Input and results of dissectors: a message or datagram, and its dissected content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from zmtpscope.payloads.values import Json
from zmtpscope.zmtp.reader import FieldNode, Finding


class Source(NamedTuple):
    """Unpacked octets of a message, with offsets of their own. Sources are numbered from 2.

    `origin` is where the packed octets are: number of their source, start, stop.
    """

    number: int
    octets: bytes
    tree: FieldNode
    origin: tuple[int, int, int]


@dataclass(slots=True, eq=False)
class Dissected:
    """The dissection of one message.

    `nodes` are the requested field trees, by frame index. `secrets` are the indexes of frames with passwords.
    """

    protocol: str
    summary: str = ""
    fields: Json = None
    findings: Sequence[Finding] = ()
    nodes: dict[int, list[FieldNode]] = field(default_factory=dict)
    sources: Sequence[Source] = ()
    secrets: Sequence[int] = ()


class Opened(NamedTuple):
    """The dissection of a payload inside a payload. `protocol` None: no dissector claims it."""

    protocol: str | None
    summary: str
    fields: Json


def is_sound(node: Any, start: int, stop: int) -> bool:
    """Whether a node and its descendants lie within the offsets `start..stop` without overlap."""
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
    """Return the nodes of one level, completed so that they cover `octets`, which start at offset `start`.

    Octets without a node become leaves; of overlapping nodes the first is kept.
    """
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
    """Whether a dissector reads a message.

    YES: no other format looks like this; MAYBE: the message fits the format; NO: it does not.
    """

    NO = 0
    MAYBE = 1
    YES = 2


class About(NamedTuple):
    """The sending side of a message and its peer; None: unknown."""

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
    """One message for a dissector.

    - `content`: index of the first frame after envelope, topic or group
    - `topic`: the first frame of a publisher's multipart message (of RADIO: the group)
    - `after_loss`: the capture may lack messages before this one
    """

    frames: Sequence[bytes]
    content: int
    topic: bytes | None
    after_loss: bool = False

    @property
    def bodies(self) -> Sequence[bytes]:
        return self.frames[self.content :]


class Settings(NamedTuple):
    """Settings of a dissector by the user.

    `argument` is that of `-d SELECTOR,zmtp:NAME/ARGUMENT`; `files` are the contents of `--payload-file NAME=FILE` by
    file name.
    """

    argument: str | None = None
    files: Mapping[str, bytes] = {}
