"""Our sockets when the network or the other side fails, and when the application asks for too much."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import gc
import resource
import socket
import struct
import sys
import termios
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.peer_octets import GREETING, command, message, ready
from tests.scripted import handshake, served
from zmtpscope.live import Socket, bind, connect
from zmtpscope.live.peer import connection_pool, outbox
from zmtpscope.live.peer.arguments import parse_endpoint
from zmtpscope.live.peer.connection import LINGER, MIN_PIECE, Connection, Unreachable
from zmtpscope.live.peer.inbox import Inbox
from zmtpscope.live.peer.streams import StreamReader
from zmtpscope.live.recording.recording import Recording
from zmtpscope.zmtp.peer import ClosedHalfWay, Dropped, Limits, PeerError, Settings, Violation

PATIENCE = 30.0
"""Seconds after which a test fails; no test waits this long."""


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(PATIENCE):
            await work()

    asyncio.run(in_time())


@contextlib.asynccontextmanager
async def stranger(to: Socket, socket_type: str, buffer: int = 4096) -> AsyncIterator[socket.socket]:
    """Yield a connection to a listening socket that completes the handshake and then reads nothing. `buffer`: octets
    that the system takes anyway, approximately."""
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        made.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(made, ("127.0.0.1", to.endpoint.port))
        await loop.sock_sendall(made, GREETING + ready(socket_type))
        await to.wait_ready()
        yield made


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
            reader = StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(lambda: protocol, sock=ours)
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            reader.set_exception(error)
            connection = Connection(Settings("PULL"), reader, writer, lambda connection, event, size: None, Inbox())
            with pytest.raises(ClosedHalfWay):
                await connection.run()
            assert connection.lost

    run(work)


def test_a_server_that_resets_before_any_data() -> None:
    """The system no longer knows the address of the reset connection when we ask for it."""

    async def reset(endpoint: str) -> None:
        recording = Recording([lambda time, packets: None])
        async with connect(endpoint, "PULL", recording=recording, comes_back=False) as ours:
            with pytest.raises((Unreachable, ClosedHalfWay)):
                await ours.receive()

    def script(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def work() -> None:
        for _ in range(6):  # a few in a hundred fail so
            await asyncio.gather(*(reset(endpoint) for _ in range(50)))

    with served(script) as endpoint:
        run(work)


def test_a_peer_that_closes_and_does_not_read_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that waits for the closed connection continues."""
    monkeypatch.setattr("zmtpscope.live.peer.connection.LINGER", 0.1)

    async def work() -> None:
        async with bind("tcp://:0", "PUSH") as ours, stranger(ours, "PULL") as other:
            other.shutdown(socket.SHUT_WR)
            assert await ours.send([bytes(16 << 20)]) == 1

    run(work)


def test_a_peer_that_sends_pings_and_reads_no_answers_is_left() -> None:
    ping = b"\x04\x17\x04PING\0\0" + bytes(16)

    async def work() -> None:
        ends: asyncio.Queue[PeerError] = asyncio.Queue()

        def report(remote: str, what: object) -> None:
            if isinstance(what, PeerError):
                ends.put_nowait(what)

        async with bind("tcp://:0", "PULL", report=report) as ours, stranger(ours, "PUSH") as other:
            with contextlib.suppress(ConnectionError):
                while ours.connected:  # the system buffers a few MiB of answers
                    await asyncio.get_running_loop().sock_sendall(other, ping * 1000)
            assert isinstance(error := await ends.get(), Violation)
            assert str(error) == "the other side does not read the answers to its PINGs: more than 1 MiB of them wait"

    run(work)


