"""The dissectors that are installed: entry points of the group `zmtpscope.payloads`, looked up when one is needed."""

from __future__ import annotations

from collections.abc import Mapping

from zmtpscope.payloads.api import Payload, Settings
from zmtpscope.payloads.entry_points import EntryPoint, entry_points

GROUP = "zmtpscope.payloads"
TEXT = "text"
"""The dissector that is asked last: most of what the others claim is text as well."""


def names() -> list[str]:
    """The names of all dissectors, without loading any."""
    return sorted({point.name for point in _points()})


def _points() -> list[EntryPoint]:
    return entry_points(GROUP)


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
        self._loaded: dict[str, type[Payload]] | None = None

    @property
    def kinds(self) -> dict[str, type[Payload]]:
        """The dissectors by name, those that cannot be loaded left out."""
        if self._loaded is None:
            self._loaded = {}
            for point in _points():
                try:
                    kind = point.load()
                    _check(kind, point)
                except (Exception, SystemExit) as error:  # whatever somebody else's code does
                    hint = f"report it to the author of {point.package}, or uninstall that package"
                    self._unusable(point.name, error, hint)
                else:
                    self._loaded[point.name] = kind
        return self._loaded

    def asked(self) -> list[type[Payload]]:
        """The dissectors to ask about messages for which the user named none."""
        kinds = self.kinds.items()
        return [kind for name, kind in kinds if (kind.automatic if self.only is None else name == self.only)]

    def make(self, kind: type[Payload], argument: str | None = None) -> Payload | None:
        """One for a side of a connection; None where its own code fails."""
        try:
            return kind(Settings(argument, self.files.get(kind.name, {})))
        except Interrupted:
            return None
        except (Exception, SystemExit) as error:  # whatever somebody else's code does
            if self._loaded is not None:
                self._loaded.pop(kind.name, None)
            self._unusable(kind.name, error, "see what -d and --payload-file give it, else report it to its author")
            return None

    def stop(self, name: str, why: str) -> Interrupted:
        """Ask a dissector nothing any more, from now on and on all sides; what to raise in it."""
        error = Interrupted(why)
        self.stopped.add(name)
        self.kinds.pop(name, None)
        self._unusable(name, error, "report it to its author; messages that it would read stay unread")
        return error

    def _unusable(self, name: str, error: BaseException, hint: str) -> None:
        problem = f"the payload dissector {name} cannot be used: {type(error).__name__}: {words_of(error)} -> {hint}"
        if problem not in self.problems:
            self.problems.append(problem)


def _check(kind: object, point: EntryPoint) -> None:
    """Whether it is what an entry point should name; what is not would fail where nobody expects it."""
    if not (isinstance(kind, type) and issubclass(kind, Payload) and getattr(kind, "name", None) == point.name):
        raise TypeError(f"{point.value} is no subclass of Payload whose name is {point.name!r}")
    if not isinstance(getattr(kind, "prefix", None), str):
        raise TypeError("its prefix is no text")
    begins = kind.begins
    if not (isinstance(begins, bytes | None) or (isinstance(begins, tuple) and all(map(_is_prefix, begins)))):
        raise TypeError("what it begins with is neither octets nor None")
    if not isinstance(kind.least_frames, int):
        raise TypeError("its least_frames is no number")


def _is_prefix(octets: object) -> bool:
    return isinstance(octets, bytes) and octets != b""


def words_of(error: BaseException) -> str:
    """What an exception of somebody else's code says."""
    try:
        return str(error)
    except Exception:
        return "it does not say why"
