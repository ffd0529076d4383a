"""Handshake cache: what was read once of octets that many sides begin with is taken over, not read again.

All connections of one application greet with the same octets, and what is known of a side behind its greeting and its
READY depends on nothing but these octets and the version in force. So it is kept: of few units and small ones, and only
of those that can hold no secret and come again, which are greetings and the READY of NULL without an identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zmtpscope.zmtp.events import Command, Event, Greeting
from zmtpscope.zmtp.handshake_state import HandshakeState
from zmtpscope.zmtp.regime import Regime

LARGEST_UNIT = 512
"""Octets of a unit; what is larger is read anew each time."""

MOST_CACHED = 8
"""How many units are kept of those that may come next: the ones met last."""


class HandshakeCache:
    """The units met so far that sides may go on with from where they are."""

    __slots__ = ("_units",)

    def __init__(self) -> None:
        self._units: list[CachedUnit] = []

    def __iter__(self) -> Iterator[CachedUnit]:
        return iter(self._units)

    def find(self, data: bytes, at: int) -> CachedUnit | None:
        """The unit that stands at `data[at]`; None where it was not met before, or is not whole."""
        for place, unit in enumerate(self._units):
            if data.startswith(unit.octets, at):
                if place:
                    self._units.insert(0, self._units.pop(place))
                return unit
        return None

    def keep(self, unit: CachedUnit) -> None:
        """Find this one from now on, if it is small; the one that was not met for the longest time makes room."""
        if len(unit.octets) <= LARGEST_UNIT:
            self._units.insert(0, unit)
            del self._units[MOST_CACHED:]


class SideState(NamedTuple):
    """What greeting and handshake say of a side: attributes of its reader.

    All sides that come here share it, so what changes later has to be copied: `handshake`.
    """

    position: int
    regime: Regime
    regimes: tuple[tuple[int, Regime], ...]
    handshake: HandshakeState
    broken: int | None
    opaque: bool
    version_announced: str | None
    mechanism: str | None
    as_server: int | None
    socket_type: str | None
    identity: str | None
    padding: int
    scanning: bool


class CachedUnit(NamedTuple):
    """What is known of a side behind a unit that had these `octets` and said `event`."""

    octets: bytes
    event: Event
    state: SideState
    cache: HandshakeCache
    """What sides may go on with."""


def may_be_cached(event: Event) -> bool:
    """Whether what was read can hold no secret, says all that changed, and is not its sender's alone."""
    if not isinstance(event, Command):
        return isinstance(event, Greeting)
    fields = event.fields
    return event.regime.mechanism == "NULL" and fields.get("name") == "READY" and not fields.get("identity")
