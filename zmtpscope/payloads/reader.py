"""Read the fields in the frames of one message; each read adds to the record's fields and to the field tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from zmtpscope.findings import FINDINGS, SEVERITIES
from zmtpscope.payloads.building import RecordBuilder, TreeBuilder, tree_of
from zmtpscope.payloads.dissected import About, Opened, Source
from zmtpscope.payloads.limits import CONTAINERS, DEEPEST, MAX_FINDINGS, MAX_SOURCES, Budget, Limit, counted
from zmtpscope.payloads.values import LONGEST_DETAIL, Json, plain, shortened
from zmtpscope.records import MASK, to_text
from zmtpscope.zmtp.reader import FieldNode, Finding


class Malformed(Exception):
    """The payload does not have the expected format.

    The text is the reason. The position of the reader is where it differs.
    """


class EndOfFrame(Malformed):
    """A read reached the end of its frame."""


class FrameCursor:
    """A read position in the frames of one message.

    `position` and `left` count the octets read and not read in the current frame. `offsets` are stream offsets of frame
    bodies.
    """

    def __init__(self, frames: Sequence[bytes], offsets: Sequence[int], first: int) -> None:
        self.frames = frames
        self.offsets = offsets
        self.go_to(first)

    def go_to(self, frame: int) -> None:
        """Move to the start of the frame with this index. A missing frame is empty."""
        is_there = 0 <= frame < len(self.frames)
        self.frame = frame if is_there else len(self.frames)
        self.data = self.frames[frame] if is_there else b""
        self.stop = len(self.data)
        self.position = 0

    def next_frame(self) -> bool:
        """Move to the next frame; return False after the last one."""
        if self.frame + 1 >= len(self.frames):
            return False
        self.go_to(self.frame + 1)
        return True

    @property
    def left(self) -> int:
        return self.stop - self.position

    @property
    def offset(self) -> int:
        if self.frame == len(self.frames):
            return self.offsets[-1] + len(self.frames[-1])
        return self.offsets[self.frame] + self.position

    def outer_span(self) -> tuple[int, int]:
        """Return (stream offset, length) of the current frame."""
        return (self.offsets[self.frame] if self.frame < len(self.offsets) else self.offsets[-1]), self.stop


LEVELS_OPENED = 2
"""Levels of nesting that a nested payload adds: its object, and the fields in it."""

_LARGEST_PLACE = 2**62
"""Maximum stream offset of a finding."""

Inner = Callable[["Reader"], Opened]
"""Dissects an unpacked payload or another frame, given a reader with that frame only."""


class Reader(FrameCursor):
    """Reads the frames of one message in order, from the first content frame on.

    The `name` of a read is the key of the field in the record and, after `prefix`, in the field tree. Fields read
    within `object(name)` are added to a nested object; values read within `array(name)` become its items. `hidden`
    fields are in the tree only. `position` and `left` count the octets read and not read in the current frame.
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
        others: Inner | None = None,
        depth: int = 0,
    ) -> None:
        self.prefix = prefix
        self.about = about
        self.show_secrets = show_secrets
        self.budget = budget or Budget()
        self.source = source
        self.findings: list[Finding] = []
        self.sources: list[Source] = []
        self.secrets: list[int] = []
        self._inner = inner
        self._others = others
        self._record = RecordBuilder()
        self._tree = TreeBuilder() if trees else None
        self._depth = depth
        super().__init__(frames, offsets, first)

    def go_to(self, frame: int) -> None:
        super().go_to(frame)
        if self._tree is not None:
            self._tree.go_to(self.frame)

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def fields(self) -> Json:
        return self._record.fields

    @fields.setter
    def fields(self, value: Json) -> None:
        self._record.fields = value

    @property
    def trees(self) -> bool:
        return self._tree is not None

    @property
    def nodes(self) -> dict[int, list[FieldNode]]:
        """The field trees by frame index; empty if no trees are requested."""
        return {} if self._tree is None else self._tree.nodes

    def tree(self, frame: int, octets: bytes, name: str) -> FieldNode:
        """Return the field tree of one frame.

        Octets that were not read become leaves, so that the leaves cover the frame (P5).
        """
        return tree_of(name, self.nodes.get(frame, []), self.offsets[frame], octets)

    # -- named reads ---------------------------------------------------------------------------------------------------

    def u8(self, name: str, *, hidden: bool = False) -> int:
        return self.number(name, 1, hidden=hidden)

    def u16(self, name: str, *, little: bool = False, hidden: bool = False) -> int:
        """Read a number, big-endian unless `little`. `hidden`: only the field tree has it."""
        return self.number(name, 2, little=little, hidden=hidden)

    def u32(self, name: str, *, little: bool = False, hidden: bool = False) -> int:
        return self.number(name, 4, little=little, hidden=hidden)

    def u64(self, name: str, *, little: bool = False, hidden: bool = False) -> int:
        return self.number(name, 8, little=little, hidden=hidden)

    def number(
        self, name: str, length: int, *, little: bool = False, signed: bool = False, hidden: bool = False
    ) -> int:
        octets = self._read(name, length)
        value = int.from_bytes(octets, "little" if little else "big", signed=signed)
        self._keep(name, length, value, hidden)
        return value

    def octets(self, name: str, length: int | None = None, *, hidden: bool = False) -> bytes:
        """Read `length` octets; None: the rest of the frame. `hidden`: only the field tree has them."""
        length = self.left if length is None else length
        octets = self._read(name, length)
        self._keep(name, length, octets, hidden)
        return octets

    def text(self, name: str, length: int | None = None, *, hidden: bool = False) -> str:
        """Read `length` octets (None: the rest of the frame) as text. Invalid UTF-8 is escaped.

        `hidden`: only the field tree has it.
        """
        length = self.left if length is None else length
        text = to_text(self._read(name, length))
        self._keep(name, length, text, hidden)
        return text

    def secret(self, name: str, length: int | None = None) -> None:
        """Read `length` octets (None: the rest of the frame) as a password.

        No output shows any octets of this frame unless the user requests secrets.
        """
        length = self.left if length is None else length
        text = to_text(self._read(name, length))
        if length:
            self.secrets.append(self.frame)
        self._keep(name, length, text if self.show_secrets else MASK, False)

    def value(self, name: str, length: int, value: Json, *, hidden: bool = False) -> None:
        """Skip `length` octets, and add them as a field whose `value` the dissector has computed.

        `hidden`: only the field tree has it.
        """
        self._read(name, length)
        self._keep(name, length, self._counted(value) if type(value) in CONTAINERS else plain(value), hidden)

    def give(self, name: str, value: Json) -> None:
        """Add a field that has no octets, such as one computed from other fields."""
        self.budget.spend(len(value) if isinstance(value, str | bytes) else 0, 0)
        self._record.store(name, self._counted(value))

    def whole(self, value: Json) -> None:
        """Replace all fields by `value`, a list or dict from another parser. Other values become `{"value": value}`."""
        self.fields = self._counted(value if isinstance(value, dict | list | tuple) else {"value": value})

    def adopt(self, length: int, nodes: list[FieldNode]) -> None:
        """Skip `length` octets that the dissector has parsed and counted itself; add their field tree `nodes`."""
        self.position = min(self.position + max(0, length), self.stop)
        if self._tree is not None:
            self._tree.add(nodes)

    @contextmanager
    def object(self, name: str) -> Iterator[None]:
        """Collect the fields read within this context in a nested object."""
        yield from self._inside(name, {})

    @contextmanager
    def array(self, name: str) -> Iterator[None]:
        """Collect the values read within this context in an array."""
        yield from self._inside(name, [])

    @contextmanager
    def aside(self) -> Iterator[list[Json]]:
        """Collect the values read within this context in the yielded list, and not in the fields.

        An example are the keys of a map.
        """
        values: list[Json] = []
        outer = self._record.enter(values)
        try:
            yield values
        finally:
            self._record.leave(outer)

    @contextmanager
    def more(self, name: str, empty: Json) -> Iterator[None]:
        """Add the fields read within this context to the array or object `name`, which is created from `empty` if
        missing.

        In the field tree they are nodes at this position.
        """
        outer = self._record.enter(self._record.existing(name, self._counted(empty)))
        try:
            yield
        finally:
            self._record.leave(outer)

    @contextmanager
    def group(self, name: str) -> Iterator[None]:
        """Group the fields read within this context in the field tree, but not in the record."""
        self._go_deeper()
        tree = self._tree
        group = None if tree is None else tree.begin(self._full(name), self.offset)
        try:
            yield
        finally:
            self._depth -= 1
            if tree is not None and group is not None:
                tree.end(group)

    def finding(
        self,
        id: str,
        start: int | None = None,
        length: int = 0,
        severity: str | None = None,
        detail: str | None = None,
    ) -> None:
        """Report a finding about `length` octets at stream offset `start` (a value of `offset`); None: the whole frame.

        An unknown id becomes the detail of PAYLOAD-04, a note unless `severity` is given. Raises `Limit` after too many
        findings, `ValueError` or `TypeError` for invalid arguments.
        """
        self.budget.findings -= 1
        if self.budget.findings < 0:
            raise Limit("PAYLOAD-02", f"more than {MAX_FINDINGS} findings")
        if severity is not None and severity not in SEVERITIES:
            raise ValueError(f"a finding is one of {', '.join(SEVERITIES)}")
        if not (isinstance(detail, str | None) and isinstance(start, int | None)):
            raise TypeError("a finding has a number for its start and text for its detail")
        if start is not None and not (0 <= start <= _LARGEST_PLACE and 0 <= length <= _LARGEST_PLACE):
            raise ValueError("a finding is outside the stream")
        self.note(id, start, length, severity, detail)

    def note(
        self,
        id: str,
        start: int | None = None,
        length: int = 0,
        severity: str | None = None,
        detail: str | None = None,
    ) -> None:
        """Report a finding without checks of arguments and limits, even after a limit is exceeded."""
        if id not in FINDINGS:
            id, detail = "PAYLOAD-04", f"{self.prefix}: {detail or id}"
        if start is None or self.source:
            start, length = self.outer_span()
        shown = None if detail is None else plain(shortened(detail, LONGEST_DETAIL))
        self.findings.append(Finding(id, start, length, severity, shown))

    # -- nested payloads -----------------------------------------------------------------------------------------------

    def unpacked(self, name: str, length: int, octets: bytes) -> Opened:
        """Skip `length` packed octets, and dissect `octets`, their unpacked form, with the dissector that claims it.

        Offsets in `octets` belong to a new source.
        """
        if not isinstance(octets, bytes):
            raise TypeError(f"an unpacked part is {type(octets).__name__}, not octets")
        budget = self.budget
        begin = self.position
        self._read(name, length)
        start = self.offsets[self.frame] + begin
        budget.sources += 1
        number = 1 + budget.sources
        self._keep(name, length, f"source {number}: {len(octets)} octets", hidden=True)
        inside = self._reader_of(octets, 0, number)
        opened = Opened(None, "", None)
        if budget.sources > MAX_SOURCES:
            self.finding("PAYLOAD-05", detail=f"more than {MAX_SOURCES} packed parts, nested or not")
        elif self._inner is not None and budget.allowance.fields > 0:
            with budget.of_packed():
                opened = self._inner(inside)
        for finding in inside.findings:
            self.findings.append(finding._replace(start=start, length=length))
        self.secrets += [self.frame] * bool(inside.secrets)
        if inside.trees:  # only trees show sources, which may be large
            tree = inside.tree(0, octets, "source")
            self.sources += [Source(number, octets, tree, (self.source, start, start + length)), *inside.sources]
        return opened

    def inside(self, name: str) -> Opened:
        """Dissect the rest of the current frame, a nested payload, with the dissector that claims it.

        The field `name` has its `protocol`, `summary` and `fields`, or null if no dissector claims it.
        """
        self.budget.spend(0)
        if self._depth + LEVELS_OPENED > DEEPEST:
            raise Limit("PAYLOAD-05", f"more than {DEEPEST} levels")
        start, octets = self.offset, self.data[self.position : self.stop]
        inside = self._reader_of(octets, start, self.source)
        opened = Opened(None, "", None)
        if self._inner is not None and octets:
            opened = self._inner(inside)
        self._take(inside, name)
        self._record.store(name, None if opened.protocol is None else opened._asdict())
        return opened

    def another(self) -> Opened:
        """Dissect the whole current frame with another dissector that claims it. Its fields are returned, not added."""
        opened = Opened(None, "", None)
        if self._others is None or not self.data:
            return opened
        inside = self._reader_of(self.data, self.offset, self.source)
        opened = self._others(inside)
        if opened.protocol is not None or inside.findings:
            self._take(inside, "frame")
        return opened

    def _take(self, inside: Reader, name: str) -> None:
        """Skip the rest of the current frame, and add the results of `inside`, a reader that has read it.

        They are field tree, findings, sources and secrets; the node of the frame is `name`.
        """
        octets = inside.frames[0]
        self.position = self.stop
        if self._tree is not None and octets:
            self._tree.add([inside.tree(0, octets, self._full(name))])
        self.findings += inside.findings
        self.sources += inside.sources
        self.secrets += [self.frame] * bool(inside.secrets)

    def _reader_of(self, octets: bytes, start: int, source: int) -> Reader:
        return Reader(
            self.prefix,
            (octets,),
            (start,),
            0,
            self.about,
            trees=self._tree is not None,
            budget=self.budget,
            show_secrets=self.show_secrets,
            source=source,
            inner=self._inner,
            depth=self._depth + LEVELS_OPENED,
        )

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _read(self, name: str, length: int) -> bytes:
        begin = self.position
        if length < 0 or begin + length > self.stop:
            rest = self.stop - begin
            if self._tree is not None and rest:
                self._tree.leaf(self._full(name), self.offset, rest, self.data[begin : self.stop])
            self.position = self.stop
            raise EndOfFrame(f"{name} needs {length} octets, but only {rest} remain")
        self.budget.spend(length)
        self.position = begin + length
        return self.data[begin : self.position]

    def _keep(self, name: str, length: int, value: Json, hidden: bool) -> None:
        if self._tree is not None and length:
            start = self.offsets[self.frame] + self.position - length
            self._tree.leaf(self._full(name), start, length, value)
        if not hidden:
            self._record.store(name, value)

    def _inside(self, name: str, value: Json) -> Iterator[None]:
        self._go_deeper()
        self._record.store(name, value)
        outer = self._record.enter(value)
        tree = self._tree
        group = None if tree is None else tree.begin(self._full(name), self.offset)
        try:
            yield
        finally:
            self._depth -= 1
            self._record.leave(outer)
            if tree is not None and group is not None:
                tree.end(group)

    def _go_deeper(self) -> None:
        if self._depth >= DEEPEST:
            raise Limit("PAYLOAD-05", f"more than {DEEPEST} levels")
        self.budget.spend(0)
        self._depth += 1

    def _counted(self, value: Json) -> Json:
        """Convert a value to types that all output formats support, and subtract its parts from the budget."""
        return counted(value, self.budget, self._depth)

    def _full(self, name: str) -> str:
        return f"{self.prefix}.{name}"
