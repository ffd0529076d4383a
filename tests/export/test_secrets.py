"""A password stays hidden in every output, also in a HELLO that cannot be parsed."""

from __future__ import annotations

import json
import re
from base64 import b64decode

import pytest

from tests.traffic import Capture, Conversation
from zmtpscope.dissect import Analyser, DecodeAs, Options
from zmtpscope.export.clock import Clock
from zmtpscope.export.json_lines import lines
from zmtpscope.export.text import Look, TextLines
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.regime import Framing

PASSWORD = b"s3cr3tpw"
CREDENTIALS = b"\x05admin\x08" + PASSWORD

HELLOS = {
    "as it should be": b"\x05HELLO" + CREDENTIALS,
    "octets behind a password that claims to be shorter": b"\x05HELLO\x05admin\x02" + PASSWORD,
    "password that claims to be longer": b"\x05HELLO\x05admin\x40" + PASSWORD,
    "user name that claims to be longer": b"\x05HELLO\x40admin\x08" + PASSWORD,
    "user name that takes in the password": b"\x05HELLO\x0eadmin\x08" + PASSWORD,
    "lengths in two octets": b"\x05HELLO\x00\x05admin\x00\x08" + PASSWORD,
    "misspelt": b"\x05WELCOME" + CREDENTIALS,
    "misspelt, octets behind": b"\x05WELCOME\x05admin\x02" + PASSWORD,
    "misspelt, cut": b"\x05WELCOME\x40admin\x08" + PASSWORD,
    "lower case": b"\x05hello" + CREDENTIALS,
    "padded": b"HELLO   " + CREDENTIALS,
    "no name length": b"HELLO" + CREDENTIALS,
    "name length 0": b"\x00" + CREDENTIALS,
    "name length too large": b"\x06HELLO" + CREDENTIALS,
    "another name": b"\x05LOGIN" + CREDENTIALS,
    "larger than what is waited for": b"\x05HELLO" + CREDENTIALS + bytes(1 << 20),
    "another name, larger than what is waited for": b"\x05LOGIN" + CREDENTIALS + bytes(1 << 20),
}


def printed(
    body: bytes, mechanism: str | None, *, command: bool = True, show_secrets: bool = False
) -> tuple[str, bytes]:
    """Lines with field trees and hex, the summary, and all octets that JSON lines hold, of a connection on which `body`
    is sent, in a command frame or a message frame.

    `mechanism` None: its greetings were not captured.
    """
    talk = Conversation(syn=mechanism is not None)
    if mechanism is not None:
        talk.send(0, build_greeting_3(mechanism))
        talk.send(1, build_greeting_3(mechanism))
    frame = build_frame(Framing.V2, body, command=command)
    talk.send(0, frame, cuts=range(0, len(frame), 60_000))
    talk.close()
    forced = () if mechanism is not None else (DecodeAs("tcp.port", 5555, "3.1"),)
    options = Options(details=True, decode_as=forced, show_secrets=show_secrets)
    text = TextLines(Look(Clock("r", lambda: 0), chat=True, tree=True, hex=True), options)
    shown, octets = "", b""
    analyser = Analyser(options)
    for batch in analyser.run(Capture(talk.packets)):
        shown += "".join(text.lines(batch))
        for line in lines(batch, options):
            record = json.loads(line)
            octets += line + b64decode(record.get("data") or "") + b"".join(map(b64decode, record.get("bodies") or []))
    return shown + "".join(analyser.summary.commands), octets


def holds_password(shown: str, octets: bytes) -> bool:
    letters = "".join(re.findall(r"(?m)^    [0-9a-f]{8}  .{47}  (.*)$", shown))
    return PASSWORD.decode() in shown or PASSWORD.decode() in letters or PASSWORD in octets


@pytest.mark.parametrize("body", HELLOS.values(), ids=HELLOS)
def test_a_password_of_plain_is_hidden_for_any_fault_of_hello(body: bytes) -> None:
    assert not holds_password(*printed(body, "PLAIN"))
    assert holds_password(*printed(body, "PLAIN", show_secrets=True))


UNNAMED = {"name length 0", "another name", "another name, larger than what is waited for"}
"""If the mechanism is not PLAIN, these commands look like any others."""


@pytest.mark.parametrize("name", sorted(HELLOS.keys() - UNNAMED))
@pytest.mark.parametrize("mechanism", [None, "NULL", "CURVE", "GSSAPI", "XPLAIN"])
def test_a_password_is_hidden_for_any_mechanism(name: str, mechanism: str | None) -> None:
    assert not holds_password(*printed(HELLOS[name], mechanism))
    assert holds_password(*printed(HELLOS[name], mechanism, show_secrets=True))


@pytest.mark.parametrize("name", sorted(HELLOS.keys() - UNNAMED - {"no name length"}))
@pytest.mark.parametrize("mechanism", ["PLAIN", "NULL", "CURVE", "GSSAPI"])
def test_a_password_is_hidden_in_a_message_frame_of_the_handshake(name: str, mechanism: str) -> None:
    assert not holds_password(*printed(HELLOS[name], mechanism, command=False))


@pytest.mark.parametrize(
    ("body", "mechanism", "command"),
    [
        (b"\x07WELCOMEharmless", "XPLAIN", True),
        (b"\x05OTHERharmless", "XPLAIN", True),
        (b"Hello, harmless", "PLAIN", False),
        (b"hello harmless", None, False),
        (b"\x05HELLO\x08harmless\0", None, False),
    ],
)
def test_fields_that_are_no_password_are_shown(body: bytes, mechanism: str | None, command: bool) -> None:
    assert "harmless" in printed(body, mechanism, command=command)[0]


def test_a_user_name_is_shown_where_it_is_certain() -> None:
    assert 'user "admin" password ***' in printed(HELLOS["as it should be"], "PLAIN")[0]
    assert 'user "admin" password ***' in printed(HELLOS["misspelt"], None)[0]
    assert "admin" not in printed(HELLOS["user name that takes in the password"], "PLAIN")[0]
