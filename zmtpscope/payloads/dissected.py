"""What a dissector made of one message, and its field trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zmtpscope.payloads.values import Json
from zmtpscope.zmtp.reader import FieldNode, Finding


class Source(NamedTuple):
    """Octets that were packed in a message: offsets count in them. `number` is 2 for the first of a message.

    `origin` says what they were made of: the span of `parent` (source number, start, stop).
    """

    number: int
    octets: bytes
    tree: FieldNode
    origin: tuple[int, int, int]


@dataclass(slots=True, eq=False)
class Dissected:
    """What a dissector made of one message. Nodes are those of the frames (by index), where trees were asked for."""

    protocol: str
    summary: str = ""
    fields: Json = None
    findings: Sequence[Finding] = ()
    nodes: dict[int, list[FieldNode]] = field(default_factory=dict)
    sources: Sequence[Source] = ()
    secrets: Sequence[int] = ()
    """Frames that hold a password."""


class Opened(NamedTuple):
    """What was found inside of packed octets: None where nobody claims them."""

    protocol: str | None
    summary: str
    fields: Json


def is_sound(node: Any, start: int, stop: int) -> bool:
    """Whether a node, and what is below it, lies within `start`..`stop`, and nothing in it is said twice."""
    if not isinstance(node, FieldNode) or not isinstance(node.value, int | str | bytes | None):
        return False
    end = node.start + node.length
    if not start <= node.start <= end <= stop:
        return False
    if node.value is not None:  # its children are bits of it
        return all(is_sound(child, node.start, end) for child in node.children)
    at = node.start
    for child in node.children:
        if not is_sound(child, at, end) or child.start != at:
            return False
        at += child.length
    return at == end


def tiled(nodes: list[FieldNode], start: int, octets: bytes) -> list[FieldNode]:
    """The nodes of one level over all of `octets`, which begin at `start`: what lies between them is a leaf. Of octets
    that were read more than once the first node counts."""
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
