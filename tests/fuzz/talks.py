"""The captures that a campaign starts with: real ones, and conversations of our own of every kind that tests know."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests import peers
from tests.capture.containers import Packet, Segment, pcapng
from tests.dissect import sealed_talks
from tests.dissect.talks import connections, packets_of, pushed, under_way
from tests.dissect.test_seams_payloads import talks as payload_talks
from tests.dissect.test_zws import zws_connections
from tests.export.test_secrets_of_payloads import PASSWORD, between, typed, zap
from tests.fuzz.wire import framed, scripted, segments_of
from tests.fuzz.wire import packets_of as packets_of_file
from tests.peer_octets import hello
from zmtpscope import curve_crypto
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_1, build_greeting_2
from zmtpscope.zmtp.peer import CurveClient, CurveServer, PlainClient, PlainServer, Settings
from zmtpscope.zmtp.regime import Framing

Draw = Callable[..., Any]


@dataclass(frozen=True)
class Talk:
    """A capture to start with: its packets, its segments if only TCP is needed, and the key lines that decrypt it.

    `honest`: two correct peers, completely captured. `peers` are both of them if they are ours, with the seed of their
    random octets.
    """

    name: str
    packets: tuple[Packet, ...]
    segments: tuple[Segment, ...]
    keys: str = ""
    honest: bool = False
    peers: tuple[tuple[Settings, int], ...] = ()


MAX_PACKETS = 150
"""Maximum packets of a capture, from a random place on: many small cases find more faults than few large ones."""


def real(path: Path, folder: Path) -> Talk:
    """Return a capture file, with the keys beside it."""
    packets = packets_of_file(path)
    keys = path.with_suffix(".keys")
    octets = pcapng(packets) if packets else b""
    segments = segments_of(folder, octets) if packets else []
    text = keys.read_text() if keys.exists() else ""
    honest = path.parent.name in ("patterns", "versions", "implementations", "security", "network")
    return Talk(f"{path.parent.name}/{path.name}", tuple(packets), tuple(segments), text, honest)


def part_of(talk: Talk, start: int, count: int = MAX_PACKETS) -> Talk:
    packets, segments = talk.packets[start : start + count], talk.segments[start : start + count]
    whole = talk.honest and len(packets) == len(talk.packets)
    return Talk(talk.name, packets, segments, talk.keys, whole)


# -- conversations of our own ------------------------------------------------------------------------------------------


def predictable(given: Settings, number: int) -> Settings:
    """Return the same settings with random octets of CURVE from the seed `number`, and with the password that checks
    search for."""
    if isinstance(given.security, PlainClient):
        return replace(given, security=PlainClient("admin", PASSWORD))
    if isinstance(given.security, PlainServer):
        return replace(given, security=PlainServer(lambda username, password: password == PASSWORD))
    if not isinstance(given.security, CurveClient | CurveServer):
        return given
    functions = {name: getattr(curve_crypto, name) for name in ("public_key", "shared_key", "seal_box", "open_box")}
    crypto = SimpleNamespace(random_octets=Random(number).randbytes, **functions)
    return replace(given, security=replace(given.security, crypto=crypto))


@st.composite
def meetings(draw: Draw) -> Talk:
    """Draw two of our peers, of any version, mechanism and socket type, on a network without losses."""
    mechanism = draw(st.sampled_from(sorted(peers.SECURITY)))
    one, other = draw(peers.settings_pairs(mechanism))
    numbered = (one, draw(st.integers(0, 99))), (other, draw(st.integers(100, 199)))
    pair = predictable(*numbered[0]), predictable(*numbered[1])
    acts = draw(peers.scripts(*pair)), draw(peers.scripts(*reversed(pair)))
    meeting = peers.talk(pair, acts, draw(peers.NETWORKS))
    meeting.capture.close()
    lines = [" ".join(each.key_line) + "\n" for each in meeting.peers if each.key_line]
    return _talk(f"peers {mechanism}", meeting.capture.packets, "".join(lines[:1]), True, numbered)


@st.composite
def sealed(draw: Draw) -> Talk:
    """Draw CURVE with keys, some of them wrong."""
    talk = draw(sealed_talks.talks())
    return _talk("sealed", draw(sealed_talks.sealed_packets(talk, draw(st.booleans()))), talk.text)


LINES = st.sampled_from(
    [b"hi", b"okok", b"hi\xf9\xf9", b"", b"\1\2", b"line\n", b"\x7f", b"a" * 40, "é".encode(), b"1", b"{}", b"\0"]
)
"""Bodies that are text, nearly text or binary, so that runs of messages contain all of them."""

HELLOS: dict[str, tuple[Framing, Callable[[str], bytes]]] = {
    "3.1": (Framing.V2, hello),
    "3.0": (Framing.V2, lambda socket_type: hello(socket_type, "3.0")),
    "2.0": (Framing.V2, build_greeting_2),
    "1.0": (Framing.V1, lambda socket_type: build_greeting_1()),
}
"""By version: the form of frames, and the octets of a side before its first message."""


@st.composite
def lines(draw: Draw) -> Talk:
    """Draw short messages in any version, some of them before the other side's handshake."""
    types = draw(st.sampled_from([("PUSH", "PULL"), ("PUB", "SUB"), ("DEALER", "ROUTER"), ("PAIR", "PAIR")]))
    version = draw(st.sampled_from(sorted(HELLOS)))
    framing, greeting = HELLOS[version]
    parts = draw(st.integers(1, 2))
    streams = []
    for socket_type in types:
        chosen = draw(st.lists(st.lists(LINES, min_size=1, max_size=parts), max_size=20))
        frames = [
            build_frame(framing, body, more=place < len(bodies))
            for bodies in chosen
            for place, body in enumerate(bodies, 1)
        ]
        streams.append(greeting(socket_type) + b"".join(frames))
    return _talk(f"lines {version}", draw(packets_of(*streams, pauses=draw(st.booleans()))))


