"""How sides begin: what was read once of octets that many sides begin with is taken over, not read again.

All connections of one application greet with the same octets, and what is known of a side behind its greeting and its
READY depends on nothing but these octets and the version in force. So it is kept: of few units and small ones, and only
of those that can hold no secret and come again, which are greetings and the READY of NULL without an identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from zmtpscope.zmtp.conduct import Conduct
from zmtpscope.zmtp.events import Command, Event, Greeting
from zmtpscope.zmtp.regime import Regime

LARGEST_UNIT = 512
"""Octets of a unit; what is larger is read anew each time."""

MOST_OPENINGS = 8
"""How many units are kept of those that may come next: the ones met last."""


class Openings:
    """The units met so far that sides may go on with from where they are."""

    __slots__ = ("_openings",)

    def __init__(self) -> None:
        self._openings: list[Opening] = []

    def __iter__(self) -> Iterator[Opening]:
        return iter(self._openings)

    def find(self, data: bytes, at: int) -> Opening | None:
        """The opening by the unit at `data[at]`; None where that unit was not met, or is not whole."""
        for place, opening in enumerate(self._openings):
            if data.startswith(opening.octets, at):
                if place:
                    self._openings.insert(0, self._openings.pop(place))
                return opening
        return None

    def keep(self, opening: Opening) -> None:
        """Find this one from now on, if it is small; the one that was not met for the longest time makes room."""
        if len(opening.octets) <= LARGEST_UNIT:
            self._openings.insert(0, opening)
            del self._openings[MOST_OPENINGS:]


class Opening(NamedTuple):
    """What is known of a side behind a unit that had these `octets` and said `event`.

    All sides that come here share it, so what changes later has to be copied: `conduct`.
    """

    octets: bytes
    event: Event
    standing: dict[str, Any]
    """Attributes of the side, by name."""
    regimes: tuple[tuple[int, Regime], ...]
    conduct: Conduct
    openings: Openings
    """What sides may go on with."""


def may_be_kept(event: Event) -> bool:
    """Whether what was read can hold no secret, tells all that changed, and is not its sender's alone."""
    if not isinstance(event, Command):
        return isinstance(event, Greeting)
    fields = event.fields
    return event.regime.mechanism == "NULL" and fields.get("name") == "READY" and not fields.get("identity")
