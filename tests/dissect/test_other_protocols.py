"""Protocols that are not ZMTP and look like it at times, from their start and from some later point on."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traffic import Capture, Conversation, Packet, records
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3, build_signature
from zmtpscope.zmtp.regime import Framing

ConnectionFact = list[tuple[int, bytes]]


def rtmp(random: Random) -> ConnectionFact:
    """Real-Time Messaging Protocol: version 3, and a time that begins with 0."""
    begins = [b"\3\0" + random.randbytes(3) + bytes(4) + random.randbytes(1528) for _ in (0, 1)]
    return [(0, begins[0]), (1, begins[1] + random.randbytes(1536)), (0, random.randbytes(1536))]


def socks5(random: Random) -> ConnectionFact:
    """A proxy that grants a connection to an HTTP server."""
    return [
        (0, random.choice([b"\5\1\0", b"\5\2\0\2", b"\5\3\0\1\2"])),
        (1, b"\5\0"),
        (0, b"\5\1\0\1" + random.randbytes(6)),
        (1, b"\5\0\0\1" + random.choice([bytes(6), random.randbytes(6)])),
        (0, b"GET / HTTP/1.1\r\n\r\n"),
        (1, b"HTTP/1.1 200 OK\r\n\r\n"),
    ]


def socks4(random: Random) -> ConnectionFact:
    """The older version of SOCKS, followed by TLS."""
    hello = b"\x16\3\1" + random.randbytes(200)
    return [(0, b"\4\1\1\xbb" + random.randbytes(4) + b"user\0"), (1, b"\0Z" + bytes(6)), (0, hello), (1, hello)]


def oscar(random: Random) -> ConnectionFact:
    """FLAP: a star, a channel of 1 or 2, a sequence number and a length."""

    def flap(channel: int, octets: bytes) -> bytes:
        return b"*" + bytes([channel]) + random.randbytes(2) + len(octets).to_bytes(2) + octets

    talk = [(number % 2, flap(2, random.randbytes(random.randint(4, 90)))) for number in range(30)]
    return [(1, flap(1, b"\0\0\0\1")), (0, flap(1, b"\0\0\0\1")), *talk]


def fix(random: Random) -> ConnectionFact:
    """Financial Information eXchange: text with SOH, and lengths in front as feeds have them."""
    text = b"8=FIX.4.1\x019=%d\x0135=P\x0149=ABC\x0134=%d\x0110=127\x01"
    return [(1, bytes([0x38, random.randrange(256)]) + text % (random.randrange(100), each)) for each in range(40)]


def tds(random: Random) -> ConnectionFact:
    """Tabular Data Stream: a type of 1 or 4, 1 for the last packet, a length, a process id that may look like one."""
    size = random.choice([57, random.randint(20, 200)])

    def packet(type_: int, process: int, octets: bytes) -> bytes:
        return bytes([type_, 1]) + (8 + len(octets)).to_bytes(2) + process.to_bytes(2) + b"\1\0" + octets

    asked = packet(1, 0, b"select 1 from t".ljust(40))
    return [(0, asked), (1, packet(4, size - 6, random.randbytes(size - 8)))] * 12


def dsi(random: Random) -> ConnectionFact:
    """Apple's file service: a header of 16 octets, many of them 0."""
    talk: ConnectionFact = []
    for _ in range(12):
        number = random.randbytes(2)
        talk.append((0, b"\0\2" + number + bytes(4) + b"\0\0\0\6" + bytes(4) + b"\x11\0\x0e\x1c\0\2"))
        talk.append((1, b"\1\2" + number + bytes(4) + b"\0\0\0\x14" + bytes(4) + random.randbytes(20)))
    return talk


def modbus(random: Random) -> ConnectionFact:
    """A transaction number, 0, and a length before short requests."""
    first, unit, talk = random.randrange(65_000), random.randrange(256), list[tuple[int, bytes]]()
    for number in range(first, first + 30):
        begins = number.to_bytes(2) + bytes(2)
        asked = bytes([unit, 3]) + random.randrange(100).to_bytes(2) + b"\0\x0a"
        talk.append((0, begins + b"\0\6" + asked))
        talk.append((1, begins + b"\0\x17" + bytes([unit, 3, 20]) + bytes(10) + random.randbytes(10)))
    return talk


def diameter(random: Random) -> ConnectionFact:
    """Version 1, a length of 24 bits, and flags of a request and its answer."""

    def message(flags: int, octets: bytes) -> bytes:
        return (
            b"\1" + (20 + len(octets)).to_bytes(3) + bytes([flags, 0, 1, 1]) + bytes(4) + random.randbytes(8) + octets
        )

    return [(number % 2, message(0x80 * (number % 2 == 0), random.randbytes(80))) for number in range(10)]


OTHERS = [rtmp, socks5, socks4, oscar, fix, tds, dsi, modbus, diameter]


def conversation(fact: ConnectionFact, *, syn: bool) -> list[Packet]:
    """Return the packets of two sides that send these octets."""
    talk = Conversation(syn=syn)
    for side, octets in fact:
        talk.send(side, octets, range(1400, len(octets), 1400))
        talk.acknowledge(1 - side)
    talk.close()
    return talk.packets


