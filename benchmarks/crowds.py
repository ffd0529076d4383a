"""How long one honest peer waits at our socket while hostile peers take all other places.

    python -m benchmarks.crowds [--quick] [NAME ...]        crowds whose names contain one of the words

Our socket, the crowd and the honest peer (pyzmq) are one process each. The honest peer measures the time of each
message that it receives, or of each reply; if it only sends, our application measures when its messages arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from socket import SO_RCVBUF, SOL_SOCKET, socket
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import report
from benchmarks.attacks import GREETING, command, message
from benchmarks.captures import note
from benchmarks.measure import Failed, environment
from benchmarks.peers import ready
from benchmarks.setting import Setting

if TYPE_CHECKING:
    from zmtpscope.live import Socket

SECONDS, QUICK_SECONDS = 40.0, 10.0
"""Duration of the measurement."""
LIMIT = 300.0
"""Seconds after which a run has failed."""
HONEST = b"honest"
"""Prefix of the honest peer's messages."""
BODY = bytes(10_000)
"""Published message, and one that requests a reply."""
STAY = 4.0
"""Seconds after which peers disconnect that connect again."""

Waits = list[float]
"""Time of each message of the honest peer."""


# -- ours --------------------------------------------------------------------------------------------------------------


async def publish(ours: Socket) -> Waits:
    """Publish without end: the honest peer is a subscriber."""
    while True:
        await ours.send([HONEST, BODY])
        await asyncio.sleep(0.001)


async def answer(ours: Socket) -> Waits:
    """Reply to every message, without end."""
    async for parts in ours:
        await ours.send(parts)
    return []


async def receive(ours: Socket) -> Waits:
    """Receive until the honest peer sends its last message."""
    waits: Waits = []
    async for parts in ours:
        if parts[0] == HONEST:
            if not parts[1]:
                break
            waits.append(time.monotonic() - float(parts[1]))
    return waits


def serve(crowd: Crowd) -> None:
    """Print the port, then the time of each message, if the application measures it."""
    from zmtpscope.live import bind

    async def work() -> None:
        async with bind("tcp://:0", crowd.ours) as ours:
            print(ours.endpoint.port, flush=True)
            print(*await crowd.work(ours), flush=True)

    asyncio.run(work())


# -- the crowd ---------------------------------------------------------------------------------------------------------


async def flood() -> AsyncIterator[bytes]:
    """Send as much as the socket accepts."""
    while True:
        yield message(b"flood") * 500


async def read_nothing() -> AsyncIterator[bytes]:
    """Subscribe to everything, and read nothing."""
    yield command(b"SUBSCRIBE", b"")


async def ask() -> AsyncIterator[bytes]:
    """Send requests, and read no reply."""
    yield (b"\1\0" + message(BODY)) * 200


async def come_again() -> AsyncIterator[bytes]:
    """Subscribe to everything, and reconnect as soon as the socket gives up on this peer."""
    yield command(b"SUBSCRIBE", b"")
    await asyncio.sleep(STAY)
    raise ConnectionError


