"""Strategies for captured connections: the octets of two sides, cut into packets, and the effects of a capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.peer_octets import command, hello, message, subscribe
from tests.strategies import sides
from tests.traffic import Conversation, Packet

Drawn = TypeVar("Drawn")
Draw = Callable[[st.SearchStrategy[Drawn]], Drawn]


SECOND = 1_000_000_000

Steps = Sequence[tuple[int, bytes] | float]

COMMANDS: dict[str, dict[str, Any]] = {
    "CURVE HELLO": {"client_key": bytes(range(32)), "nonce": 1, "box": bytes(80)},
    "CURVE WELCOME": {"long_nonce": bytes(range(16)), "box": bytes(144)},
    "CURVE INITIATE": {"cookie": bytes(96), "nonce": 2, "box": bytes(144)},
    "CURVE READY": {"nonce": 1, "box": bytes(40)},
    "PLAIN HELLO": {"username": "admin", "password": "secret"},
    "PLAIN INITIATE": {"metadata": [{"name": "Socket-Type", "value": "DEALER"}]},
    "NULL READY": {"metadata": [{"name": "Socket-Type", "value": "DEALER"}]},
    "NULL ERROR": {"reason": "no"},
}


def default_command(mechanism: str, name: str) -> bytes:
    return command(mechanism, name, **COMMANDS.get(f"{mechanism} {name}", {}))


def connected(client: str, server: str, *, version: str = "3.1", **given: Any) -> Conversation:
    """A conversation of two sockets after their handshake; `given` are arguments of `Conversation`."""
    conversation = Conversation(**given)
    conversation.send(0, hello(client, version))
    conversation.send(1, hello(server, version))
    return conversation


def played(client: str, server: str, steps: Steps, *, closed: bool = True) -> Conversation:
    """A conversation of two sockets: the handshake, and steps, which are octets of a side, or seconds of silence."""
    talk = connected(client, server)
    for step in steps:
        if isinstance(step, tuple):
            talk.send(*step)
        else:
            talk.wait(int(step * SECOND))
    if closed:
        talk.close()
    return talk


def pieces(octets: bytes) -> st.SearchStrategy[list[bytes]]:
    """The octets cut at a few places, or into many small pieces."""

    def cut(places: list[int]) -> list[bytes]:
        edges = [0, *sorted({place for place in places if 0 < place < len(octets)}), len(octets)]
        return [octets[start:stop] for start, stop in pairwise(edges) if stop > start]

    few = st.lists(st.integers(0, len(octets)), max_size=10)
    return st.one_of(few, st.just(list(range(0, min(len(octets), 100), 3)))).map(cut)


@st.composite
def packets_of(
    draw: Draw, first: bytes, second: bytes, syn: bool = True, close: bool = True, pauses: bool = True
) -> list[Packet]:
    """The two streams in packets: cut anywhere, sent in any interleaving, acknowledged now and then; with `pauses`
    longer than any waiting limit, and receive windows that are closed for a while."""
    talk = Conversation(initial=draw(st.sampled_from([(1000, 9000), (2**32 - 40, 2**32 - 1)])), syn=syn)
    left = [draw(pieces(first)), draw(pieces(second))]
    waits = draw(st.sets(st.integers(0, 20), max_size=2)) if pauses else set()
    closed = draw(st.sets(st.integers(3, 20), max_size=3)) if pauses else set()
    order = Random(draw(st.integers(0, 1000)))
    while left[0] or left[1]:
        side = order.randrange(2) if left[0] and left[1] else (0 if left[0] else 1)
        if len(talk.packets) in waits:
            talk.wait(4_000_000_000)
        talk.send(side, left[side].pop(0))
        if order.randrange(3) == 0:
            talk.acknowledge(1 - side)
        talk.closed[side] = len(talk.packets) in closed
    if close:
        talk.close()
    return talk.packets


@st.composite
def connections(draw: Draw) -> list[Packet]:
    """A connection of any kind: agreeing or not, valid or damaged, captured from its start or not."""
    first, second = draw(sides()).octets, draw(sides()).octets
    if draw(st.booleans()):
        second = first
    return draw(packets_of(first, second, syn=draw(st.sampled_from([True, True, False])), close=draw(st.booleans())))


@st.composite
def pushed(draw: Draw) -> tuple[list[Packet], list[tuple[bytes, ...]]]:
    """A PUSH that sends to a PULL, and the messages it sends. Bodies are noise, so that none looks like frames."""
    sizes = st.integers(0, 40) | st.integers(200, 700)
    shapes = draw(st.lists(st.lists(sizes, min_size=1, max_size=3), min_size=1, max_size=30))
    noise = Random(draw(st.integers(0, 1 << 32)))
    messages = [tuple(noise.randbytes(size) for size in shape) for shape in shapes]
    stream = hello("PUSH") + b"".join(message(*bodies) for bodies in messages)
    return draw(packets_of(stream, hello("PULL"), pauses=False)), messages


NAMES = st.sampled_from([b"a", b"ab", b"b.c", b"new.one"])
BODIES = st.sampled_from([b"", b"hi", b"\1\2", b"\0", b"a" * 40, b"a", b"1"])


@st.composite
def under_way(draw: Draw) -> list[Packet]:
    """A connection that is captured from its midst: one side asks, subscribes or acknowledges, the other one sends."""
    asks = st.one_of(
        NAMES.map(lambda name: message(b"\1" + name)),
        NAMES.map(lambda name: message(b"\0" + name)),
        NAMES.map(subscribe),
        BODIES.map(message),
    )
    sends = st.builds(message, NAMES, BODIES) | st.builds(lambda name, body: message(name + body), NAMES, BODIES)
    streams = [b"".join(draw(st.lists(each, max_size=30))) for each in (asks, sends)]
    if draw(st.booleans()):
        streams.reverse()
    return draw(packets_of(*streams, syn=draw(st.sampled_from([True, False, False]))))


@st.composite
def disturbed(draw: Draw, packets: list[Packet]) -> list[Packet]:
    """The packets with some doubled, and some moved back by a few places, as networks do."""
    result = list(packets)
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(3, max(3, len(result) - 1)))
        if at >= len(result):
            continue
        packet = result[at]
        if draw(st.booleans()):
            del result[at]
        result.insert(min(len(result), at + draw(st.integers(0, 5))), packet)
    times = sorted(packet.time for packet in result)
    return [replace(packet, time=time) for packet, time in zip(result, times, strict=True)]


@st.composite
def snapped(draw: Draw, packets: list[Packet]) -> list[Packet]:
    """The packets as a small snap length captures them: of some of them only the first octets of the payload."""
    snap = draw(st.sampled_from([None, None, 0, 1, 7, 60]))
    kept = [packet if snap is None else replace(packet, payload=packet.payload[:snap]) for packet in packets]
    return [replace(few, cut=len(all_.payload) - len(few.payload)) for few, all_ in zip(kept, packets, strict=True)]
