"""Findings that the octets of one side decide and that no byte vector holds: order, roles, rules of socket types."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.peer_octets import command, message
from tests.zmtp.sides import feed, in_handshake
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_1, build_greeting_2, build_greeting_3, build_signature
from zmtpscope.zmtp.regime import Form, Framing
from zmtpscope.zmtp.side import SideReader


def raw(name: bytes, data: bytes = b"") -> bytes:
    return build_frame(Framing.V2, bytes([len(name)]) + name + data, command=True)


def ready(socket_type: str = "DEALER", **more: str) -> bytes:
    return command("NULL", "READY", socket_type=socket_type, **more)


def metadata(name: str, value: str) -> bytes:
    properties = [{"name": "Socket-Type", "value": "REQ"}, {"name": name, "value": value}]
    return command("NULL", "READY", metadata=properties)


PLAIN_HELLO = command("PLAIN", "HELLO", username="u")
CURVE_HELLO = command("CURVE", "HELLO", client_key=bytes(32), nonce=1, box=bytes(80))
CURVE_INITIATE = command("CURVE", "INITIATE", cookie=bytes(96), nonce=2, box=bytes(144))


def curve_message(nonce: int, flags: int = 0) -> bytes:
    body = b"\x07MESSAGE" + nonce.to_bytes(8, "big") + bytes(17)
    return bytes([flags, len(body)]) + body


class Case(NamedTuple):
    """Octets of a 3.x side after its greeting, and the ids of the findings in order."""

    octets: bytes
    ids: tuple[str, ...] = ()
    mechanism: str = "NULL"
    version: str = "3.1"


CASES = {
    "a clean start": Case(ready() + message(b"a") + command("NULL", "PING", ttl_ms=0)),
    "READY twice at once": Case(ready() + ready(), ("NULL-01",)),
    "READY again in traffic": Case(ready() + message(b"a") + ready(), ("ZMTP3X-CMD-07",)),
    "PING before READY": Case(command("NULL", "PING") + ready(), ("ZMTP3X-CMD-08",)),
    "messages before READY": Case(message(b"a") + message(b"b") + ready(), ("ZMTP3X-CMD-09",)),
    "messages and never READY": Case(message(b"a"), ("ZMTP3X-CMD-09", "NULL-06")),
    "a message after ERROR": Case(
        command("NULL", "ERROR", reason="no") + message(b"a"), ("NULL-04", "ZMTP3X-CMD-09", "NULL-06")
    ),
    "an unprintable reason": Case(command("NULL", "ERROR", reason="\t"), ("NULL-07",)),
    "HELLO in NULL": Case(raw(b"HELLO") + ready(), ("ZMTP3X-CMD-11",)),
    "another case": Case(ready() + raw(b"ping", bytes(2)), ("ZMTP3X-CMD-06",)),
    "a command inside a message": Case(ready() + b"\1\1a" + command("NULL", "PONG") + b"\0\1b", ("ZMTP3X-FRAME-07",)),
    "PING on 3.0, once": Case(
        ready() + command("NULL", "PING") + command("NULL", "PONG"), ("ZMTP31-PING-05",), version="3.0"
    ),
    "an illegal property name": Case(metadata("a b", "x"), ("ZMTP3X-META-02",)),
    "a property twice": Case(metadata("Socket-Type", "REP"), ("ZMTP3X-META-05",)),
    "an unknown property": Case(metadata("Colour", "red"), ("ZMTP3X-META-14",)),
    "a long identity": Case(metadata("Identity", "i" * 256), ("ZMTP3X-META-10",)),
    "an identity nobody needs": Case(ready("PUB", identity="i"), ("ZMTP3X-META-09",)),
    "a draft type on 3.0": Case(ready("SERVER"), ("ZMTP3X-META-07",), version="3.0"),
    "SUBSCRIBE from PUSH": Case(ready("PUSH") + command("NULL", "SUBSCRIBE", topic="a"), ("ZMTP-SUB-03",)),
    "the same topic again": Case(ready("SUB") + 2 * command("NULL", "SUBSCRIBE", topic="a"), ("ZMTP-SUB-04",)),
    "an old topic again": Case(ready("SUB") + 2 * message(b"\1a"), ("ZMTP-SUB-04",), version="3.0"),
    "CANCEL of nothing": Case(
        ready("SUB") + command("NULL", "SUBSCRIBE", topic="a") + 2 * command("NULL", "CANCEL", topic="a"),
        ("ZMTP-SUB-02",),
    ),
    "a subscription in parts": Case(ready("SUB") + message(b"\1a", b"b"), ("ZMTP-SUB-06",)),
    "data of XSUB": Case(ready("XSUB") + message(b"\2a") + message(b"")),
    "JOIN from RADIO": Case(ready("RADIO") + command("NULL", "JOIN", group="g"), ("ZMTP31-GROUP-04",)),
    "LEAVE without JOIN": Case(ready("DISH") + command("NULL", "LEAVE", group="g"), ("ZMTP31-GROUP-05",)),
    "a group of 256 octets": Case(ready("DISH") + command("NULL", "JOIN", group="g" * 256), ("ZMTP31-GROUP-01",)),
    "RADIO without group frame": Case(ready("RADIO") + message(b"x"), ("ZMTP31-GROUP-03",)),
    "RADIO with three frames": Case(ready("RADIO") + message(b"g", b"x", b"y"), ("ZMTP31-GROUP-03",)),
    "RADIO with a long group": Case(ready("RADIO") + message(b"g" * 256, b"x"), ("ZMTP31-GROUP-01",)),
    "INITIATE first": Case(command("PLAIN", "INITIATE", socket_type="REQ"), ("ZMTP3X-CMD-13",), "PLAIN"),
    "HELLO twice": Case(2 * PLAIN_HELLO, ("ZMTP3X-CMD-13",), "PLAIN"),
    "WELCOME from the client": Case(PLAIN_HELLO + command("PLAIN", "WELCOME"), ("ZMTP3X-CMD-12",), "PLAIN"),
    "ERROR from a CURVE client": Case(CURVE_HELLO + command("CURVE", "ERROR"), ("CURVE-16",), "CURVE"),
    "padding in HELLO": Case(CURVE_HELLO.replace(b"HELLO\1\0\0", b"HELLO\1\0\7"), ("CURVE-03",), "CURVE"),
    "a short WELCOME": Case(raw(b"WELCOME", bytes(10)), ("CURVE-04",), "CURVE"),
    "a short INITIATE": Case(CURVE_HELLO + raw(b"INITIATE", bytes(10)), ("CURVE-05",), "CURVE"),
    "MESSAGE in message frames": Case(
        CURVE_HELLO + CURVE_INITIATE + curve_message(3) + curve_message(4), ("CURVE-10",), "CURVE"
    ),
    "MESSAGE with MORE": Case(
        CURVE_HELLO + CURVE_INITIATE + curve_message(3, 5), ("ZMTP3X-FRAME-02", "CURVE-18", "ZMTP3X-FRAME-06"), "CURVE"
    ),
    "MESSAGE before INITIATE, twice": Case(
        CURVE_HELLO + curve_message(2, 4) + curve_message(3, 4), ("ZMTP3X-CMD-13",), "CURVE"
    ),
    "MESSAGE before HELLO": Case(curve_message(3, 4), ("ZMTP3X-CMD-13",), "CURVE"),
    "a nonce again": Case(
        CURVE_HELLO + CURVE_INITIATE + curve_message(3, 4) + curve_message(3, 4), ("CURVE-07",), "CURVE"
    ),
    "a nonce skipped": Case(CURVE_HELLO + CURVE_INITIATE + curve_message(9, 4), ("CURVE-08",), "CURVE"),
    "clear text in CURVE": Case(
        CURVE_HELLO + CURVE_INITIATE + message(b"a") + command("CURVE", "PING"), ("CURVE-09", "CURVE-09"), "CURVE"
    ),
    "GSSAPI as captured": Case(
        command("GSSAPI", "INITIATE", token=b"\x60a")
        + b"\4\0"
        + command("GSSAPI", "MESSAGE", token=b"x")
        + b"\0\x0d\x07MESSAGE\0\0\0\1y",
        ("ZMTP3X-CMD-01",),
        "GSSAPI",
    ),
    "a wrong token length": Case(raw(b"INITIATE", b"\0\0\0\7abc"), ("GSSAPI-01",), "GSSAPI"),
    "an unknown mechanism": Case(raw(b"GREET", b"x") + message(b"a"), (), "MAGIC"),
    "a size of 2^63": Case(ready() + b"\2\x80" + bytes(7), ("ZMTP3X-FRAME-04",)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_findings_of_a_3x_side(case: Case) -> None:
    """Each case gives these findings and no others."""
    transcript = feed(in_handshake(case.version, case.mechanism), case.octets)
    assert [finding.id for finding in transcript.findings] == list(case.ids)
    for finding in transcript.findings:
        if finding.start is not None:
            assert 0 <= finding.start <= finding.start + finding.length <= max(len(case.octets), transcript.position)


OLDER = {
    "2.0, padding for an identity": (Form.GREETING_2, build_greeting_2("REQ", "me", padding=3), ["ZMTP20-GREETING-07"]),
    "2.0, padding for another identity": (
        Form.GREETING_2,
        build_greeting_2("REQ", "me", padding=9),
        ["ZMTP20-GREETING-07", "ZMTP-GREETING-04"],
    ),
    "2.0, revision 2": (Form.GREETING_2, build_greeting_2("REQ", revision=2), ["ZMTP20-GREETING-05"]),
    "2.0, a long frame": (Form.GREETING_2, build_greeting_2("REQ") + message(b"a", long=True), ["ZMTP20-FRAME-02"]),
    "revision 0": (Form.VERSIONED_1, build_signature() + b"\0\5\1\0", ["ZMTP20-GREETING-06"]),
    "1.0, a long identity": (Form.FRAMES_1, build_greeting_1("i" * 256), ["ZMTP10-GREETING-03"]),
    "1.0, an identity of 2^63 octets": (Form.FRAMES_1, b"\xff\x80" + bytes(8), ["ZMTP10-FRAME-04"]),
    "2.0, an identity of 2^63 octets": (
        Form.GREETING_2,
        build_signature() + b"\1\5\2\x80" + bytes(7),
        ["ZMTP20-GREETING-03", "ZMTP3X-FRAME-04"],
    ),
    "1.0, no identity frame": (Form.FRAMES_1, b"\2\1a\2\0b", ["ZMTP10-GREETING-02"]),
    "1.0, ends inside a message": (Form.FRAMES_1, b"\1\0\2\1a", ["ZMTP10-FRAME-06"]),
    "1.0, a length of 2^63": (Form.FRAMES_1, b"\1\0\xff\x80" + bytes(8), ["ZMTP10-FRAME-04"]),
    "3.x, a greeting cut": (Form.GREETING_3, build_greeting_3()[:40], ["ZMTP-CONN-03"]),
    "3.x, an unknown mechanism": (Form.GREETING_3, build_greeting_3("MAGIC"), ["ZMTP3X-GREETING-11"]),
}


@pytest.mark.parametrize(("form", "octets", "ids"), OLDER.values(), ids=OLDER)
def test_findings_of_greetings_and_older_sides(form: Form, octets: bytes, ids: list[str]) -> None:
    """Each case gives these findings and no others."""
    version = {Form.GREETING_2: "2.0", Form.GREETING_3: "3.1"}.get(form, "1.0")
    assert [finding.id for finding in feed(SideReader(form, version), octets).findings] == ids


def test_identity_and_padding_of_3x() -> None:
    """The padding of a 3.x greeting is checked against the Identity that READY sends (GREETING-04)."""
    octets = build_greeting_3(padding=5) + ready(identity="four")
    assert [finding.id for finding in feed(SideReader(Form.GREETING_3, "3.1"), octets).findings] == ["ZMTP-GREETING-03"]
    octets = build_greeting_3(padding=5) + ready(identity="three")
    assert "ZMTP-GREETING-04" in [finding.id for finding in feed(SideReader(Form.GREETING_3, "3.1"), octets).findings]


def test_zeros_after_a_1_0_greeting() -> None:
    """A length of 0 cannot be skipped with certainty: one octet each, and the side is unreliable from there on."""
    side = SideReader(Form.FRAMES_1, "1.0")
    transcript = feed(side, b"\1\0" + bytes(1000))
    assert side.unreliable_from is not None
    assert transcript.position == 1002
    assert transcript.rows == []
    assert transcript.repeats["ZMTP10-FRAME-01"] == (990, 1001)
