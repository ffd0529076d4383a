"""Named reads over the frames of one message: the same run yields the fields of the record and the field tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zmtpscope.findings import FINDINGS, SEVERITIES
from zmtpscope.payloads.dissected import Opened, Source, tiled
from zmtpscope.payloads.limits import CONTAINERS, DEEPEST, MOST_FINDINGS, MOST_SOURCES, Budget, Limit, counted
from zmtpscope.payloads.values import LONGEST_DETAIL, Json, plain, shortened, shown, to_key
from zmtpscope.records import MASK, to_text
from zmtpscope.zmtp.reader import FieldNode, Finding

if TYPE_CHECKING:
    from zmtpscope.payloads.api import About

LEVELS_OPENED = 2
"""Levels that what is inside of a field stands below it: it has a protocol, a summary, and fields."""

_LARGEST_PLACE = 2**62
"""No offset in a stream comes near."""


class Malformed(Exception):
    """What was read is not what the dissector takes it for; the text says why, the place is where the reader stands."""


class Cut(Malformed):
    """A read met the end of its frame."""


Inner = Callable[["Reader"], Opened]
"""Dissects what is packed: reads the only frame of the reader that it is given."""


class Reader:
    """Reads the frames of one message, one after the other; it begins at the first content frame.

    Every read has a name: the field of that name in the record, and, with `prefix` in front, in the field tree. Inside
    of `object(name)` fields go into an object of their own, inside of `array(name)` values become its items. What is
    `hidden` stands in the tree only. `position` and `left` count octets of the current frame.
    """

    def __init__(
        self,
        prefix: str,
        frames: Sequence[bytes],
        offsets: Sequence[int],
        first: int,
        about: About,
        *,
        trees: bool,
        budget: Budget | None = None,
        show_secrets: bool = False,
        source: int = 0,
        inner: Inner | None = None,
        depth: int = 0,
    ) -> None:
        self.prefix = prefix
        self.frames = frames
        self.offsets = offsets
        """Where each frame's body stands in its stream."""
        self.about = about
        self.trees = trees
        """Whether field trees are made."""
        self.show_secrets = show_secrets
        """Whether the user asked for passwords."""
        self.budget = budget or Budget()
        self.source = source
        self.inner = inner
        self.fields: Json = {}
        self.findings: list[Finding] = []
        self.nodes: dict[int, list[FieldNode]] = {}
        self.sources: list[Source] = []
        self.secrets: list[int] = []
        self._into: list[Json] | dict[str, Json] = self.fields
        self._depth = depth
        self.go_to(first)

    # -- where it stands -----------------------------------------------------------------------------------------------

    def go_to(self, frame: int) -> None:
        """Stand at the first octet of the frame with that index in the message; one that is not there is empty."""
        self.frame = frame if 0 <= frame < len(self.frames) else len(self.frames)
        self.data = self.frames[frame] if self.frame == frame < len(self.frames) else b""
        self.stop = len(self.data)
        self.position = 0
        self.read_to = 0
        self._nodes: list[FieldNode] = self.nodes.setdefault(frame, []) if self.trees else []

    def next_frame(self) -> bool:
        """Go on with the next frame; whether there is one."""
        if self.frame + 1 >= len(self.frames):
            return False
        self.go_to(self.frame + 1)
        return True

    @property
    def left(self) -> int:
        """Octets of the current frame that were not read yet."""
        return self.stop - self.position

    @property
    def offset(self) -> int:
        """The next octet's place in the stream."""
        if self.frame == len(self.frames):
            return self.offsets[-1] + len(self.frames[-1])
        return self.offsets[self.frame] + self.position

    # -- named reads ---------------------------------------------------------------------------------------------------

    def u8(self, name: str, *, hidden: bool = False) -> int:
        """The next octet as a number."""
        return self.number(name, 1, hidden=hidden)

    def u16(self, name: str, *, little: bool = False, hidden: bool = False) -> int:
        """The next 2 octets as a number, the most significant first unless `little`; so `u32` and `u64`."""
        return self.number(name, 2, little=little, hidden=hidden)

    def u32(self, name: str, *, little: bool = False, hidden: bool = False) -> int:
        return self.number(name, 4, little=little, hidden=hidden)

    def u64(self, name: str, *, little: bool = False, hidden: bool = False) -> int:
        return self.number(name, 8, little=little, hidden=hidden)

    def number(
        self, name: str, length: int, *, little: bool = False, signed: bool = False, hidden: bool = False
    ) -> int:
        """The next `length` octets as a number."""
        octets = self._take(name, length)
        value = int.from_bytes(octets, "little" if little else "big", signed=signed)
        self._keep(name, length, value, hidden)
        return value

    def octets(self, name: str, length: int | None = None, *, hidden: bool = False) -> bytes:
        """The next `length` octets (None: all that are left), as octets."""
        length = self.left if length is None else length
        octets = self._take(name, length)
        self._keep(name, length, octets, hidden)
        return octets

    def text(self, name: str, length: int | None = None, *, hidden: bool = False) -> str:
        """The next `length` octets (None: all that are left) as text: UTF-8 where valid, else escapes."""
        length = self.left if length is None else length
        text = to_text(self._take(name, length))
        self._keep(name, length, text, hidden)
        return text

    def secret(self, name: str, length: int | None = None) -> None:
        """The next `length` octets are a password: nothing shows their frame unless the user asks for secrets."""
        length = self.left if length is None else length
        text = to_text(self._take(name, length))
        if length:
            self.secrets.append(self.frame)
        self._keep(name, length, text if self.show_secrets else MASK, False)

    def value(self, name: str, length: int, value: Json, *, hidden: bool = False) -> None:
        """The next `length` octets say `value`, as the dissector knows."""
        self._take(name, length)
        self._keep(name, length, self._counted(value) if type(value) in CONTAINERS else plain(value), hidden)

    def give(self, name: str, value: Json) -> None:
        """A field that stands for no octets of its own: what follows from others."""
        self.budget.spend(len(value) if isinstance(value, str | bytes) else 0, 0)
        self._store(name, self._counted(value))

    def give_opened(self, name: str, opened: Opened) -> None:
        """The field `name` is what was found inside of packed octets, null where nobody claims them; its own fields
        were counted there."""
        self._store(name, None if opened.protocol is None else opened._asdict())

    def whole(self, value: Json) -> None:
        """The fields are `value`: an array, or an object that something else has read. Anything else becomes an object
        with one field, `value`."""
        self.fields = self._counted(value if isinstance(value, dict | list | tuple) else {"value": value})

    def adopt(self, length: int, nodes: list[FieldNode]) -> None:
        """The next `length` octets were read by the dissector's own means, which has spent what they cost; `nodes` are
        what the tree shows of them."""
        self.position = min(self.position + max(0, length), self.stop)
        self._nodes += nodes

    @contextmanager
    def object(self, name: str) -> Iterator[None]:
        """Fields read inside are those of an object."""
        yield from self._inside(name, {})

    @contextmanager
    def array(self, name: str) -> Iterator[None]:
        """Values read inside are the items of an array."""
        yield from self._inside(name, [])

    @contextmanager
    def aside(self) -> Iterator[list[Json]]:
        """Values read inside become items of the list that it gives, not fields: those of keys, say."""
        into = self._into
        values: list[Json] = []
        self._into = values
        try:
            yield values
        finally:
            self._into = into

    @contextmanager
    def more(self, name: str, empty: Json) -> Iterator[None]:
        """What is read inside is added to the array or object `name` of this object, which is `empty` where it is not
        there yet; in the tree it stands where it is read."""
        into: Json = self._into
        self._into = into.setdefault(to_key(name), self._counted(empty))
        try:
            yield
        finally:
            self._into = into

    @contextmanager
    def group(self, name: str) -> Iterator[None]:
        """Fields read inside belong together in the tree; in the record they stay where they are."""
        self._go_deeper()
        nodes = self._nodes
        node = self._begin_group(name)
        try:
            yield
        finally:
            self._depth -= 1
            self._end_group(node, nodes)

    def finding(
        self,
        id: str,
        start: int | None = None,
        length: int = 0,
        severity: str | None = None,
        detail: str | None = None,
    ) -> None:
        """Raise a finding of `zmtpscope.findings`; `start` is a place in the stream (`offset` gives one), None: about
        the frame. An id that is not known there becomes the detail of PAYLOAD-04, a note unless `severity` says it."""
        self.budget.findings -= 1
        if self.budget.findings < 0:
            raise Limit("PAYLOAD-02", f"more than {MOST_FINDINGS} findings")
        if severity is not None and severity not in SEVERITIES:
            raise ValueError(f"a finding is one of {', '.join(SEVERITIES)}")
        if not (isinstance(detail, str | None) and isinstance(start, int | None)):
            raise TypeError("a finding has a number for its start and text for its detail")
        if start is not None and not (0 <= start <= _LARGEST_PLACE and 0 <= length <= _LARGEST_PLACE):
            raise ValueError("a finding stands outside of the stream")
        self.note(id, start, length, severity, detail)

    def note(
        self,
        id: str,
        start: int | None = None,
        length: int = 0,
        severity: str | None = None,
        detail: str | None = None,
    ) -> None:
        """The same, of what is known to be sound; it may be said when nothing more may be read."""
        if id not in FINDINGS:
            id, detail = "PAYLOAD-04", f"{self.prefix}: {detail or id}"
        if start is None or self.source:
            start, length = self.outer_span()
        shown = None if detail is None else plain(shortened(detail, LONGEST_DETAIL))
        self.findings.append(Finding(id, start, length, severity, shown))

    def outer_span(self) -> tuple[int, int]:
        """The place of the current frame in its stream, for findings about what has no octets there."""
        return (self.offsets[self.frame] if self.frame < len(self.offsets) else self.offsets[-1]), self.stop

    # -- what is packed ------------------------------------------------------------------------------------------------

    def unpacked(self, name: str, length: int, octets: bytes) -> Opened:
        """The next `length` octets hold, packed, `octets`: a source of its own, in which whoever claims it reads on."""
        if not isinstance(octets, bytes):
            raise TypeError(f"what was packed is {type(octets).__name__}, not octets")
        budget = self.budget
        begin = self.position
        self._take(name, length)
        start = self.offsets[self.frame] + begin
        budget.sources += 1
        number = 1 + budget.sources
        self._keep(name, length, f"source {number}: {len(octets)} octets", hidden=True)
        inside = Reader(
            self.prefix,
            (octets,),
            (0,),
            0,
            self.about,
            trees=self.trees,
            show_secrets=self.show_secrets,
            budget=budget,
            source=number,
            inner=self.inner,
            depth=self._depth + LEVELS_OPENED,
        )
        opened = Opened(None, "", None)
        if budget.sources > MOST_SOURCES:
            self.finding("PAYLOAD-05", detail=f"more than {MOST_SOURCES} packed parts, one in the other or not")
        elif self.inner is not None and budget.allowance.fields > 0:
            with budget.of_packed():
                opened = self.inner(inside)
        for finding in inside.findings:
            self.findings.append(finding._replace(start=start, length=length))
        self.secrets += [self.frame] * bool(inside.secrets)
        if self.trees:  # nobody else looks at sources, and they may be large
            tree = inside.tree(0, octets, "source")
            self.sources += [Source(number, octets, tree, (self.source, start, start + length)), *inside.sources]
        return opened

    def inside(self, name: str) -> Opened:
        """What is left of the current frame is a payload of its own, read by whoever claims it, as octets where nobody
        does. The field holds `protocol`, `summary` and `fields` of it, null where nobody does."""
        self.budget.spend(0)
        if self._depth + LEVELS_OPENED > DEEPEST:
            raise Limit("PAYLOAD-05", f"more than {DEEPEST} levels")
        start, octets = self.offset, self.data[self.position : self.stop]
        inside = Reader(
            self.prefix,
            (octets,),
            (start,),
            0,
            self.about,
            trees=self.trees,
            show_secrets=self.show_secrets,
            budget=self.budget,
            source=self.source,
            inner=self.inner,
            depth=self._depth + LEVELS_OPENED,
        )
        opened = Opened(None, "", None)
        if self.inner is not None and octets:
            opened = self.inner(inside)
        self.position = self.stop
        if self.trees and octets:
            nodes = tiled(inside.nodes.get(0, []), start, octets)
            node = FieldNode(self._full(name), start, len(octets), None if nodes else octets, nodes)
            self._nodes.append(node)
        self.findings += inside.findings
        self.sources += inside.sources
        self.secrets += [self.frame] * bool(inside.secrets)
        self._store(name, None if opened.protocol is None else opened._asdict())
        return opened

    # -- the tree ------------------------------------------------------------------------------------------------------

    def tree(self, frame: int, octets: bytes, name: str) -> FieldNode:
        """The tree of one frame; octets that nobody read are a leaf, so that the leaves tile it (P5)."""
        start = self.offsets[frame]
        nodes = tiled(self.nodes.get(frame, []), start, octets)
        if not nodes:
            return FieldNode(name, start, len(octets), octets)
        return FieldNode(name, start, len(octets), None, nodes)

    def _take(self, name: str, length: int) -> bytes:
        begin = self.position
        if length < 0 or begin + length > self.stop:
            rest = self.stop - begin
            if self.trees and rest:
                node = FieldNode(self._full(name), self.offset, rest, self.data[begin : self.stop])
                self._nodes.append(node)
            self.position = self.stop
            raise Cut(f"{name} needs {length} octets, there are {rest}")
        self.budget.spend(length)
        self.position = begin + length
        return self.data[begin : self.position]

    def _keep(self, name: str, length: int, value: Json, hidden: bool) -> None:
        if self.trees and length:
            start = self.offsets[self.frame] + self.position - length
            self._nodes.append(FieldNode(self._full(name), start, length, shown(value)))
        if not hidden:
            self._store(name, value)

    def _store(self, name: str, value: Json) -> None:
        into = self._into
        if isinstance(into, list):
            into.append(plain(value))
        else:
            into[to_key(name)] = plain(value)

    def _counted(self, value: Json) -> Json:
        """A value that something else has made, counted as if it had been read, as every output can hold it."""
        return counted(value, self.budget, self._depth)

    def _full(self, name: str) -> str:
        return f"{self.prefix}.{name}"

    def _go_deeper(self) -> None:
        if self._depth >= DEEPEST:
            raise Limit("PAYLOAD-05", f"more than {DEEPEST} levels")
        self.budget.spend(0)
        self._depth += 1

    def _inside(self, name: str, value: Json) -> Iterator[None]:
        self._go_deeper()
        self._store(name, value)
        into, nodes = self._into, self._nodes
        self._into = value
        node = self._begin_group(name)
        try:
            yield
        finally:
            self._depth -= 1
            self._into = into
            self._end_group(node, nodes)

    def _begin_group(self, name: str) -> FieldNode | None:
        if not self.trees:
            return None
        node = FieldNode(self._full(name), self.offset, 0)
        self._nodes.append(node)
        self._nodes = node.children
        return node

    def _end_group(self, node: FieldNode | None, nodes: list[FieldNode]) -> None:
        if node is None:
            return
        if self.nodes.get(self.frame) is not self._nodes:  # else another frame has begun since
            self._nodes = nodes
        if node.children:
            last = node.children[-1]
            node.length = last.start + last.length - node.start
        elif nodes and nodes[-1] is node:
            nodes.pop()  # it has no octets
