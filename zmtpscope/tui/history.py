"""Where somebody was, and the way back."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.tui.requests import ListSpec

MOST_PLACES = 200


class Place(NamedTuple):
    """What was looked at: a view, which records the list has, and the record that was selected."""

    view: str
    spec: ListSpec
    selected: int | None


class History:
    """Places in the order in which they were left, as in a browser."""

    def __init__(self) -> None:
        self._behind: list[Place] = []
        self._ahead: list[Place] = []

    def leave(self, place: Place) -> None:
        """Somebody goes elsewhere from here; what was ahead is over."""
        if not self._behind or self._behind[-1] != place:
            self._behind.append(place)
            del self._behind[:-MOST_PLACES]
        self._ahead.clear()

    def back(self, here: Place) -> Place | None:
        """The place before; None: there is none."""
        return _step(self._behind, self._ahead, here)

    def forward(self, here: Place) -> Place | None:
        """The place that somebody came back from; None: there is none."""
        return _step(self._ahead, self._behind, here)


def _step(taken: list[Place], left: list[Place], here: Place) -> Place | None:
    if not taken:
        return None
    left.append(here)
    return taken.pop()
