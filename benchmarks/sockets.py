"""The speed of `cat` beside pyzmq: messages per second from a PUSH to a PULL, for each pair of programs."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from typing import BinaryIO

from benchmarks.captures import WORK, note
from benchmarks.measure import Failed, environment
from benchmarks.setting import Setting
from benchmarks.tools import ZMTPSCOPE

SIZE = 100
"""Octets of each message."""
MOST, FEWEST = 600_000, 100_000
"""Messages of a long and a short run: their difference excludes the time to start, connect and end."""
PATIENCE = 120.0
"""Seconds after which a run has failed."""

WAYS = {
    f"{sender} to {receiver}": (sender, receiver)
    for sender in ("pyzmq", "cat push")
    for receiver in ("pyzmq", "cat pull")
}
"""Pairs of sender and receiver, by name."""


def sockets(setting: Setting) -> dict[str, list[float]]:
    """Return messages per second of each pair, one figure per round, all pairs in turn."""
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    most, fewest = setting.scaled(MOST), setting.scaled(FEWEST)
    for number in range(setting.rounds):
        note(f"sending messages, round {number + 1}")
        for name, (sender, receiver) in WAYS.items():
            long, short = (seconds(sender, receiver, count) for count in (most, fewest))
            rates[name].append((most - fewest) / (long - short))
    return rates


def seconds(sender: str, receiver: str, count: int) -> float:
    """Return the seconds from the start of the sender until the receiver, already listening, has all messages.

    Raises `Failed`.
    """
    lines = WORK / f"lines-{count}"
    if not lines.exists():
        WORK.mkdir(exist_ok=True)
        lines.write_bytes((b"x" * SIZE + b"\n") * count)
    port = free_port()
    ends = {
        "pyzmq": [sys.executable, "-m", "benchmarks.zmq_end"],
        "cat push": [ZMTPSCOPE, "cat", "push", f"tcp://127.0.0.1:{port}"],
        "cat pull": [ZMTPSCOPE, "cat", "pull", f"tcp://127.0.0.1:{port}", "--bind", "-c", str(count)],
    }
    commands = {way: [*ends["pyzmq"], way, str(port), str(count), str(SIZE)] for way in ("push", "pull")}
    with lines.open("rb") as source:
        taking = start(commands["pull"] if receiver == "pyzmq" else ends[receiver], source)
        wait_until_it_listens(port, taking)
        begin = time.perf_counter()
        giving = start(commands["push"] if sender == "pyzmq" else ends[sender], source)
        try:
            codes = taking.wait(PATIENCE), giving.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed(f"{sender} to {receiver} did not end within {PATIENCE:g} s") from None
        finally:
            for process in (taking, giving):
                process.kill()
                process.wait()
        taken = time.perf_counter() - begin
    if any(codes):
        raise Failed(f"{sender} to {receiver} ended with {codes}")
    return taken


def start(command: list[str], source: BinaryIO) -> subprocess.Popen[bytes]:
    """Start a process without its output."""
    null = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=source, stdout=null, stderr=null, env=environment())


def free_port() -> int:
    """Return a port on which no program listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def wait_until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a program listens, by the table of sockets: a test connection would be a peer. Raises `Failed`."""
    listening = f"0100007F:{port:04X} 00000000:0000 0A"
    for _ in range(1000):
        with open("/proc/net/tcp") as table:
            if listening in table.read():
                return
        if process.poll() is not None:
            break
        time.sleep(0.01)
    raise Failed(f"nobody listens on port {port}")
