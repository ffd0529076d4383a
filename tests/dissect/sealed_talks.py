"""Strategies for CURVE connections with known, partly known or wrong keys; correct and hostile ones."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from hypothesis import strategies as st

from tests.curve import CLIENT, COMMAND, MORE, SERVER, CurvePeers, frame
from tests.dissect.talks import pieces
from tests.traffic import Conversation, Packet
from zmtpscope.curve_keys import Keys
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.regime import Framing

Drawn = TypeVar("Drawn")
Draw = Callable[[st.SearchStrategy[Drawn]], Drawn]
Steps = list[tuple[int, bytes]]
"""The octets of a connection: (side, octets), in order."""

TYPES = (
    ("DEALER", "ROUTER"),
    ("PUSH", "PULL"),
    ("PULL", "PUSH"),
    ("PUB", "SUB"),
    ("SUB", "XPUB"),
    ("XSUB", "PUB"),
    ("REQ", "REP"),
    ("RADIO", "DISH"),
    ("CLIENT", "SERVER"),
    ("ODD", ""),
)
LABELS = (
    "SHARED",
    "CLIENT_TRANSIENT",
    "CLIENT_TRANSIENT with S",
    "SERVER_TRANSIENT",
    "SERVER_PUBLIC_TRANSIENT",
    "COOKIE_KEY",
    "SERVER_LONGTERM",
    "SERVER_PUBLIC",
)
LOW_ORDER = bytes(32), bytes([1]) + bytes(31)
"""Points that give the same key with every secret: libsodium rejects them."""

TRAFFIC = ("SUBSCRIBE", "CANCEL", "PING", "PONG", "JOIN", "LEAVE")
BODIES = st.sampled_from([b"", b"\0", b"\1", b"\1A", b"\0A", b"A", b"\x07MESSAGE", bytes(40), bytes(212), bytes(400)])


def keys_of(text: str) -> Keys:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "test.keys"
        file.write_text(text)
        return Keys([file])


class Talk(NamedTuple):
    """The octets of a connection, a key file, and the side that is the client of the security handshake."""

    steps: Steps
    text: str
    client: int

    def stream(self, side: int) -> bytes:
        return b"".join(octets for sender, octets in self.steps if sender == side)


@st.composite
def key_files(draw: Draw, peers: CurvePeers) -> str:
    """Draw a key file: with all, some or no lines of the connection, correct or not, and lines of other connections."""
    other = CurvePeers(99)
    some = draw(st.sets(st.sampled_from(LABELS)))
    labels = draw(st.sampled_from([{"SHARED"}, {"SHARED"}, {"SERVER_TRANSIENT"}, set(LABELS), some, some]))
    lines = [peers.lines(label) for label in LABELS if label in labels]
    false = draw(st.sampled_from(["", "", "", "SHARED", "SERVER_TRANSIENT", "COOKIE_KEY", "SERVER_PUBLIC_TRANSIENT"]))
    if false:
        lines.append(f"CURVE_{false} {peers.C_transient.hex()} {other.k.hex()}\n")
    if draw(st.booleans()):
        lines.append(other.lines("SHARED", "SERVER_TRANSIENT"))
    return "".join(draw(st.permutations(lines)))


def _flipped(draw: Draw, octets: bytes) -> bytes:
    at = draw(st.integers(0, max(0, len(octets) - 1)))
    return octets and octets[:at] + bytes([octets[at] ^ 1 << draw(st.integers(0, 7))]) + octets[at + 1 :]


def _commands(draw: Draw) -> bytes:
    fields = {"topic": "A", "group": "A", "ttl_ms": 300, "context": b"c"}
    return build_command("CURVE", draw(st.sampled_from(TRAFFIC)), fields)


def _traffic(draw: Draw, peers: CurvePeers, role: int) -> list[bytes]:
    kind = draw(st.sampled_from(["message"] * 6 + ["command"] * 3 + ["odd", "odd", "clear", "clear command", "again"]))
    if kind == "message":
        bodies = draw(st.lists(BODIES, min_size=1, max_size=3))
        flags = [MORE] * (len(bodies) - 1) + [0]
        sealed = [peers.message(role, body, flag) for body, flag in zip(bodies, flags, strict=True)]
    elif kind == "command":
        sealed = [peers.message(role, _commands(draw), COMMAND)]
    elif kind == "odd":
        flags = draw(st.integers(0, 255) | st.sampled_from([COMMAND, COMMAND | MORE, 4, 0x80]))
        sealed = [peers.message(role, draw(st.binary(max_size=30)), int(flags))]
    elif kind == "clear":
        return [build_frame(Framing.V2, draw(BODIES), more=draw(st.booleans()))]
    elif kind == "clear command":
        return [frame(_commands(draw))] * draw(st.sampled_from([1, 1, 4]))
    else:
        sealed = [peers.message(role, b"", COMMAND)] * draw(st.sampled_from([1, 8, 12]))
    as_command = draw(st.sampled_from([False, False, False, True]))
    more = draw(st.sampled_from([False] * 9 + [True])) and not as_command
    return [build_frame(Framing.V2, body, command=as_command, more=more) for body in sealed]


def handshake(draw: Draw, peers: CurvePeers) -> Steps:
    """Draw (role, octets) of greetings and handshake, mostly correct."""
    version = draw(st.sampled_from(["3.1", "3.1", "3.0"]))
    types = draw(st.sampled_from(TYPES))
    odd = draw(st.sampled_from([""] * 8 + ["cookie", "vouch", "server", "metadata", "mechanism", "roles"]))
    metadata = {"socket_type": types[0], "identity": draw(st.sampled_from(["", "me"]))}
    if odd == "metadata":
        metadata = {"metadata": [{"name": "Socket-Type", "value": "\\xff"}, {"name": "", "value": "x"}]}
    mechanism = draw(st.sampled_from(["NULL", "PLAIN", "GSSAPI"])) if odd == "mechanism" else "CURVE"
    initiate = {"cookie": bytes(96) if odd == "cookie" else None, "vouch": bytes(64) if odd == "vouch" else None}
    steps = [
        (CLIENT, build_greeting_3("CURVE", version=version)),
        (SERVER, build_greeting_3(mechanism, version=version)),
        (CLIENT, frame(peers.hello(CurvePeers(3).C if odd == "server" else None))),
        (SERVER, frame(peers.welcome())),
        (CLIENT, frame(peers.initiate(**initiate, **metadata))),
        (SERVER, frame(peers.ready(socket_type=types[1]))),
    ]
    if odd == "roles":
        steps[5] = (SERVER, frame(CurvePeers(5).hello()))
    return steps


@st.composite
def talks(draw: Draw, honest: bool = False) -> Talk:
    """Draw a CURVE connection. Unless it is `honest`, commands may be anywhere, and parts lost or damaged."""
    peers = CurvePeers(draw(st.integers(0, 3)))
    text = draw(key_files(peers))
    client = draw(st.sampled_from([0, 0, 1]))
    steps = handshake(draw, peers)
    for _ in range(draw(st.sampled_from([0, 4, 8, 12, 16]))):
        role = draw(st.sampled_from([CLIENT, SERVER]))
        steps += [(role, octets) for octets in _traffic(draw, peers, role)]
    if not honest:
        for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2, 3]))):
            at = draw(st.integers(2, len(steps) - 1))
            role, octets = steps[at]
            what = draw(st.sampled_from(["flip", "lose", "move", "again", "noise", "huge", "low order"]))
            if what == "flip":
                steps[at] = role, _flipped(draw, octets)
            elif what == "again":
                steps.insert(at, steps[at])
            elif what == "noise":
                noise = b"\x07MESSAGE" + draw(st.binary(max_size=60))
                steps.insert(at, (role, build_frame(Framing.V2, noise)))
            elif what == "huge":
                steps.insert(at, (role, build_frame(Framing.V2, peers.message(role, bytes(1200)))))
            elif what == "low order":
                hello = build_command("CURVE", "HELLO", {"client_key": LOW_ORDER[0], "nonce": 1, "box": bytes(80)})
                steps.insert(at, (role, frame(hello)))
            else:
                del steps[at]
                if what == "move":
                    steps.insert(draw(st.integers(2, len(steps))), (role, octets))
    sides = [(client if role == CLIENT else 1 - client, octets) for role, octets in steps]
    return Talk(sides, text, client)


@st.composite
def sealed_packets(draw: Draw, talk: Talk, from_start: bool = True) -> list[Packet]:
    """Draw the packets of a conversation: cut anywhere; in the order of its steps, or with the sides interleaved
    differently."""
    talking = Conversation(initial=draw(st.sampled_from([(1000, 9000), (2**32 - 40, 2**32 - 1)])), syn=from_start)
    parts: list[tuple[int, bytes]] = []
    for side in (0, 1):
        parts += [(side, piece) for piece in draw(pieces(talk.stream(side)))]
    if draw(st.sampled_from([True, True, True, False])):
        parts = _in_order(talk, parts)
    else:
        Random(draw(st.integers(0, 1000))).shuffle(parts)
        parts = _each_in_order(talk, parts)
    for side, octets in parts:
        talking.send(side, octets)
        if len(octets) % 3 == 0:
            talking.acknowledge(1 - side)
    if draw(st.booleans()):
        talking.close()
    return talking.packets


def _each_in_order(talk: Talk, parts: Steps) -> Steps:
    """Return the parts with unchanged turns, and each side's own parts in the order of its stream."""
    lengths: list[list[int]] = [[], []]
    rest = [talk.stream(0), talk.stream(1)]
    for side, octets in sorted(parts, key=lambda part: part[0]):
        lengths[side].append(len(octets))
    ordered = []
    for side, _ in parts:
        length = lengths[side].pop(0)
        ordered.append((side, rest[side][:length]))
        rest[side] = rest[side][length:]
    return ordered


def _in_order(talk: Talk, parts: Steps) -> Steps:
    """Return the parts in the order of their last octets in the conversation."""
    drawn = []
    place = [0, 0]
    for at, (side, octets) in enumerate(talk.steps):
        place[side] += len(octets)
        drawn.append((side, place[side], at))
    sent, keyed = [0, 0], []
    for side, octets in parts:
        sent[side] += len(octets)
        turn = next(at for sender, stop, at in drawn if sender == side and stop >= sent[side])
        keyed.append((turn, sent[side], side, octets))
    return [(side, octets) for _, _, side, octets in sorted(keyed, key=lambda each: each[:2])]
