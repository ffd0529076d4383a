"""Python pickles. They are never loaded: their opcodes show which imports and calls loading would make."""

from __future__ import annotations

from collections.abc import Iterable

from zmtpscope.payloads.api import Claim, Json, Malformed, Reader, Settings
from zmtpscope.payloads.framewise import Framewise
from zmtpscope.payloads.limits import MAX_FIELDS, Limit
from zmtpscope.payloads.pickle_walk import HIGHEST_PROTOCOL, UNKNOWN, Walk
from zmtpscope.payloads.values import plain, shown
from zmtpscope.zmtp.reader import FieldNode

_HEADED = b"\x80"
"""The opcode PROTO, first in protocol 2 and later."""
_STOP = b"."
_MAX_LISTED = 100
"""Distinct calls, and strings, in the fields."""
_MAX_NAMED = 5
"""Imports and calls in a finding or summary."""
_MAX_REPORTED = 1024
"""Sets of imports that a side remembers as reported."""

_KEPT = {"DICT", "LIST", "TUPLE", "EMPTY_DICT", "EMPTY_LIST"}, {"PUT", "BINPUT", "LONG_BINPUT"}

_DANGEROUS = {
    *("_pickle", "_posixsubprocess", "asyncio", "bdb", "cProfile", "code", "codeop", "commands", "ctypes", "ftplib"),
    *("http.client", "imp", "importlib", "marshal", "nt", "os", "pdb", "pickle", "pip", "pkgutil", "popen2", "posix"),
    *("profile", "pty", "runpy", "shutil", "smtplib", "socket", "subprocess", "sys", "timeit", "trace"),
    *("urllib.request", "urllib2", "venv", "webbrowser", "zipimport"),
}
"""Modules that can run, load, send or remove something: none belongs in data."""
_BUILTINS = {"builtins", "__builtin__"}
_DANGEROUS_BUILTINS = {
    *("__import__", "apply", "breakpoint", "compile", "delattr", "eval", "exec", "execfile", "file", "getattr"),
    *("globals", "input", "locals", "open", "reload", "setattr", "vars"),
}


class Pickle(Framewise[Walk]):
    """Claims a message if its first content frame is exactly one pickle.

    Other frames may have any format, such as out-of-band buffers of protocol 5.
    """

    name = "pickle"
    prefix = "pickle"
    begins = _HEADED + b"(c]})"
    judges = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._reported: set[int] = set()
        """Hashes of reported sets of imports, each with whether its pickle was read to the end."""

    def recognise(self, octets: bytes) -> tuple[Claim, Walk | None]:
        return recognised(octets)

    def read_frame(self, reader: Reader, known: Walk | None, values: list[Json]) -> str:
        walk, problem = known, None
        if walk is None or not walk.finished or len(walk.steps) > reader.budget.fields:
            walk = Walk(reader.data, reader.budget.fields)
            try:
                walk.run()
            except (Malformed, Limit) as raised:
                problem = raised
        reader.budget.spend(len(reader.data), len(walk.steps))
        fields = _fields(walk)
        values.append(fields)
        self._judge(reader, walk)
        reader.adopt(walk.position, _nodes(reader, walk) if reader.trees else [])
        if problem is not None:
            raise problem
        return _summary(fields)

    def _judge(self, reader: Reader, walk: Walk) -> None:
        """Report what loading the pickle would do, once per side and set of imports."""
        key = hash((walk.finished, frozenset(walk.imports)))
        if key in self._reported:
            return
        if len(self._reported) < _MAX_REPORTED:
            self._reported.add(key)
        dangerous = list(filter(is_dangerous, walk.imports))[:_MAX_NAMED]
        imports = sorted(walk.imports, key=is_dangerous, reverse=True)
        calls = [each for each in walk.calls if each.startswith(tuple(dangerous))] if dangerous else walk.calls
        detail = f"imports {_listed(imports) or 'nothing'}"
        if calls:
            detail += f"; calls {_listed(calls)}"
        harmless = walk.finished and not walk.imports
        severity = "error" if dangerous else "note" if harmless else "warn"
        reader.finding("PICKLE-01", severity=severity, detail=str(plain(detail)))


def recognised(octets: bytes) -> tuple[Claim, Walk | None]:
    """Return whether a frame is a pickle, and its interpreted opcodes."""
    headed = octets[:1] == _HEADED
    if octets[-1:] != _STOP or (headed and octets[1] > HIGHEST_PROTOCOL):
        return Claim.NO, None
    walk = Walk(octets, MAX_FIELDS)
    try:
        walk.run()
    except Malformed:
        return Claim.NO, None
    except Limit:  # the part walked is a pickle
        pass
    if headed or (walk.imports and walk.calls):
        return Claim.YES, walk
    names = {step.name for step in walk.steps}
    # without a header and a call, text may parse as a pickle, but not one that memoizes a container
    return (Claim.MAYBE, walk) if all(names & each for each in _KEPT) else (Claim.NO, None)


def is_dangerous(name: str) -> bool:
    """Whether an import runs, loads, sends or removes something, or is unknown until the pickle is loaded.

    Modules imported by a harmless module can be reached through it: `collections._sys.modules`.
    """
    parts = name.split(".")
    if parts[0] in _BUILTINS:
        return parts[1] in _DANGEROUS_BUILTINS or len(parts) > 2
    modules = [parts[0], ".".join(parts[:2]), *(each.lstrip("_") for each in parts[1:-1])]
    return UNKNOWN in parts or not _DANGEROUS.isdisjoint(modules)


def _fields(walk: Walk) -> Json:
    return {
        "protocol": walk.protocol,
        "opcodes": len(walk.steps),
        "result": str(plain(walk.result)),
        "imports": [plain(each) for each in walk.imports],
        "calls": [plain(each) for each in list(walk.calls)[:_MAX_LISTED]],
        "strings": [plain(each) for each in list(walk.strings)[:_MAX_LISTED]],
    }


def _nodes(reader: Reader, walk: Walk) -> list[FieldNode]:
    return [
        FieldNode(
            f"pickle.{step.name.lower()}", reader.offset + step.start, step.stop - step.start, shown(plain(step.value))
        )
        for step in walk.steps
    ]


def _summary(fields: Json) -> str:
    summary = f"protocol {fields['protocol']}: {fields['result']}"
    return f"{summary}, imports {_listed(fields['imports'])}" if fields["imports"] else summary


def _listed(names: Iterable[str]) -> str:
    """Format the first few names as a list for a sentence."""
    all_names = list(names)
    more = [f"{len(all_names) - _MAX_NAMED} more"] if len(all_names) > _MAX_NAMED else []
    return ", ".join(all_names[:_MAX_NAMED] + more)
