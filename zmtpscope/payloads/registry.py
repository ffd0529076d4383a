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
                except Exception as error:  # whatever somebody else's code does
                    self.problems.append(f"the payload dissector {point.name} cannot be loaded: {error}")
                else:
                    self._loaded[point.name] = kind
        return self._loaded

    def asked(self) -> list[type[Payload]]:
        """The dissectors to ask about messages for which the user named none."""
        kinds = self.kinds.items()
        return [kind for name, kind in kinds if (kind.automatic if self.only is None else name == self.only)]

    def make(self, kind: type[Payload], argument: str | None = None) -> Payload:
        """One for a side of a connection."""
        return kind(Settings(argument, self.files.get(kind.name, {})))
