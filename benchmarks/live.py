"""What capture costs and loses, beside tcpdump on the same packets at the same time: `python -m benchmarks.live`.

Packets of 60 octets go through a cable of their own (two veth interfaces in a network namespace), at even rates, while
both capture: our capture process into a file, and `tcpdump -U -w -` into a pipe that `cat` reads. CPU is what the
kernel has counted for the processes in that time. It needs root, or user namespaces, and tcpdump.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import table
from zmtpscope.live.capture.session import CaptureSession
from zmtpscope.live.capture.settings import CaptureSettings

SETUP = "ip link add va type veth peer name vb; ip link set va up; ip link set vb up"
QUIET = "sysctl -qw net.ipv6.conf.va.disable_ipv6=1 net.ipv6.conf.vb.disable_ipv6=1"
HEADER = b"\x02\0\0\0\0\1\x02\0\0\0\0\2\x88\xb5"
"""Ethernet header with an EtherType that no system answers."""
SIZE = 60
BURST = 0.001
"""Seconds between bursts."""
MIN_SHARE = 0.01
"""Fraction of a core below which a ratio is not exact enough."""
RATES = (0, 1_000, 10_000, 50_000, 100_000)


class Run(NamedTuple):
    """One run: packets sent in `seconds`, and packets, losses and CPU seconds of each tool."""

    sent: int
    seconds: float
    packets: int
    lost: int
    cpu: float
    tcpdump_packets: int
    tcpdump_lost: int
    tcpdump_cpu: float


def send(rate: int, seconds: float) -> None:
    """Send packets of `SIZE` octets at an even rate; print their number and the seconds."""
    packet = HEADER + bytes(SIZE - len(HEADER))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind(("va", 0))
        begin = now = time.monotonic()
        sent = 0
        while now - begin < seconds:
            due = int((now - begin) * rate)
            for _ in range(due - sent):
                sender.send(packet)
            sent = due
            time.sleep(max(0.0, BURST - (time.monotonic() - now)))
            now = time.monotonic()
        print(sent, now - begin)


def cpu_of(process: int) -> float:
    """Return the CPU seconds of a process so far, user and system (proc(5))."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running(command: Sequence[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def run(rate: int, seconds: float, engine: str) -> Run:
    """Capture packets sent at `rate` per second with both programs."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        session = CaptureSession(CaptureSettings(("vb",), engine=engine, write_to=f"{folder}/f"))
        stack.callback(session.close)
        session.start()
        assert session._process is not None
        # the same buffer for both
        buffer = ["-B", str(CaptureSettings().buffer_octets >> 10)]
        dump = stack.enter_context(
            running(
                ["tcpdump", "-Z", "root", "-n", "-U", *buffer, "-i", "vb", "-w", "-"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        assert dump.stdout is not None
        assert dump.stderr is not None
        reader = stack.enter_context(running(["cat"], stdin=dump.stdout, stdout=subprocess.DEVNULL))
        dump.stdout.close()
        dump.stderr.readline()
        processes = session._process.pid, dump.pid, reader.pid
        before = [cpu_of(each) for each in processes]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.live", "--send", str(rate), "--seconds", str(seconds)],
            check=True,
            capture_output=True,
            text=True,
        )
        time.sleep(1.2)  # tcpdump has what came in the last second by then
        ours, *theirs = (cpu_of(each) - then for each, then in zip(processes, before, strict=True))
        dump.terminate()
        words = dump.stderr.read().decode()
        session.stop()
        while session.wait(1):
            pass
        captured, dropped = (
            sum(map(int, re.findall(rf"(\d+) packets? {what}", words))) for what in ("captured", "dropped")
        )
        status = session.status
        sent, took = done.stdout.split()
        return Run(
            int(sent),
            float(took),
            status.packets,
            status.kernel_drops + status.unread_drops,
            ours,
            captured,
            dropped,
            sum(theirs),
        )


def page(runs: Sequence[Run]) -> str:
    """Return the results as a table."""
    columns = ["packets a second", "sent", "captured", "lost", "CPU of a core"]
    rows = []
    for each in runs:
        ours, theirs = each.cpu / each.seconds, each.tcpdump_cpu / each.seconds
        ratio = f"{ours / theirs:.2f}" if theirs >= MIN_SHARE else ""
        counts = [f"{each.sent:,}", f"{each.packets:,}", f"{each.lost:,}", f"{ours:.1%}"]
        their_counts = [f"{each.tcpdump_packets:,}", f"{each.tcpdump_lost:,}", f"{theirs:.1%}"]
        rows.append([f"{each.sent / each.seconds:,.0f}", *counts, *their_counts, ratio])
    return table([*columns, "tcpdump: captured", "lost", "CPU of a core", "ratio"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rates", type=int, nargs="+", default=RATES)
    parser.add_argument("--engine", default="ring", choices=["ring", "socket"])
    parser.add_argument("--send", type=int, metavar="RATE", help=argparse.SUPPRESS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.send is not None:
        send(arguments.send, arguments.seconds)
    elif not arguments.inside:
        if shutil.which("tcpdump") is None:
            sys.exit("tcpdump is not installed")
        inside = f'{SETUP}; {QUIET}; exec "$@"'
        again = [sys.executable, "-m", "benchmarks.live", "--inside", *sys.argv[1:]]
        unshare = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
        os.execvp("unshare", [*unshare, "sh", "-c", inside, "sh", *again])
    else:
        print(page([run(rate, arguments.seconds, arguments.engine) for rate in arguments.rates]))


if __name__ == "__main__":
    main()
