"""Find the effects of loading a pickle without loading it: interpret its opcodes on a stack of descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from zmtpscope.payloads.limits import Limit
from zmtpscope.payloads.pickle_opcodes import Opcode, opcodes, read_argument
from zmtpscope.payloads.reader import Malformed
from zmtpscope.payloads.values import Json

HIGHEST_PROTOCOL = 5
_LONGEST_SHOWN = 80
_LONGEST_NAME = 500
"""Characters of a module or name. Longer strings name nothing."""
_MAX_SHOWN = 8
UNKNOWN = "?"
"""Stands for a value that is computed while loading."""

_STOP = ord(".")
_IN_PLACE = {"APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "READONLY_BUFFER"}
"""Opcodes that modify an object and leave it on the stack."""


class StackObject(NamedTuple):
    """Describes an object on the stack: `shown` is for the output; `text` is its value if it is a string."""

    shown: str
    text: str | None = None


class Step(NamedTuple):
    """One opcode of a pickle at `start..stop`, with its argument or, without one, its result on the stack."""

    name: str
    start: int
    stop: int
    value: Json


_MARK: Final = StackObject("mark")


class Walk:
    """Interprets at most `most` opcodes of a pickle, up to STOP.

    Attributes are the results, partial ones if `run` raises; `position` is the index after the last opcode.
    """

    def __init__(self, octets: bytes, most: int) -> None:
        self.octets = octets
        self.most = most
        self.position = 0
        self.protocol = 0
        self.steps: list[Step] = []
        self.imports: dict[str, None] = {}
        """Imports as `module.name`, in order."""
        self.calls: dict[str, None] = {}
        """Called functions, in order."""
        self.strings: dict[str, None] = {}
        self.result = ""
        self.finished = False
        self._memo: dict[int, StackObject] = {}
        self._stack: list[StackObject] = []

    def run(self) -> None:
        """Interpret the opcodes. Raises `Malformed` for an invalid pickle, and `Limit` after too many opcodes."""
        table = opcodes()
        octet = 0
        while octet != _STOP:
            if self.position >= len(self.octets):
                raise Malformed("no STOP")
            octet = self.octets[self.position]
            opcode = table.get(octet)
            if opcode is None:
                raise Malformed(f"0x{octet:02x} is not an opcode")
            if len(self.steps) >= self.most:
                raise Limit("PAYLOAD-02", "more opcodes than the limit")
            begin = self.position
            argument, stop = read_argument(opcode, self.octets, begin + 1)
            self._follow(opcode, argument, stop)
            if opcode.argument is None:
                argument = self._stack[-1].shown if self._stack else ""
            self.steps.append(Step(opcode.name, begin, stop, argument))
            self.position = stop
        if self.position < len(self.octets):
            raise Malformed("octets after STOP")
        self.finished = True

    def _follow(self, opcode: Opcode, argument: Json, stop: int) -> None:
        name = opcode.name
        if opcode.constant:
            self._stack.append(self._constant(argument))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._memo[len(self._memo) if argument is None else _index(argument)] = self._top()
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            if (index := _index(argument)) not in self._memo:
                raise Malformed(f"nothing was stored as {index}")
            self._stack.append(self._memo[index])
        elif name == "POP" and self._stack and self._stack[-1] is _MARK:
            self._stack.pop()
        elif name == "MARK":
            self._stack.append(_MARK)
        elif name == "DUP":
            self._stack.append(self._top())
        elif name == "PROTO":
            if argument > HIGHEST_PROTOCOL:
                raise Malformed(f"unknown protocol {argument}")
            self.protocol = max(self.protocol, argument)
        elif name == "FRAME":
            if argument > len(self.octets) - stop:
                raise Malformed(f"a frame of {argument} octets, but only {len(self.octets) - stop} remain")
        else:
            taken = self._take(opcode)
            self._stack += self._left(opcode, argument, taken)
            if name == "STOP":
                self.result = taken[0].shown
        self.protocol = max(self.protocol, opcode.protocol)

    def _top(self) -> StackObject:
        if not self._stack or self._stack[-1] is _MARK:
            raise Malformed("the stack is empty")
        return self._stack[-1]

    def _take(self, opcode: Opcode) -> list[StackObject]:
        """Remove the objects that an opcode takes from the stack; return them deepest first, without marks."""
        items: list[StackObject] = []
        if opcode.to_mark:
            while self._stack and self._stack[-1] is not _MARK:
                items.append(self._stack.pop())
            if not self._stack:
                raise Malformed("no mark on the stack")
            self._stack.pop()
            items.reverse()
        rest = len(self._stack) - opcode.takes
        below = self._stack[max(0, rest) :]
        if rest < 0 or any(each is _MARK for each in below):
            raise Malformed(f"{opcode.name} takes more values than the stack has")
        del self._stack[rest:]
        return below + items

    def _left(self, opcode: Opcode, argument: Json, taken: list[StackObject]) -> Sequence[StackObject]:
        """Return the objects that an opcode puts on the stack in place of the objects `taken`."""
        name = opcode.name
        if name == "GLOBAL":
            return [self._import(argument)]
        if name == "STACK_GLOBAL":
            return [self._import(".".join(each.text or UNKNOWN for each in taken))]
        if name in ("EXT1", "EXT2", "EXT4"):
            return [self._import(f"extension {argument}")]
        if name == "INST":
            return [self._call(self._import(argument), _tuple(taken))]
        if name == "OBJ":
            if not taken:
                raise Malformed("OBJ has no class")
            return [self._call(taken[0], _tuple(taken[1:]))]
        if name in ("REDUCE", "NEWOBJ", "NEWOBJ_EX"):
            return [self._call(taken[0], *taken[1:])]
        if name == "BUILD":
            self._call(StackObject(f"{taken[0].shown}.__setstate__"), StackObject(f"({taken[1].shown})"))
            return taken[:1]
        if name in _IN_PLACE:
            return taken[:1]
        if name in ("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
            return [_tuple(taken)]
        if name in ("NONE", "NEWTRUE", "NEWFALSE"):
            return [StackObject({"NONE": "None", "NEWTRUE": "True", "NEWFALSE": "False"}[name])]
        if name in ("PERSID", "BINPERSID"):
            return [self._call(StackObject("persistent_load"), _tuple(taken or [StackObject(repr(argument))]))]
        return [StackObject(each) for each in opcode.leaves]

    def _import(self, name: str) -> StackObject:
        name = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"
        self.imports[name] = None
        return StackObject(_cut(name))

    def _call(self, called: StackObject, arguments: StackObject, keywords: StackObject | None = None) -> StackObject:
        shown = arguments.shown if arguments.shown.startswith("(") else f"(*{arguments.shown})"
        if keywords is not None:
            shown = f"{shown[:-1]}, **{keywords.shown})"
        call = _cut(called.shown + shown)
        self.calls[call] = None
        return StackObject(call)

    def _constant(self, value: Json) -> StackObject:
        if isinstance(value, str):
            self.strings[_cut(value)] = None
            return StackObject(_cut(repr(value[:_LONGEST_SHOWN])), value if len(value) <= _LONGEST_NAME else None)
        return StackObject(_cut(repr(value[:_LONGEST_SHOWN] if isinstance(value, bytes) else value)))


def _tuple(items: list[StackObject]) -> StackObject:
    more = ["…"] if len(items) > _MAX_SHOWN else []
    return StackObject(_cut(f"({', '.join([*(each.shown for each in items[:_MAX_SHOWN]), *more])})"))


def _cut(shown: str) -> str:
    return shown if len(shown) <= _LONGEST_SHOWN else shown[: _LONGEST_SHOWN - 1] + "…"


def _index(argument: Json) -> int:
    if not isinstance(argument, int) or argument < 0:
        raise Malformed("no entry at this place of the memo")
    return argument
