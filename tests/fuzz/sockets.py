"""A socket among fifty hostile peers: whatever they say, the honest one is served."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from tests.dissect.talks import hello
from tests.fuzz.changes import damaged
from tests.fuzz.faults import Fault
from zmtpscope.live import Socket, bind, connect

HOSTILE = 50
SERVED_WITHIN = 60.0
"""Seconds; who reads nothing is waited for, but not by everybody else for ever."""

ASK, NEWS = b"does anybody listen", b"news"


async def is_heard(ours: Socket, honest: Socket) -> None:
    """PULL: what the honest one says arrives."""
    await honest.send([ASK])
    while await ours.receive() != [ASK]:
        pass


async def is_told(ours: Socket, honest: Socket) -> None:
    """PUB: what is published arrives at the honest one."""

    async def publish() -> None:
        while True:
            await ours.send([NEWS, bytes(1000)])
            await asyncio.sleep(0.01)

    await honest.subscribe(NEWS)
    async with asyncio.TaskGroup() as group:
        publishing = group.create_task(publish())
        await honest.receive()
        publishing.cancel()


async def is_answered(ours: Socket, honest: Socket) -> None:
    """REP: a question gets its answer."""

    async def answer() -> None:
        while True:
            await ours.send(await ours.receive())

    async with asyncio.TaskGroup() as group:
        answering = group.create_task(answer())
        await honest.send([ASK])
        if await honest.receive() != [ASK]:
            raise Fault("the answer is that of somebody else")
        answering.cancel()


SERVICES: dict[str, tuple[str, Callable[[Socket, Socket], Coroutine[Any, Any, None]]]] = {
    "PULL": ("PUSH", is_heard),
    "PUB": ("SUB", is_told),
    "REP": ("REQ", is_answered),
}
"""By type of the socket: that of the honest peer, and what it is to have."""


async def be_hostile(port: int, octets: bytes, random: Random) -> None:
    """Say this, whole or octet by octet; then read nothing, or all, or close, or reset, or come back."""
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(OSError), socket.socket() as made:
            made.setblocking(False)
            if random.random() < 0.5:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await loop.sock_connect(made, ("127.0.0.1", port))
            size = random.choice((1, 7, 1 << 20))
            for start in range(0, min(len(octets), 2000 * size), size):
                await loop.sock_sendall(made, octets[start : start + size])
            end = random.choice(("hold", "hold", "read", "close", "half", "reset"))
            if end == "half":
                made.shutdown(socket.SHUT_WR)
            elif end == "reset":
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            while end == "read" and await loop.sock_recv(made, 1 << 16):
                pass
            if end in ("hold", "half"):
                await asyncio.sleep(SERVED_WITHIN)
        await asyncio.sleep(0.02)


async def serve(socket_type: str, streams: Sequence[bytes], random: Random) -> None:
    """Raises `TimeoutError` where the honest peer is not served."""
    honest_type, service = SERVICES[socket_type]
    async with bind("tcp://127.0.0.1:0", socket_type) as ours:
        port = ours.endpoint.port
        hostile = [
            asyncio.create_task(be_hostile(port, random.choice(streams), Random(random.getrandbits(32))))
            for _ in range(HOSTILE)
        ]
        try:
            await asyncio.sleep(0.1)
            async with asyncio.timeout(SERVED_WITHIN), connect(str(ours.endpoint), honest_type) as honest:
                await service(ours, honest)
        finally:
            for task in hostile:
                task.cancel()
            results = await asyncio.gather(*hostile, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


def serves_among_hostile(streams: Sequence[bytes], random: Random) -> None:
    """A socket of some type that hostile peers say these streams to, damaged or as they are, serves an honest one."""
    socket_type = random.choice(sorted(SERVICES))
    behind_handshake = [hello(SERVICES[socket_type][0]) + octets[random.choice((0, 64, 100)) :] for octets in streams]
    said = [damaged(octets, random) for octets in (*streams, *behind_handshake) for _ in range(5)]
    said += [*streams, *behind_handshake, b"", random.randbytes(100)]
    unhandled: list[dict[str, Any]] = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
        await serve(socket_type, said, random)

    try:
        asyncio.run(work())
    except TimeoutError:
        raise Fault(f"the honest peer of a {socket_type} is not served") from None
    for context in unhandled:
        raise Fault("an exception that nobody handled", str(context))
