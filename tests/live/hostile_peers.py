"""Attack a listening socket of ours with hostile peers, while one honest peer of libzmq must be served.

served = serve_among_hostile_peers("PUB", seed=1) assert served.longest < 10
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import queue
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, NamedTuple

import zmq

from tests.peer_octets import GREETING, command, message, ready
from tests.waiting import in_thread
from zmtpscope.live import Socket, bind
from zmtpscope.zmtp.peer import PeerError

PARTNERS = {
    "PUB": "SUB",
    "XPUB": "SUB",
    "ROUTER": "DEALER",
    "REP": "REQ",
    "PULL": "PUSH",
    "PUSH": "PULL",
    "DEALER": "ROUTER",
}
"""Socket types that connect, by the socket type of ours."""

HONEST = b"honest"
"""The topic, or the first part, of messages for the honest peer."""


class Served(NamedTuple):
    """The result for the honest peer: `longest` is the longest time (seconds) that it waited for a message.

    `attacks` is the number of connections of hostile peers; `errors` are the errors that our socket reported, by kind;
    `unhandled` are the exceptions that reached the event loop.
    """

    longest: float
    attacks: int
    errors: dict[str, int]
    unhandled: list[str]


def serve_among_hostile_peers(
    socket_type: str,
    seed: int,
    *,
    hostile: int = 50,
    messages: int = 5,
    limit: float = 60.0,
    streams: Sequence[bytes] = (),
    **options: Any,
) -> Served:
    """Let the honest peer exchange messages among hostile peers, which also send `streams`. Raises `zmq.Again` if it
    waits longer than `limit` seconds for a message. `options` are those of `bind`."""
    arrived: queue.Queue[float] = queue.Queue()
    listening: queue.Queue[int] = queue.Queue()
    over = threading.Event()
    errors: dict[str, int] = {}
    unhandled: list[str] = []

    def report(remote: str, what: object) -> None:
        if isinstance(what, PeerError):
            assert str(what).isprintable()
            errors[type(what).__name__] = errors.get(type(what).__name__, 0) + 1

    async def serve() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(str(context)))
        async with bind("tcp://:0", socket_type, report=report, **options) as ours:
            listening.put(ours.endpoint.port)
            work = asyncio.gather(*(each(ours, arrived) for each in WORK[socket_type]))
            waiting = asyncio.ensure_future(asyncio.to_thread(over.wait))
            await asyncio.wait((work, waiting), return_when=asyncio.FIRST_COMPLETED)
            work.cancel()
            (result,) = await asyncio.gather(work, return_exceptions=True)
            await waiting
            if isinstance(result, Exception):
                raise result

    serving = in_thread(lambda: asyncio.run(serve()))
    port = listening.get(timeout=limit)
    command = [sys.executable, "-m", __name__, *map(str, (port, PARTNERS[socket_type], hostile, seed))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as attacking:
        assert attacking.stdin is not None
        assert attacking.stdout is not None
        try:
            attacking.stdin.write(json.dumps([octets.hex() for octets in streams]) + "\n")
            attacking.stdin.flush()
            assert attacking.stdout.readline() == "begins\n"
            longest = _be_honest(socket_type, port, messages, limit, arrived)
            attacks = int(attacking.communicate(timeout=limit)[0])
        finally:
            attacking.kill()
            over.set()
            serving.result(limit)
    return Served(longest, attacks, errors, unhandled)


# -- ours --------------------------------------------------------------------------------------------------------------


async def _publish(ours: Socket, arrived: queue.Queue[float]) -> None:
    while True:
        await ours.send([HONEST, bytes(1000)])
        await asyncio.sleep(0.001)


async def _hand_out(ours: Socket, arrived: queue.Queue[float]) -> None:
    while True:
        await ours.send([HONEST])
        await asyncio.sleep(0.0001)


async def _echo(ours: Socket, arrived: queue.Queue[float]) -> None:
    async for parts in ours:
        await ours.send(parts)


async def _take(ours: Socket, arrived: queue.Queue[float]) -> None:
    async for parts in ours:
        if parts[0] == HONEST:
            arrived.put(time.monotonic())


WORK: dict[str, tuple[Callable[[Socket, queue.Queue[float]], Any], ...]] = {
    "PUB": (_publish,),
    "XPUB": (_publish, _take),
    "ROUTER": (_echo,),
    "REP": (_echo,),
    "PULL": (_take,),
    "PUSH": (_hand_out,),
    "DEALER": (_hand_out, _take),
}
"""Actions of the application on our socket, all at the same time."""


# -- the honest peer ---------------------------------------------------------------------------------------------------


def _be_honest(socket_type: str, port: int, count: int, limit: float, arrived: queue.Queue[float]) -> float:
    """Exchange messages with our socket; return the longest wait for one."""
    context = zmq.Context()
    partner = PARTNERS[socket_type]
    made = context.socket(getattr(zmq, partner))
    try:
        made.linger = 0
        made.rcvtimeo = made.sndtimeo = round(limit * 1000)
        made.reconnect_ivl = 50
        if partner == "SUB":
            made.subscribe(HONEST)
        made.connect(f"tcp://127.0.0.1:{port}")
        longest = 0.0
        for _ in range(count):
            begin = time.monotonic()
            if partner in ("DEALER", "REQ", "PUSH"):
                made.send_multipart([HONEST, b"?"])
            if partner == "PUSH":
                try:
                    arrived.get(timeout=limit)
                except queue.Empty:
                    raise zmq.Again from None
            else:
                assert HONEST in made.recv_multipart()
            longest = max(longest, time.monotonic() - begin)
        return longest
    finally:
        made.close()
        context.destroy(linger=0)


# -- the hostile peers -------------------------------------------------------------------------------------------------

Draw = random.Random
Attack = AsyncIterator[bytes]
"""Octets to send as soon as the socket takes them; after them the connection stays open."""


async def _silence(draw: Draw, hello: bytes) -> Attack:
    if draw.random() < 0.7:
        yield b"".join((GREETING, hello))[: draw.randrange(len(GREETING))]


async def _nothing_read(draw: Draw, hello: bytes) -> Attack:
    """Read nothing after the handshake and a subscription to everything."""
    yield hello + command("NULL", "SUBSCRIBE", topic="") + message(b"", b"ask") * 20


async def _garbage(draw: Draw, hello: bytes) -> Attack:
    start = draw.choice([b"", b"\xff", GREETING[:11], GREETING, hello])
    while True:
        yield start + draw.randbytes(1 << draw.randrange(1, 16))
        start = b""


async def _huge_sizes(draw: Draw, hello: bytes) -> Attack:
    yield hello + bytes([draw.choice([2, 3, 6])]) + (1 << draw.randrange(16, 64)).to_bytes(8, "big")
    for _ in range(draw.randrange(16)):
        yield bytes(1 << 16)


async def _endless_message(draw: Draw, hello: bytes) -> Attack:
    yield hello
    while True:
        yield message(draw.randbytes(draw.choice([0, 1, 300])), b"")[:-2] * 500


async def _messages(draw: Draw, hello: bytes) -> Attack:
    yield hello
    while True:
        yield message(b"", b"flood", b"x" * draw.choice([0, 10, 1000])) * 500


async def _subscriptions(draw: Draw, hello: bytes) -> Attack:
    yield hello
    while True:
        name = draw.choice(["SUBSCRIBE", "SUBSCRIBE", "CANCEL"])
        yield b"".join(command("NULL", name, topic=f"{draw.getrandbits(40):x}") for _ in range(200))


async def _pings(draw: Draw, hello: bytes) -> Attack:
    yield hello
    while True:
        yield command("NULL", "PING", ttl_ms=draw.choice([0, 10]), context=b"x" * 16) * 500


async def _dribble(draw: Draw, hello: bytes) -> Attack:
    for octet in hello + message(b"", b"dribble", bytes(300)):
        yield bytes((octet,))
        await asyncio.sleep(0.002)


async def _coming_and_going(draw: Draw, hello: bytes) -> Attack:
    yield hello
    raise ConnectionError


def _recorded(octets: bytes) -> Callable[[Draw, bytes], Attack]:
    """Send recorded octets, whole or in small pieces."""

    async def attack(draw: Draw, hello: bytes) -> Attack:
        size = draw.choice((1, 7, 1 << 20))
        for start in range(0, min(len(octets), 2000 * size), size):
            yield octets[start : start + size]

    return attack


ATTACKS = (
    _silence,
    _nothing_read,
    _nothing_read,
    _garbage,
    _huge_sizes,
    _endless_message,
    _messages,
    _subscriptions,
    _pings,
    _dribble,
    _coming_and_going,
)


async def _attack(port: int, socket_type: str, hostile: int, seed: int) -> None:
    """Run all hostile peers, in a process of their own, until standard input ends. Its first line contains streams
    to send. Prints the number of connections."""
    count = itertools.count()
    attacks = [*ATTACKS, *(_recorded(bytes.fromhex(octets)) for octets in json.loads(sys.stdin.readline()))]
    attackers = [
        _one(port, socket_type, random.Random(seed * 1000 + number), count, attacks) for number in range(hostile)
    ]
    attacking = asyncio.gather(*attackers)
    await asyncio.sleep(0.5)
    print("begins", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    attacking.cancel()
    await asyncio.gather(attacking, return_exceptions=True)
    print(next(count))


async def _one(
    port: int,
    socket_type: str,
    draw: Draw,
    count: Iterator[int],
    attacks: Sequence[Callable[[Draw, bytes], Attack]],
) -> None:
    """Run one hostile peer, which connects repeatedly."""
    while True:
        next(count)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(draw.uniform(0.1, 2.0)):
                await _connection(port, draw.choice(attacks)(draw, GREETING + ready(socket_type)), draw)
        await asyncio.sleep(draw.uniform(0.0, 0.1))


async def _connection(port: int, attack: Attack, draw: Draw) -> None:
    """Perform an attack; then read nothing, or everything, or close the sending direction."""
    loop = asyncio.get_running_loop()
    with socket.socket() as made:
        made.setblocking(False)
        if draw.random() < 0.5:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if draw.random() < 0.5:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await loop.sock_connect(made, ("127.0.0.1", port))
        async for octets in attack:
            await loop.sock_sendall(made, octets)
            await asyncio.sleep(0)
        end = draw.choice(("hold", "hold", "read", "half"))
        if end == "half":
            made.shutdown(socket.SHUT_WR)
        while end == "read" and await loop.sock_recv(made, 1 << 16):
            pass
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_attack(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