async def be_hostile(crowd: Crowd, port: int, number: int, connected: list[int]) -> None:
    """Run one hostile peer, without end."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(number / 1000)
    while True:
        with suppress(OSError), socket() as made:
            made.setblocking(False)
            made.setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)
            await loop.sock_connect(made, ("127.0.0.1", port))
            await loop.sock_sendall(made, GREETING + ready(crowd.partner))
            connected.append(number)
            async for octets in crowd.say():
                await loop.sock_sendall(made, octets)
                await asyncio.sleep(0)
            await asyncio.Event().wait()


def attack(crowd: Crowd, port: int) -> None:
    """Run all hostile peers; print a line when all are connected."""

    async def work() -> None:
        connected: list[int] = []
        crowded = [asyncio.create_task(be_hostile(crowd, port, number, connected)) for number in range(crowd.size)]
        while len(connected) < crowd.size:
            await asyncio.sleep(0.1)
        print("begins", flush=True)
        await asyncio.gather(*crowded)

    asyncio.run(work())


# -- the honest one ----------------------------------------------------------------------------------------------------


def be_honest(crowd: Crowd, port: int, seconds: float) -> None:
    """Print the time of each message, from its sending or from the message before."""
    import zmq

    waits: Waits = []
    with zmq.Context() as context, context.socket(getattr(zmq, crowd.partner.decode())) as peer:
        peer.linger = -1 if crowd.work is receive else 0
        peer.rcvtimeo = round(LIMIT * 1000)
        if crowd.work is publish:
            peer.subscribe(HONEST)
        peer.connect(f"tcp://127.0.0.1:{port}")
        end = time.monotonic() + seconds
        while (begin := time.monotonic()) < end:
            if crowd.work is not publish:
                peer.send_multipart([HONEST, b"%r" % begin])
            if crowd.work is receive:
                time.sleep(0.25)
            else:
                peer.recv_multipart()
                waits.append(time.monotonic() - begin)
        if crowd.work is receive:
            peer.send_multipart([HONEST, b""])
    print(*waits)


# -- all of it ---------------------------------------------------------------------------------------------------------


class Crowd(NamedTuple):
    """`size` peers that send this to a socket of ours of this type, whose application does its `work`."""

    ours: str
    work: Callable[[Socket], Any]
    partner: bytes
    say: Callable[[], AsyncIterator[bytes]]
    size: int


CROWDS = {
    "flood a PULL": Crowd("PULL", receive, b"PUSH", flood, 1023),
    "flood a ROUTER": Crowd("ROUTER", answer, b"DEALER", flood, 1023),
    "read no answer of a ROUTER": Crowd("ROUTER", answer, b"DEALER", ask, 1023),
    "a few read nothing of a PUB": Crowd("PUB", publish, b"SUB", read_nothing, 6),
    "read nothing of a PUB": Crowd("PUB", publish, b"SUB", read_nothing, 1023),
    "come again to a PUB": Crowd("PUB", publish, b"SUB", come_again, 1023),
}


def crowds(setting: Setting, words: Sequence[str] = ("",)) -> list[dict[str, Any]]:
    """Measure the honest peer in each crowd whose name contains one of the words. Raises `Failed`."""
    seconds = QUICK_SECONDS if setting.quick else SECONDS
    return [among(name, seconds) for name in CROWDS if any(word in name for word in words)]


def among(name: str, seconds: float) -> dict[str, Any]:
    """Measure the honest peer in one crowd. Raises `Failed` if it gets nothing."""
    note(name)
    crowd, processes = CROWDS[name], list[subprocess.Popen[str]]()

    def start(role: str, *arguments: object) -> subprocess.Popen[str]:
        line = [sys.executable, "-m", "benchmarks.crowds", f"--{role}", name, *map(str, arguments)]
        processes.append(subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment()))
        return processes[-1]

    try:
        ours = start("serve")
        port = line_of(ours)
        line_of(start("attack", port))
        honest = start("honest", port, seconds)
        told, _ = honest.communicate(timeout=LIMIT)
        waits = sorted(map(float, (line_of(ours) if crowd.work is receive else told).split()))
    except subprocess.TimeoutExpired:
        raise Failed(f"{name}: the honest peer is not served") from None
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if not waits:
        raise Failed(f"{name}: the honest peer is not served")
    summary = {"messages": len(waits), "least": waits[0], "median": median(waits), "most": waits[-1]}
    return {"crowd": name, "size": crowd.size, **summary}


def line_of(process: subprocess.Popen[str]) -> str:
    """Return the next line that a process prints. Raises `Failed` if there is none."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise Failed("a process has ended")
    return line


def main() -> None:
    """Run the selected crowds and print the page, or run one of the processes."""
    parser = argparse.ArgumentParser(prog="benchmarks.crowds", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="NAME", default=[""])
    parser.add_argument("--quick", action="store_true", help="a quarter of the time")
    for role in ("serve", "attack", "honest"):
        parser.add_argument(f"--{role}", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(CROWDS[given.serve[0]])
    elif given.attack:
        attack(CROWDS[given.attack[0]], int(given.attack[1]))
    elif given.honest:
        be_honest(CROWDS[given.honest[0]], int(given.honest[1]), float(given.honest[2]))
    else:
        print(report.crowds(crowds(Setting(given.quick, 1, None, None), given.words or [""])))


if __name__ == "__main__":
    main()
