"""How `zmtpscope live` keeps up with messages of pyzmq: `python -m benchmarks.live_messages`.

PUSH sends zeros to PULL, or PUB sends JSON to SUB, over loopback in a network namespace of its own, at even rates,
while `live -q` counts or `live --json` prints. The delay of some JSON lines is measured from their packets; that of
`-q` is the time from the last message to the end. CPU is that of `live` and its capture process while messages are
sent. It needs root, or user namespaces.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import quantiles
from threading import Thread
from typing import IO, NamedTuple

from benchmarks.live import cpu_of
from benchmarks.report import table
from benchmarks.tools import ZMTPSCOPE

SIZE = 100
"""Octets of a message."""
BURST = 0.002
"""Seconds between bursts."""
SAMPLED = 500
"""One of this many lines is measured."""


class Series(NamedTuple):
    """The sender, its messages per second, and the options of `live`."""

    sender: str
    rate: int
    options: tuple[str, ...]


SERIES = (
    Series("PUSH", 0, ("-q",)),
    Series("PUSH", 10, ("--json",)),
    Series("PUSH", 500_000, ("-q",)),
    Series("PUB", 30_000, ("--json",)),
    Series("PUB", 60_000, ("--json",)),
)


class Run(NamedTuple):
    """Messages sent in `seconds`, and the result: messages shown, packets dropped, delay in seconds (95th percentile,
    and maximum), CPU seconds of `live` and of its capture process."""

    sent: int
    seconds: float
    shown: int
    dropped: int
    behind: tuple[float, float]
    cpu: tuple[float, float]


def send(pattern: str, rate: int, seconds: float) -> None:
    """Send messages at an even rate to a receiver that discards them; print their number and the seconds."""
    import zmq

    context = zmq.Context()
    sender = context.socket(zmq.PUSH if pattern == "PUSH" else zmq.XPUB)
    sender.set_hwm(0)
    endpoint = f"tcp://127.0.0.1:{sender.bind_to_random_port('tcp://127.0.0.1')}"

    def receive() -> None:
        receiver, nobody = context.socket(zmq.PULL if pattern == "PUSH" else zmq.SUB), context.socket(zmq.PUB)
        receiver.set_hwm(0)
        if pattern == "PUB":
            receiver.subscribe("")
        receiver.connect(endpoint)
        with suppress(zmq.ContextTerminated):
            zmq.proxy(receiver, nobody)  # in C, and without the lock of the interpreter
        receiver.close(0)
        nobody.close(0)

    Thread(target=receive).start()
    if pattern == "PUB":
        sender.recv()  # the subscription
    time.sleep(0.5)
    begin = now = time.monotonic()
    sent = 0
    body = bytes(SIZE) if pattern == "PUSH" else json.dumps({"text": "x" * (SIZE - 12)}).encode()
    while now - begin < seconds:
        due = int((now - begin) * rate)
        for _ in range(due - sent):
            if pattern == "PUB":
                sender.send(b"prices", zmq.SNDMORE)
            sender.send(body)
        sent = due
        time.sleep(max(0.0, BURST - (time.monotonic() - now)))
        now = time.monotonic()
    print(sent, now - begin)
    sender.close(-1)  # what waits is sent before the context ends
    context.term()


class Lines(Thread):
    """Reads JSON lines: counts `messages`, and measures for some how many seconds they are `behind` their packets."""

    def __init__(self, output: IO[bytes], every: int) -> None:
        super().__init__()
        self.messages = 0
        self.behind: list[float] = []
        self._output = output
        self._every = every

    def run(self) -> None:
        for line in self._output:
            if b'"record":"message"' in line:
                self.messages += 1
                if self.messages % self._every == 0:
                    self.behind.append(time.time() - json.loads(line)["ts_end_ns"] / 1e9)


def run(series: Series, seconds: float) -> Run:
    """Measure `live` while messages are sent."""
    command = [ZMTPSCOPE, "live", "-i", "lo", *series.options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as live:
        assert live.stdout is not None
        assert live.stderr is not None
        live.stderr.readline()
        lines = Lines(live.stdout, 1 if series.rate <= SAMPLED else SAMPLED)
        if "--json" in series.options:
            lines.start()
        children = Path(f"/proc/{live.pid}/task/{live.pid}/children").read_text().split()
        processes = live.pid, int(children[0])
        time.sleep(1)
        before = [cpu_of(each) for each in processes]
        sender = [sys.executable, "-m", "benchmarks.live_messages", "--send", series.sender, str(series.rate)]
        done = subprocess.run([*sender, "--seconds", str(seconds)], check=True, capture_output=True, text=True)
        used = [cpu_of(each) - then for each, then in zip(processes, before, strict=True)]
        stopped = time.monotonic()
        live.send_signal(signal.SIGINT)
        summary = b"" if lines.is_alive() else live.stdout.read()
        words = live.stderr.read().decode()
        live.wait()
        end = time.monotonic() - stopped
        if lines.is_alive() or lines.messages:
            lines.join()
            late = max(lines.behind, default=0.0)
            behind = quantiles(lines.behind, n=20)[-1] if len(lines.behind) > 1 else late, late
        else:
            counted = re.search(rb"^messages +(\d+)", summary, re.MULTILINE)
            lines.messages = int(counted[1]) if counted else 0
            behind = end, end
    dropped = re.search(r"(\d+) dropped", words)
    sent, took = done.stdout.split()
    return Run(int(sent), float(took), lines.messages, int(dropped[1]) if dropped else -1, behind, (used[0], used[1]))


def page(runs: dict[Series, Run]) -> str:
    """Return the results as a table."""
    columns = ["messages", "live", "messages a second", "sent", "shown", "packets dropped"]
    rows = [
        [
            series.sender,
            " ".join(series.options),
            f"{each.sent / each.seconds:,.0f}",
            f"{each.sent:,}",
            f"{each.shown:,}",
            f"{each.dropped:,}",
            f"{each.behind[0] * 1000:,.0f}",
            f"{each.behind[1] * 1000:,.0f}",
            f"{each.cpu[0] / each.seconds:.1%}",
            f"{each.cpu[1] / each.seconds:.1%}",
        ]
        for series, each in runs.items()
    ]
    return table([*columns, "behind, 95 %, ms", "at most, ms", "CPU of a core", "of the capture process"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--send", nargs=2, metavar=("TYPE", "RATE"), help=argparse.SUPPRESS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.send is not None:
        send(arguments.send[0], int(arguments.send[1]), arguments.seconds)
    elif arguments.inside:
        print(page({series: run(series, arguments.seconds) for series in SERIES}))
    else:
        again = [sys.executable, "-m", "benchmarks.live_messages", "--inside", *sys.argv[1:]]
        unshare = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
        os.execvp("unshare", [*unshare, "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *again])


if __name__ == "__main__":
    main()
