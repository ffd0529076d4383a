"""The history of views that the user has visited, to go back and forward."""

from __future__ import annotations

from typing import Any, NamedTuple

MAX_PLACES = 200


class Place(NamedTuple):
    pane: str
    snapshot: Any


class History:
    """The visited views and their state, in the order in which the user left them, as in a browser."""

    def __init__(self) -> None:
        self._behind: list[Place] = []
        self._ahead: list[Place] = []

    def leave(self, place: Place) -> None:
        """Add the view that the user leaves, and drop the views that "forward" would show."""
        if not self._behind or self._behind[-1] != place:
            self._behind.append(place)
            del self._behind[:-MAX_PLACES]
        self._ahead.clear()

    def back(self, here: Place) -> Place | None:
        return _step(self._behind, self._ahead, here)

    def forward(self, here: Place) -> Place | None:
        return _step(self._ahead, self._behind, here)


def _step(taken: list[Place], left: list[Place], here: Place) -> Place | None:
    if not taken:
        return None
    left.append(here)
    return taken.pop()
