"""Arguments of `connect`, `bind` and the methods of sockets: text where allowed, and errors at the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from zmtpscope import live
from zmtpscope.live import Heartbeat, PeerError, Socket, Unreachable, bind, connect
from zmtpscope.zmtp import peer

ANYWHERE = "tcp://:0"
NOBODY = "tcp://127.0.0.1:1"

LONGEST = 10.0


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(LONGEST):
            await work()

    asyncio.run(in_time())


def test_topics_and_groups_may_be_given_at_once() -> None:
    async def work() -> None:
        async with (
            bind(ANYWHERE, "PUB") as publisher,
            connect(publisher.endpoint, "SUB", subscribe=["news", b"\xff", "caf\u00e9", "\\x00"]) as subscriber,
        ):
            for topic in (b"sport", b"news", b"\xff", "caf\u00e9".encode(), b"\0"):
                while not await publisher.send([topic, b"body"]) and topic != b"sport":
                    await asyncio.sleep(0.01)
            received = [await subscriber.receive() for _ in range(4)]
            assert [topic for topic, _ in received] == [b"news", b"\xff", "caf\u00e9".encode(), b"\0"]
            await subscriber.cancel("news")
        async with bind(ANYWHERE, "RADIO") as radio, connect(radio.endpoint, "DISH", join=["one", b"two"]) as dish:
            while not await radio.send([b"two", b"body"]):
                await asyncio.sleep(0.01)
            assert await dish.receive() == [b"two", b"body"]
            await dish.leave("two")

    run(work)


def test_an_identity_may_be_octets() -> None:
    async def work() -> None:
        async with bind(ANYWHERE, "ROUTER") as router, connect(router.endpoint, "DEALER", identity=b"\x01a") as dealer:
            await dealer.send([b"hello"])
            assert await router.receive() == [b"\x01a", b"hello"]

    run(work)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: connect(5555, "REQ"), "an endpoint is text, for example 'tcp://127.0.0.1:5555', not int"),
        (lambda: connect(NOBODY, "SUB", subscribe="news"), "subscribe takes a list, as subscribe=['news']"),
        (lambda: connect(NOBODY, "SUB", subscribe=[1]), "a topic is text or octets, not int"),
        (lambda: connect(NOBODY, "DISH", join=b"one"), "join takes a list"),
        (lambda: connect(NOBODY, "REQ", identity=7), "an identity is text or octets, not int"),
        (lambda: connect(NOBODY, "REQ", security="PLAIN"), "security is Null(...) or PlainClient(...)"),
        (lambda: bind(ANYWHERE, "REP", heartbeat=5), "heartbeat is Heartbeat(...) or None, not int"),
        (lambda: bind(ANYWHERE, "REP", limits=(1, 2)), "limits is Limits(...), not tuple"),
        (lambda: connect(NOBODY, "REQ", unknown=1), "unexpected keyword argument 'unknown'"),
    ],
)
def test_wrong_types_are_refused_when_a_socket_is_made(act: Callable[[], Socket], words: str) -> None:
    async def work() -> None:
        with pytest.raises(TypeError) as refused:
            act()
        assert words in str(refused.value)

    run(work)


def test_options_that_do_not_fit_the_socket_type_are_refused_at_once() -> None:
    async def work() -> None:
        with pytest.raises(ValueError, match="a REQ socket has no subscriptions"):
            connect(NOBODY, "REQ", subscribe=["news"])
        with pytest.raises(ValueError, match="a SUB socket has no groups"):
            bind(ANYWHERE, "SUB", join=["one"])

    run(work)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (b"hello", "a message is a list of parts, for example [b'hello'], not bytes"),
        ("hello", "a message is a list of parts"),
        (["hello"], "a part of a message is octets, as b'hello', not text"),
        ([b"a", 1], "a part of a message is octets, not int"),
    ],
)
def test_an_invalid_message_is_refused_without_a_connection(parts: Any, words: str) -> None:
    async def work() -> None:
        async with connect(NOBODY, "PUSH") as socket:
            with pytest.raises(TypeError) as refused:
                await socket.send(parts)
            assert words in str(refused.value)
            with pytest.raises(ValueError, match="a message has at least one part"):
                await socket.send([])

    run(work)


def test_other_octets_will_do() -> None:
    async def work() -> None:
        async with bind(ANYWHERE, "PULL") as pull, connect(pull.endpoint, "PUSH") as push:
            await push.send((bytearray(b"a"), memoryview(b"b")))
            assert await pull.receive() == [b"a", b"b"]

    run(work)


def test_impossible_messages_are_not_waited_for() -> None:
    async def work() -> None:
        async with bind(ANYWHERE, "REP") as reply, connect(reply.endpoint, "REQ") as request:
            with pytest.raises(ValueError, match="a REQ socket must send a request before it receives the reply"):
                await request.receive()
            await request.send([b"question"])
            with pytest.raises(ValueError, match="must receive the reply"):
                await request.send([b"another"])
            await reply.send(await reply.receive())
            assert await request.receive() == [b"question"]
            with pytest.raises(ValueError, match="must send a request"):
                await request.receive()
            await request.send([b"again"])
        async with connect(NOBODY, "PUSH") as push, connect(NOBODY, "PULL") as pull:
            with pytest.raises(ValueError, match="a PUSH socket receives no messages"):
                await push.receive()
            with pytest.raises(ValueError, match="a PULL socket sends no messages"):
                await pull.send([b"hello"])

    run(work)


def test_only_existing_subscriptions_and_groups_can_be_cancelled() -> None:
    async def work() -> None:
        async with connect(NOBODY, "SUB", subscribe=["news"]) as socket, connect(NOBODY, "DISH") as dish:
            with pytest.raises(ValueError, match="not subscribed to 'sport'"):
                await socket.cancel("sport")
            with pytest.raises(ValueError, match="not a member of group 'one'"):
                await dish.leave("one")

    run(work)


def test_errors_and_options_are_found_where_sockets_are() -> None:
    async def work() -> None:
        async with connect(NOBODY, "PUSH", comes_back=False) as socket:
            with pytest.raises(Unreachable):
                await socket.send([b"hello"])

    run(work)
    assert {name for name in peer.__all__ if _is_error(getattr(peer, name))} <= {*live.__all__}
    assert Heartbeat is peer.Heartbeat
    assert issubclass(Unreachable, PeerError)


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, PeerError)
