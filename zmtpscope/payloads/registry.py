"""The available dissectors: built-in ones, and entry points of the group `zmtpscope.payloads`.

Entry points are searched at the first message; built-in modules are loaded at their first use. `importlib.metadata`,
which loads slowly, is used only if distributions may be in zip files or eggs, or found by import hooks.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any, NamedTuple

from zmtpscope.payloads.api import Payload, Settings
from zmtpscope.payloads.dissectors import OURS, TEXT, Dissector, declared
from zmtpscope.payloads.shapes import Shapes, shapes_of

METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
"""File with the distribution's name, by suffix of its folder."""


class EntryPoint(NamedTuple):
    """An installed entry point. `value` is `module:attribute`, `package` the distribution."""

    name: str
    value: str
    package: str

    def load(self) -> Any:
        """Import and return the object. Exceptions of the module propagate."""
        module, _, attributes = self.value.partition(":")
        found = import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            found = getattr(found, attribute)
        return found


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, sorted by name.

    If a distribution is installed twice, the first one in `sys.path` counts.
    """
    if _lie_elsewhere():
        from importlib.metadata import entry_points as asked

        return sorted(
            EntryPoint(each.name, each.value, each.dist.name if each.dist else "") for each in asked(group=group)
        )
    found: list[EntryPoint] = []
    seen = set()
    for path in dict.fromkeys(sys.path):
        for folder in _distributions(path or "."):
            distribution = _normalized(os.path.basename(folder).partition("-")[0].removesuffix(".egg"))
            if distribution not in seen:
                seen.add(distribution)
                found += _entry_points_of(folder, group)
    return sorted(found)


def _lie_elsewhere() -> bool:
    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder):
        return True
    return any(path.endswith(".egg") or os.path.isfile(path) for path in sys.path)


def _distributions(path: str) -> list[str]:
    try:
        return [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(tuple(METADATA))]
    except OSError:
        return []


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _entry_points_of(folder: str, group: str) -> Iterator[EntryPoint]:
    octets = _octets(os.path.join(folder, "entry_points.txt"))
    if group.encode() not in octets:
        return
    section, package = "", ""
    for line in map(str.strip, _text(octets).splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif section == group and "=" in line and not line.startswith("#"):
            package = package or _name_of(folder)
            name, value = line.split("=", 1)
            yield EntryPoint(name.strip(), value.partition("[")[0].strip(), package)


def _name_of(folder: str) -> str:
    text = _text(_octets(os.path.join(folder, METADATA[os.path.splitext(folder)[1]])))
    found = re.search(r"^Name: *(.*)$", text, re.MULTILINE)
    return found[1].strip() if found else ""


def _octets(path: str) -> bytes:
    """Return the contents of a file; empty if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _text(octets: bytes) -> str:
    return octets.decode(errors="replace")


GROUP = "zmtpscope.payloads"


def names() -> list[str]:
    """Return the names of all dissectors without loading any."""
    return sorted({each.name for each in OURS} | {point.name for point in _points()})


def _points() -> list[EntryPoint]:
    ours = {each.source for each in OURS}  # an older version of this package, installed beside it, may list them
    return [point for point in entry_points(GROUP) if point.value not in ours]


class Asked(NamedTuple):
    """The dissectors for messages to which the user assigned none: their `claim` is called.

    `text` is the dissector of text. `wants_all`: a dissector needs every message.
    """

    dissectors: tuple[Dissector, ...]
    """Dissectors except the text dissector."""
    text: Dissector | None
    shapes: Shapes
    wants_all: bool
    """Whether any dissector gets every message from the start."""


class Interrupted(BaseException):
    """Raised inside a dissector that does not return, to stop it.

    It is no `Exception`, which the dissector might catch.
    """


class Registry:
    """Finds and creates dissectors.

    `only` is the name of the one dissector to use (None: all). `files` are the user's files by dissector name.
    """

    def __init__(self, only: str | None = None, files: Mapping[str, Mapping[str, bytes]] | None = None) -> None:
        self.only = only
        self.files = files or {}
        self.problems: list[str] = []
        """Dissectors that cannot be used, each with a remedy."""
        self.stopped: set[str] = set()
        """Dissectors that did not return; not called any more."""
        self._known: dict[str, Dissector] | None = None
        self._asked: Asked | None = None

    @property
    def dissectors(self) -> Mapping[str, Dissector]:
        """Usable dissectors by name, sorted. An installed one replaces a built-in one of the same name."""
        if self._known is None:
            known = {each.name: each for each in OURS}
            for point in _points():
                try:
                    known[point.name] = _installed(point)
                except (Exception, SystemExit) as error:  # third-party code may raise anything
                    hint = f"report it to the author of {point.package}, or uninstall that package"
                    self._report(point.name, error, hint)
            self._known = dict(sorted(known.items()))
        return self._known

    def add(self, kind: type[Payload]) -> None:
        """Add a dissector class that is not installed; it replaces another dissector of the same name."""
        self._known = {**self.dissectors, kind.name: declared(kind)}
        self._asked = None

    def asked(self) -> Asked:
        if self._asked is None:
            every, only = self.dissectors.values(), self.only
            asked = [each for each in every if (each.automatic if only is None else each.name == only)]
            but_text = tuple([each for each in asked if each.name != TEXT])
            text = next((each for each in asked if each.name == TEXT), None)
            self._asked = Asked(but_text, text, shapes_of(but_text), any(each.wants_all for each in but_text))
        return self._asked

    def make(self, dissector: Dissector, argument: str | None = None) -> Payload | None:
        """Create the object of a dissector for one side; None if its constructor fails."""
        try:
            kind = dissector.load()
            return kind(Settings(argument, self.files.get(kind.name, {})))
        except Interrupted:
            return None
        except (Exception, SystemExit) as error:
            hint = "check its options in -d and --payload-file, or report it to its author"
            self._leave_out(dissector.name, error, hint)
            return None

    def stop(self, name: str, why: str) -> Interrupted:
        """Stop using a dissector on all sides; return the exception to raise in it. `why` is reported."""
        error = Interrupted(why)
        self.stopped.add(name)
        self._leave_out(name, error, "report it to its author; its messages are not decoded")
        return error

    def _leave_out(self, name: str, error: BaseException, hint: str) -> None:
        self._known = {known: each for known, each in self.dissectors.items() if known != name}
        self._asked = None
        self._report(name, error, hint)

    def _report(self, name: str, error: BaseException, hint: str) -> None:
        problem = f"the payload dissector {name} cannot be used: {type(error).__name__}: {words_of(error)} -> {hint}"
        if problem not in self.problems:
            self.problems.append(problem)


def _installed(point: EntryPoint) -> Dissector:
    """Load the dissector of an entry point.

    Raises `TypeError` if the object is no dissector, because it would fail only later.
    """
    kind = point.load()
    if not (isinstance(kind, type) and issubclass(kind, Payload) and getattr(kind, "name", None) == point.name):
        raise TypeError(f"{point.value} is not a subclass of Payload named {point.name!r}")
    return declared(kind)


def words_of(error: BaseException) -> str:
    """Return the message of an exception from a third-party dissector."""
    try:
        return str(error)
    except Exception:
        return "without a reason"
