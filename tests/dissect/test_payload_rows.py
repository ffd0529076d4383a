"""Payloads of rows: plain text is recognised for whole runs, and dissectors get only the messages that they may
claim."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.counting import calls_of
from tests.dissect.talks import connected
from tests.dissect.zre_nodes import Node
from tests.payloads import zre
from tests.payloads.reading import claimed
from tests.peer_octets import hello, message
from tests.traffic import Capture, Conversation, records
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.options import MIN_KEPT
from zmtpscope.export.json_lines import lines
from zmtpscope.payloads.api import About, Claim, Message, Payload, Reader
from zmtpscope.payloads.registry import Registry
from zmtpscope.payloads.text import Text

TEXTS = [b"plain", b"with a tab\t", b"two\nlines", b"\x1b[31mred", "caf\u00e9".encode(), b'"quoted\\']
OTHERS = [b"a\x00b", b"\x7f", b"caf\xe9", b"\x9bm", "\u0085".encode()]


def protocols(bodies: list[bytes]) -> list[str | None]:
    """Return the protocols of messages that a PUSH sends in one packet."""
    talk = connected("PUSH", "PULL")
    talk.send(0, b"".join(message(body) for body in bodies))
    found, _ = records(Capture(talk.packets), Options(payloads=Registry()))
    payloads = [record["payload"] for record in found if record["record"] == "message"]
    return [None if payload is None else payload["protocol"] for payload in payloads]


@pytest.mark.parametrize("body", TEXTS + OTHERS)
def test_text_is_recognised_regardless_of_other_messages(body: bytes) -> None:
    """Plain text is recognised by counting the octets of a run; a message of other octets must not be hidden by its
    neighbours."""
    wanted = "text" if body in TEXTS else None
    assert bool(claimed(Text, body)) == (body in TEXTS)
    assert protocols([body]) == [wanted]
    for count in 5, 64:
        among = [b"plain"] * count + [body] + [b"plain"] * count
        assert protocols(among) == ["text"] * count + [wanted] + ["text"] * count


def test_sizes_that_look_like_control_characters_make_no_difference() -> None:
    """The octet of a short size can have any value, including that of a letter or of DEL."""
    texts = [b"x" * size for size in (1, 31, 32, 100, 126, 127, 128, 255, 256, 300)]
    assert protocols(texts) == ["text"] * 10
    assert protocols(texts + texts) == ["text"] * 20


def test_after_hello_of_zre_dissectors_are_asked_about_the_rest_of_the_packet() -> None:
    """After HELLO a side uses ZRE, even if a message does not look like it."""
    one, other = Node(0), Node(1)
    talk = one.connect(other)
    last = talk.packets.pop()
    talk.next[0] = last.sequence
    talk.send(0, last.payload + message(b"no ZRE") + message(b'{"a": 1}') + message(zre.ping(2)))
    found, _ = records(Capture(talk.packets), Options(payloads=Registry()))
    assert [r["payload"]["protocol"] for r in found if r["record"] == "message"] == ["zre"] * 4
    assert [r["id"] for r in found if r["record"] == "finding" and r["severity"] == "error"] == ["ZRE-01"] * 2


class NotesLosses(Payload):
    """Records whether it learned that messages may be missing."""

    name = prefix = "hears"
    begins = b"h"

    def claim(self, message: Message, about: About) -> Claim:
        return Claim.YES

    def dissect(self, message: Message, reader: Reader) -> str:
        return f"lost: {message.after_loss}"


@pytest.mark.parametrize("together", [False, True])
def test_a_dissector_is_informed_of_incomplete_messages(together: bool) -> None:
    """A message larger than the kept octets is passed to no dissector."""
    registry = Registry()
    registry.add(NotesLosses)
    talk = connected("PUSH", "PULL")
    sent = [message(body) for body in (b"h", b"x" * (MIN_KEPT + 1), b"h", b"x", b"h")]
    for octets in [b"".join(sent)] if together else sent:
        talk.send(0, octets)
    found, _ = records(Capture(talk.packets, 1), Options(payloads=registry, body_limit=MIN_KEPT))
    payloads = [record["payload"] for record in found if record["record"] == "message"]
    assert [each["summary"] for each in payloads if each is not None and each["protocol"] == "hears"] == [
        "lost: False",
        "lost: True",
        "lost: False",
    ]


class Begins(Payload):
    """Claims messages that begin with its prefix, even if they are JSON."""

    name = prefix = "begins"
    begins = (b'{"kind"',)

    def claim(self, message: Message, about: About) -> Claim:
        return Claim.YES

    def dissect(self, message: Message, reader: Reader) -> str:
        return "mine"


def test_json_that_begins_as_another_dissector_declares_is_its_own() -> None:
    registry = Registry()
    registry.add(Begins)
    talk = connected("PUSH", "PULL")
    sent = [b'{"kind": 1}', b'{"kin": 1}', b"[1]"]
    for octets in [*map(message, sent), b"".join(map(message, sent))]:
        talk.send(0, octets)
    for size in (1, 100):
        found, _ = records(Capture(talk.packets, size), Options(payloads=registry))
        payloads = [record["payload"]["protocol"] for record in found if record["record"] == "message"]
        assert payloads == ["begins", "json", "json"] * 2


MAX_CALLS = 6
"""Python functions entered for a JSON message after a topic in the version without compiled modules: to recognise
JSON."""


def calls(count: int) -> int:
    """Count the Python functions entered for this number of JSON messages with varying topics."""
    talk = connected("PUB", "SUB")
    for number in range(0, count, 100):
        talk.send(
            0, b"".join(message(b"topic.%d" % n, b'{"n": %d, "a": [1]}' % n) for n in range(number, number + 100))
        )
    blocks, options = list(Capture(talk.packets, 200)), Options(payloads=Registry())
    assert options.payloads is not None
    assert options.payloads.dissectors["json"].load()  # before the counting
    analyser = Analyser(options)
    batches: list[Any] = []
    entered = calls_of(lambda: [batches.extend(analyser.feed(block)) for block in blocks])
    assert sum(len(run.first) for batch in batches for run in batch.messages) == count
    return entered


def test_a_message_of_json_is_asked_about_once() -> None:
    assert (calls(2000) - calls(1000)) / 1000 < MAX_CALLS


@pytest.mark.parametrize("body", [*OTHERS, b"hi\xf9\xf9", b"hi\x01\x02"])
def test_what_is_no_text_is_none_where_the_peer_is_known_from_the_next_message_on(body: bytes) -> None:
    """The run of messages is cut there, and octets after the cut do not affect octets before it."""
    talk = Conversation()
    greeting, ready = hello("PULL")[:64], hello("PULL")[64:]
    talk.send(0, hello("PUSH"))
    talk.send(1, greeting)
    talk.send(0, message(body))
    talk.send(1, ready)
    talk.send(0, message(b"text"))
    for options in (Options(payloads=Registry()), Options(payloads=Registry("text"))):
        found = [
            json.loads(line) for batch in Analyser(options).run(Capture(talk.packets)) for line in lines(batch, options)
        ]
        payloads = [record["payload"] for record in found if record["record"] == "message"]
        assert payloads == [None, {"protocol": "text", "summary": "text", "fields": None}]
