"""The available dissectors: built-in ones, and entry points of the group `zmtpscope.payloads`.

Entry points are looked up at the first message; built-in modules are loaded at their first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zmtpscope.payloads.api import Payload, Settings
from zmtpscope.payloads.dissectors import OURS, TEXT, Dissector, declared
from zmtpscope.payloads.entry_points import EntryPoint, entry_points
from zmtpscope.payloads.shapes import Shapes, shapes_of

GROUP = "zmtpscope.payloads"


def names() -> list[str]:
    """Return all names without loading a dissector."""
    return sorted({each.name for each in OURS} | {point.name for point in _points()})


def _points() -> list[EntryPoint]:
    ours = {each.source for each in OURS}  # an older version of this package, installed beside it, may list them
    return [point for point in entry_points(GROUP) if point.value not in ours]


class Asked(NamedTuple):
    """The dissectors for messages for which the user named none."""

    dissectors: tuple[Dissector, ...]
    """Dissectors without the text dissector."""
    text: Dissector | None
    shapes: Shapes
    wants_all: bool
    """Whether any gets every message from the start."""


class Interrupted(BaseException):
    """Ends a dissector that does not return. Not an `Exception`, which its handlers would catch."""


class Registry:
    """Finds and creates dissectors. `only` limits it to one (None: all); `files` are the user's, by dissector name."""

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
        """Return usable dissectors by name, sorted. An installed one replaces a built-in one of the same name."""
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
        """Add a dissector that is not installed; it replaces another of the same name."""
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
        """Create a dissector for one side; None if its own code fails."""
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
        """Stop calling a dissector on all sides; return the exception to raise in it."""
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
    """Load a dissector. Raises at once if it is none: it would fail unexpectedly later."""
    kind = point.load()
    if not (isinstance(kind, type) and issubclass(kind, Payload) and getattr(kind, "name", None) == point.name):
        raise TypeError(f"{point.value} is not a subclass of Payload named {point.name!r}")
    return declared(kind)


def words_of(error: BaseException) -> str:
    """Return the message of a third-party exception."""
    try:
        return str(error)
    except Exception:
        return "without a reason"
