"""Handshake cache: reuse the parsed greeting and READY of earlier sides that sent the same octets.

All connections of one application send the same greeting, and the state of a side after its greeting and READY depends
only on these octets and the version in force. The cache holds only a few small units that cannot contain a secret and
are likely to repeat: greetings, and READY of NULL without an identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zmtpscope.zmtp.events import Command, Event, Greeting
from zmtpscope.zmtp.handshake_state import HandshakeState
from zmtpscope.zmtp.regime import Regime

LARGEST_UNIT = 512
"""Maximum size in octets of a cached unit."""

MAX_CACHED = 8
"""Maximum number of units per cache; the least recently used is evicted."""


class HandshakeCache:
    """Cached units that may come next on a side."""

    __slots__ = ("_units",)

    def __init__(self) -> None:
        self._units: list[CachedUnit] = []

    def __iter__(self) -> Iterator[CachedUnit]:
        return iter(self._units)

    def find(self, data: bytes, at: int) -> CachedUnit | None:
        """Return the cached unit at `data[at]`, or None if it is unknown or incomplete."""
        for place, unit in enumerate(self._units):
            if data.startswith(unit.octets, at):
                if place:
                    self._units.insert(0, self._units.pop(place))
                return unit
        return None

    def keep(self, unit: CachedUnit) -> None:
        """Cache `unit` if it is small, and evict the least recently used one."""
        if len(unit.octets) <= LARGEST_UNIT:
            self._units.insert(0, unit)
            del self._units[MAX_CACHED:]


class SideState(NamedTuple):
    """The state of a side after its greeting or handshake: attributes of its reader.

    All sides with the same octets share it. `handshake` changes later, so it must be copied.
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
    """A unit with its `octets` and `event`, and the state of a side after it."""

    octets: bytes
    event: Event
    state: SideState
    cache: HandshakeCache
    """Units that may follow this one."""


def may_be_cached(event: Event) -> bool:
    """Whether a unit can contain no secret, its event describes all changes, and other senders are likely to send
    it."""
    if not isinstance(event, Command):
        return isinstance(event, Greeting)
    fields = event.fields
    return event.regime.mechanism == "NULL" and fields.get("name") == "READY" and not fields.get("identity")