@pytest.mark.parametrize("protocol", OTHERS)
@given(seed=st.integers(0, 1 << 32), behind=st.integers(0, 12), size=st.sampled_from([1, 3, 1000]))
def test_other_protocols_have_no_records(
    protocol: Callable[[Random], ConnectionFact], seed: int, behind: int, size: int
) -> None:
    fact = protocol(Random(seed))
    found = records(Capture(conversation(fact, syn=True), size))[0]
    found += records(Capture(conversation(fact[min(behind, len(fact) - 1) :], syn=False), size))[0]
    assert [each for each in found if each["record"] != "summary"] == []


def frames(*bodies: bytes) -> bytes:
    return b"".join(build_frame(Framing.V1, body) for body in bodies)


def read(*fact: tuple[int, bytes]) -> list[dict[str, object]]:
    """Return the records of octets that two sides send from the start of their connection; neither ends it."""
    talk = Conversation()
    for side, octets in fact:
        talk.send(side, octets)
    return records(Capture(talk.packets))[0]


def findings(found: list[dict[str, object]]) -> dict[object, object]:
    """Return the severity of each finding, by its id, except findings of every connection."""
    return {
        each["id"]: each["severity"] for each in found if each["record"] == "finding" and each["severity"] != "chat"
    }


def test_a_1_0_peer_may_send_one_frame_of_length_0_behind_its_identity() -> None:
    """13/ZMTP discards this frame."""
    found = read((0, b"\1\0" + b"\0" + frames(b"one", b"two", b"three")), (1, b"\1\0"))
    assert [each["sizes"] for each in found if each["record"] == "message"] == [[3], [3], [5]]
    assert findings(found) == {"ZMTP10-FRAME-01": "note"}


@pytest.mark.parametrize(
    "octets",
    [
        b"\5\0name" + b"\0\0" + frames(b"one", b"two", b"three"),
        b"\5\0name" + frames(b"one") + b"\4\x80two" + frames(b"three", b"four"),
        b"\5\0name" + frames(b"one") + b"\4\x7etwo" + frames(b"three", b"four"),
    ],
    ids=["two lengths of 0", "reserved bits", "the flags of two releases"],
)
def test_octets_that_begin_like_an_identity_without_frames_after_it_are_not_zmtp(octets: bytes) -> None:
    assert read((0, octets), (1, b"\5\0four" + frames(b"x"))) == []


def test_errors_of_likely_zmtp_are_notes() -> None:
    """Two sides of 1.0 frames show no signature: an error in them is a note, as is a diagnosis."""
    found = read((0, frames(b"", b"one", b"two", b"three") + b"\2\x80x"), (1, frames(b"")))
    assert findings(found) == {"ZMTP10-FRAME-02": "note"}
    assert {each["confidence"] for each in found if each["record"] == "message"} == {"likely"}


def test_a_1_0_peer_that_meets_a_signature_is_certain() -> None:
    found = read((0, build_signature(1)), (1, frames(b"", b"one") + b"\2\x80x"))
    assert findings(found)["ZMTP10-FRAME-02"] == "warn"
    assert {each["confidence"] for each in found if each["record"] == "message"} == {"proven"}


@pytest.mark.parametrize("mechanism", ["NULL", "PLAIN", "CURVE"])
@pytest.mark.parametrize("cuts", [[], [10], [10, 12, 13, 40], list(range(64))])
def test_a_3_0_greeting_to_a_1_0_peer_is_no_1_0_frames(mechanism: str, cuts: list[int]) -> None:
    """The newer side did not wait for the version of the other one."""
    talk = Conversation()
    talk.send(1, frames(b"", b"hello"))
    talk.send(0, build_greeting_3(mechanism, version="3.0", padding=1), cuts)
    found = records(Capture(talk.packets))[0]
    assert findings(found) == {"ZMTP-CONN-07": "error"}
    assert [each["side"] for each in found if each["record"] == "message"] == [1]


def test_a_3_0_greeting_to_a_1_0_peer_is_found_at_the_same_packet_in_blocks_of_any_size() -> None:
    talk = Conversation()
    talk.send(1, frames(b"", b"hello"))
    for octet in build_greeting_3("NULL", version="3.0", padding=1):
        talk.send(0, bytes([octet]))
        talk.send(1, frames(b"hello"))
    whole, _ = records(Capture(talk.packets))
    assert "ZMTP-CONN-07" in findings(whole)
    assert records(Capture(talk.packets, 1))[0] == whole


@pytest.mark.parametrize("topic", [b"topic 8", b"PLAI", b""])
def test_a_newer_peer_that_goes_down_to_1_0_announces_no_major_version(topic: bytes) -> None:
    """The topic of its first frame is at the place of a version."""
    subscription = frames(b"\1" + topic)
    found = read((0, build_signature(1)), (1, b"\1\0"), (0, subscription), (1, frames(topic + b"x")))
    assert [each["version_announced"] for each in found if each["record"] == "greeting"] == ["1.0", "1.0"]
    assert findings(found) == {}
    alone = read((0, build_signature(1) + subscription))
    assert [each["version_announced"] for each in alone if each["record"] == "greeting"] == ["1.0"]
