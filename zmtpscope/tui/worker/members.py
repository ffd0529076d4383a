"""JSON, MessagePack and CBOR as `key: value`, without tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zmtpscope.export.details import value_text
from zmtpscope.export.safe_text import safe_text
from zmtpscope.zmtp.reader import FieldNode

JSON_NUMBER = "json.number"

FORMATS = ("json", "messagepack", "cbor")
TOKENS = ("open", "close", "comma", "space", "pairs", "items")
"""Parts of a container that have no value."""


class NamedField(NamedTuple):
    """A field and the name to show. `is_member`: its name is a key or an index."""

    name: str
    node: FieldNode
    is_member: bool = False

    @property
    def text(self) -> str:
        """The value as safe text. Numbers of members are not repeated in hex."""
        value = self.node.value
        if value is None:
            return ""
        if self.is_member and (isinstance(value, int | float) or self.node.name == JSON_NUMBER):
            return safe_text(str(value))
        return value_text(self.node)


def named_children(node: FieldNode) -> Iterator[NamedField]:
    """Yield the fields inside a field, and the members of a container by key or index, with the octets of the key."""
    key: FieldNode | None = None
    index = 0
    for child in node.children:
        kind, _, word = child.name.partition(".")
        if not node.name.startswith(f"{kind}.") or kind not in FORMATS:
            yield NamedField(safe_text(child.name), child)
        elif key is not None:
            start, stop = key.start, child.start + child.length
            member = FieldNode(child.name, start, stop - start, child.value, child.children)
            yield NamedField(safe_text(str(key.value)), member, is_member=True)
            key = None
        elif word == "key":
            key = child
        elif word not in TOKENS:
            yield NamedField(f"[{index}]", child, is_member=True)
            index += 1
