"""A peer that does not announce its socket type before it knows the type of the other side."""

from __future__ import annotations

import functools

import pytest

from tests.peer_octets import command
from tests.peers import secured
from zmtpscope.zmtp.peer import Message, Peer, PeerError, Ready, Settings, UnfitSocketType


def meet(*peers: Peer) -> None:
    """Carry octets in both directions until no peer has more to send."""
    while any(octets := [peer.outgoing() for peer in peers]):
        for peer, received in zip(peers, reversed(octets), strict=True):
            if received:
                peer.receive(received, 0.0)


@pytest.mark.parametrize("version", ["3.0", "3.1"])
def test_receives_the_socket_type_before_it_sends_its_own(version: str) -> None:
    one, other = Peer(Settings("REQ"), 0.0, waits=True), Peer(Settings("PUB", version=version), 0.0)
    meet(one, other)
    assert one.facts["socket_type"] == "PUB"
    assert not one.ready
    assert not other.ready
    assert other.greeting is not None

    one.introduce("SUB")
    meet(one, other)
    assert one.events() == [Ready(version, "NULL", "PUB", None, (("Socket-Type", "PUB"),))]
    assert [event.socket_type for event in other.events() if isinstance(event, Ready)] == ["SUB"]
    one.subscribe(b"")
    meet(one, other)
    other.send([b"news"])
    meet(one, other)
    assert one.events() == [Message([b"news"])]


def test_may_introduce_itself_first() -> None:
    one, other = Peer(Settings("REQ"), 0.0, waits=True), Peer(Settings("PUB"), 0.0, waits=True)
    meet(one, other)
    assert not one.facts
    one.introduce("SUB")
    meet(one, other)
    assert other.facts["socket_type"] == "SUB"
    other.introduce("XPUB")
    meet(one, other)
    assert one.ready
    assert other.ready


def test_an_introduction_that_does_not_fit() -> None:
    one, other = Peer(Settings("REQ"), 0.0, waits=True), Peer(Settings("PUSH"), 0.0)
    meet(one, other)
    with pytest.raises(UnfitSocketType, match="the other side is PUSH, which SUB cannot connect to; PULL may"):
        one.introduce("SUB")


def test_octets_after_ready_may_arrive_before_the_introduction() -> None:
    one, other = Peer(Settings("REQ"), 0.0, waits=True), Peer(Settings("SUB"), 0.0)
    meet(one, other)
    one.receive(bytes.fromhex("04 0a 09") + b"SUBSCRIBE", 0.0)
    one.introduce("PUB")
    meet(one, other)
    assert one.ready
    assert one.send([b"news"])


def test_waits_with_the_greeting_of_2_0() -> None:
    one, other = Peer(Settings("REQ"), 0.0, waits=True), Peer(Settings("DEALER", identity="me", version="2.0"), 0.0)
    meet(one, other)
    assert one.version is None
    assert not other.ready
    one.introduce("ROUTER")
    meet(one, other)
    assert one.events() == [Ready("2.0", None, "DEALER", "me", ())]
    assert [event.socket_type for event in other.events() if isinstance(event, Ready)] == ["ROUTER"]


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("1.0", "the other side speaks ZMTP 1.0, which has no RADIO sockets"),
        ("2.0", "the other side speaks ZMTP 2.0, and this side requires 3.0 or newer"),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_a_draft_type_does_not_fit_old_versions(version: str, why: str, first: bool) -> None:
    """The version of the other side may be known by then or not."""
    one, other = Peer(Settings("PUB"), 0.0, waits=True), Peer(Settings("SUB", version=version), 0.0)
    if not first:
        meet(one, other)
    act = functools.partial(one.introduce, "RADIO")
    if first:
        act()
        act, why = functools.partial(meet, one, other), "and this side requires 3.0 or newer"
    with pytest.raises(PeerError, match=why):
        act()


def test_nothing_is_sent_before_ready() -> None:
    """Not even to an impatient PING, which is no more than a sign of life until then."""
    one, other = Peer(Settings("REQ"), 0.0, waits=True), Peer(Settings("DEALER"), 0.0)
    meet(one, other)
    one.receive(command("NULL", "PING", ttl_ms=0, context=b"early"), 0.0)
    assert one.outgoing() == b""
    one.introduce("ROUTER")
    assert one.outgoing().startswith(command("NULL", "READY", socket_type="ROUTER", identity=""))


@pytest.mark.parametrize("mechanism", ["PLAIN", "CURVE"])
@pytest.mark.parametrize("role", [0, 1], ids=["client", "server"])
@pytest.mark.parametrize("greeted", [False, True])
def test_waits_in_every_role(mechanism: str, role: int, greeted: bool) -> None:
    """A server may have heard HELLO by the time it is introduced, and owes the answer."""
    settings = secured(mechanism, "DEALER", "DEALER")
    one, other = Peer(settings[role], 0.0, waits=True), Peer(settings[1 - role], 0.0)
    if greeted:
        meet(one, other)
    one.introduce("ROUTER")
    meet(one, other)
    assert [event.socket_type for event in other.events() if isinstance(event, Ready)] == ["ROUTER"]
