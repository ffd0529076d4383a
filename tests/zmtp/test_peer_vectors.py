"""Feed the byte vectors to a peer: it must accept or reject them, and send the octets of the vectors itself."""

from __future__ import annotations

import pytest

from tests import curve_vector
from tests.peers import SERVER_SECRET, Act, met, of_the_vector, send
from tests.zmtp.sides import EARLIER_STEP
from tests.zmtp.test_vectors import TCP, Vector
from zmtpscope import curve_crypto
from zmtpscope.findings import FINDINGS
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.peer import (
    CurveClient,
    CurveServer,
    Heartbeat,
    Message,
    Peer,
    PeerError,
    PlainClient,
    PlainServer,
    Refused,
    Security,
    Settings,
    UnfitSocketType,
)
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.socket_types import PEERS

BY_ID: dict[str, Vector] = {vector["id"]: vector for vector in TCP}

KEYS = CurveClient(curve_vector.SERVER.public, curve_vector.CLIENT.secret, curve_crypto)
SENDERS = {b"SUBSCRIBE": "SUB", b"CANCEL": "SUB", b"JOIN": "DISH", b"LEAVE": "DISH"}


def octets_of(name: str) -> bytes:
    return bytes.fromhex(BY_ID[name]["hex"])


def opposite(socket_type: str) -> str:
    """Return a socket type that accepts messages of this one."""
    return {"REQ": "ROUTER", "REP": "DEALER", "DEALER": "ROUTER", "ROUTER": "DEALER"}.get(socket_type) or min(
        PEERS[socket_type]
    )


def sender_of(vector: Vector) -> str:
    octets = bytes.fromhex(vector["hex"])
    commands = [sender for name, sender in SENDERS.items() if octets[3:].startswith(name) or name in octets[:24]]
    context = vector.get("context", {})
    types = [value["value"] for value in vector["expect"]["fields"] if value["value"] in PEERS]
    return str(context.get("sender_socket_type") or next(iter([*commands, *types]), "DEALER"))


def settings_facing(vector: Vector) -> Settings:
    version = {"3.x": "3.1", "3.0-early": "3.0"}.get(vector["version"], vector["version"])
    context = vector.get("context", {})
    mechanism = context.get("mechanism", "NULL")
    for each in vector["expect"]["fields"]:
        if each["name"] == "zmtp.mechanism" and each["value"] in ("PLAIN", "CURVE"):
            mechanism = each["value"]
    names = [each["value"] for each in vector["expect"]["fields"] if each["name"] == "zmtp.command.name"]
    to_server = names[:1] in (["HELLO"], ["INITIATE"]) or vector["id"] == "V-PLAIN-10"
    security: Security = Settings("PAIR").security
    if mechanism == "PLAIN":
        security = PlainServer(lambda username, password: True) if to_server else PlainClient("", "")
    elif mechanism == "CURVE":
        security = CurveServer(SERVER_SECRET, curve_crypto) if to_server else KEYS
    ours = context.get("other_side_socket_type") or opposite(sender_of(vector))
    return Settings(ours, security, version=version)


def state_of(vector: Vector) -> Peer:
    """Return a peer that has received the octets before a vector."""
    ours = settings_facing(vector)
    if vector["state"] == "traffic":
        sender = sender_of(vector)
        return met(ours, Settings(sender, version=ours.version)).peers[0]
    peer = Peer(ours, 0.0)
    if vector["state"] == "handshake":
        mechanism = ours.security.mechanism
        names = [each["value"] for each in vector["expect"]["fields"] if each["name"] == "zmtp.command.name"]
        earlier = EARLIER_STEP.get((mechanism, *names[:1]), b"")
        peer.receive(build_greeting_3(mechanism, version=ours.version) + earlier, 0.0)
    return peer


def is_wrong(vector: Vector) -> bool:
    """Whether a vector contains octets that its sender must not send."""
    return any(error["severity"] == "error" for error in vector["expect"]["errors"])


