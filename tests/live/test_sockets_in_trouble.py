"""Our sockets where the network or the other side fails them, and where whoever uses them asks for too much."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from tests.scripted import served
from zmtpscope.live import connect
from zmtpscope.live.connection import Connection, Unreachable
from zmtpscope.live.recording import Recording
from zmtpscope.zmtp.peer import ClosedHalfWay, Settings

PATIENCE = 10.0
"""Seconds after which a test has failed; none waits for it."""


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(PATIENCE):
            await work()

    asyncio.run(in_time())


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        OSError(errno.EHOSTUNREACH, "No route to host"),
        TimeoutError(errno.ETIMEDOUT, "Connection timed out"),
    ],
    ids=lambda error: errno.errorcode[error.errno],
)
def test_a_network_that_fails_ends_a_connection(error: OSError) -> None:
    async def work() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_connection(sock=ours)
            reader.set_exception(error)
            connection = Connection(Settings("PULL"), reader, writer, lambda connection, event: None)
            with pytest.raises(ClosedHalfWay):
                await connection.run()
            assert connection.lost

    run(work)


def test_a_server_that_resets_before_anything_is_said() -> None:
    """Whose address the system does not know any more, by the time that it is looked at."""

    async def reset(endpoint: str) -> None:
        recording = Recording([lambda time, packets: None])
        async with connect(endpoint, "PULL", recording=recording, comes_back=False) as ours:
            with pytest.raises((Unreachable, ClosedHalfWay)):
                await ours.receive()

    def script(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def work() -> None:
        for _ in range(6):  # a few in a hundred meet it
            await asyncio.gather(*(reset(endpoint) for _ in range(50)))

    with served(script) as endpoint:
        run(work)
