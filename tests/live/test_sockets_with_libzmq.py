"""Our sockets with sockets of libzmq, over TCP: every pair of stable types, in both roles, with every mechanism."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import zmq

from tests.libzmq import Libzmq, Logins, bind_to_free_port
from tests.peers import CLIENT_KEY, CLIENT_SECRET, SECURITY
from tests.suites import some
from tests.waiting import PATIENCE
from zmtpscope import curve_crypto
from zmtpscope.live import Socket, bind, connect
from zmtpscope.zmtp.peer import (
    CurveClient,
    Dropped,
    Heartbeat,
    PeerError,
    PlainClient,
    Pong,
    Refused,
    Security,
    UnfitSocketType,
)
from zmtpscope.zmtp.socket_types import DRAFT, PEERS

PAIRS = sorted((ours, theirs) for ours in PEERS for theirs in PEERS[ours] if not {ours, theirs} & DRAFT)

MESSAGES = ([b"one"], [b"", b"two", b""], [b"\0\1\xff" * 100, b"x" * 255, b"y" * 256])


OPTIONS: dict[str, dict[str, Any]] = {
    "REQ": {"identity": b"libzmq"},
    "DEALER": {"identity": b"libzmq"},
    "ROUTER": {"identity": b"libzmq", "router_mandatory": 1},
    "SUB": {"subscribe": b""},
}
"""Pairs of socket types that exchange messages."""


@contextlib.asynccontextmanager
async def connected(theirs: Any, socket_type: str, *, we_bind: bool, **options: Any) -> AsyncIterator[Socket]:
    async with asyncio.timeout(PATIENCE):
        if we_bind:
            async with bind("tcp://:0", socket_type, **options) as ours:
                theirs.connect(str(ours.endpoint))
                await ours.wait_ready()
                yield ours
        else:
            async with connect(bind_to_free_port(theirs), socket_type, **options) as ours:
                await ours.wait_ready()
                yield ours


async def taken(theirs: Any) -> list[bytes]:
    parts: list[bytes] = await asyncio.to_thread(theirs.recv_multipart)
    return parts


async def settled(theirs: Any) -> None:
    """Let libzmq process received octets and send its own: it does so only in calls on the socket."""
    for _ in range(10):
        theirs.get(zmq.EVENTS)
        await asyncio.sleep(0.01)


async def handed(theirs: Any, parts: Sequence[bytes]) -> None:
    """Send with a socket of libzmq. A ROUTER completes the handshake later than we do."""
    while True:
        try:
            return await asyncio.to_thread(theirs.send_multipart, parts)
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            await settled(theirs)


async def ask_them(ours: Socket, theirs: Any, parts: list[bytes]) -> None:
    """Send a message to libzmq and receive its answer, with envelopes of ROUTER and REP if necessary."""
    kind, theirs_kind = ours.settings.socket_type, zmq.SocketType(theirs.type).name
    to_them = [b"libzmq"] if kind == "ROUTER" else []
    delimiter = [b""] if (kind, theirs_kind) in (("DEALER", "REP"), ("ROUTER", "REP")) else []
    await ours.send([*to_them, *delimiter, *parts])
    got = await taken(theirs)
    envelope = []
    if theirs_kind == "ROUTER":
        envelope = [got.pop(0)]
        assert envelope == [b"zmtpscope"]
        if kind == "REQ":
            envelope.append(got.pop(0))
    assert got == parts
    await handed(theirs, [*envelope, *parts, b"back"])
    assert await ours.receive() == [*to_them, *delimiter, *parts, b"back"]


async def be_asked(ours: Socket, theirs: Any, parts: list[bytes]) -> None:
    kind, theirs_kind = ours.settings.socket_type, zmq.SocketType(theirs.type).name
    to_us = [b"zmtpscope"] if theirs_kind == "ROUTER" else []
    delimiter = [b""] if theirs_kind == "DEALER" and kind == "REP" else []
    await handed(theirs, [*to_us, *delimiter, *parts])
    got = await ours.receive()
    envelope = []
    if kind == "ROUTER":
        envelope = [got.pop(0)]
        assert envelope == [b"libzmq"]
        if theirs_kind == "REQ":
            envelope.append(got.pop(0))
    assert got == parts
    await ours.send([*envelope, *parts, b"back"])
    assert await taken(theirs) == [*to_us, *delimiter, *parts, b"back"]


async def publish_to_them(ours: Socket, theirs: Any, parts: list[bytes]) -> None:
    while not await ours.send(parts):  # libzmq sends its subscription only during a call on its socket
        theirs.get(zmq.EVENTS)
        await asyncio.sleep(0.01)
    assert await taken(theirs) == parts


async def be_published_to(ours: Socket, theirs: Any, parts: list[bytes]) -> None:
    await handed(theirs, parts)
    assert await ours.receive() == parts


EXCHANGES: dict[str, Callable[[Socket, Any, list[bytes]], Any]] = {
    **dict.fromkeys(("REQ", "DEALER", "PAIR"), ask_them),
    **dict.fromkeys(("REP", "ROUTER"), be_asked),
    **dict.fromkeys(("PUB", "XPUB", "PUSH"), publish_to_them),
    **dict.fromkeys(("SUB", "XSUB", "PULL"), be_published_to),
}


CASES = [
    pytest.param(*pair, we_bind, mechanism, id="-".join([*pair, "bind" if we_bind else "connect", mechanism]))
    for pair in PAIRS
    for we_bind in (False, True)
    for mechanism in ("NULL", "PLAIN", "CURVE")
    # a REQ of libzmq 4.3.5 that checks logins closes on the first reply, even from a REP of libzmq
    if not (pair[1] == "REQ" and not we_bind and mechanism != "NULL")
]


@pytest.mark.parametrize(("ours", "theirs", "we_bind", "mechanism"), some(CASES, 5))
def test_every_pair(libzmq: Libzmq, logins: Logins, ours: str, theirs: str, we_bind: bool, mechanism: str) -> None:
    """Each side receives the messages of the other, part by part; the binding side is the server of the mechanism."""
    other = libzmq.socket(theirs, mechanism, server=not we_bind, **OPTIONS.get(theirs, {}))

    async def talk() -> None:
        options = {"identity": "zmtpscope"} if ours in ("REQ", "DEALER", "ROUTER") else {}
        options["security"] = SECURITY[mechanism][we_bind]
        async with connected(other, ours, we_bind=we_bind, **options) as socket:
            if ours in ("SUB", "XSUB"):
                await socket.subscribe(b"")
                await (asyncio.to_thread(other.recv) if theirs == "XPUB" else settled(other))
            elif theirs == "XSUB":
                await settled(other)
                other.send(b"\1")
                await settled(other)
                if ours == "XPUB":
                    assert await socket.receive() == [b"\1"]
            elif (ours, theirs) == ("XPUB", "SUB"):
                await settled(other)
                assert await socket.receive() == [b"\1"]
            for parts in MESSAGES:
                await EXCHANGES[ours](socket, other, parts)

    asyncio.run(talk())


@pytest.mark.parametrize("mechanism", ["NULL", "CURVE"])
@pytest.mark.parametrize("size", [0, 1, 254, 255, 256, 65_535, 65_536, 5_000_000])
def test_sizes(libzmq: Libzmq, size: int, mechanism: str) -> None:
    """Messages with every length of header, in both directions."""
    other = libzmq.socket("PAIR", mechanism, server=True)

    async def talk() -> None:
        body = bytes(range(256)) * (size // 256) + b"\xff" * (size % 256)
        async with connected(other, "PAIR", we_bind=False, security=SECURITY[mechanism][0]) as socket:
            await ask_them(socket, other, [body])

    asyncio.run(talk())


@pytest.mark.parametrize("we_bind", [False, True], ids=["connect", "bind"])
@pytest.mark.parametrize("mechanism", ["NULL", "CURVE"])
def test_subscriptions_and_cancels(libzmq: Libzmq, mechanism: str, we_bind: bool) -> None:
    """An XPUB of libzmq receives our SUB's subscriptions; our PUB sends only what their SUB subscribed to."""
    publisher = libzmq.socket("XPUB", mechanism, server=not we_bind)
    subscriber = libzmq.socket("XSUB", mechanism, server=not we_bind)

    async def subscribe() -> None:
        options = {"security": SECURITY[mechanism][we_bind]}
        async with connected(publisher, "SUB", we_bind=we_bind, **options) as socket:
            await socket.subscribe(b"A")
            await socket.subscribe(b"")
            await socket.cancel(b"")
            assert [await taken(publisher) for _ in range(3)] == [[b"\1A"], [b"\1"], [b"\0"]]
            for topic in (b"B", b"A1"):
                await handed(publisher, [topic, b"news"])
            assert await socket.receive() == [b"A1", b"news"]

    async def publish() -> None:
        options = {"security": SECURITY[mechanism][we_bind]}
        async with connected(subscriber, "XPUB", we_bind=we_bind, **options) as socket:
            await settled(subscriber)
            for subscription in (b"\1A", b"\1B", b"\0A"):
                subscriber.send(subscription)
                assert await socket.receive() == [subscription]
            assert not await socket.send([b"A1"])
            assert await socket.send([b"B1", b"news"])
            assert await taken(subscriber) == [b"B1", b"news"]

    asyncio.run(subscribe())
    asyncio.run(publish())


