"""A JSON parser that returns values with their offsets, and accepts common deviations that orjson refuses."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager

from zmtpscope.payloads.limits import DEEPEST, Limit
from zmtpscope.payloads.reader import Malformed
from zmtpscope.payloads.values import Json, plain, shown, to_key
from zmtpscope.zmtp.reader import FieldNode

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SPACES = b" \t\r\n"

_SPACE = rb"[ \t\r\n]*+"
_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
"""Matches a string. Possessive, so that an unterminated string is scanned once."""
_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?" + _SPACE)
_BETWEEN = re.compile(_SPACE)
_VALUE = re.compile(
    rb"(?P<object>\{" + _SPACE + rb")|(?P<array>\[" + _SPACE + rb")|(?P<string>" + _STRING + rb")"
    rb"|(?P<number>-?(?:0|[1-9][0-9]*+)(?P<real>(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?))"
    rb"|(?P<literal>true|false|null|NaN|-?Infinity)"
)
_KEY = re.compile(rb"(" + _STRING + rb")" + _SPACE + rb":" + _SPACE)
_COMMA = re.compile(_SPACE + rb"," + _SPACE)
_CLOSE = {b"{": re.compile(_SPACE + rb"\}"), b"[": re.compile(_SPACE + rb"\]")}

_LITERALS = {b"true": True, b"false": False, b"null": None, b"NaN": "NaN"}
_LITERALS |= {b"Infinity": "Infinity", b"-Infinity": "-Infinity"}
"""The last three are not JSON, but Python's json module writes them."""
_LONGEST_INTEGER = 20
"""Characters of a 64-bit integer."""


class JsonText:
    """Parses one frame: one JSON text, or several on lines of their own.

    `documents` are the values, partial ones too if `read` raises; `nodes` is their field tree. `start` is the stream
    offset of the first octet, `most` the maximum number of values. Numbers that fit neither 64 bits nor a double become
    text, unchanged, as NaN and Infinity do. Of duplicate keys the last one counts.
    """

    def __init__(self, octets: bytes, start: int, most: int, *, trees: bool) -> None:
        self.octets = octets
        self.start = start
        self.left = most
        self.trees = trees
        self.position = 0
        self.documents: list[Json] = []
        self.nodes: list[FieldNode] = []

    @property
    def value(self) -> Json:
        """The value of the frame, or a list of several values."""
        return self.documents[0] if len(self.documents) == 1 else self.documents or None

    def read(self) -> None:
        """Parse the frame. Raises `Malformed` if it is not JSON, and `Limit` if it exceeds a limit."""
        self._pass(_BEGIN, "space")
        self._value(self.documents, "", 0)
        while gap := self._pass(_BETWEEN, "space"):
            if self.position == len(self.octets):
                return
            if b"\n" not in gap or self.octets[self.position] not in b"{[":
                break
            self._value(self.documents, "", 0)
        if self.position < len(self.octets):
            raise Malformed("octets after the value")

    def _value(self, into: list[Json] | dict[str, Json], key: str, level: int) -> None:
        """Parse a value at nesting depth `level`; add it to the container `into`, to an object under `key`."""
        found = _VALUE.match(self.octets, self.position)
        if found is None:
            raise Malformed("a value is missing or not JSON")
        if not self.left:
            raise Limit("PAYLOAD-02", "more fields than the limit")
        self.left -= 1
        kind = str(found.lastgroup)
        value: Json
        if kind in ("object", "array"):
            if level == DEEPEST:
                raise Limit("PAYLOAD-05", f"more than {DEEPEST} levels")
            value = {} if kind == "object" else []
        else:
            token = found.group()
            value = plain(_string(token) if kind == "string" else _scalar(token, bool(found["real"])))
        if isinstance(into, list):
            into.append(value)
        else:
            into[key] = value
        if kind in ("object", "array"):
            with self._group(kind):
                self._members(value, found, level + 1)
        else:
            self._leaf("number" if found["number"] else kind, found.end(), value)

    def _members(self, into: list[Json] | dict[str, Json], opened: re.Match[bytes], level: int) -> None:
        """Parse the rest of a container after its opening bracket `opened`; add it to `into`.

        `level` is its nesting depth.
        """
        close = _CLOSE[opened.group()[:1]]
        self._punctuation("open", opened)
        if (closed := close.match(self.octets, self.position)) is None:
            self._member(into, level)
            while (closed := close.match(self.octets, self.position)) is None:
                if self._pass(_COMMA, "comma") is None:
                    raise Malformed("a comma or a closing bracket is missing")
                self._member(into, level)
        self._punctuation("close", closed)

    def _member(self, into: list[Json] | dict[str, Json], level: int) -> None:
        key = ""
        if isinstance(into, dict):
            found = _KEY.match(self.octets, self.position)
            if found is None:
                raise Malformed("a key, or the colon after it, is missing")
            key = to_key(_string(found[1]))
            self._leaf("key", found.end(), key)
        self._value(into, key, level)

    # -- the tree ------------------------------------------------------------------------------------------------------

    def _pass(self, pattern: re.Pattern[bytes], name: str) -> bytes | None:
        """Return the next octets if they match `pattern`, as a leaf `name` of the field tree, otherwise None."""
        found = pattern.match(self.octets, self.position)
        if found is None:
            return None
        self._punctuation(name, found)
        return found.group()

    def _punctuation(self, name: str, found: re.Match[bytes]) -> None:
        self._leaf(name, found.end(), found.group().decode())

    def _leaf(self, name: str, stop: int, value: Json) -> None:
        begin, self.position = self.position, stop
        if self.trees and stop > begin:
            self.nodes.append(FieldNode(f"json.{name}", self.start + begin, stop - begin, shown(value)))

    @contextmanager
    def _group(self, name: str) -> Iterator[None]:
        if not self.trees:
            yield
            return
        node = FieldNode(f"json.{name}", self.start + self.position, 0)
        around = self.nodes
        around.append(node)
        self.nodes = node.children
        try:
            yield
        finally:
            self.nodes = around
            node.length = self.start + self.position - node.start


def _string(token: bytes) -> str:
    """Decode a JSON string with its quotes. Lone surrogates are kept."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        raise Malformed("a string is not UTF-8") from None
    if "\\" not in text:
        return text[1:-1]
    decoded: str = json.loads(text)
    return decoded


def _scalar(token: bytes, real: bool) -> Json:
    """Parse a number, true, false or null. `real`: a number has a fraction or an exponent."""
    if token in _LITERALS:
        return _LITERALS[token]
    if real:
        number = float(token)
        return number if math.isfinite(number) else token.decode()
    if len(token) <= _LONGEST_INTEGER and plain(integer := int(token)) == integer:
        return integer
    return token.decode()
