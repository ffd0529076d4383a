"""Passwords inside of messages stay hidden in every output, unless the user asks for secrets."""

from __future__ import annotations

import gzip
import json
import pathlib
from base64 import b64decode
from collections.abc import Callable
from itertools import product
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.dissect.talks import connected
from tests.peer_octets import hello, message
from tests.suites import some
from tests.traffic import Capture, Conversation, Datagram, Packet
from zmtpscope.dissect import Analyser, DecodeAs, Options
from zmtpscope.export.clock import Clock
from zmtpscope.export.json_lines import lines
from zmtpscope.export.tables import Tables
from zmtpscope.export.text import Look, TextLines
from zmtpscope.payloads.api import About, Claim, Message, Payload, Reader
from zmtpscope.payloads.jupyter import DELIMITER
from zmtpscope.payloads.registry import Registry
from zmtpscope.records import RECORDS

PASSWORD = "s3cr3tpw"
COLUMNS = {record: tuple(field.name for field in type_.fields) for record, type_ in RECORDS.items()}
HEADER = json.dumps({"msg_type": "input_reply", "msg_id": "1"}).encode()
Packets = list[Packet | Datagram]


class Login(Payload):
    """Everything after `LOGIN ` is a password."""

    name = "login"
    prefix = "login"
    begins = b"L"

    def claim(self, message: Message, about: About) -> Claim:
        return Claim.YES if message.bodies[0].startswith(b"LOGIN ") else Claim.NO

    def dissect(self, message: Message, reader: Reader) -> str:
        reader.text("command", 6)
        reader.secret("word")
        return "somebody logs in"


REQUEST = (b"1.0", b"7", b"global", b"10.0.0.7", b"", b"PLAIN", b"bob")


def zap(*credentials: bytes) -> bytes:
    return message(b"", *REQUEST, *credentials)


def typed(content: bytes, *buffers: bytes) -> bytes:
    """Return a user's answer to a Jupyter kernel's question."""
    return message(b"peer", DELIMITER, b"", HEADER, b"{}", b"{}", content, *buffers)


def between(types: tuple[str, str], *sent: bytes, cut: int = 1000) -> Packets:
    """Return a connection with these messages, in packets of at most `cut` octets."""
    talk = connected(types[0], types[1])
    for octets in sent:
        talk.send(0, octets, cuts=range(cut, len(octets), cut))
    talk.close()
    return [*talk.packets]


def before_the_peer_is_known() -> Packets:
    """The first of three requests in a block precedes the socket type of the other side."""
    talk = Conversation()
    talk.send(0, hello("DEALER"))
    ready = hello("REP")
    talk.send(1, ready[:64])
    talk.send(0, zap(PASSWORD.encode()))
    talk.send(1, ready[64:])
    for _ in range(2):
        talk.send(0, zap(PASSWORD.encode()))
    talk.close()
    return [*talk.packets]


WORD = PASSWORD.encode()
CONTENT = json.dumps({"value": PASSWORD}).encode()
LOGIN = b"LOGIN " + WORD
SENT: dict[str, Callable[[], Packets]] = {
    "ZAP": lambda: between(("REQ", "REP"), zap(WORD), zap(WORD)),
    "ZAP of a proxy": lambda: between(("DEALER", "ROUTER"), zap(WORD)),
    "ZAP in small packets": lambda: between(("DEALER", "REP"), zap(WORD), zap(WORD), cut=7),
    "ZAP without delimiter": lambda: between(("DEALER", "REP"), *[message(*REQUEST, WORD)] * 2),
    "ZAP without delimiter, behind an address": lambda: between(("REQ", "REP"), message(b"peer", *REQUEST, WORD)),
    "ZAP before and after the peer is known": before_the_peer_is_known,
    "Jupyter": lambda: between(("DEALER", "ROUTER"), typed(CONTENT)),
    "Jupyter in small packets, with a buffer": lambda: between(("DEALER", "ROUTER"), typed(CONTENT, b"x" * 99), cut=30),
    "Jupyter, content that is no JSON": lambda: between(("DEALER", "ROUTER"), typed(CONTENT[:-1])),
    "Jupyter, content that is no object": lambda: between(("DEALER", "ROUTER"), typed(CONTENT[10:-1])),
    "packed": lambda: between(("PUSH", "PULL"), message(gzip.compress(LOGIN * 9)), message(gzip.compress(LOGIN))),
    "packed twice": lambda: between(("PUSH", "PULL"), message(gzip.compress(gzip.compress(LOGIN, 0), 0))),
    "of a numbered publisher": lambda: between(
        ("PUB", "SUB"), *(message(b"A", LOGIN, number.to_bytes(4, "little")) for number in range(9))
    ),
    "a topic of its own": lambda: between(("PUB", "SUB"), message(LOGIN)),
    "RADIO": lambda: [Datagram(b"\x03ABC" + LOGIN, number) for number in range(4)],
}
OPTIONS: dict[str, dict[str, Any]] = {
    "whole bodies": {},
    "no bodies": {"bodies": "none"},
    "beginnings": {"bodies": "head", "head": 100},
    "small bodies": {"body_limit": 10},
}


