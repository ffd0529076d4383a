"""Replace one side of a capture by our peer: it receives the octets of the other side, and must send the octets that
were captured.

Every octet is compared, in order, with two exceptions, in which the protocol leaves a peer free. The boundaries of
pieces are not compared, except that no piece may need octets of the other side that had not arrived: octets are
received and sent in the order of the capture. And a peer that would not use an older version anyway may leave the
padding of its signature zero (wire.md 9.1), which ours does and libzmq never does. With PLAIN two more octets differ:
as-server is 1 if we are the server (D1), and the name of an ERROR is not mangled (D23).
"""

from __future__ import annotations

import pytest

from tests.readings import ALL_TRUTHS
from tests.replay import Dialogue, acts_of, dialogues, settings_for
from zmtpscope.zmtp.peer import Message, Peer, PlainClient, PlainServer, Ready, Refused, Security, Settings

OLD_TYPES = {"dealerrouter": ("DEALER", "ROUTER"), "pubsub": ("SUB", "PUB"), "pushpull": ("PUSH", "PULL")}
OLD_TYPES |= {"reqrep": ("REQ", "REP"), "pair": ("PAIR", "PAIR")}
"""Socket types of the connecting and the binding side, by the name of a capture, because 1.0 does not contain them."""

NOT_LIBZMQ = {"implementations/azmq-req": 0, "implementations/zmq4-push": 0}
"""Sides of other programs, with a padding of their own; the opposite sides are libzmq."""

PADDING = slice(1, 9)
AS_SERVER = 32

LARGEST_OCTETWISE = 5000

REAL = [
    (dialogue, side)
    for truth in ALL_TRUTHS
    if truth.name.split("/")[0] in ("versions", "patterns", "implementations")
    for dialogue in dialogues(truth.name)
    for side in (0, 1)
    if dialogue.connection["transport"] == "tcp" and dialogue.connection["mechanism"] in (None, "NULL")
    if NOT_LIBZMQ.get(truth.name) != side
]


def types_of(dialogue: Dialogue) -> tuple[str, str]:
    types = dialogue.connection["socket_type_0"], dialogue.connection["socket_type_1"]
    return types if None not in types else OLD_TYPES[dialogue.capture.split("/")[1].split("-")[0]]


def replay(dialogue: Dialogue, side: int, settings: Settings, *, octetwise: bool = False) -> tuple[Peer, bytes]:
    """Return a peer in the place of `side`, and all octets that it sent. `octetwise`: it receives octet by octet."""
    peer = Peer(settings, 0.0)
    acts = acts_of(dialogue, side, settings.socket_type)
    sent = [peer.outgoing()]
    for segment in dialogue.segments:
        while acts and acts[0][0] <= segment.packet and peer.ready:
            (_, act) = acts.pop(0)
            arguments = (0.0, *act.arguments) if act.what == "ping" else act.arguments
            assert getattr(peer, act.what)(*arguments) is not False
        if segment.side != side:
            size = 1 if octetwise else len(segment.octets)
            for start in range(0, len(segment.octets), size):
                peer.receive(segment.octets[start : start + size], 0.0)
        sent.append(peer.outgoing())
    assert not acts
    peer.end()
    return peer, b"".join(sent)


def octets_sent(dialogue: Dialogue, side: int, settings: Settings) -> bytes:
    """Return the octets of `side` in a capture, except octets that our peer may send differently."""
    octets = bytearray(dialogue.stream(side))
    if (settings.oldest or "") >= "3.0":
        octets[PADDING] = bytes(8)
    if settings.security.role == "server":
        octets[AS_SERVER] = 1
    return bytes(octets)


@pytest.mark.parametrize(("dialogue", "side"), REAL, ids=lambda value: getattr(value, "capture", value))
def test_our_peer_sends_the_captured_octets(dialogue: Dialogue, side: int) -> None:
    settings = settings_for(dialogue, side, types_of(dialogue)[side])
    expected = octets_sent(dialogue, side, settings)
    peer, sent = replay(dialogue, side, settings)
    assert sent == expected
    ready, *events = peer.events()
    assert isinstance(ready, Ready)
    if settings.socket_type in ("DEALER", "ROUTER", "PULL", "SUB", "DISH", "PAIR"):
        received = [each.parts for each in events if isinstance(each, Message)]
        assert received == [each["bodies"] for each in dialogue.of(1 - side, "message") if each["kind"] == "data"]
    if len(dialogue.stream(1 - side)) < LARGEST_OCTETWISE:
        assert replay(dialogue, side, settings, octetwise=True)[1] == expected


def test_libzmq_occurs_in_every_version_and_both_roles() -> None:
    """The selection of captures is not empty."""
    names = {(dialogue.capture.removeprefix("versions/dealerrouter-"), side) for dialogue, side in REAL}
    pairs = ("bind2.2.0-conn4.3.5", "bind4.3.5-conn2.2.0", "bind3.2.5-conn4.3.5", "bind4.3.5-conn3.2.5")
    assert {(pair, side) for pair in (*pairs, "bind4.0.10-conn4.3.5") for side in (0, 1)} <= names
    assert len(REAL) > 100


def security_of(dialogue: Dialogue) -> tuple[Security, Security]:
    """Return client and server settings of PLAIN, the server with the password of the accepted login."""
    (hello,) = [record for record in dialogue.of(0, "command") if record["name"] == "HELLO"]
    client = PlainClient(hello["username"], hello["password"])
    return client, PlainServer(lambda username, password: "refused" not in dialogue.capture and password == "s3cret")


@pytest.mark.parametrize("side", [0, 1], ids=["client", "server"])
@pytest.mark.parametrize("capture", ["plain-accepted", "plain-dealer-router"])
def test_plain(capture: str, side: int) -> None:
    (dialogue,) = dialogues(f"security/{capture}")
    security = security_of(dialogue)[side]
    settings = settings_for(dialogue, side, ("DEALER", "ROUTER")[side], security=security)
    assert replay(dialogue, side, settings)[1] == octets_sent(dialogue, side, settings)


@pytest.mark.parametrize("side", [0, 1], ids=["client", "server"])
@pytest.mark.parametrize("capture", ["plain-refused-4.1.8", "plain-refused-4.3.5", "plain-wrong-password"])
def test_plain_refused(capture: str, side: int) -> None:
    """As client we accept either spelling of ERROR; as server we send that of the specification."""
    (dialogue,) = dialogues(f"security/{capture}")
    settings = settings_for(dialogue, side, ("DEALER", "ROUTER")[side], security=security_of(dialogue)[side])
    peer = Peer(settings, 0.0)
    sent = [peer.outgoing()]
    *earlier, last = [segment.octets for segment in dialogue.segments if segment.side != side]
    for octets in earlier:
        peer.receive(octets, 0.0)
        sent.append(peer.outgoing())
    with pytest.raises(Refused, match="400" if side == 0 else "the login of 'admin'"):
        peer.receive(last, 0.0)
    sent.append(peer.outgoing())
    expected = octets_sent(dialogue, side, settings)
    assert b"".join(sent) == expected.replace(b"\x04\x09^RROR\x03400", b"\x04\x0a\x05ERROR\x03400")