NOT_BELIEVED = {"V10-GREET-06"}
"""Nearly all octets could be a 1.0 identity; with flags that no implementation sends they are not taken for one."""

FED = [
    vector
    for vector in TCP
    if vector.get("context", {}).get("mechanism") != "GSSAPI" and "keys" not in vector.get("context", {})
]
"""Vectors for any peer; the vectors of CURVE belong to one dialogue, which is below."""


@pytest.mark.parametrize("octetwise", [False, True], ids=["whole", "octetwise"])
@pytest.mark.parametrize("vector", FED, ids=lambda vector: vector["id"])
def test_a_peer_takes_what_is_right_and_refuses_what_is_wrong(vector: Vector, octetwise: bool) -> None:
    """An error in a reader ends the connection, and so does an ERROR; nothing else does."""
    peer = state_of(vector)
    octets = bytes.fromhex(vector["hex"])
    refused = None
    try:
        for start in range(len(octets)) if octetwise else (0,):
            peer.receive(octets[start : start + 1] if octetwise else octets, 0.0)
    except PeerError as error:
        refused = error
    if "ERROR" in vector["id"] or vector["id"] == "V-PLAIN-09":
        assert isinstance(refused, Refused | UnfitSocketType)
    else:
        assert (refused is not None) == (is_wrong(vector) or vector["id"] in NOT_BELIEVED)


def test_errors_have_the_words_of_the_finding() -> None:
    """The error contains the text of the finding, its id and the offset in the stream."""
    greeting = len(met(Settings("ROUTER"), Settings("DEALER")).streams[1])
    peer = state_of(BY_ID["V31-MSG-08"])
    with pytest.raises(PeerError) as raised:
        peer.receive(octets_of("V31-MSG-08"), 0.0)
    name = "ZMTP3X-FRAME-01"
    assert str(raised.value) == f"{FINDINGS[name].text} ({name}, octet {greeting} of its stream)"


# -- vectors that we send ----------------------------------------------------------------------------------------------

DEALER, ROUTER, PUB, SUB = Settings("DEALER"), Settings("ROUTER"), Settings("PUB"), Settings("SUB")
OLD, TWO, THREE = ({"version": version, "oldest": version} for version in ("1.0", "2.0", "3.0"))
ADMIN = PlainClient("admin", "secret")
NOBODY = PlainServer(lambda username, password: True)


def old(socket_type: str, identity: str = "") -> Settings:
    return Settings(socket_type, identity=identity, **OLD)


def two(socket_type: str, identity: str = "") -> Settings:
    return Settings(socket_type, identity=identity, **TWO)


def filler(name: str, size: int) -> bytes:
    """Return the body of this size at the end of a vector."""
    return octets_of(name)[-size:]


