"""Send arbitrary octets in arbitrary pieces: a peer ends with a `PeerError` or continues, and holds no more than its
limits."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import peers, strategies
from tests.curve import CurvePeers, secret
from tests.curve import frame as curve_frame
from tests.peer_octets import command
from tests.peers import (
    CLIENT_SECRET,
    SECURITY,
    SERVER_KEY,
    SERVER_SECRET,
    VERSIONS,
    Draw,
    Meeting,
    Network,
    met,
    of_the_vector,
    secured,
    send,
)
from tests.zmtp.sides import MANY
from zmtpscope import curve_crypto
from zmtpscope.zmtp import memberships, z85
from zmtpscope.zmtp.content import LARGEST_AWAITED_TOPIC
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.mechanisms.curve import BOXES, WELCOME_SIZE
from zmtpscope.zmtp.peer import (
    CurveClient,
    CurveServer,
    Heartbeat,
    Limits,
    Message,
    NotZmtp,
    Peer,
    PeerError,
    PlainClient,
    Ready,
    Settings,
    TooSlow,
    Violation,
)
from zmtpscope.zmtp.peer.greeting import GreetingSender
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.side import SideReader


def feed(peer: Peer, octets: bytes, cuts: list[int]) -> PeerError | None:
    """Feed octets in the pieces between `cuts`, then the end of the stream and enough time; return the error, if
    any."""
    edges = [0, *sorted(cut for cut in cuts if cut <= len(octets)), len(octets)]
    try:
        for start, stop in pairwise(edges):
            peer.receive(octets[start:stop], 0.0)
        peer.end()
        peer.tick(3600.0)
    except PeerError as error:
        return error
    return None


@st.composite
def listeners(draw: Draw) -> Settings:
    """Draw a socket of any type."""
    mechanism = draw(st.sampled_from(["NULL", "NULL", "PLAIN", "CURVE"]))
    return draw(peers.settings_pairs(mechanism))[draw(st.integers(0, 1))]


@MANY
@given(settings=listeners(), data=st.data())
def test_any_input_is_accepted(settings: Settings, data: st.DataObject) -> None:
    octets = data.draw(strategies.damaged_sides()).octets
    peer = Peer(settings, 0.0)
    error = feed(peer, octets, data.draw(strategies.cuts(len(octets))))
    assert_orderly(peer, error)


@MANY
@given(mechanism=st.sampled_from(sorted(SECURITY)), side=st.integers(0, 1), data=st.data())
def test_a_dialogue_may_be_damaged_anywhere(mechanism: str, side: int, data: st.DataObject) -> None:
    """The other side is a real peer up to a random octet, and then sends damaged octets."""
    settings = data.draw(peers.settings_pairs(mechanism))
    acts = data.draw(peers.scripts(*settings)), data.draw(peers.scripts(*reversed(settings)))
    meeting = peers.talk(settings, acts, Network(data.draw(st.integers(0, 9)), (40, 200), 5))
    octets = bytes(meeting.streams[1 - side])
    keep = data.draw(st.integers(0, len(octets)))
    damaged = octets[:keep] + data.draw(strategies.damaged(octets[keep:]))
    peer = Peer(settings[side], 0.0)
    error = feed(peer, damaged, data.draw(strategies.cuts(len(damaged))))
    assert_orderly(peer, error)


def assert_orderly(peer: Peer, error: PeerError | None) -> None:
    """Messages follow only after Ready. An error has a text, and it contains no terminal control characters."""
    events = peer.events()
    assert sum(isinstance(event, Ready) for event in events) == peer.ready
    assert not events or isinstance(events[0], Ready)
    assert error is None or (str(error) and str(error).isprintable())


def refusal(peer: Peer, octets: bytes) -> PeerError:
    with pytest.raises(PeerError) as raised:
        peer.receive(octets, 0.0)
    return raised.value


def frame(body: bytes, *, more: bool = False) -> bytes:
    return build_frame(Framing.V2, body, more=more)


def error_text(error: PeerError) -> str:
    return f"{type(error).__name__}: {error}"


# -- limits ------------------------------------------------------------------------------------------------------------

LIMIT = 100_000
SMALL = Settings("DEALER", limits=Limits(message=LIMIT))


def listening(settings: Settings = SMALL, other: str = "ROUTER") -> Peer:
    """Return a peer that has completed its handshake."""
    return met(settings, Settings(other)).peers[0]


@pytest.mark.parametrize("size", [LIMIT, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("flags", [b"\x02", b"\x03", b"\x06"])
def test_a_message_announced_too_large_is_not_awaited(flags: bytes, size: int) -> None:
    assert isinstance(refusal(listening(), flags + max(size, 2**21).to_bytes(8, "big") + bytes(256)), Violation)


def test_a_message_may_be_as_large_as_the_limit() -> None:
    """Each part counts for a little more than its octets, so that many empty parts have a cost too."""
    listening().receive(frame(bytes(LIMIT - 64)), 0.0)
    assert "larger than the limit of 100000 octets" in str(refusal(listening(), frame(bytes(LIMIT - 63))))
    listening().receive(frame(b"", more=True) * (LIMIT // 64), 0.0)
    assert isinstance(refusal(listening(), frame(b"", more=True) * (LIMIT // 64 + 1)), Violation)


ANNOUNCED_READY = build_greeting_3("NULL") + b"\x06" + (2**20 - 20).to_bytes(8, "big") + b"\5READY"
LONG_IDENTITY = b"\xff" + (2**31).to_bytes(8, "big") + b"\0"
NAMES = [f"{number:x}".rjust(240, "-") for number in range(5000)]
VOLUME = 2 << 20

ENDLESS: dict[str, tuple[Callable[[], Peer], bytes, bytes, type[PeerError] | None]] = {
    "an identity": (lambda: Peer(SMALL, 0.0), LONG_IDENTITY, b"a", NotZmtp),
    "a READY": (lambda: Peer(SMALL, 0.0), ANNOUNCED_READY, b"\1aaa\0\0\0\0", Violation),
    "parts of a message": (listening, b"", frame(b"x", more=True), Violation),
    "messages": (listening, b"", frame(bytes(100)), None),
    "PONGs": (listening, b"", command("NULL", "PONG", context=b"x" * 100), None),
    "PINGs": (listening, b"", command("NULL", "PING", ttl_ms=0, context=b"x" * 100), None),
    "subscriptions of one topic": (
        lambda: listening(Settings("PUB"), "SUB"),
        b"",
        command("NULL", "SUBSCRIBE", topic="a" * 200),
        None,
    ),
    "subscriptions": (
        lambda: listening(Settings("PUB"), "SUB"),
        b"",
        b"".join(command("NULL", "SUBSCRIBE", topic=name) for name in NAMES),
        Violation,
    ),
    "joins": (
        lambda: listening(Settings("RADIO"), "DISH"),
        b"",
        b"".join(command("NULL", "JOIN", group=name) for name in NAMES),
        Violation,
    ),
}
"""Endless input by name: the listener, the first octets, the repeated octets, and the expected end."""


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_octets_are_not_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2 MiB a peer holds less than its limits: 100,000 octets of a message, 64 KiB of an identity, 1 MiB of a
    handshake command or of names."""
    monkeypatch.setattr(memberships, "LARGEST_MEMORY", 1 << 20)
    make, first, again, kind = ENDLESS[name]
    octets = (first + again * (VOLUME // len(again)))[:VOLUME]
    peer = make()
    error = None
    try:
        for start in range(0, VOLUME, 16_384):
            peer.receive(octets[start : start + 16_384], 0.0)
            peer.events()
            peer.outgoing()
    except PeerError as raised:
        error = raised
    assert len(pickle.dumps(peer)) < 3 << 19
    assert kind is None if error is None else kind is not None and isinstance(error, kind)


def test_a_peer_that_asks_for_too_much_gets_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memberships, "LARGEST_MEMORY", 1 << 20)
    asks = b"".join(command("NULL", "SUBSCRIBE", topic=f"{number:06x}") for number in range(5000))
    error = refusal(listening(Settings("PUB"), "SUB"), asks)
    violation = "Violation: the other side subscribed to more topics than the limit: they need more than 1 MiB"
    assert error_text(error) == violation


@pytest.mark.parametrize("version", ["3.0", "3.1"])
def test_a_peer_that_asks_for_too_long_a_topic_gets_the_limit(version: str) -> None:
    topic = b"a" * (LARGEST_AWAITED_TOPIC + 1)
    asks = frame(b"\1" + topic) if version == "3.0" else command("NULL", "SUBSCRIBE", topic=topic.decode())
    error = refusal(listening(Settings("PUB", version=version), "SUB"), asks)
    assert error_text(error) == "Violation: the other side subscribed to a topic of more than 64 KiB"


DRIBBLED: dict[str, tuple[Callable[[], Peer], bytes]] = {
    "an identity of 1.0": (lambda: Peer(SMALL, 0.0), b"\xff" + (40_001).to_bytes(8, "big") + b"\0" + b"a" * 40_000),
    "a READY": (
        lambda: Peer(SMALL, 0.0),
        build_greeting_3("NULL") + b"\x06" + (2**20 - 20).to_bytes(8, "big") + b"\5READY" + bytes(40_000),
    ),
    "a PING": (listening, b"\x06" + (2**20 - 20).to_bytes(8, "big") + b"\4PING" + bytes(40_000)),
    "a subscription": (
        lambda: listening(Settings("PUB", version="3.0"), "SUB"),
        b"\x02" + (40_001).to_bytes(8, "big") + b"\1" + bytes(40_000),
    ),
    "a message": (listening, b"\x02" + (99_000).to_bytes(8, "big") + bytes(40_000)),
    "parts of a message": (listening, frame(bytes(100), more=True) * 400),
    "messages": (listening, frame(bytes(100)) * 400),
}
"""Input that arrives octet by octet, by name: the listener and the octets."""


@pytest.mark.parametrize("name", DRIBBLED)
def test_single_octets_are_examined_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the octets that are examined in vain: less than 100 times the input. Quadratic cost would be 20,000
    times."""
    make, octets = DRIBBLED[name]
    peer = make()
    looked = 0

    def counting(look: Callable[..., Any]) -> Callable[..., Any]:
        def counted(self: object, octets: bytes, *arguments: Any) -> Any:
            nonlocal looked
            looked += len(octets)
            return look(self, octets, *arguments)

        return counted

    monkeypatch.setattr(SideReader, "read", counting(SideReader.read))
    monkeypatch.setattr(GreetingSender, "answer", counting(GreetingSender.answer))
    with contextlib.suppress(Violation):
        for octet in octets:
            peer.receive(bytes((octet,)), 0.0)
    assert looked <= 100 * len(octets)


def test_errors_are_no_way_to_a_terminal() -> None:
    """Errors contain no control characters for any data of the other side."""
    error = refusal(Peer(Settings("PULL"), 0.0), build_greeting_3("\x1b[31m\u202e\n"))
    assert str(error) == r"the other side uses mechanism \x1b[31m\u202e\n, and this side NULL"


# -- the end, at any octet
# -----------------------------------------------------------------------------------------------

NOTHING = "ClosedHalfWay: the other side closed without sending data"
GREETING = "ClosedHalfWay: the other side closed after {} of its greeting"
SIGNATURE = (
    "Mismatch: the other side closed after {} of its greeting: it probably requires another version of ZMTP than "
)
MESSAGE = "ClosedHalfWay: the other side closed inside a message"
CUT = "ClosedHalfWay: the other side closed inside a command, before its {} was complete"
WITHOUT = "the other side closed after our {}, without sending {}"
ORDERLY = "an orderly end"

OLD_ENDS = [(0, NOTHING), (1, GREETING)]
MODERN = [*OLD_ENDS, (10, SIGNATURE + "3.1, or another mechanism than NULL")]
PLAIN = [*OLD_ENDS, (10, SIGNATURE + "3.1, or another mechanism than PLAIN")]
CURVE = [*OLD_ENDS, (10, SIGNATURE + "3.1, or another mechanism than CURVE")]

ENDS: dict[str, tuple[Callable[[], tuple[Settings, Settings]], int, list[tuple[int, str]]]] = {
    "1.0": (
        lambda: (Settings("DEALER", version="1.0"), Settings("ROUTER", version="1.0")),
        0,
        [*OLD_ENDS, (2, ORDERLY), (3, MESSAGE), (16, ORDERLY)],
    ),
    "3.1 facing 1.0": (
        lambda: (Settings("DEALER"), Settings("ROUTER", version="1.0", identity="abc")),
        0,
        [*OLD_ENDS, (5, ORDERLY), (6, MESSAGE), (19, ORDERLY)],
    ),
    "2.0": (
        lambda: (Settings("DEALER", version="2.0"), Settings("ROUTER", version="2.0", identity="abc")),
        0,
        [*OLD_ENDS, (10, SIGNATURE + "2.0"), (11, GREETING), (17, ORDERLY), (18, MESSAGE), (31, ORDERLY)],
    ),
    "NULL": (
        lambda: (Settings("DEALER"), Settings("ROUTER")),
        0,
        [
            *MODERN,
            (64, f"UnfitSocketType: {WITHOUT.format('READY', 'READY')}: it probably does not accept a DEALER socket"),
            (65, CUT.format("READY")),
            (107, ORDERLY),
            (108, MESSAGE),
            (121, ORDERLY),
        ],
    ),
    "PLAIN client": (
        lambda: secured("PLAIN"),
        0,
        [
            *PLAIN,
            (
                64,
                f"Refused: {WITHOUT.format('HELLO', 'WELCOME')}: libzmq closes if no ZAP handler checks "
                "logins, other peers if the login is wrong",
            ),
            (65, CUT.format("WELCOME")),
            (
                74,
                f"UnfitSocketType: {WITHOUT.format('INITIATE', 'READY')}: it probably does not accept a DEALER socket",
            ),
            (75, CUT.format("READY")),
            (117, ORDERLY),
            (118, MESSAGE),
            (131, ORDERLY),
        ],
    ),
    "PLAIN server": (
        lambda: secured("PLAIN"),
        1,
        [
            *PLAIN,
            (64, "ClosedHalfWay: the other side closed after the greetings, without sending HELLO"),
            (65, CUT.format("HELLO")),
            (85, f"ClosedHalfWay: {WITHOUT.format('WELCOME', 'INITIATE')}"),
            (86, CUT.format("INITIATE")),
            (131, ORDERLY),
            (132, MESSAGE),
            (145, ORDERLY),
        ],
    ),
    "CURVE client": (
        of_the_vector,
        0,
        [
            *CURVE,
            (64, f"Refused: {WITHOUT.format('HELLO', 'WELCOME')}: the server key probably belongs to another server"),
            (65, CUT.format("WELCOME")),
            (
                234,
                f"UnfitSocketType: {WITHOUT.format('INITIATE', 'READY')}: it probably does not accept a DEALER socket, "
                "or our key",
            ),
            (235, CUT.format("READY")),
            (301, ORDERLY),
            (302, MESSAGE),
            (381, ORDERLY),
        ],
    ),
    "CURVE server": (
        of_the_vector,
        1,
        [
            *CURVE,
            (64, "ClosedHalfWay: the other side closed after the greetings, without sending HELLO"),
            (65, CUT.format("HELLO")),
            (266, f"ClosedHalfWay: {WITHOUT.format('WELCOME', 'INITIATE')}"),
            (267, CUT.format("INITIATE")),
            (567, ORDERLY),
            (568, MESSAGE),
            (647, ORDERLY),
        ],
    ),
}
"""By dialogue: the two sides, which of them listens, and its error if the stream ends from each of these octets on."""


@pytest.mark.parametrize("name", ENDS)
def test_the_other_side_may_close_behind_any_octet(name: str) -> None:
    settings, side, expected = ENDS[name]
    meeting = met(*settings())
    meeting.act(1 - side, send(b"hello", b"world"))
    octets = bytes(meeting.streams[1 - side])
    for size in range(len(octets) + 1):
        peer = Peer(settings()[side], 0.0)
        peer.receive(octets[:size], 0.0)
        (*_, sentence) = [sentence for start, sentence in expected if start <= size]
        if sentence is ORDERLY:
            peer.end()
            continue
        with pytest.raises(PeerError) as raised:
            peer.end()
        assert error_text(raised.value) == sentence.format("1 octet" if size == 1 else f"{size} octets")
    assert expected[-1] == (len(octets), ORDERLY)


@pytest.mark.parametrize("mechanism", ["NULL", "PLAIN"])
def test_an_error_may_arrive_behind_ready(mechanism: str) -> None:
    """A side that sends READY at once learns only afterwards that it rejects the other side: the error is the
    reason, not the order of commands."""
    peer = met(*secured(mechanism)).peers[0]
    error = refusal(peer, command(mechanism, "ERROR", reason="Invalid socket type"))
    last = "READY" if mechanism == "NULL" else "INITIATE"
    assert error_text(error) == f"UnfitSocketType: the other side answered {last} with ERROR 'Invalid socket type'"


def test_an_error_in_clear_means_nothing_where_all_else_is_sealed() -> None:
    error = refusal(met(*secured("CURVE")).peers[0], command("CURVE", "ERROR", reason="400"))
    assert isinstance(error, Violation)


# -- two incompatible peers
# ------------------------------------------------------------------------------------------------


def quarrel(first: Settings, second: Settings) -> tuple[Meeting, list[str | None]]:
    """Return all octets that two incompatible peers send, and the error of each."""
    meeting = Meeting(first, second)
    errors: list[str | None] = [None, None]
    for _ in range(10):
        for side in (0, 1):
            if errors[1 - side] is None and meeting.under_way(side):
                try:
                    meeting.arrive(side, meeting.under_way(side))
                except PeerError as error:
                    errors[1 - side] = error_text(error)
                    meeting.streams[1 - side].extend(meeting.peers[1 - side].outgoing())
    for side in (0, 1):
        if errors[side] is None:
            with pytest.raises(PeerError) as raised:
                meeting.peers[side].tick(30.0) if errors == [None, None] else meeting.peers[side].end()
            errors[side] = error_text(raised.value)
    assert not meeting.ready
    return meeting, errors


def denied(command_name: str) -> str:
    return f"Refused: the other side answered {command_name} with ERROR '400': authentication refused"


PLAIN_CLIENT, PLAIN_SERVER = SECURITY["PLAIN"]
CURVE_CLIENT, CURVE_SERVER = SECURITY["CURVE"]
STRANGER, OTHER_SERVER = secret("stranger"), curve_crypto.public_key(secret("other server"))
NO_MECHANISM = "Mismatch: the other side uses mechanism {}, and this side {}"
BOTH_CLIENTS = "Mismatch: both sides act as the client of the {} handshake"
UNFIT = "UnfitSocketType: the other side is {}, which {} cannot connect to; {} may"
INVALID = "UnfitSocketType: the other side answered INITIATE with ERROR 'Invalid socket type'"
NO_HELLO = "TooSlow: the other side did not send its HELLO within 30 s: it may be a server, like this side"
NO_HELLO_CAME = "ClosedHalfWay: the other side closed after the greetings, without sending HELLO"
NOTHING_NEWER = "Mismatch: the other side requires ZMTP {} or newer, and this side supports at most {}"
NOTHING_OLDER = "Mismatch: the other side speaks ZMTP {}, and this side requires {} or newer"

QUARRELS: dict[str, tuple[Settings, Settings, str, str]] = {
    "a wrong mechanism": (
        Settings("DEALER"),
        Settings("ROUTER", PLAIN_SERVER),
        NO_MECHANISM.format("PLAIN", "NULL"),
        NO_MECHANISM.format("NULL", "PLAIN"),
    ),
    "another wrong mechanism": (
        Settings("DEALER", CURVE_CLIENT),
        Settings("ROUTER", PLAIN_SERVER),
        NO_MECHANISM.format("PLAIN", "CURVE"),
        NO_MECHANISM.format("CURVE", "PLAIN"),
    ),
    "a wrong password": (
        Settings("DEALER", PlainClient("admin", "guess")),
        Settings("ROUTER", PLAIN_SERVER),
        denied("HELLO"),
        "Refused: the login of 'admin' was refused",
    ),
    "a wrong server key": (
        Settings("DEALER", CurveClient(OTHER_SERVER, CLIENT_SECRET, curve_crypto)),
        Settings("ROUTER", CURVE_SERVER),
        denied("HELLO"),
        "Refused: the box of HELLO does not decrypt: it is encrypted for another server key",
    ),
    "a client key that is not accepted": (
        Settings("DEALER", CurveClient(SERVER_KEY, STRANGER, curve_crypto)),
        Settings("ROUTER", CURVE_SERVER),
        denied("INITIATE"),
        f"Refused: the client key {z85.encode(curve_crypto.public_key(STRANGER))} is not accepted",
    ),
    "two clients of PLAIN": (
        Settings("DEALER", PLAIN_CLIENT),
        Settings("ROUTER", PLAIN_CLIENT),
        BOTH_CLIENTS.format("PLAIN"),
        BOTH_CLIENTS.format("PLAIN"),
    ),
    "two clients of CURVE": (
        Settings("DEALER", CURVE_CLIENT),
        Settings("ROUTER", CURVE_CLIENT),
        BOTH_CLIENTS.format("CURVE"),
        BOTH_CLIENTS.format("CURVE"),
    ),
    "two servers of PLAIN": (
        Settings("DEALER", PLAIN_SERVER),
        Settings("ROUTER", PLAIN_SERVER),
        NO_HELLO,
        NO_HELLO_CAME,
    ),
    "two servers of CURVE": (
        Settings("DEALER", CURVE_SERVER),
        Settings("ROUTER", CURVE_SERVER),
        NO_HELLO,
        NO_HELLO_CAME,
    ),
    "unfit socket types, NULL": (
        Settings("PUSH"),
        Settings("REP"),
        UNFIT.format("REP", "PUSH", "DEALER or REQ"),
        UNFIT.format("PUSH", "REP", "PULL"),
    ),
    "unfit socket types, 2.0": (
        Settings("PUSH", version="2.0"),
        Settings("REP"),
        UNFIT.format("REP", "PUSH", "DEALER or REQ"),
        UNFIT.format("PUSH", "REP", "PULL"),
    ),
    "unfit socket types, PLAIN": (
        Settings("PUSH", PLAIN_CLIENT),
        Settings("REP", PLAIN_SERVER),
        INVALID,
        UNFIT.format("PUSH", "REP", "PULL"),
    ),
    "unfit socket types, CURVE": (
        Settings("ROUTER", CURVE_CLIENT),
        Settings("CLIENT", CURVE_SERVER),
        INVALID,
        UNFIT.format("ROUTER", "CLIENT", "DEALER, REQ or ROUTER"),
    ),
    "security and a version without": (
        Settings("DEALER", version="1.0"),
        Settings("ROUTER", CURVE_SERVER),
        NOTHING_NEWER.format("2.0", "1.0"),
        NOTHING_OLDER.format("1.0", "3.0"),
    ),
}
"""By mistake: the two sides, and the error of each."""


@pytest.mark.parametrize("name", QUARRELS)
def test_a_peer_that_cannot_continue_sends_the_reason(name: str) -> None:
    """Both sides report the mistake, as far as they can know it."""
    *settings, first, second = QUARRELS[name]
    _, errors = quarrel(*settings)
    assert errors == [first, second]


@pytest.mark.parametrize("name", [name for name in QUARRELS if "mechanism" in name])
def test_another_mechanism_gets_only_the_greeting(name: str) -> None:
    """No password and no key is sent; but the greeting is completed, so that the other side knows too (D31)."""
    meeting, _ = quarrel(*QUARRELS[name][:2])
    assert [len(stream) for stream in meeting.streams] == [64, 64]


DISAGREEMENTS = [
    (first, second)
    for first, second in product([(new, old) for new in VERSIONS for old in VERSIONS if old <= new], repeat=2)
    if max(first[1], second[1]) > min(first[0], second[0])
]
"""Newest and oldest versions of two sides without a common version."""


@pytest.mark.parametrize(("first", "second"), DISAGREEMENTS, ids="-".join)
def test_versions_that_cannot_agree(first: tuple[str, str], second: tuple[str, str]) -> None:
    """One of them reports it, and neither is ready with a version that it rejects."""
    both = [
        Settings(socket_type, version=newest, oldest=oldest)
        for socket_type, (newest, oldest) in zip(("DEALER", "ROUTER"), (first, second), strict=True)
    ]
    meeting, errors = quarrel(*both)
    assert any((error or "").startswith("Mismatch: the other side ") for error in errors)
    assert not any(peer.ready for peer in meeting.peers)


ALIENS = {
    b"GET / HTTP/1.1\r\nHost: here\r\n\r\n": "'GET / HTTP/1.1', which is HTTP",
    b"HTTP/1.1 400 Bad Request\r\n": "'HTTP/1.1 400 Bad Request', which is HTTP",
    b"\x16\3\1\2\0\1\0\1\xfc\3\3": "16 03 01 02 00 01 00 01 fc 03 03, which is TLS",
    b"\x15\3\3\0\2\2\x28": "15 03 03 00 02 02 28, which is TLS",
    b"SSH-2.0-OpenSSH_9.2\r\n": "'SSH-2.0-OpenSSH_9.2', which is SSH",
    b"220 mail ready\r\n": "'220 mail ready'",
    b"\xff\xfd\x18\xff\xfd\x20\xff\xfd\x23\xff\xfd": "ff fd 18 ff fd 20 ff fd 23 ff fd",
    b"\0\0\0\0": "00 00 00 00",
}


@pytest.mark.parametrize("version", ["3.1", "2.0", "1.0"])
@pytest.mark.parametrize("octets", ALIENS, ids=ALIENS.values())
def test_other_protocols_are_distinguished(octets: bytes, version: str) -> None:
    settings = Settings("DEALER", version=version)
    error = refusal(Peer(settings, 0.0), octets)
    assert error_text(error) == f"NotZmtp: the other side does not speak ZMTP: its first octets are {ALIENS[octets]}"
    assert isinstance(feed(Peer(settings, 0.0), octets, list(range(1, len(octets)))), NotZmtp)


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "octets", "sentence"),
    [
        (Settings("DEALER"), b"", "the other side sent no data within 5 s"),
        (Settings("DEALER"), b"\xff", "the other side sent only part of its greeting within 5 s"),
        (Settings("DEALER"), build_greeting_3("NULL"), "the other side did not send its READY within 5 s"),
        (
            Settings("DEALER", PLAIN_CLIENT),
            build_greeting_3("PLAIN"),
            "the other side did not send its WELCOME within 5 s",
        ),
    ],
)
def test_a_handshake_that_does_not_continue(settings: Settings, octets: bytes, sentence: str) -> None:
    """The time limit counts from the start, even if octets arrive slowly all the time."""
    peer = Peer(replace(settings, limits=Limits(handshake=5.0)), 100.0)
    for place, octet in enumerate(octets):
        peer.receive(bytes([octet]), 100.0 + 4.9 * place / len(octets))
        peer.tick(100.0 + 4.9 * place / len(octets))
    assert peer.deadline == 105.0
    with pytest.raises(TooSlow) as raised:
        peer.tick(105.0)
    assert str(raised.value) == sentence


def test_a_peer_that_asked_to_be_missed_is_missed() -> None:
    """After a PING with a TTL and silence the connection ends when the TTL has passed, not before."""
    peer = listening()
    peer.receive(command("NULL", "PING", ttl_ms=700, context=b""), 10.0)
    assert peer.deadline == 10.7
    peer.tick(10.6)
    peer.receive(frame(b"alive"), 10.6)
    assert peer.deadline == 10.6 + 0.7
    with pytest.raises(TooSlow, match=r"silent for longer than the 0\.7 s of its own PING"):
        peer.tick(11.4)


def test_a_ttl_of_zero_takes_it_back() -> None:
    peer = listening()
    peer.receive(command("NULL", "PING", ttl_ms=700, context=b""), 10.0)
    peer.receive(command("NULL", "PING", ttl_ms=0, context=b""), 10.0)
    assert peer.deadline is None
    peer.tick(1e9)


def test_heartbeats_that_are_not_answered() -> None:
    """A PING is sent at each interval. Silence for the timeout after a PING ends the connection; any octet counts as
    an answer."""
    peer = listening(Settings("DEALER", heartbeat=Heartbeat(2.0, 0.5, 10.0)))
    ping = command("NULL", "PING", ttl_ms=10_000, context=b"")
    peer.outgoing()
    peer.tick(1.9)
    assert peer.outgoing() == b""
    assert peer.deadline == 2.0
    peer.tick(2.0)
    assert peer.outgoing() == ping
    assert peer.deadline == 2.5
    peer.receive(frame(bytes(100))[:1], 2.4)
    assert peer.deadline == 4.0
    peer.tick(4.0)
    assert peer.outgoing() == ping
    with pytest.raises(TooSlow, match=r"no data for 0\.5 s after our PING"):
        peer.tick(4.5)


# -- impossible settings
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: CurveClient(b"short", CLIENT_SECRET, curve_crypto), "a CURVE key has 32 octets"),
        (lambda: CurveServer(b"short", curve_crypto), "a CURVE key has 32 octets"),
        (lambda: CurveClient(bytes(32), CLIENT_SECRET, curve_crypto), "the server key is of low order"),
        (lambda: Settings("DEALER", properties=(("", "x"),)), "not a valid name for an application property"),
        (
            lambda: Settings("DEALER", properties=(("X-" + "x" * 254, "x"),)),
            "not a valid name for an application property",
        ),
        (lambda: Settings("DEALER", properties=(("a b", "x"),)), "not a valid name for an application property"),
        (
            lambda: Settings("DEALER", properties=(("socket-type", "x"),)),
            "not a valid name for an application property",
        ),
        (lambda: Settings("DEALER", heartbeat=Heartbeat(0.0, 1.0)), "must be above 0 s"),
        (lambda: Settings("DEALER", heartbeat=Heartbeat(1.0, 1.0, 6554.0)), "at most 6553.5 s"),
        (lambda: Settings("DEALER", PLAIN_CLIENT, version="2.0"), "the mechanism PLAIN needs ZMTP 3.0"),
        (lambda: Settings("RADIO", oldest="2.0"), "the socket type RADIO needs ZMTP 3.0"),
        (lambda: Settings("DEALER", identity="\0a"), "must not begin with a zero octet"),
        (lambda: Settings("STREAM"), "is not a socket type"),
        (lambda: listening().send([b"x"], [b"A"]), "no envelope"),
        (lambda: listening(Settings("REP"), "REQ").send([b"x"], [b"A", b""]), "an empty address"),
        (lambda: listening(Settings("PULL"), "PUSH").send([b"x"]), "sends no messages"),
        (lambda: listening().subscribe(b""), "has no subscriptions"),
        (lambda: Peer(Settings("DEALER"), 0.0).send([b"x"]), "before the handshake is complete"),
    ],
)
def test_impossible_settings_are_refused_at_once(make: Callable[[], object], why: str) -> None:
    """`ValueError` is raised before anything is sent: a `PeerError` is for mistakes of the other side."""
    with pytest.raises(ValueError, match=why):
        make()


# -- clients of CURVE that cheat ---------------------------------------------------------------------------------------


def curve_server() -> Peer:
    """Return a server that admits every client that proves its key."""
    return Peer(Settings("ROUTER", CurveServer(SERVER_SECRET, curve_crypto)), 0.0)


def initiating(peer: Peer) -> CurvePeers:
    """Return a hand-written client that has received the WELCOME of a server."""
    client = CurvePeers(s=SERVER_SECRET, c=CLIENT_SECRET)
    peer.receive(build_greeting_3("CURVE") + curve_frame(client.hello()), 0.0)
    welcome = peer.outgoing()[-WELCOME_SIZE:]
    box = BOXES["WELCOME"]
    key = curve_crypto.shared_key(SERVER_KEY, client.c_transient)
    assert key is not None
    content = curve_crypto.open_box(welcome[box.start :], box.prefix + welcome[box.nonce], key)
    assert content is not None
    client.S_transient, client.welcome_cookie = content[:32], content[32:]
    shared = curve_crypto.shared_key(client.S_transient, client.c_transient)
    assert shared is not None
    client.k = shared
    return client


def test_a_client_that_proves_everything_is_accepted() -> None:
    peer = curve_server()
    client = initiating(peer)
    peer.receive(curve_frame(client.initiate(cookie=client.welcome_cookie, socket_type="DEALER")), 0.0)
    peer.receive(client.messages(0, b"hello"), 0.0)
    assert peer.events()[1:] == [Message([b"hello"])]


def test_a_client_has_to_return_the_cookie() -> None:
    peer = curve_server()
    client = initiating(peer)
    cookie = client.welcome_cookie[:-1] + bytes([client.welcome_cookie[-1] ^ 1])
    error = refusal(peer, curve_frame(client.initiate(cookie=cookie, socket_type="DEALER")))
    assert error_text(error) == "Refused: the INITIATE does not return the cookie of the WELCOME"


@pytest.mark.parametrize("cheat", ["another key", "another server", "another connection"])
def test_a_client_has_to_hold_the_key_that_it_names(cheat: str) -> None:
    """The vouch must be made with the client's own key, for this connection and this server."""
    peer = curve_server()
    client = initiating(peer)
    named = {
        "another key": client.C_transient + SERVER_KEY,
        "another server": client.C_transient + OTHER_SERVER,
        "another connection": bytes(32) + SERVER_KEY,
    }[cheat]
    if cheat == "another key":
        client.C = curve_crypto.public_key(STRANGER)
    error = refusal(peer, curve_frame(client.initiate(vouch=named, cookie=client.welcome_cookie, socket_type="DEALER")))
    assert error_text(error) == "Refused: the vouch of the INITIATE does not name this client and server"


def test_keys_of_low_order_prove_nothing() -> None:
    peer = curve_server()
    client = initiating(peer)
    client.C = bytes(32)
    error = refusal(peer, curve_frame(client.initiate(cookie=client.welcome_cookie, socket_type="DEALER")))
    assert "low order" in error_text(error)
    hello = command("CURVE", "HELLO", client_key=bytes(32), nonce=1, box=bytes(80))
    assert "low order" in error_text(refusal(curve_server(), build_greeting_3("CURVE") + hello))


def test_a_sealed_message_counts_once() -> None:
    """A box that is sent again, changed or replaced by plain text ends the connection."""
    for spoil, why in (
        (lambda message: message * 2, "CURVE-07"),
        (lambda message: message[:-1] + bytes([message[-1] ^ 1]), "does not decrypt"),
        (lambda message: message + frame(b"in clear"), "CURVE-09"),
    ):
        peer = curve_server()
        client = initiating(peer)
        peer.receive(curve_frame(client.initiate(cookie=client.welcome_cookie, socket_type="DEALER")), 0.0)
        assert why in str(refusal(peer, spoil(client.messages(0, b"hello"))))