@pytest.fixture(params=[1, 1 << 30], ids=["packet by packet", "one block"])
def size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def registry() -> Registry:
    payloads = Registry()
    payloads.add(Login)
    return payloads


def octets_of(value: Any) -> bytes:
    """All octets that a value holds, and its text."""
    if isinstance(value, dict):
        return b"\n".join(map(octets_of, [*value, *value.values()]))
    if isinstance(value, list):
        return b"\n".join(map(octets_of, value))
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


def shown(packets: Packets, size: int, folder: pathlib.Path, **given: Any) -> dict[str, bytes]:
    """Every output by its name: JSON with base64 undone, text with field trees and without hex, ..."""
    forced = (DecodeAs("udp.port", 5556),)
    found: dict[str, bytes] = {}

    def run(**more: Any) -> tuple[list[Any], Options]:
        options = Options(payloads=registry(), frames=True, decode_as=forced, **given, **more)
        return list(Analyser(options).run(Capture(packets, size))), options

    batches, options = run()
    records = [json.loads(line) for batch in batches for line in lines(batch, options)]
    for record in records:
        bodies = record.get("bodies") or [record.get("body")]
        record["octets"] = [b64decode(body) for body in bodies if body is not None]
    found["json"] = octets_of(records)
    batches, options = run(details=True)
    for name, look in {"tree": {"tree": True}, "hex": {"hex": True}}.items():
        made = TextLines(Look(Clock("r", lambda: 0), chat=True, **look), options)
        found[name] = "".join(line for batch in batches for line in made.lines(batch)).encode()
    for form in ("csv", "parquet"):
        with Tables(folder, form, COLUMNS, Options(**given), force=True) as tables:
            for batch in run()[0]:
                tables.add(batch)
            tables.commit()
    found["csv"] = b"".join(path.read_bytes() for path in folder.glob("*.csv"))
    found["parquet"] = octets_of([pq.read_table(path).to_pylist() for path in folder.glob("*.parquet")])
    return found


@pytest.mark.parametrize(("what", "how"), some(product(SENT, OPTIONS), 3))
def test_passwords_are_hidden_in_every_output(what: str, how: str, size: int, tmp_path: pathlib.Path) -> None:
    found = shown(SENT[what](), size, tmp_path, **OPTIONS[how])
    hexadecimal = " ".join(f"{octet:02x}" for octet in WORD[:3]).encode()
    for output, octets in found.items():
        assert WORD[:5] not in octets, output
        assert hexadecimal not in octets, output


@pytest.mark.slow
@pytest.mark.parametrize("what", SENT)
def test_passwords_are_shown_on_request(what: str, size: int, tmp_path: pathlib.Path) -> None:
    """So the test above would see them."""
    found = shown(SENT[what](), size, tmp_path, show_secrets=True)
    if "packed" not in what:
        assert WORD in found["json"]
        assert WORD in found["parquet"]
    assert WORD in found["tree"]