def test_pings_that_arrive_while_much_is_sent_are_answered() -> None:
    """Meanwhile only messages of the application wait, and no answers."""
    ping = b"\x04\x07\x04PING\0\0"

    async def work() -> None:
        async with bind("tcp://:0", "PUSH") as ours, stranger(ours, "PULL") as other:
            loop = asyncio.get_running_loop()
            sending = loop.create_task(ours.send([bytes(8 << 20)]))
            for _ in range(20):
                await loop.sock_sendall(other, ping * 1000)
                await asyncio.sleep(0.001)
            left = 8 << 20
            while left > 0:
                left -= len(await loop.sock_recv(other, 1 << 20))
            assert await sending == 1
            assert ours.connected == 1

    run(work)


def test_subscriptions_without_a_publisher_are_not_read() -> None:
    async def work() -> None:
        async with bind("tcp://:0", "XPUB") as ours, connect(str(ours.endpoint), "SUB") as other:
            topics = [b"%08d" % number for number in range(20_000)]
            for topic in topics:
                await other.subscribe(topic)
            await asyncio.sleep(0.2)
            assert ours.waiting < len(topics)
            assert [await ours.receive() for _ in topics] == [[b"\1" + topic] for topic in topics]

    run(work)


def test_messages_keep_the_name_of_a_peer_that_has_left() -> None:
    async def work() -> None:
        async with bind("tcp://:0", "ROUTER") as ours:
            async with connect(str(ours.endpoint), "DEALER", identity="me") as other:
                await other.send([b"bye"])
            while ours.connected or not ours.waiting:
                await asyncio.sleep(0.01)
            assert await ours.receive() == [b"me", b"bye"]

    run(work)


@pytest.mark.parametrize("topic", [None, b"wanted"], ids=["nobody", "nobody who wants it"])
def test_a_peer_that_sends_unwanted_messages_does_not_stop_others(topic: bytes | None) -> None:
    """The sender then waits for a subscriber."""

    async def work() -> None:
        async with bind("tcp://:0", "PUB") as ours, connect(str(ours.endpoint), "SUB") as other:
            if topic is not None:
                await other.subscribe(topic)
                await other.wait_ready()
            loop = asyncio.get_running_loop()
            loop.call_later(0.01, loop.create_task, other.subscribe(b""))
            for _ in range(1_000_000):
                if await ours.send([b"news"]):
                    return
            raise AssertionError("nobody was let in")

    run(work)


def test_empty_messages_wait_for_receivers() -> None:
    async def work() -> None:
        async with bind("tcp://:0", "PUSH") as ours, stranger(ours, "PULL"):
            async with asyncio.timeout(0.5):
                for _ in range(1_000_000):
                    await ours.send([b""])

    with pytest.raises(TimeoutError):
        run(work)


def test_an_invalid_message_is_neither_request_nor_reply() -> None:
    async def work() -> None:
        async with bind("tcp://:0", "REP") as server, connect(str(server.endpoint), "REQ") as client:
            for socket_, sent in ((client, [b"question"]), (server, [b"answer"])):
                with pytest.raises(ValueError, match="at least one part"):
                    await socket_.send([])
                await socket_.send(sent)
                other = server if socket_ is client else client
                assert await other.receive() == sent

    run(work)


def test_a_new_request_does_not_fail_for_the_last_one() -> None:
    async def work() -> None:
        async with bind("tcp://:0", "REP") as server, connect(str(server.endpoint), "REQ") as client:
            await client.send([b"one"])
            await server.receive()
            for connection in server._outbox.connections:
                await connection.close()
            while client.connected:
                await asyncio.sleep(0.01)
            await client.send([b"two"])
            assert await server.receive() == [b"two"]
            await server.send([b"2"])
            assert await client.receive() == [b"2"]

    run(work)


def test_subscriptions_of_an_unfit_socket_are_refused_at_once() -> None:
    """The error is raised at once, not in a task of a later connection, where it would be lost."""

    async def work() -> None:
        with pytest.raises(ValueError, match="a REQ socket has no subscriptions"):
            await connect("tcp://127.0.0.1:1", "REQ").subscribe(b"news")
        with pytest.raises(ValueError, match="a SUB socket has no groups"):
            await connect("tcp://127.0.0.1:1", "SUB").join("news")
        with pytest.raises(ValueError, match="is not a group: use at most 255 octets"):
            await connect("tcp://127.0.0.1:1", "DISH").join("a" * 256)

    run(work)


