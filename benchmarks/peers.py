"""Hostile peers of our sockets: each attack is a function that runs a given amount of it.

    python -m benchmarks.peers NAME COUNT        prints the pieces and octets that were received or sent

One process runs both sides, so the figures include the cost of the attackers.
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
"""Messages published for each subscription."""
FLOOD = 2000
"""Messages published for all: more than the systems of both sides buffer."""
TOPIC = b"x" * 100
"""Prefix of these messages."""


class Load(NamedTuple):
    """Number of pieces received or messages sent, and their octets."""

    pieces: int
    octets: int


class Attack(NamedTuple):
    """`run` runs an attack of a given size, `least` is the smallest size to measure."""

    run: Callable[[int], Load]
    least: int


def greeted(ours: str, theirs: bytes) -> Peer:
    """Return a peer of ours that has completed its handshake."""
    from zmtpscope.zmtp.peer import Peer, Settings  # where it is measured: the runner loads the standard library only

    peer = Peer(Settings(ours), 0.0)
    peer.receive(GREETING + ready(theirs), 0.0)
    return peer


def ready(socket_type: bytes) -> bytes:
    """Return the READY of a socket of this type."""
    return command(b"READY", b"\x0bSocket-Type" + len(socket_type).to_bytes(4, "big") + socket_type)


def subscriptions(count: int) -> Load:
    """Send subscriptions that all differ to a publisher, 8 in a piece."""
    peer, octets = greeted("PUB", b"SUB"), 0
    for number in range(count):
        piece = b"".join(command(b"SUBSCRIBE", b"%08x" % (8 * number + place)) for place in range(8))
        peer.receive(piece, 0.0)
        peer.events()
        octets += len(piece)
    return Load(count, octets)


def topic_lengths(count: int) -> Load:
    """Publish messages that match no subscription, where all subscriptions differ in length."""
    peer = greeted("PUB", b"SUB")
    for number in range(count):
        topic = b"x" * number + b"y"
        peer.receive(message(b"\1" + topic), 0.0)
        peer.events()
    for _ in range(count * MESSAGES):
        assert not peer.wants(TOPIC)
    return Load(count * MESSAGES, count * MESSAGES * len(TOPIC))


def octet_by_octet(count: int) -> Load:
    """Send one message of this many octets, one by one."""
    peer = greeted("PULL", b"PUSH")
    octets = message(bytes(count))
    for place in range(len(octets)):
        peer.receive(octets[place : place + 1], 0.0)
    assert len(peer.events()) == 2
    return Load(len(octets), len(octets))


def silent_subscribers(count: int) -> Load:
    """Publish to this many subscribers that read nothing; each message matches all of them."""
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
    """Run one attack."""
    name, count = sys.argv[1:]
    print(*ATTACKS[name].run(int(count)))


if __name__ == "__main__":
    main()