SAID: dict[str, tuple[Settings, Settings, Act | None]] = {
    "V10-GREET-01": (old("DEALER"), old("ROUTER"), None),
    "V10-GREET-02": (old("DEALER", "abcd"), old("ROUTER"), None),
    "V10-GREET-04": (old("DEALER", "a" * 254), old("ROUTER"), None),
    "V10-GREET-07": (Settings("DEALER"), old("ROUTER"), None),
    "V10-GREET-08": (Settings("DEALER", identity="SRV"), old("ROUTER"), None),
    "V10-FRAME-01": (old("DEALER"), old("ROUTER"), send(b"hello")),
    "V10-FRAME-02": (old("REQ"), old("ROUTER"), send(b"hi")),
    "V10-FRAME-03": (old("DEALER"), old("ROUTER"), send(filler("V10-FRAME-03", 253))),
    "V10-FRAME-04": (old("DEALER"), old("ROUTER"), send(filler("V10-FRAME-04", 254))),
    "V20-GREET-01": (two("DEALER"), two("ROUTER"), None),
    "V20-GREET-02": (two("ROUTER", "abc"), two("DEALER"), None),
    "V20-GREET-04": (two("XPUB"), two("SUB"), None),
    "V20-GREET-05": (Settings("ROUTER", oldest="2.0"), two("DEALER"), None),
    "V20-FRAME-01": (two("DEALER"), two("ROUTER"), send(b"hello")),
    "V20-FRAME-02": (two("DEALER"), two("ROUTER"), send(b"a", b"b")),
    "V20-FRAME-03": (two("DEALER"), two("ROUTER"), send(filler("V20-FRAME-03", 256))),
    "V20-SUB-01": (two("SUB"), two("PUB"), Act("subscribe", (b"A",))),
    "V20-SUB-02": (two("SUB"), two("PUB"), Act("cancel", (b"A",))),
    "V30-GREET-01": (Settings("DEALER", **THREE), ROUTER, None),
    "V31-GREET-01": (Settings("DEALER", oldest="3.0"), ROUTER, None),
    "V31-GREET-02": (Settings("DEALER", oldest="2.0"), ROUTER, None),
    "V31-GREET-03": (Settings("DEALER", identity="abcde"), ROUTER, None),
    "V31-GREET-07": (Settings("ROUTER", NOBODY), Settings("DEALER", ADMIN), None),
    "V31-GREET-08": (
        Settings("DEALER", KEYS),
        Settings("ROUTER", CurveServer(curve_vector.SERVER.secret, curve_crypto)),
        None,
    ),
    "V31-READY-01": (DEALER, ROUTER, None),
    "V31-READY-05": (Settings("DEALER", identity="i" * 255), ROUTER, None),
    "V31-MSG-01": (DEALER, ROUTER, send(b"")),
    "V31-MSG-02": (Settings("REQ"), ROUTER, send(b"hello")),
    "V31-MSG-03": (DEALER, ROUTER, send(filler("V31-MSG-03", 255))),
    "V31-MSG-04": (DEALER, ROUTER, send(filler("V31-MSG-04", 256))),
    "V31-MSG-09": (DEALER, ROUTER, send(b"a", b"b" * 300, b"c")),
    "V31-MSG-12": (Settings("REP"), DEALER, send(b"rep", envelope=(b"A", b"B"))),
    "V31-SUB-01": (SUB, PUB, Act("subscribe", (b"AB",))),
    "V31-SUB-02": (SUB, PUB, Act("subscribe", (b"",))),
    "V31-SUB-03": (SUB, PUB, Act("cancel", (b"AB",))),
    "V31-SUB-04": (SUB, PUB, Act("subscribe", (filler("V31-SUB-04", 246),))),
    "V31-SUB-05": (Settings("XSUB"), Settings("XPUB"), send(b"\1A")),
    "V30-SUB-01": (SUB, Settings("PUB", version="3.0"), Act("subscribe", (b"AB",))),
    "V30-SUB-02": (SUB, Settings("PUB", version="3.0"), Act("subscribe", (b"",))),
    "V31-PING-01": (DEALER, ROUTER, Act("ping", (b"",))),
    "V31-PING-02": (Settings("DEALER", heartbeat=Heartbeat(1, 1, 30)), ROUTER, Act("ping", (b"abc",))),
    "V31-PING-03": (DEALER, ROUTER, Act("ping", (b"0123456789abcdef",))),
    "V31-PING-06": (Settings("DEALER", heartbeat=Heartbeat(1, 1, 6553.5)), ROUTER, Act("ping", (b"",))),
    "V31-GROUP-01": (Settings("DISH"), Settings("RADIO"), Act("join", ("news",))),
    "V31-GROUP-02": (Settings("DISH"), Settings("RADIO"), Act("leave", ("news",))),
    "V-PLAIN-01": (Settings("DEALER", ADMIN), Settings("ROUTER", NOBODY), None),
    "V-PLAIN-02": (Settings("DEALER", PlainClient("", "")), Settings("ROUTER", NOBODY), None),
    "V-PLAIN-03": (Settings("ROUTER", NOBODY), Settings("DEALER", ADMIN), None),
}
"""By vector: the two sides, and the action that sends it, if it is not the handshake."""