def test_connections_take_half_of_the_files_that_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a free file descriptor, a connection cannot even be rejected."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (3, resource.RLIM_INFINITY))

    async def work() -> None:
        async with (
            bind("tcp://:0", "PULL") as ours,
            stranger(ours, "PUSH"),
            connect(str(ours.endpoint), "PUSH", comes_back=False) as other,
        ):
            with pytest.raises(ClosedHalfWay):
                await other.wait_ready()

    run(work)


def test_a_peer_that_was_connected_returns_without_delay() -> None:
    """It returns however the connection ended, for example inside a message."""
    count = 0

    def script(connection: socket.socket) -> None:
        nonlocal count
        count += 1
        handshake(connection, "PUSH")
        connection.sendall(b"\x00\x05half")

    async def work() -> None:
        async with connect(endpoint, "PULL"), asyncio.timeout(3):
            while count < 8:  # with delays that double it would take at least 6 s
                await asyncio.sleep(0.05)

    with served(script) as endpoint:
        run(work)


@pytest.mark.parametrize("text", ["ipc:///tmp/socket", "ipc://@name", "tcp://[::1]:5555", "tcp://host:1"])
def test_an_endpoint_is_reported_as_it_is_written(text: str) -> None:
    assert str(parse_endpoint(text)) == text


def test_an_address_in_brackets_without_a_port() -> None:
    with pytest.raises(ValueError, match="no port after the address"):
        parse_endpoint("tcp://[::1")


@pytest.mark.slow
def test_many_peers_that_send_much_wait_for_each_other() -> None:
    """A small part of each connection is held; messages of two octets take most."""
    count, messages = 20, 20_000

    async def work() -> None:
        async with bind("tcp://:0", "PULL") as ours, contextlib.AsyncExitStack() as stack:
            others = [await stack.enter_async_context(stranger(ours, "PUSH")) for _ in range(count)]
            loop = asyncio.get_running_loop()
            sending = [loop.create_task(loop.sock_sendall(other, bytes(2 * messages))) for other in others]
            await asyncio.sleep(0.5)
            assert ours.waiting <= count * 4 * MIN_PIECE // 2
            for _ in range(count * messages):
                assert await ours.receive() == [b""]
            await asyncio.gather(*sending)
            assert not ours.waiting

    run(work)


def test_a_peer_that_sends_little_does_not_wait_for_all_that_another_sends() -> None:
    """Connections that wait for room get it in turn, however much the others have sent."""
    count = 100_000

    async def work() -> None:
        async with bind("tcp://:0", "PULL") as ours, stranger(ours, "PUSH") as much, stranger(ours, "PUSH") as little:
            loop = asyncio.get_running_loop()
            sending = loop.create_task(loop.sock_sendall(much, message(b"m") * count))
            await asyncio.sleep(0.3)
            await loop.sock_sendall(little, message(b"little"))
            await asyncio.sleep(0.2)
            came = 0
            while await ours.receive() != [b"little"]:
                came += 1
                if not ours.waiting:
                    await asyncio.sleep(0)
            assert came < count / 4
            sending.cancel()

    run(work)


def test_closing_does_not_wait_for_peers_that_take_nothing() -> None:
    async def work() -> None:
        async with bind("tcp://:0", "PULL") as ours:
            async with connect(str(ours.endpoint), "PUSH") as other:
                for _ in range(20_000):
                    await other.send([b"x"])
                await asyncio.sleep(0.1)
                begin = asyncio.get_running_loop().time()
                await ours.close()
            assert asyncio.get_running_loop().time() - begin < LINGER

    run(work)