LOGINS = st.lists(
    st.sampled_from([zap(PASSWORD.encode()), typed(b'{"value":"%b"}' % PASSWORD.encode()), b"\0\5hello"]),
    max_size=8,
)
"""Messages with the password, and others."""

OF_OUR_OWN: dict[str, st.SearchStrategy[Talk]] = {
    "peers": meetings(),
    "sealed": sealed(),
    "anything": connections().map(lambda packets: _talk("anything", packets)),
    "pushed": pushed().map(lambda sent: _talk("pushed", sent[0], honest=True)),
    "lines": lines(),
    "under way": under_way().map(lambda packets: _talk("under way", packets)),
    "payloads": payload_talks().map(lambda packets: _talk("payloads", packets)),
    "logins": LOGINS.map(lambda chosen: _talk("logins", between(("DEALER", "ROUTER"), *chosen), honest=True)),
    "zws": zws_connections().map(lambda packets: _talk("zws", packets)),
}


def _talk(
    name: str,
    packets: Sequence[Any],
    keys: str = "",
    honest: bool = False,
    numbered: tuple[tuple[Settings, int], ...] = (),
) -> Talk:
    segments = scripted(packets)
    return Talk(name, tuple(map(framed, segments)), tuple(segments), keys, honest, numbered)


DRAWN = 40
"""Conversations of each kind in a chapter of a campaign."""


@functools.lru_cache(maxsize=1)
def of_our_own(number: int) -> tuple[Talk, ...]:
    """Return the conversations of one chapter of a campaign; the same for the same number."""
    drawn: list[Talk] = []
    for strategy in OF_OUR_OWN.values():

        @seed(number)
        @settings(
            max_examples=DRAWN,
            database=None,
            deadline=None,
            derandomize=False,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def draw(talk: Talk) -> None:
            drawn.append(talk)

        draw()
    return tuple(drawn)