def test_subscriptions_return_with_the_connection(libzmq: Libzmq) -> None:
    """Our SUB subscribes again after its publisher was away, once to every topic."""
    first, endpoint = libzmq.bound("XPUB")

    async def talk() -> None:
        async with asyncio.timeout(PATIENCE), connect(endpoint, "SUB") as socket:
            await socket.subscribe(b"A")
            assert await taken(first) == [b"\1A"]
            first.close(linger=0)
            second = libzmq.socket("XPUB")
            while True:
                with contextlib.suppress(zmq.ZMQError):
                    second.bind(endpoint)
                    break
                await asyncio.sleep(0.01)
            assert await taken(second) == [b"\1A"]
            await handed(second, [b"A", b"again"])
            assert await socket.receive() == [b"A", b"again"]

    asyncio.run(talk())


@pytest.mark.parametrize("mechanism", ["NULL", "CURVE"])
def test_heartbeats(libzmq: Libzmq, mechanism: str) -> None:
    """libzmq answers our PINGs, and we answer its PINGs: otherwise one side would close."""
    options = {"heartbeat_ivl": 50, "heartbeat_timeout": 200, "heartbeat_ttl": 200}
    other = libzmq.socket("PAIR", mechanism, server=True, **options)
    received: list[object] = []

    async def talk() -> None:
        options = {"heartbeat": Heartbeat(0.03, 0.2, 0.2), "report": lambda remote, what: received.append(what)}
        options["security"] = SECURITY[mechanism][0]
        async with connected(other, "PAIR", we_bind=False, **options) as socket:
            await asyncio.sleep(0.6)
            await ask_them(socket, other, [b"still there"])

    asyncio.run(talk())
    assert received.count(Pong(b"")) >= 3
    assert not [what for what in received if isinstance(what, PeerError)]