def test_a_subscriber_that_reads_nothing_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The publisher waits for it once, then drops and reports its messages, and serves all others."""
    monkeypatch.setattr(outbox, "SEND_TIMEOUT", 0.2)
    reported: list[object] = []

    async def work() -> None:
        async with (
            bind("tcp://:0", "PUB", report=lambda remote, what: reported.append(what)) as ours,
            stranger(ours, "SUB") as stuck,
            connect(str(ours.endpoint), "SUB") as other,
        ):
            await asyncio.get_running_loop().sock_sendall(stuck, command("NULL", "SUBSCRIBE", topic="big"))
            await other.subscribe(b"")
            while await ours.send([b"big", b"both are there"]) < 2:
                await asyncio.sleep(0.01)
            for number in range(12):
                await ours.send([b"big", b"%d" % number, bytes(1 << 20)])
            await ours.send([b"small", b"the stuck one has not asked for it"])
            while (await other.receive())[0] != b"small":
                pass

    run(work)
    dropped = [what for what in reported if isinstance(what, Dropped)]
    assert 0 < len(dropped) <= 12
    assert {what.parts[0] for what in dropped} == {b"big"}
    assert "does not read" in dropped[0].reason


def test_unsent_messages_are_not_waited_for() -> None:
    async def work() -> None:
        async with bind("tcp://:0", "PUB") as ours:
            assert await ours.send([b"news"]) == 0
            await ours.flush()

    run(work)


async def published(ours: Socket, seconds: float) -> float:
    """Publish for some seconds; return the longest time that one message took."""
    time_of = asyncio.get_running_loop().time
    begin = before = time_of()
    longest = 0.0
    while (now := time_of()) < begin + seconds:
        longest, before = max(longest, now - before), now
        await ours.send([b"news", bytes(1 << 18)])
    return max(longest, time_of() - before)


def test_all_peers_that_read_nothing_are_waited_for_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscribers that connect later, or again, are not waited for."""
    monkeypatch.setattr(outbox, "SEND_TIMEOUT", 1.0)
    monkeypatch.setattr(outbox, "RENEWAL", 0.0)
    subscribe = command("NULL", "SUBSCRIBE", topic="")
    count = 6

    async def work() -> None:
        loop = asyncio.get_running_loop()
        async with bind("tcp://:0", "PUB") as ours:
            assert await published(ours, 0.1) < 1.0
            for turn in range(3):
                async with contextlib.AsyncExitStack() as stack:
                    for _ in range(count):
                        await loop.sock_sendall(await stack.enter_async_context(stranger(ours, "SUB")), subscribe)
                    await ours.wait_ready(count)
                    longest = await published(ours, 1.0)
                assert (0.9 < longest < count) if turn == 0 else longest < 0.9
                while ours.connected:
                    await asyncio.sleep(0.01)

    run(work)


def test_a_peer_that_reads_slowly_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it takes longer for a message than the time-out, which other subscribers have used up."""
    monkeypatch.setattr(outbox, "SEND_TIMEOUT", 0.3)
    monkeypatch.setattr(outbox, "RENEWAL", 0.0)
    subscribe = command("NULL", "SUBSCRIBE", topic="")
    count, size, piece = 5, 1 << 20, 1 << 16

    async def work() -> None:
        loop = asyncio.get_running_loop()

        async def read_slowly() -> None:
            """Read 2 MiB a second."""
            came = 0
            while came < count * size:
                came += len(await loop.sock_recv(slow, piece))
                await asyncio.sleep(0.03)

        async with (
            bind("tcp://:0", "PUB") as ours,
            stranger(ours, "SUB", 1 << 18) as slow,
            stranger(ours, "SUB") as stuck,
        ):
            await ours.wait_ready(2)
            for connection in ours._pool.connections:
                connection._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, piece)
            for each in (slow, stuck):
                await loop.sock_sendall(each, subscribe)
            while await ours.send([b"both are there"]) < 2:
                await asyncio.sleep(0.01)
            reading = loop.create_task(read_slowly())
            sent = [await ours.send([bytes(size)]) for _ in range(count)]
            await reading
            assert sent == [2, 1, 1, 1, 1]

    run(work)


def test_a_reply_that_is_not_received_delays_others_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client may reconnect any number of times."""
    monkeypatch.setattr(outbox, "SEND_TIMEOUT", 0.5)
    monkeypatch.setattr(outbox, "RENEWAL", 0.0)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        async with bind("tcp://:0", "REP") as ours:
            begin = loop.time()
            for _ in range(6):
                async with stranger(ours, "REQ") as stuck:
                    await loop.sock_sendall(stuck, message(b"", b"ask"))
                    await ours.receive()
                    assert await ours.send([bytes(8 << 20)]) == 1
                while ours.connected:
                    await asyncio.sleep(0.01)
            assert loop.time() - begin < 1.5

    run(work)


