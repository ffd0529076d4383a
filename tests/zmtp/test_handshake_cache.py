"""Sides that begin alike: what is taken over from an earlier one is what reading would have said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.strategies import Side
from tests.zmtp.sides import MANY, command, feed
from zmtpscope.zmtp.events import Command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.handshake_cache import LARGEST_UNIT, MAX_CACHED, CachedUnit
from zmtpscope.zmtp.regime import Form, Framing
from zmtpscope.zmtp.side import CACHES, SideReader


@pytest.fixture(autouse=True)
def _nothing_met() -> None:
    CACHES.clear()


def kept() -> list[CachedUnit]:
    """Everything that is kept of the sides read so far."""

    def below(cache: Iterable[CachedUnit]) -> Iterator[CachedUnit]:
        for unit in cache:
            yield unit
            yield from below(unit.cache)

    return [unit for cache in CACHES.values() for unit in below(cache)]


@MANY
@given(side=strategies.damaged_sides(), data=st.data())
def test_sides_that_begin_alike_are_told_alike(side: Side, data: st.DataObject) -> None:
    """The second and third time the same octets say the same, whatever the sides before went on to do."""
    CACHES.clear()
    cuts = data.draw(strategies.cuts(len(side.octets)))
    first = feed(SideReader(side.form, side.version), side.octets)
    assert feed(SideReader(side.form, side.version), side.octets, cuts) == first
    assert feed(SideReader(side.form, side.version), side.octets) == first


def test_the_second_side_takes_over() -> None:
    """Greeting and READY of another side with the same octets are not read again: their events are the same objects."""
    octets = build_greeting_3() + command("NULL", "READY", socket_type="PUSH") + build_frame(Framing.V2, b"body")
    first, second = (feed(SideReader(Form.GREETING_3, "3.1"), octets) for _ in range(2))
    assert len(first.events) == 2
    assert all(one is other for one, other in zip(first.events, second.events, strict=True))


def test_versions_are_kept_apart() -> None:
    """The same octets say something else where another version is in force."""
    octets = build_greeting_3() + command("NULL", "READY", socket_type="RADIO")
    found = {
        version: [each.id for each in feed(SideReader(Form.GREETING_3, version), octets).findings]
        for version in ("3.1", "3.0")
    }
    assert found == {"3.1": [], "3.0": ["ZMTP3X-META-07"]}


def test_what_may_be_secret_is_not_kept() -> None:
    """Of PLAIN, CURVE and GSSAPI only greetings are kept."""
    hello = command("PLAIN", "HELLO", username="me", password="secret")
    for mechanism in ("PLAIN", "CURVE", "GSSAPI"):
        octets = build_greeting_3(mechanism) + hello + command("PLAIN", "INITIATE", socket_type="PUSH")
        feed(SideReader(Form.GREETING_3, "3.1"), octets)
    assert {unit.octets for unit in kept()} == {build_greeting_3(each) for each in ("PLAIN", "CURVE", "GSSAPI")}


def test_little_is_kept() -> None:
    """However many sides begin differently, few units are kept, the latest: none that is large or of one sender."""
    for number in range(100):
        named = [{"name": "Socket-Type", "value": "PUSH"}, {"name": "X-Name", "value": f"client {number}"}]
        ready = command("NULL", "READY", metadata=named)
        for padding in (number, 0):
            feed(SideReader(Form.GREETING_3, "3.1"), build_greeting_3(padding=padding) + ready)
    assert len(kept()) <= MAX_CACHED * (1 + MAX_CACHED)
    large = command("NULL", "READY", metadata=[*named, {"name": "X-Much", "value": "x" * LARGEST_UNIT}])
    identified = command("NULL", "READY", socket_type="DEALER", identity="me")
    for last in (large, identified, ready):
        feed(SideReader(Form.GREETING_3, "3.1"), build_greeting_3() + last)
    assert not {large, identified} & {unit.octets for unit in kept()}
    assert ready in [unit.octets for unit in kept() if isinstance(unit.event, Command)]
