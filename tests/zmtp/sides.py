"""Helpers for tests of the core: sides in every state, units of a side, and the complete output of a side reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tests.peer_octets import command
from tests.suites import examples
from zmtpscope.zmtp.details import field_tree
from zmtpscope.zmtp.events import Command, Greeting, Remark, Skipped
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.reader import FieldNode, Finding
from zmtpscope.zmtp.regime import Form, Regime
from zmtpscope.zmtp.side import SideReader

MANY = examples(160)
"""For properties with many cases that are cheap to test."""


EARLIER_STEP = {
    ("PLAIN", "INITIATE"): command("PLAIN", "HELLO"),
    ("PLAIN", "READY"): command("PLAIN", "WELCOME"),
    ("CURVE", "INITIATE"): command("CURVE", "HELLO", client_key=bytes(32), nonce=1, box=bytes(80)),
    ("CURVE", "READY"): command("CURVE", "WELCOME", long_nonce=bytes(16), box=bytes(144)),
}
"""Octets that a side has sent before a handshake command that is not its first."""


def in_handshake(version: str, mechanism: str, before: bytes = b"") -> SideReader:
    """Return a 3.x side that has read its greeting and the octets `before`; its next octet has stream offset 0."""
    octets = build_greeting_3(mechanism, version=version) + before
    side = SideReader(Form.GREETING_3, version, offset=-len(octets))
    side.read(octets, -len(octets))
    side.drain()
    return side


class Unit(NamedTuple):
    """One unit of a side: its place, and how to read it again."""

    start: int
    stop: int
    regime: Regime
    inside: bool


class Transcript(NamedTuple):
    """The complete output of a side reader for some octets, in comparable form."""

    rows: list[tuple[int, int, int, int]]
    events: list[Greeting | Command | Remark]
    regimes: list[tuple[int, Regime]]
    repeats: dict[str, tuple[int, int | None]]
    skipped: list[tuple[int, int, str, bool]]
    position: int
    state: tuple[Any, ...]

    @property
    def findings(self) -> list[Finding]:
        return [finding for event in self.events for finding in event.findings]


def passed_over(skipped: Skipped) -> list[tuple[int, int, str, bool]]:
    """Return the skipped octets, one by one if each is separate: start, stop, reason, whether between units."""
    why = skipped.reason, skipped.between_units
    stretches = list(zip(*(skipped.runs or ([skipped.start], [skipped.stop])), strict=True))
    if skipped.single:
        return [(start, stop, *why) for start, stop in stretches]
    return [(place, place + 1, *why) for start, stop in stretches for place in range(start, stop)]


def transcript(side: SideReader) -> Transcript:
    """Take the output of `side`, which must not have been taken before."""
    return Transcript(
        side.frames.rows(),
        side.events,
        side.regimes,
        side.repeats,
        [stretch for each in side.skipped for stretch in passed_over(each)],
        side.position,
        (
            side.regime,
            side.broken,
            side.opaque,
            side.unreliable_from,
            side.message_open,
            side.socket_type,
            side.identity,
            side.mechanism,
            side.as_server,
            side.handshake_done,
            side.error_seen,
            side.role,
        ),
    )


def feed(side: SideReader, octets: bytes, cuts: Iterable[int] = (), *, over: bool = True) -> Transcript:
    """Feed `octets` in the chunks that end at `cuts`, as a block reader does: unread octets are fed again."""
    start = side.position
    for cut in [*sorted(cuts), len(octets)]:
        at = min(side.position - start, cut)
        side.read(octets[at:cut], start + at)
    if over:
        side.finish(start + len(octets))
    return transcript(side)


def units(parsed: Transcript, regimes: Sequence[tuple[int, Regime]]) -> list[Unit]:
    """Return all greetings, commands and frames, in stream order."""
    found = [
        Unit(event.start, event.stop, event.regime, False)
        for event in parsed.events
        if not isinstance(event, Remark) or not (event.frame or event.start == event.stop)
    ]
    inside = False
    for offset, body, size, flags in parsed.rows:
        regime = [each for start, each in regimes if start <= offset][-1]
        found.append(Unit(offset, body + size, regime, inside))
        inside = bool(flags & 1)
    return sorted(found, key=lambda unit: unit.start)


def trees(parsed: Transcript, octets: bytes, base: int = 0) -> list[FieldNode]:
    """Return the field tree of every unit; `octets[0]` has stream offset `base`."""
    return [
        field_tree(unit.regime, octets[unit.start - base : unit.stop - base], unit.start, inside=unit.inside)
        for unit in units(parsed, parsed.regimes)
        if unit.start >= base
    ]
