"""The order in which a peer sends the octets of its greeting and its handshake (wire.md 8.1, 9.1): never before it
may."""

from __future__ import annotations

import pytest

from tests.peer_octets import ready
from tests.peers import SECURITY
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_1, build_greeting_2, build_greeting_3
from zmtpscope.zmtp.peer import Peer, Settings
from zmtpscope.zmtp.regime import Framing

NEW, THREE = build_greeting_3("NULL", padding=1), build_greeting_3("NULL", version="3.0")
TWO, ONE = build_greeting_2("ROUTER", "me", padding=3), build_greeting_1("me")
FIRST, OCTET_10, ALL_3, ALL_2, ALL_1 = 10, 11, 64, 14, 2
READY = len(ready("DEALER", identity=""))

SAID: dict[str, tuple[dict[str, str], bytes, list[tuple[int, int]]]] = {
    "3.1, facing 3.1": ({}, NEW, [(0, FIRST), (10, OCTET_10), (11, ALL_3), (64, ALL_3 + READY)]),
    "3.1, facing 3.0": ({}, THREE, [(0, FIRST), (10, OCTET_10), (11, ALL_3), (64, ALL_3 + READY)]),
    "3.0, facing 3.1": ({"version": "3.0"}, NEW, [(0, FIRST), (10, OCTET_10), (11, ALL_3), (64, ALL_3 + READY)]),
    "3.1, facing 2.0": ({}, TWO, [(0, FIRST), (10, OCTET_10), (11, ALL_2)]),
    "3.1, facing 1.0": ({}, ONE, [(0, FIRST), (4, FIRST)]),
    "3.1 to 2.0, facing 3.1": ({"oldest": "2.0"}, NEW, [(0, OCTET_10), (11, ALL_3), (64, ALL_3 + READY)]),
    "3.1 to 2.0, facing 2.0": ({"oldest": "2.0"}, TWO, [(0, OCTET_10), (11, ALL_2)]),
    "3.1 to 3.0, facing 3.1": ({"oldest": "3.0"}, NEW, [(0, ALL_3), (64, ALL_3 + READY)]),
    "2.0, facing 3.1": ({"version": "2.0"}, TWO, [(0, FIRST), (10, ALL_2)]),
    "2.0 to 2.0, facing 2.0": ({"version": "2.0", "oldest": "2.0"}, TWO, [(0, ALL_2)]),
    "1.0, facing 1.0": ({"version": "1.0"}, ONE, [(0, ALL_1)]),
    "1.0, facing 3.1": ({"version": "1.0"}, NEW[:10], [(0, ALL_1)]),
}
"""By versions: our settings, the greeting of the other side, and the number of octets sent after each of its octets."""


@pytest.mark.parametrize("name", SAID)
def test_octets_that_rule_a_version_out_are_sent_in_time(name: str) -> None:
    """Octet 10 rules out 1.0 and octet 11 rules out 2.0, so each waits for the other side; READY of NULL waits for
    its greeting, but not for its READY."""
    more, greeting, expected = SAID[name]
    peer = Peer(Settings("DEALER", **more), 0.0)
    sent = len(peer.outgoing())
    for count in range(len(greeting) + 1):
        if count:
            peer.receive(greeting[count - 1 : count], 0.0)
            sent += len(peer.outgoing())
        assert sent == [size for start, size in expected if start <= count][-1]


@pytest.mark.parametrize("name", SAID)
def test_sent_octets_do_not_depend_on_pieces(name: str) -> None:
    more, greeting, _ = SAID[name]
    sent = []
    for size in (1, 7, len(greeting)):
        peer = Peer(Settings("DEALER", **more), 0.0)
        for start in range(0, len(greeting), size):
            peer.receive(greeting[start : start + size], 0.0)
        sent.append(peer.outgoing())
    assert sent[0] == sent[1] == sent[2]


def test_a_1_0_peer_may_send_a_lot_at_once() -> None:
    """It does not wait: identity and messages may arrive before our greeting is sent."""
    messages = build_frame(Framing.V1, bytes(1000)) * 100
    peer = Peer(Settings("PULL"), 0.0)
    peer.receive(ONE + messages, 0.0)
    assert peer.version == "1.0"
    assert len(peer.events()) == 101


@pytest.mark.parametrize("mechanism", ["PLAIN", "CURVE"])
@pytest.mark.parametrize("role", [0, 1], ids=["client", "server"])
def test_only_clients_begin_the_handshake(mechanism: str, role: int) -> None:
    """They begin only when they know that the mechanism is theirs: HELLO of PLAIN holds a password."""
    peer = Peer(Settings("DEALER", SECURITY[mechanism][role]), 0.0)
    greeting = build_greeting_3(mechanism)
    peer.receive(greeting[:63], 0.0)
    assert len(peer.outgoing()) == ALL_3
    peer.receive(greeting[63:], 0.0)
    hello = peer.outgoing()
    assert hello[2:8] == b"\5HELLO" if role == 0 else hello == b""
    with pytest.raises(ValueError, match="before the handshake is complete"):
        peer.send([b"too early"])
