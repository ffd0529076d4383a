"""The dissectors that are installed: entry points of the group `zmtpscope.payloads`, looked up when one is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from zmtpscope.payloads.api import Payload, Settings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "zmtpscope.payloads"
TEXT = "text"
"""The dissector that is asked last: most of what the others claim is text as well."""


def names() -> list[str]:
    """The names of all dissectors, without loading any."""
    return sorted({point.name for point in _points()})


def _points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # takes its time to load

    return sorted(entry_points(group=GROUP))


class Registry:
    """`only` limits it to one dissector, None means all; `files` are those that the user gave for some, by name."""

    def __init__(self, only: str | None = None, files: Mapping[str, Mapping[str, bytes]] | None = None) -> None:
        self.only = only
        self.files = files or {}
        self.problems: list[str] = []
        """Dissectors that could not be loaded, and why."""
        self._loaded: dict[str, type[Payload]] | None = None

    @property
    def kinds(self) -> dict[str, type[Payload]]:
        """The dissectors by name, those that cannot be loaded left out."""
        if self._loaded is None:
            self._loaded = {}
            for point in _points():
                try:
                    kind = point.load()
                    if not (isinstance(kind, type) and issubclass(kind, Payload) and kind.name == point.name):
                        raise TypeError(f"{point.value} is no subclass of Payload whose name is {point.name!r}")
                    if not _is_fit(kind):
                        raise TypeError(f"{point.value} has no prefix, or other attributes that do not fit")
                except Exception as error:  # whatever somebody else's code does
                    self._leave_out(point.name, "loaded", error)
                else:
                    self._loaded[point.name] = kind
        return self._loaded

    def _leave_out(self, name: str, step: str, error: Exception) -> None:
        self.problems.append(f"the payload dissector {name} cannot be {step}: {words_of(error)}")

    def asked(self) -> list[type[Payload]]:
        """The dissectors to ask about messages for which the user named none."""
        kinds = self.kinds.items()
        return [kind for name, kind in kinds if (kind.automatic if self.only is None else name == self.only)]

    def make(self, kind: type[Payload], argument: str | None = None) -> Payload | None:
        """One for a side of a connection; None where that fails, and it is not asked again."""
        try:
            return kind(Settings(argument, self.files.get(kind.name, {})))
        except Exception as error:  # whatever somebody else's code does
            if self._loaded is not None:
                self._loaded.pop(kind.name, None)
            self._leave_out(kind.name, "used", error)
            return None


def _is_fit(kind: type[Payload]) -> bool:
    """Whether the attributes of a dissector are what they have to be."""
    fits = isinstance(kind.prefix, str) and isinstance(kind.begins, bytes | None)
    return fits and isinstance(kind.least_frames, int)


def words_of(error: Exception) -> str:
    """What an exception of somebody else's code says."""
    try:
        return str(error)
    except Exception:
        return "it does not say why"