@pytest.mark.parametrize("name", SAID)
def test_a_peer_sends_the_vector(name: str) -> None:
    ours, theirs, act = SAID[name]
    meeting = met(ours, theirs)
    before = len(meeting.streams[0])
    if act is not None:
        meeting.act(0, act)
        assert meeting.streams[0][before:] == octets_of(name)
    else:
        assert octets_of(name) in meeting.streams[0]


# -- the vector of CURVE (curve.md 8) ----------------------------------------------------------------------------------


def in_message_frame(name: str) -> bytes:
    """Return a MESSAGE of the vectors with the outer flags that libzmq expects (D2)."""
    return b"\0" + octets_of(name)[1:]


def test_two_peers_send_the_curve_vector() -> None:
    meeting = met(*of_the_vector())
    greeting = len(build_greeting_3("CURVE"))
    hello, initiate = octets_of("V-CURVE-01"), octets_of("V-CURVE-03")
    assert meeting.streams[0][greeting:] == hello + initiate
    welcome, ready = octets_of("V-CURVE-02"), bytes(meeting.streams[1][greeting + 170 :])
    assert meeting.streams[1][greeting : greeting + 170] == welcome
    # The vector's ROUTER sends no Identity; ours does, as libzmq does.
    nonce = b"CurveZMQREADY---" + ready[8:16]
    assert curve_crypto.open_box(ready[16:], nonce, curve_vector.SHARED) == (
        curve_vector.SERVER_METADATA + b"\x08Identity\0\0\0\0"
    )
    meeting.act(0, send(b"hello"))
    assert meeting.streams[0].endswith(octets_of("V-CURVE-06"))
    assert octets_of("V-CURVE-06") == in_message_frame("V-CURVE-05")
    meeting.act(1, send(b"part-1", b"part-2"))
    second = build_frame(Framing.V2, bytes.fromhex(PART_2))
    assert meeting.streams[1].endswith(in_message_frame("V-CURVE-07") + second)
    meeting.act(0, Act("ping", (b"",)))
    assert meeting.streams[0].endswith(octets_of("V-CURVE-08"))
    meeting.settle()
    assert meeting.messages(0) == [Message([b"part-1", b"part-2"])]
    assert meeting.messages(1) == [Message([b"hello"])]


PART_2 = "074d4553534147450000000000000003c0e884260e0f9bd2ab345d80b14d260e8a64a3b1ff8218"
"""The server's second MESSAGE in curve.md 8."""


def test_a_message_in_a_command_frame_is_taken_too() -> None:
    """The specification defines MESSAGE as a command, libzmq sends it as a message; V-CURVE-05 is the form of other
    implementations."""
    meeting = met(*of_the_vector())
    meeting.peers[1].receive(octets_of("V-CURVE-05"), 0.0)
    assert Message([b"hello"]) in meeting.peers[1].events()


@pytest.mark.parametrize("name", ["V-CURVE-09", "V-CURVE-10"])
def test_a_hello_that_is_none_is_refused(name: str) -> None:
    peer = Peer(Settings("ROUTER", CurveServer(curve_vector.SERVER.secret, curve_crypto)), 0.0)
    with pytest.raises(PeerError, match=r"CURVE-0[12]"):
        peer.receive(build_greeting_3("CURVE") + octets_of(name), 0.0)


def test_a_message_that_is_too_short_for_a_box_is_refused() -> None:
    meeting = met(*of_the_vector())
    with pytest.raises(PeerError, match="CURVE-06"):
        meeting.peers[1].receive(octets_of("V-CURVE-11"), 0.0)
