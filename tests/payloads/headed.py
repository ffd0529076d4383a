"""Helpers for tests of MessagePack and CBOR: values restored from trees, and properties that hold for any octets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.payloads.reading import START, dissected
from zmtpscope.payloads.api import Payload
from zmtpscope.payloads.dissected import Dissected, tiled
from zmtpscope.payloads.headed import in_brief
from zmtpscope.payloads.values import plain, shown, to_key
from zmtpscope.records import to_text
from zmtpscope.zmtp.reader import FieldNode


def assert_sound(kind: type[Payload], octets: bytes) -> Dissected:
    """Check the properties of any frame: no exception; the same result with and without a tree; the tree tiles the
    frame (P5) and has the values of the fields (P6)."""
    made, with_tree = dissected(kind, octets), dissected(kind, octets, trees=True)
    assert [each.id for each in made.findings] in ([], ["PAYLOAD-02"], ["PAYLOAD-03"], ["PAYLOAD-05"])
    assert repr((made.fields, made.summary, made.findings)) == repr(
        (with_tree.fields, with_tree.summary, with_tree.findings)
    )
    nodes = tiled(with_tree.nodes[0], START, octets)
    at = START
    for leaf in (leaf for node in nodes for leaf in node.leaves()):
        assert leaf.start == at
        assert leaf.length > 0
        at += leaf.length
    assert at == START + len(octets) or not nodes
    if not made.findings:
        nothing = {} if nodes[-1].children else None  # an empty map at the top is no field
        assert from_tree(nodes[-1]) == as_shown(nothing if made.fields is None else made.fields)
    return made


def from_tree(node: FieldNode) -> Any:
    """Return the value that a tree shows, with numbers in the form of the tree."""
    if node.value is not None:
        return node.value
    head, *inside = [(child.name.partition(".")[2], child) for child in node.children]
    inside = [each for each in inside if each[0] != "break" or each is not inside[-1]]
    if head[0] == "items":
        return [from_tree(child) for _, child in inside]
    if head[0] == "pairs":
        return {key: from_tree(child) for key, child in inside[1::2]}
    value = {name: from_tree(child) for name, child in (head, *inside) if name != "octets"}
    return {"data": b"", **value} if "type" in value else value  # without octets there is no node


def as_shown(value: Any) -> Any:
    """Convert fields to the form of a tree."""
    if isinstance(value, dict):
        return {key: as_shown(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_shown(each) for each in value]
    return shown(value)


class Pairs(tuple[tuple[Any, Any], ...]):
    __slots__ = ()


def as_fields(value: Any, special: Callable[[Any], Any]) -> Any:
    """Convert a value of a library to the form of our fields. `special` converts types that only that library has."""
    value = special(value)
    if isinstance(value, Pairs):
        return {key_of(as_fields(key, special)): as_fields(each, special) for key, each in value}
    if isinstance(value, list | tuple):
        return [as_fields(each, special) for each in value]
    if isinstance(value, str):  # octets that are not UTF-8 are surrogates here
        octets = value.encode("utf-8", "surrogateescape")
        return value if octets.decode("utf-8", "replace") == value else to_text(octets)
    return plain(value)


def key_of(key: Any) -> str:
    return to_key(in_brief(key) if isinstance(key, dict | list) else key)
