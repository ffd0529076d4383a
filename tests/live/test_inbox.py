"""The order in which received messages are taken, and limits of their number; other tasks run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from zmtpscope.live.peer import inbox as inboxes
from zmtpscope.live.peer.inbox import TURN, Inbox
from zmtpscope.zmtp.peer import Message


def filled(**counts: int) -> Inbox[str]:
    inbox: Inbox[str] = Inbox()
    for source, count in counts.items():
        for number in range(count):
            inbox.add(source, Message([b"%d" % number]))
    return inbox


def taken(inbox: Inbox[str], most: int) -> str:
    return " ".join(f"{source}{message.parts[0].decode()}" for source, message in inbox.drain(most))


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(20):
            await work()

    asyncio.run(in_time())


async def rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_one_message_of_each_is_taken_in_turn() -> None:
    inbox = filled(a=4, b=1, c=2)
    assert len(inbox) == 7
    assert taken(inbox, 2) == "a0 b0"
    inbox.add("b", Message([b"1"]))  # the source had none left: its turn is the last
    assert taken(inbox, 9) == "c0 a1 b1 c1 a2 a3"
    assert len(inbox) == 0
    assert taken(inbox, 9) == ""


def test_a_flood_keeps_no_other_connection_from_adding_a_message() -> None:
    """A source without waiting messages can add one at once; a flooding one waits until all its own are taken."""

    async def work() -> None:
        inbox = filled(flood=inboxes.MAX_WAITING)
        looked: list[str] = []
        flooding = asyncio.ensure_future(inbox.process_in_turn("flood", lambda: looked.append("flood"), is_ready=True))
        await rounds(3)
        await inbox.process_in_turn("honest", lambda: looked.append("honest"), is_ready=True)
        assert looked == ["honest"]
        inbox.drain(inboxes.MAX_WAITING - 1)
        await rounds(3)
        assert not flooding.done()
        inbox.drain(1)
        await flooding
        assert looked == ["honest", "flood"]

    run(work)


def test_room_for_octets_is_given_in_the_order_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """One source is served at a time: one that has used the room is queued after the waiting ones.

    Handshakes continue meanwhile.
    """
    monkeypatch.setattr(inboxes, "LARGEST_WAITING", 10)

    async def work() -> None:
        inbox = filled(x=1)
        inbox.charge("x", 10)
        order: list[str] = []

        async def process_in_turn(source: str) -> None:
            def look() -> None:
                order.append(source)
                inbox.add(source, Message([bytes(10)]))
                inbox.charge(source, 10)

            while True:
                await inbox.process_in_turn(source, look, is_ready=True)

        tasks = [asyncio.ensure_future(process_in_turn(source)) for source in "abc"]
        await rounds(5)
        assert not order
        await inbox.process_in_turn("d", lambda: order.append("d"), is_ready=False)
        for _ in range(5):
            inbox.drain(1)
            await rounds(5)
        assert order == [*"dabcab"]
        for task in tasks:
            task.cancel()

    run(work)


def test_room_grows_with_each_message_that_is_taken() -> None:
    """Not only when all messages of a source are taken: of a thousand flooding sources none ends before all others."""
    inbox = filled(a=4, b=1)
    inbox.charge("a", 400)
    inbox.charge("b", 50)
    left = []
    while inbox:
        inbox.drain(1)
        left.append(inbox.octets)
    assert left == [350, 300, 200, 100, 0]


def test_handshakes_add_no_more_messages_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages may follow a handshake."""
    monkeypatch.setattr(inboxes, "LARGEST_WAITING", 10)

    async def work() -> None:
        inbox = filled(a=1)
        inbox.charge("a", 20)
        greeting = asyncio.ensure_future(inbox.process_in_turn("b", lambda: None, is_ready=False))
        await rounds(5)
        assert not greeting.done()
        inbox.drain(1)
        await greeting

    run(work)


def test_everything_else_runs_between_turns() -> None:
    """Other tasks run however many connections have received octets, and however long they take."""

    async def work() -> None:
        inbox: Inbox[int] = Inbox()
        at: list[int] = []
        passed = 0

        async def process_in_turn(number: int) -> None:
            def look() -> None:
                at.append(passed)
                inbox.turns.spend(1.5 * TURN)

            await inbox.process_in_turn(number, look, is_ready=True)

        bringing = asyncio.gather(*map(process_in_turn, range(50)))
        while not bringing.done():
            await asyncio.sleep(0)
            passed += 1
        assert len(at) == len(set(at)) == 50

    run(work)


def test_connections_with_little_data_have_their_turns_together() -> None:
    """Otherwise with a thousand flooding connections each gets one in a thousand rounds of the event loop."""

    async def work() -> None:
        inbox: Inbox[int] = Inbox()
        inbox.turns.spend(2 * TURN)
        order: list[int] = []

        def look(number: int) -> None:
            order.append(number)
            inbox.turns.spend(0.0)

        bringing = [
            asyncio.ensure_future(inbox.process_in_turn(number, partial(look, number), is_ready=True))
            for number in range(1000)
        ]
        await rounds(20)
        assert order == [*range(1000)]
        await asyncio.gather(*bringing)

    run(work)


def test_a_handshake_does_not_wait_for_all_that_flood() -> None:
    async def work() -> None:
        inbox: Inbox[str] = Inbox()
        inbox.turns.spend(2 * TURN)
        order: list[str] = []

        async def process_in_turn(source: str) -> None:
            def look() -> None:
                order.append(source)
                inbox.turns.spend(2 * TURN)

            await inbox.process_in_turn(source, look, is_ready=source == "flood")

        await asyncio.gather(*map(process_in_turn, ["flood"] * 100 + ["greeting"] * 3))
        assert {order.index("greeting"), 102 - order[::-1].index("greeting")} <= {*range(7)}

    run(work)


@pytest.mark.parametrize("busy", [0.0, 10 * TURN])
def test_received_data_has_as_much_time_as_everything_else(busy: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the application takes long in each round of the event loop, few rounds must be enough."""
    now = 0.0

    async def work() -> None:
        nonlocal now
        monkeypatch.setattr(inboxes.time, "thread_time", lambda: now)
        inbox: Inbox[int] = Inbox()
        looked = rounds = 0

        def look() -> None:
            nonlocal now, looked
            looked, now = looked + 1, now + TURN
            inbox.turns.spend(TURN)

        bringing = asyncio.gather(*(inbox.process_in_turn(number, look, is_ready=True) for number in range(100)))
        while not bringing.done():
            await asyncio.sleep(0)
            rounds, now = rounds + 1, now + busy
        assert rounds < 25 if busy else 45 < rounds < 105

    run(work)


def test_no_connection_waits_when_nothing_more_is_taken() -> None:
    async def work() -> None:
        inbox = filled(a=inboxes.MAX_WAITING)
        inbox.charge("a", inboxes.LARGEST_WAITING)
        bringing = [
            asyncio.ensure_future(inbox.process_in_turn(source, lambda: None, is_ready=True)) for source in "ab"
        ]
        await rounds(3)
        inbox.close()
        await asyncio.gather(*bringing)

    run(work)
