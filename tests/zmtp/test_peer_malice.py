"""Whatever comes, in whatever pieces: a peer ends with a `PeerError` or goes on, and keeps no more than its limits."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import peers, strategies
from tests.peers import CLIENT_SECRET, SECURITY, SERVER_KEY, Act, Meeting, Network, allows, met, of_the_vector, secured, send
from tests.peers import Draw
from tests.zmtp.sides import MANY, command
from zmtpscope import curve_crypto
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.memberships import Memberships
from zmtpscope.zmtp.peer import (
    ClosedHalfWay,
    CurveClient,
    Heartbeat,
    Limits,
    Message,
    Mismatch,
    NotZmtp,
    Peer,
    PeerError,
    PeerEvent,
    PlainClient,
    Ready,
    Refused,
    Settings,
    TooSlow,
    UnfitSocketType,
    Violation,
)
from zmtpscope.zmtp.regime import Framing


def feed(peer: Peer, octets: bytes, cuts: list[int]) -> PeerError | None:
    """Give octets in the pieces between `cuts`, then the end of the stream and time enough; the error that came."""
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
    """Any socket."""
    mechanism = draw(st.sampled_from(["NULL", "NULL", "PLAIN", "CURVE"]))
    return draw(peers.settings_pairs(mechanism))[draw(st.integers(0, 1))]


@MANY
@given(settings=listeners(), data=st.data())
def test_anything_may_come(settings: Settings, data: st.DataObject) -> None:
    octets = data.draw(strategies.damaged_sides()).octets
    peer = Peer(settings, 0.0)
    error = feed(peer, octets, data.draw(strategies.cuts(len(octets))))
    assert_orderly(peer, error)


@MANY
@given(mechanism=st.sampled_from(sorted(SECURITY)), side=st.integers(0, 1), data=st.data())
def test_a_dialogue_may_be_damaged_anywhere(mechanism: str, side: int, data: st.DataObject) -> None:
    """The other side is a real one up to some octet, and changes what it likes from there on."""
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
    """Messages come behind Ready only; an error says something."""
    events = peer.events()
    assert sum(isinstance(event, Ready) for event in events) == peer.ready
    assert not events or isinstance(events[0], Ready)
    assert error is None or str(error)


def refusal(peer: Peer, octets: bytes) -> PeerError:
    """What a peer raises when these octets come."""
    with pytest.raises(PeerError) as raised:
        peer.receive(octets, 0.0)
    return raised.value


def frame(body: bytes, *, more: bool = False) -> bytes:
    return build_frame(Framing.V2, body, more=more)


def said(error: PeerError) -> str:
    return f"{type(error).__name__}: {error}"


# -- limits ------------------------------------------------------------------------------------------------------------

LIMIT = 100_000
SMALL = Settings("DEALER", limits=Limits(message=LIMIT))


def listening(settings: Settings = SMALL, other: str = "ROUTER") -> Peer:
    """A peer behind its handshake."""
    return met(settings, Settings(other)).peers[0]


@pytest.mark.parametrize("size", [LIMIT, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("flags", [b"\x02", b"\x03", b"\x06"])
def test_what_is_announced_too_large_is_not_waited_for(flags: bytes, size: int) -> None:
    assert isinstance(refusal(listening(), flags + max(size, 2**21).to_bytes(8, "big") + bytes(256)), Violation)


def test_a_message_may_be_as_large_as_the_limit() -> None:
    """Each part counts for a little more than its octets, so many empty ones do not come for nothing."""
    listening().receive(frame(bytes(LIMIT - 64)), 0.0)
    assert "more than 100000 octets" in str(refusal(listening(), frame(bytes(LIMIT - 63))))
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
    "messages": (listening, b"", frame(b"x"), None),
    "PONGs": (listening, b"", command("NULL", "PONG", context=b""), None),
    "PINGs": (listening, b"", command("NULL", "PING", ttl_ms=0, context=b"x" * 16), None),
    "subscriptions of one topic": (
        lambda: listening(Settings("PUB"), "SUB"),
        b"",
        command("NULL", "SUBSCRIBE", topic="a"),
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
"""By what comes without end: who listens, what comes first, and again and again; how it ends."""


@pytest.mark.parametrize("name", ENDLESS)
def test_what_comes_without_end_is_not_kept(name: str) -> None:
    """2 MiB come; what a peer keeps of them is less than its limits say: 100,000 octets of a message, 64 KiB of an
    identity, 1 MiB of a handshake command or of names."""
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


def test_a_publisher_is_not_slowed_down_by_changes_of_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each subscription and cancel changes what is wanted, and nothing of the others is looked at for that."""
    looked: list[str] = []
    look = Memberships.open
    monkeypatch.setattr(Memberships, "open", lambda self, what: looked.append(what) or look(self, what))
    meeting = met(Settings("PUB"), Settings("SUB"))
    meeting.act(1, Act("subscribe", (b"a",)))
    meeting.settle()
    for topic in (b"b", b"bc", b""):
        assert not meeting.peers[0].send([b"bcd"])
        meeting.act(1, Act("subscribe", (topic,)))
        meeting.act(1, Act("subscribe", (topic,)))
        meeting.settle()
        assert meeting.peers[0].send([b"bcd"])
        meeting.act(1, Act("cancel", (topic,)))
        meeting.settle()
        assert meeting.peers[0].send([b"bcd"])
        meeting.act(1, Act("cancel", (topic,)))
        meeting.settle()
    assert looked == ["topic"]


# -- the end, anywhere -------------------------------------------------------------------------------------------------

NOTHING = "ClosedHalfWay: the other side closed without having sent an octet"
GREETING = "ClosedHalfWay: the other side closed after {} of its greeting"
SIGNATURE = "Mismatch: the other side closed after {} of its greeting: it probably wants another version of ZMTP than "
MESSAGE = "ClosedHalfWay: the other side closed in the middle of a message"
CUT = "ClosedHalfWay: the other side closed in the middle of a command, where its {} was due"
WITHOUT = "the other side closed when it had our {}, without its {}"
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
            (64, f"UnfitSocketType: {WITHOUT.format('READY', 'READY')}: it probably takes no DEALER socket"),
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
            (64, f"Refused: {WITHOUT.format('HELLO', 'WELCOME')}: libzmq does so where nobody checks logins, others "
                 "where the login is wrong"),
            (65, CUT.format("WELCOME")),
            (74, f"UnfitSocketType: {WITHOUT.format('INITIATE', 'READY')}: it probably takes no DEALER socket"),
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
            (64, "ClosedHalfWay: the other side closed behind the greetings, without its HELLO"),
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
            (64, f"Refused: {WITHOUT.format('HELLO', 'WELCOME')}: the server key is probably not that of this server"),
            (65, CUT.format("WELCOME")),
            (234, f"UnfitSocketType: {WITHOUT.format('INITIATE', 'READY')}: it probably takes no DEALER socket, or not "
                  "our key"),
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
            (64, "ClosedHalfWay: the other side closed behind the greetings, without its HELLO"),
            (65, CUT.format("HELLO")),
            (266, f"ClosedHalfWay: {WITHOUT.format('WELCOME', 'INITIATE')}"),
            (267, CUT.format("INITIATE")),
            (567, ORDERLY),
            (568, MESSAGE),
            (647, ORDERLY),
        ],
    ),
}
"""By dialogue: the two sides, which of them listens, and what it says of the end from each of these octets on."""


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
        assert said(raised.value) == sentence.format("1 octet" if size == 1 else f"{size} octets")
    assert expected[-1] == (len(octets), ORDERLY)
