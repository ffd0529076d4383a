"""`zmtpscope.sniff` on a real interface with real peers, in a network namespace of its own."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
import zmq

import zmtpscope
from tests.live.capture.namespaces import in_namespace
from tests.waiting import PATIENCE

LOOPBACK = "ip link set lo up"


def talk(count: int) -> None:
    """Some messages from a PUSH to a PULL socket."""
    with zmq.Context() as context, context.socket(zmq.PUSH) as push, context.socket(zmq.PULL) as pull:
        push.connect(f"tcp://127.0.0.1:{pull.bind_to_random_port('tcp://127.0.0.1')}")
        for number in range(count):
            push.send_string(str(number))
            pull.recv()


@in_namespace(LOOPBACK)
def test_messages_arrive_as_they_are_sent() -> None:
    talking = threading.Thread(target=talk, args=(20,))
    with zmtpscope.sniff("lo", capture_filter="tcp", seconds=PATIENCE) as messages:
        talking.start()
        bodies = [next(messages).bodies for _ in range(20)]
        assert bodies == [[str(number).encode()] for number in range(20)]
        talking.join()
        messages.stop()
        assert list(messages) == []


@in_namespace(LOOPBACK)
def test_a_filter_and_a_class_select_messages() -> None:
    talking = threading.Thread(target=talk, args=(20,))
    with zmtpscope.sniff("lo", zmtpscope.Record, filter="record == connection or bodies == '7'") as records:
        talking.start()
        found = [next(records), next(records)]
        talking.join()
    assert [type(each) for each in found] == [zmtpscope.Message, zmtpscope.Connection]


@in_namespace(LOOPBACK)
def test_the_event_loop_continues_and_a_task_can_be_cancelled() -> None:
    async def main() -> float:
        bodies = []

        async def collect() -> None:
            async for message in messages:
                bodies.append(message.bodies)

        with zmtpscope.sniff("lo") as messages:
            task = asyncio.create_task(collect())
            await asyncio.to_thread(talk, 5)
            async with asyncio.timeout(PATIENCE):
                while len(bodies) < 5:
                    await asyncio.sleep(0.01)
            before = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return time.monotonic() - before

    assert asyncio.run(main()) < PATIENCE


def test_a_filter_is_understood_before_anything_is_captured() -> None:
    with pytest.raises(zmtpscope.FilterError, match="did you mean topic"):
        zmtpscope.sniff("nowhere", filter="topik")


@in_namespace(LOOPBACK)
def test_a_capture_that_does_not_begin_gives_the_reason() -> None:
    with pytest.raises(zmtpscope.CaptureRefused, match="no interface named nowhere"):
        zmtpscope.sniff("nowhere")
    with pytest.raises(zmtpscope.CaptureFilterError, match="syntax error\n  tcp prt 5\n      \\^"):
        zmtpscope.sniff("lo", capture_filter="tcp prt 5")
