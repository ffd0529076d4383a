"""Peers that mean harm to ours: each attack is a function that does as much of it as it is told to.

    python -m benchmarks.peers NAME COUNT        prints the pieces and octets that were received or sent

All of it happens in one process, so what the attackers themselves cost is a part of the figures.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import ExitStack
from socket import SO_RCVBUF, SOL_SOCKET, socket
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.attacks import GREETING, command, message

if TYPE_CHECKING:
    from zmtpscope.zmtp.peer import Peer

MESSAGES = 20
"""Messages that are published for each subscription."""
FLOOD = 2000
"""Messages that are published for all: more than the systems of both sides take."""
TOPIC = b"x" * 100
"""What they begin with."""


class Load(NamedTuple):
    """Pieces that came or messages that went, and their octets."""

    pieces: int
    octets: int


class Attack(NamedTuple):
    """`run` does an attack of a size, `least` is the smallest to measure."""

    run: Callable[[int], Load]
    least: int


def greeted(ours: str, theirs: bytes) -> Peer:
    """A peer of ours behind its handshake."""
    from zmtpscope.zmtp.peer import Peer, Settings  # where it is measured: the runner loads the standard library only

    peer = Peer(Settings(ours), 0.0)
    peer.receive(GREETING + ready(theirs), 0.0)
    return peer


def ready(socket_type: bytes) -> bytes:
    """The READY of a socket of this type."""
    return command(b"READY", b"\x0bSocket-Type" + len(socket_type).to_bytes(4, "big") + socket_type)


def subscriptions(count: int) -> Load:
    """Topics that are all different, 8 in a piece, come to a publisher."""
    peer, octets = greeted("PUB", b"SUB"), 0
    for number in range(count):
        piece = b"".join(command(b"SUBSCRIBE", b"%08x" % (8 * number + place)) for place in range(8))
        peer.receive(piece, 0.0)
        peer.events()
        octets += len(piece)
    return Load(count, octets)


def topic_lengths(count: int) -> Load:
    """A publisher sends what nobody wants, where each subscription has a length of its own."""
    peer = greeted("PUB", b"SUB")
    for number in range(count):
        topic = b"x" * number + b"y"
        peer.receive(message(b"\1" + topic), 0.0)
        peer.events()
    for _ in range(count * MESSAGES):
        assert not peer.wants(TOPIC)
    return Load(count * MESSAGES, count * MESSAGES * len(TOPIC))


def octet_by_octet(count: int) -> Load:
    """One message of so many octets comes one by one."""
    peer = greeted("PULL", b"PUSH")
    octets = message(bytes(count))
    for place in range(len(octets)):
        peer.receive(octets[place : place + 1], 0.0)
    assert len(peer.events()) == 2
    return Load(len(octets), len(octets))


def silent_subscribers(count: int) -> Load:
    """A publisher has so many subscribers that read nothing; each message is meant for all of them."""
    return asyncio.run(_publish(count, b"x" * 4096))


async def _publish(count: int, body: bytes) -> Load:
    from zmtpscope.live import bind

    with ExitStack() as stack:
        async with bind("tcp://:0", "PUB") as ours:
            for _ in range(count):
                subscriber = stack.enter_context(socket())
                subscriber.setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)
                subscriber.connect(("127.0.0.1", ours.endpoint.port))
                subscriber.sendall(GREETING + ready(b"SUB") + command(b"SUBSCRIBE", b""))
                await asyncio.sleep(0)
            while await ours.send([body]) < count:
                await asyncio.sleep(0.01)
            for _ in range(FLOOD):
                await ours.send([body])
    return Load(count * FLOOD, count * FLOOD * len(body))


ATTACKS = {
    "subscriptions to a publisher": Attack(subscriptions, 1_500),
    "topic lengths of a publisher": Attack(topic_lengths, 350),
    "octet by octet": Attack(octet_by_octet, 100_000),
    "silent subscribers of a publisher": Attack(silent_subscribers, 20),
}


def main() -> None:
    """Do one."""
    name, count = sys.argv[1:]
    print(*ATTACKS[name].run(int(count)))


if __name__ == "__main__":
    main()