def test_a_silent_peer_is_left(libzmq: Libzmq) -> None:
    """libzmq closes the connection when we exceed the TTL of our own PING, so its unit is correct."""
    other = libzmq.socket("PAIR")
    monitor = libzmq.monitor(other, zmq.EVENT_DISCONNECTED)

    async def talk() -> None:
        async with connected(other, "PAIR", we_bind=False, heartbeat=Heartbeat(60, 60, 0.2)) as socket:
            (connection,) = socket._outbox.connections
            connection.peer.ping(0)
            connection.flush()
            await asyncio.to_thread(monitor.recv_multipart)

    asyncio.run(talk())


def fails_to_connect(endpoint: str, socket_type: str, security: Security) -> PeerError:
    """Return the error with which our socket gives up on one of libzmq."""

    async def attempt() -> None:
        async with asyncio.timeout(PATIENCE), connect(endpoint, socket_type, security=security) as ours:
            await ours.wait_ready()

    with pytest.raises(PeerError) as raised:
        asyncio.run(attempt())
    return raised.value


def test_a_wrong_password_is_refused(libzmq: Libzmq, logins: Logins) -> None:
    failure = fails_to_connect(libzmq.endpoint("REP", "PLAIN"), "REQ", PlainClient("admin", "wrong"))
    assert isinstance(failure, Refused)
    assert str(failure) == "the other side answered HELLO with ERROR '400': authentication refused"


