"""Captures of hostile peers: all text of their choice is something that a terminal or a widget would obey."""

from __future__ import annotations

import json

from tests.capture.containers import Packet, pcap
from tests.payloads import zre
from tests.peer_octets import hello, message
from tests.relay import packets_of
from tests.traffic import Conversation
from zmtpscope.records import to_text
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_2, build_greeting_3
from zmtpscope.zmtp.regime import Framing

WORDS = (
    b"\x1b]2;owned\x07\x1b[2J",  # ESC: a title, and an empty screen
    b"\xc2\x9d2;owned\xc2\x9c\x9b31m",  # the same in C1, as UTF-8 and bare
    "\u202eright\u2066left\u2069".encode(),  # turns the direction of writing
    "zero\u200bwidth\ufeff\u2060\u00ad".encode(),
    b"a\r\n\tb\x00\x7f\x08",
    b"[/b][bold red]big[/]",  # markup of widgets
    b"[@click=app.bell]here[/]",
    b"[link=file:///etc]\\[x] $name :smile: {x}",
    "\u2028\U000e0041\ud800".encode("utf-8", "surrogatepass"),
)
"""Octets of peers that a terminal or a widget would obey."""

PASSWORD = b"s3cr3tpw"
"""Password of a PLAIN client, also in the ZAP request of its server."""


def property_of(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value


def command(name: bytes, data: bytes) -> bytes:
    return build_frame(Framing.V2, bytes([len(name)]) + name + data, command=True)


def talks_of(word: bytes) -> list[Conversation]:
    """Return connections in which a peer uses this word wherever it is free to choose."""
    text = word.decode(errors="replace")
    beginning = build_greeting_3("NULL")
    streams: list[tuple[bytes, bytes]] = [
        # a topic, a body, a subscription; a body of JSON
        (
            hello("PUB") + message(word, word) + message(word, json.dumps({text: [text]}).encode()),
            hello("SUB") + message(b"\x01" + word) + command(b"SUBSCRIBE", word),
        ),
        # identity and other properties
        (
            beginning
            + command(
                b"READY",
                property_of(b"Socket-Type", b"DEALER") + property_of(b"Identity", word) + property_of(word, word),
            )
            + message(b"", word),
            hello("ROUTER") + message(word, b"", word) + command(b"ERROR", bytes([len(word)]) + word),
        ),
        # a command, a socket type, and an identity of 2.0
        (
            beginning + command(b"READY", property_of(b"Socket-Type", word)) + command(word, word),
            hello("PAIR") + command(b"PING", b"\x00\x01" + word),
        ),
        (build_greeting_2("REQ", to_text(word)) + message(b"", word), build_greeting_2("REP") + message(b"", word)),
        # a mechanism, and credentials of PLAIN
        (build_greeting_3(to_text(word[:20])), build_greeting_3(to_text(word[:20]))),
        (
            build_greeting_3("PLAIN")
            + command(b"HELLO", bytes([len(word)]) + word + bytes([len(PASSWORD)]) + PASSWORD),
            build_greeting_3("PLAIN", as_server=True) + command(b"WELCOME", b"") + command(b"ERROR", b"\x02" + word),
        ),
        (
            hello("REQ") + message(b"", b"1.0", b"7", word, b"10.0.0.7", word, b"PLAIN", word, PASSWORD),
            hello("REP") + message(b"", b"1.0", b"7", b"400", word, word, word),
        ),
        # a node of ZRE
        (
            beginning
            + build_frame(
                Framing.V2,
                build_command(
                    "NULL",
                    "READY",
                    {
                        "metadata": [
                            {"name": "Socket-Type", "value": "DEALER"},
                            {"name": "Identity", "value": to_text(b"\x01" + bytes(range(16)))},
                        ]
                    },
                ),
                command=True,
            )
            + message(zre.hello(text, (text,), endpoint=text, headers={text: text}))
            + message(zre.shout(2, text), word)
            + message(zre.join(3, text, 1)),
            hello("ROUTER"),
        ),
        # no ZeroMQ, or none any more
        (hello("PUSH") + b"\x08" + word, word),
    ]
    talks = []
    for number, octets in enumerate(streams):
        talk = Conversation(ports=(50_000 + number, 5555))
        for side in (0, 1):
            talk.send(side, octets[side])
        talk.close()
        talks.append(talk)
    return talks


def hostile_capture(*words: bytes) -> bytes:
    """Return a pcap of such connections for each of these words, cut off, so that damage is reported."""
    packets: list[Packet] = []
    for word in words:
        packets += [packet for talk in talks_of(word) for packet in packets_of(talk)]
    return pcap(packets)[:-1]


def hostile_name(word: bytes) -> str:
    return word.replace(b"/", b"|").replace(b"\0", b"").decode(errors="surrogateescape") + ".pcap"
