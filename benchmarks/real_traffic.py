"""Write captures of real libzmq traffic: `python -m benchmarks.real_traffic PROFILE FILE [options]`.

One process has all sockets, on loopback in a network namespace of its own, and tcpdump writes FILE there.
FILE.truth.json contains the counts of messages and frames, as that of `make_capture.py` does. It needs root, or user
namespaces, and tcpdump.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import zmq

ENDPOINT = "tcp://127.0.0.1:5555"
"""The endpoint of all profiles; `tools.PORT` is its port."""
BUFFER_KIB = 262_144
"""Capture buffer of tcpdump in KiB."""
QUIET = 2.0
"""Seconds for tcpdump to start, and for the last packets to arrive."""
AT_ONCE, PAUSE = 20, 0.02
"""Messages published between two pauses, and the pause in seconds."""
POLL_MS = 100
Truth = dict[str, int]
"""Counts of the connections, messages and frames of the applications, named as in `make_capture.SENT`."""


def publish(context: zmq.Context[Any], messages: int, connections: int) -> Truth:
    """Publish JSON from a PUB to many SUBs."""
    import zmq

    publisher = context.socket(zmq.PUB)
    publisher.sndhwm = 0
    publisher.bind(ENDPOINT)
    subscribers = [context.socket(zmq.SUB) for _ in range(connections)]
    for subscriber in subscribers:
        subscriber.rcvhwm = 0
        subscriber.connect(ENDPOINT)
        subscriber.subscribe(b"quote.")
    time.sleep(QUIET)  # until all subscriptions have arrived
    for number in range(messages):
        quote = {"seq": number, "symbol": "EURUSD", "bid": 1.08 + number / 1e5, "venue": "x" * 90, "ts": 1.7e9 + number}
        publisher.send_multipart([b"quote.EURUSD", json.dumps(quote).encode()])
        if number % AT_ONCE == 0:
            time.sleep(PAUSE)
    for subscriber in subscribers:
        for _ in range(messages):
            subscriber.recv_multipart()
    return {"messages": messages * connections, "message_frames": 2 * messages * connections}


def ask(context: zmq.Context[Any], messages: int, connections: int) -> Truth:
    """Let many DEALERs send requests to a ROUTER in turn."""
    import zmq

    with serving(context):
        dealers = [context.socket(zmq.DEALER) for _ in range(connections)]
        for number, dealer in enumerate(dealers):
            dealer.identity = b"client-%04d" % number
            dealer.connect(ENDPOINT)
        for number in range(messages):
            for dealer in dealers:
                dealer.send_multipart([b"", b"question %06d " % number + b"q" * 80])
            for dealer in dealers:
                dealer.recv_multipart()
    return {"messages": 2 * messages * connections, "message_frames": 4 * messages * connections}


def come_and_go(context: zmq.Context[Any], messages: int, connections: int) -> Truth:
    """Let REQs connect one after the other, send requests to a ROUTER, and disconnect."""
    import zmq

    with serving(context):
        for number in range(connections):
            client = context.socket(zmq.REQ)
            client.connect(ENDPOINT)
            for job in range(messages):
                client.send(b"job %d of client %d" % (job, number))
                client.recv()
            client.close(linger=0)
    return {"messages": 2 * messages * connections, "message_frames": 4 * messages * connections}


PROFILES: dict[str, tuple[Callable[[zmq.Context[Any], int, int], Truth], int, int]] = {
    # messages of each connection, connections
    "publisher": (publish, 1_200, 500),
    "router": (ask, 240, 1_000),
    "requests": (come_and_go, 3, 10_000),
}


@contextmanager
def serving(context: zmq.Context[Any]) -> Iterator[None]:
    """Run a ROUTER that replies to each message, in a thread of its own, until the end of the block."""
    import zmq

    server, is_over = context.socket(zmq.ROUTER), Event()
    server.bind(ENDPOINT)

    def serve() -> None:
        while not is_over.is_set():
            if server.poll(POLL_MS):
                *envelope, body = server.recv_multipart()
                server.send_multipart([*envelope, b"reply to " + body])

    thread = Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def capture(profile: str, path: Path, messages: int, connections: int) -> Truth:
    """Capture a profile with tcpdump, and return the counts of its messages. Exits if the kernel dropped packets."""
    import zmq

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    command = ["tcpdump", "-i", "lo", "-s", "0", "-B", str(BUFFER_KIB), "-Z", "root", "-w", str(path), "tcp"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tcpdump:
        try:
            time.sleep(QUIET)
            context = zmq.Context()
            context.set(zmq.MAX_SOCKETS, 2 * connections + 1000)
            truth = PROFILES[profile][0](context, messages, connections)
            context.destroy(linger=0)
            time.sleep(QUIET)
        finally:
            tcpdump.send_signal(signal.SIGINT)
        report = tcpdump.communicate()[1]
    packets = re.search(r"(\d+) packets captured", report)
    dropped = re.search(r"(\d+) packets dropped by kernel", report)
    if packets is None or dropped is None or int(dropped[1]):
        sys.exit(f"tcpdump did not capture everything: {report.strip()}")
    return truth | {"connections": connections, "packets": int(packets[1]), "file_bytes": path.stat().st_size}


def main() -> None:
    """Capture a profile in a namespace of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("profile", choices=PROFILES)
    parser.add_argument("file", type=Path)
    parser.add_argument("--messages", type=int, help="messages of each connection")
    parser.add_argument("--connections", type=int)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    _, messages, connections = PROFILES[given.profile]
    if given.inside:
        truth = capture(given.profile, given.file, given.messages or messages, given.connections or connections)
        Path(f"{given.file}.truth.json").write_text(json.dumps(truth, indent=1) + "\n")
        return
    again = [sys.executable, "-m", "benchmarks.real_traffic", "--inside", *sys.argv[1:]]
    unshare = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    os.execvp("unshare", [*unshare, "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *again])


if __name__ == "__main__":
    main()
