"""Which dissectors there are: ours, and entry points of the group `zmtpscope.payloads`, looked up with the first
message. The modules of ours are loaded when one is asked for the first time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zmtpscope.payloads.api import Payload, Settings
from zmtpscope.payloads.dissectors import OURS, TEXT, Dissector, declared
from zmtpscope.payloads.entry_points import EntryPoint, entry_points
from zmtpscope.payloads.shapes import Shapes, shapes_of

GROUP = "zmtpscope.payloads"


def names() -> list[str]:
    """The names of all dissectors, without loading any."""
    return sorted({each.name for each in OURS} | {point.name for point in _points()})


def _points() -> list[EntryPoint]:
    ours = {each.source for each in OURS}  # an older version of this package, installed beside it, may list them
    return [point for point in entry_points(GROUP) if point.value not in ours]


class Asked(NamedTuple):
    """Who is asked about messages for which the user named nobody."""

    dissectors: tuple[Dissector, ...]
    """All but the one of text."""
    text: Dissector | None
    shapes: Shapes
    wants_all: bool
    """Whether some are asked about every message from the start."""


class Interrupted(BaseException):
    """Ends a dissector that comes to no end by itself; no `except Exception` of its own keeps it going."""


class Registry:
    """`only` limits it to one dissector, None means all; `files` are those that the user gave for some, by name."""

    def __init__(self, only: str | None = None, files: Mapping[str, Mapping[str, bytes]] | None = None) -> None:
        self.only = only
        self.files = files or {}
        self.problems: list[str] = []
        """Dissectors that cannot be used, and why: a sentence each, with what to do about it."""
        self.stopped: set[str] = set()
        """Dissectors that came to no end: they are asked nothing any more."""
        self._known: dict[str, Dissector] | None = None
        self._asked: Asked | None = None

    @property
    def dissectors(self) -> Mapping[str, Dissector]:
        """All by name, in that order, those that cannot be used left out. One that is installed under the name of one
        of ours takes its place."""
        if self._known is None:
            known = {each.name: each for each in OURS}
            for point in _points():
                try:
                    known[point.name] = _installed(point)
                except (Exception, SystemExit) as error:  # whatever somebody else's code does
                    hint = f"report it to the author of {point.package}, or uninstall that package"
                    self._tell(point.name, error, hint)
            self._known = dict(sorted(known.items()))
        return self._known

    def add(self, kind: type[Payload]) -> None:
        """One that is not installed, behind all others; it takes the place of any of its name."""
        self._known = {**self.dissectors, kind.name: declared(kind)}
        self._asked = None

    def asked(self) -> Asked:
        """Who is to be asked about messages for which the user named none."""
        if self._asked is None:
            every, only = self.dissectors.values(), self.only
            asked = [each for each in every if (each.automatic if only is None else each.name == only)]
            but_text = tuple([each for each in asked if each.name != TEXT])
            text = next((each for each in asked if each.name == TEXT), None)
            self._asked = Asked(but_text, text, shapes_of(but_text), any(each.wants_all for each in but_text))
        return self._asked

    def make(self, dissector: Dissector, argument: str | None = None) -> Payload | None:
        """One for a side of a connection; None where its own code fails."""
        try:
            kind = dissector.load()
            return kind(Settings(argument, self.files.get(kind.name, {})))
        except Interrupted:
            return None
        except (Exception, SystemExit) as error:  # whatever somebody else's code does
            hint = "see what -d and --payload-file give it, else report it to its author"
            self._leave_out(dissector.name, error, hint)
            return None

    def stop(self, name: str, why: str) -> Interrupted:
        """Ask a dissector nothing any more, from now on and on all sides; what to raise in it."""
        error = Interrupted(why)
        self.stopped.add(name)
        self._leave_out(name, error, "report it to its author; messages that it would read stay unread")
        return error

    def _leave_out(self, name: str, error: BaseException, hint: str) -> None:
        self._known = {known: each for known, each in self.dissectors.items() if known != name}
        self._asked = None
        self._tell(name, error, hint)

    def _tell(self, name: str, error: BaseException, hint: str) -> None:
        problem = f"the payload dissector {name} cannot be used: {type(error).__name__}: {words_of(error)} -> {hint}"
        if problem not in self.problems:
            self.problems.append(problem)


def _installed(point: EntryPoint) -> Dissector:
    """What an entry point names; what is no dissector would fail where nobody expects it, so it raises here."""
    kind = point.load()
    if not (isinstance(kind, type) and issubclass(kind, Payload) and getattr(kind, "name", None) == point.name):
        raise TypeError(f"{point.value} is no subclass of Payload whose name is {point.name!r}")
    return declared(kind)


def words_of(error: BaseException) -> str:
    """What an exception of somebody else's code says."""
    try:
        return str(error)
    except Exception:
        return "it does not say why"