def test_subscriptions_of_all_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection with the most subscriptions is closed with a reason; the others keep theirs."""
    monkeypatch.setattr(connection_pool, "LARGEST_HELD", 1 << 20)
    ends: dict[str, object] = {}

    async def work() -> None:
        loop = asyncio.get_running_loop()
        async with (
            bind("tcp://:0", "PUB", limits=Limits(message=1 << 18), report=ends.__setitem__) as ours,
            connect(str(ours.endpoint), "SUB") as honest,
            contextlib.AsyncExitStack() as stack,
        ):
            await honest.subscribe(b"news")
            greedy = [await stack.enter_async_context(stranger(ours, "SUB")) for _ in range(3)]
            await ours.wait_ready(4)
            for number in range(6000):
                each = greedy[number % 3]
                with contextlib.suppress(ConnectionError):
                    await loop.sock_sendall(each, command("NULL", "SUBSCRIBE", topic=f"{number:08}"))
            while not any(isinstance(end, Violation) for end in ends.values()):
                await asyncio.sleep(0.01)
            assert await ours.send([b"news"]) == 1
            assert await honest.receive() == [b"news"]

    run(work)
    reported = {str(end) for end in ends.values() if isinstance(end, Violation)}
    assert all(
        "all connections together hold more than 1 MiB" in each and "this one holds most" in each for each in reported
    )
    assert 1 <= len(reported) <= 2


def test_messages_under_way_are_bounded_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_pool, "LARGEST_HELD", 8 << 20)
    ends: list[object] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        limits = Limits(message=4 << 20)
        async with (
            bind("tcp://:0", "PULL", limits=limits, report=lambda remote, what: ends.append(what)) as ours,
            contextlib.AsyncExitStack() as stack,
        ):
            others = [await stack.enter_async_context(stranger(ours, "PUSH")) for _ in range(12)]
            for other in others:
                with contextlib.suppress(ConnectionError):
                    await loop.sock_sendall(other, b"\2" + (3 << 20).to_bytes(8, "big") + bytes(1 << 20))
            honest = await stack.enter_async_context(connect(str(ours.endpoint), "PUSH"))
            await honest.send([bytes(1 << 19)])
            assert await ours.receive() == [bytes(1 << 19)]
            assert sum(connection.held for connection in ours._outbox.connections) <= 8 << 20

    run(work)
    assert sum(isinstance(end, Violation) for end in ends) >= 4


def test_a_connection_that_was_closed_for_the_limit_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept until the garbage collector runs: for a thousand connections it would be gigabytes."""
    monkeypatch.setattr(connection_pool, "LARGEST_HELD", 2 << 20)
    ends: list[object] = []
    count, octets = 24, 1 << 20

    async def work() -> None:
        loop = asyncio.get_running_loop()
        limits = Limits(message=octets)
        async with (
            bind("tcp://:0", "PULL", limits=limits, report=lambda remote, what: ends.append(what)) as ours,
            contextlib.AsyncExitStack() as stack,
        ):
            for number in range(count):
                other = await stack.enter_async_context(stranger(ours, "PUSH"))
                with contextlib.suppress(ConnectionError):
                    await loop.sock_sendall(other, b"\2" + (octets - 64).to_bytes(8, "big") + bytes(octets - 65))
                while sum(isinstance(end, Violation) for end in ends) < number - 2:
                    await asyncio.sleep(0.01)
            assert tracemalloc.get_traced_memory()[0] < count * octets / 2

    gc.disable()
    tracemalloc.start()
    try:
        run(work)
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.parametrize("greets", [False, True])
def test_a_full_socket_closes_an_unneeded_connection(greets: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent connections are closed, before or after their handshake; a connection in use is kept."""
    monkeypatch.setattr(connection_pool, "MAX_CONNECTIONS", 8)
    monkeypatch.setattr(connection_pool, "MIN_IDLE", 3600)
    ends: list[tuple[str, object]] = []
    turned_away = "rejected: 8 connections are open, and none was silent for 3600 s"

    def reported() -> list[str]:
        return [str(what) for _, what in ends if isinstance(what, PeerError)]

    async def work() -> None:
        loop = asyncio.get_running_loop()
        async with (
            bind("tcp://:0", "PULL", report=lambda remote, what: ends.append((remote, what))) as ours,
            connect(str(ours.endpoint), "PUSH") as working,
            contextlib.AsyncExitStack() as stack,
        ):
            await working.wait_ready()
            for _ in range(7):
                silent = stack.enter_context(socket.socket())
                silent.setblocking(False)
                await loop.sock_connect(silent, ("127.0.0.1", ours.endpoint.port))
                await loop.sock_sendall(silent, GREETING + ready("PUSH") if greets else GREETING[:11])
            while len(ours._pool.connections) < 8 or (greets and ours.connected < 8):
                await asyncio.sleep(0.01)
            newcomer = await stack.enter_async_context(connect(str(ours.endpoint), "PUSH"))
            async with asyncio.timeout(20):
                while greets and turned_away not in reported():
                    await asyncio.sleep(0.01)
                monkeypatch.setattr(connection_pool, "MIN_IDLE", 0.3)
                while newcomer.connected == 0:
                    await working.send([b"work"])
                    await ours.receive()
                    await asyncio.sleep(0.02)
            await newcomer.send([b"served"])
            while await ours.receive() != [b"served"]:
                pass
            assert working.connected == 1
            assert len(ours._pool.connections) == 8

    run(work)
    why = "was silent for" if greets else "did not complete its handshake within"
    assert (
        sum(
            "closed to make room for another connection: 8 were open, and this one" in each and why in each
            for each in reported()
        )
        == 1
    )
    assert (turned_away in reported()) is greets


def test_a_puller_that_reads_nothing_does_not_stop_the_others() -> None:
    async def work() -> None:
        async with (
            bind("tcp://:0", "PUSH") as ours,
            stranger(ours, "PULL"),
            connect(str(ours.endpoint), "PULL") as other,
        ):
            await ours.wait_ready(2)
            for _ in range(20):
                await ours.send([bytes(1 << 20)])
            for _ in range(10):
                await other.receive()

    run(work)


def test_messages_before_a_reset_are_received() -> None:
    """It is received even if there was no room for it yet."""
    count = 2500

    def script(connection: socket.socket) -> None:
        handshake(connection, "PUSH")
        connection.sendall(message(b"x" * 100) * count)
        while int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder):
            time.sleep(0.01)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def work() -> None:
        with served(script, once=True) as endpoint:
            async with connect(endpoint, "PULL", comes_back=False) as ours:
                await ours.wait_ready()
                await asyncio.sleep(0.3)
                received = 0
                with contextlib.suppress(PeerError):
                    while True:
                        await ours.receive()
                        received += 1
        assert received == count

    run(work)