def test_a_wrong_server_key_is_refused(libzmq: Libzmq) -> None:
    wrong = CurveClient(CLIENT_KEY, CLIENT_SECRET, curve_crypto)
    failure = fails_to_connect(libzmq.endpoint("REP", "CURVE"), "REQ", wrong)
    assert isinstance(failure, Refused)
    assert "after our HELLO" in str(failure)
    assert "server key" in str(failure)


def test_a_client_key_that_is_not_known_is_refused(libzmq: Libzmq, logins: Logins) -> None:
    logins.keys.clear()
    failure = fails_to_connect(libzmq.endpoint("REP", "CURVE"), "REQ", SECURITY["CURVE"][0])
    assert isinstance(failure, Refused)
    assert "answered INITIATE with ERROR '400'" in str(failure)


@pytest.mark.parametrize("mechanism", ["NULL", "PLAIN", "CURVE"])
def test_an_unfit_socket_type(libzmq: Libzmq, logins: Logins, mechanism: str) -> None:
    """With NULL, libzmq sends its socket type; otherwise it closes silently, and our error can state only that."""
    failure = fails_to_connect(libzmq.endpoint("PUB", mechanism), "REQ", SECURITY[mechanism][0])
    assert isinstance(failure, UnfitSocketType)


def test_we_refuse_a_wrong_password(libzmq: Libzmq) -> None:
    """Our server sends libzmq the reason, as libzmq's own servers do."""
    other = libzmq.socket("REQ", "PLAIN", plain_password=b"wrong")
    monitor = libzmq.monitor(other, zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
    received: list[object] = []

    async def listen() -> None:
        options = {"security": SECURITY["PLAIN"][1], "report": lambda remote, what: received.append(what)}
        async with asyncio.timeout(PATIENCE), bind("tcp://:0", "REP", **options) as ours:
            other.connect(str(ours.endpoint))
            await asyncio.to_thread(monitor.recv_multipart)

    asyncio.run(listen())
    assert isinstance(received[0], Refused)
    assert str(received[0]) == "the login of 'admin' was refused"


def test_a_request_without_delimiter_is_reported(libzmq: Libzmq) -> None:
    """libzmq drops these silently, and users search for their requests for hours."""
    other = libzmq.socket("DEALER")
    received: list[object] = []

    async def listen() -> None:
        async with connected(other, "REP", we_bind=True, report=lambda remote, what: received.append(what)) as ours:
            await handed(other, [b"no delimiter"])
            await handed(other, [b"", b"with one"])
            assert await ours.receive() == [b"with one"]

    asyncio.run(listen())
    assert [what.parts for what in received if isinstance(what, Dropped)] == [[b"no delimiter"]]


def test_a_slow_taker_makes_the_sender_wait(libzmq: Libzmq) -> None:
    """Messages that the application does not receive are not read: libzmq holds them, and its sender must wait."""
    other = libzmq.socket("PUSH", sndhwm=1, sndtimeo=200)

    def send_all() -> int:
        for sent in range(3000):
            try:
                other.send(bytes(1 << 16))
            except zmq.Again:
                return sent
        return 3000

    async def listen() -> None:
        async with connected(other, "PULL", we_bind=True) as ours:
            sent = await asyncio.to_thread(send_all)
            assert sent < 3000
            for _ in range(sent):
                await ours.receive()

    asyncio.run(listen())
