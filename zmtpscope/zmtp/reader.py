"""Read fields from the octets of one greeting, command or frame: each read returns a value.

With a recorder the reads also build the field tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.records import to_text

Value = int | str | bytes | None


class Cut(Exception):
    """Fewer octets are available than a field needs.

    Layouts catch this exception if they can parse a truncated command.
    """


class Finding(NamedTuple):
    """A problem or remark (conformance.md); `start` is a stream offset, or None if something is absent.

    If `severity` or `hint` is None, the defaults of `zmtpscope.findings` apply.
    """

    id: str
    start: int | None = None
    length: int = 0
    severity: str | None = None
    detail: str | None = None
    hint: str | None = None


@dataclass(slots=True)
class FieldNode:
    """One field of a greeting, command or frame; `start` is a stream offset.

    A node without a value groups its children. Children of a node with a value are its bits, which cover the same
    octet. The leaves of a field tree cover its octets exactly (P5).
    """

    name: str
    start: int
    length: int
    value: Value = None
    children: list[FieldNode] = field(default_factory=list)

    def leaves(self) -> Iterator[FieldNode]:
        if self.value is not None:
            yield self
        else:
            for child in self.children:
                yield from child.leaves()


class Recorder:
    """Records reads as a tree. Empty fields are left out unless requested."""

    __slots__ = ("root", "stack")

    def __init__(self, name: str, start: int) -> None:
        self.root = FieldNode(name, start, 0)
        self.stack = [self.root]

    def leaf(self, name: str, start: int, length: int, value: Value, keep_empty: bool = False) -> None:
        if length or keep_empty:
            self.stack[-1].children.append(FieldNode(name, start, length, value))

    def show(self, value: Value) -> None:
        self.stack[-1].children[-1].value = value

    def bits(self, masks: Sequence[tuple[str, int]]) -> None:
        leaf = self.stack[-1].children[-1]
        if isinstance(leaf.value, int):
            for name, mask in masks:
                bit = (leaf.value & mask) >> ((mask & -mask).bit_length() - 1)
                leaf.children.append(FieldNode(name, leaf.start, leaf.length, bit))

    @contextmanager
    def group(self, name: str, start: int) -> Iterator[None]:
        node = FieldNode(name, start, 0)
        self.stack[-1].children.append(node)
        self.stack.append(node)
        try:
            yield
        finally:
            self.stack.pop()
            self._close(node)

    def finish(self) -> FieldNode:
        self._close(self.root)
        return self.root

    @staticmethod
    def _close(node: FieldNode) -> None:
        if node.children:
            node.length = node.children[-1].start + node.children[-1].length - node.start


_NO_GROUP: AbstractContextManager[None] = nullcontext()


class Reader:
    """Reads the fields of one greeting, command or frame.

    `data[position:stop]` are the octets to read; `data[0]` has the stream offset `base`. A read past `stop` consumes
    the octets available, and raises `Cut`.

    - `unit`, `body`: stream offsets of the frame and of its body
    - `size_span`, `name_span`: (stream offset, length) of the frame size and of the command name, for findings
    - `head`: the stream offset after the part to parse, if the frame is too large to parse whole
    """

    __slots__ = (
        "base",
        "body",
        "data",
        "findings",
        "head",
        "name_span",
        "position",
        "recorder",
        "size_span",
        "stop",
        "unit",
    )

    def __init__(self, data: bytes, position: int, stop: int, base: int, recorder: Recorder | None = None) -> None:
        self.data = data
        self.position = position
        self.stop = stop
        self.base = base
        self.recorder = recorder
        self.findings: list[Finding] = []
        self.unit = self.body = base + position
        self.size_span = self.name_span = (self.unit, 0)
        self.head: int | None = None

    @property
    def offset(self) -> int:
        return self.base + self.position

    @property
    def left(self) -> int:
        return self.stop - self.position

    def starts_with(self, octets: bytes) -> bool:
        return self.data.startswith(octets, self.position, self.stop)

    def u8(self, name: str) -> int:
        at = self.position
        if at >= self.stop:
            raise Cut
        self.position = at + 1
        value = self.data[at]
        if self.recorder is not None:
            self.recorder.leaf(name, self.base + at, 1, value)
        return value

    def u16(self, name: str) -> int:
        """Read a big-endian number."""
        return self._number(name, 2)

    def u32(self, name: str) -> int:
        return self._number(name, 4)

    def u64(self, name: str) -> int:
        return self._number(name, 8)

    def _number(self, name: str, length: int) -> int:
        at = self.position
        if at + length > self.stop:
            self._cut(name)
        self.position = at + length
        value = int.from_bytes(self.data[at : at + length], "big")
        if self.recorder is not None:
            self.recorder.leaf(name, self.base + at, length, value)
        return value

    def octets(self, name: str, length: int, *, keep_empty: bool = False) -> bytes:
        at = self.position
        if at + length > self.stop:
            self._cut(name)
        self.position = at + length
        value = self.data[at : at + length]
        if self.recorder is not None:
            self.recorder.leaf(name, self.base + at, length, value, keep_empty)
        return value

    def rest(self, name: str) -> bytes:
        return self.octets(name, self.stop - self.position)

    def skip(self, name: str, length: int) -> None:
        """Skip `length` octets, which may lie after `stop`."""
        at = self.position
        self.position = at + length
        if self.recorder is not None:
            here = max(0, min(self.position, self.stop) - at)
            self.recorder.leaf(name, self.base + at, here, self.data[at : at + here])

    def text(self, name: str, length: int, *, keep_empty: bool = False) -> str:
        """Read `length` octets as a text; unprintable octets are escaped, so that `from_text` restores them.

        `keep_empty`: the field tree has the field even if it is empty.
        """
        octets = self.octets(name, length, keep_empty=keep_empty)
        value = to_text(octets)
        if self.recorder is not None and (length or keep_empty):
            self.recorder.show(value)
        return value

    def show(self, value: Value) -> None:
        """Show `value` in the field tree instead of the octets of the last read."""
        if self.recorder is not None:
            self.recorder.show(value)

    def bits(self, masks: Sequence[tuple[str, int]]) -> None:
        if self.recorder is not None:
            self.recorder.bits(masks)

    def group(self, name: str) -> AbstractContextManager[None]:
        return _NO_GROUP if self.recorder is None else self.recorder.group(name, self.base + self.position)

    def finding(
        self, id: str, start: int | None = None, length: int = 0, severity: str | None = None, detail: str | None = None
    ) -> None:
        """Add a finding about `length` octets at stream offset `start`."""
        self.findings.append(Finding(id, start, length, severity, detail))

    def _cut(self, name: str) -> None:
        at, self.position = self.position, self.stop
        if self.recorder is not None:
            self.recorder.leaf(name, self.base + at, self.stop - at, self.data[at : self.stop])
        raise Cut
