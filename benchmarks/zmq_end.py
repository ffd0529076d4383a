"""One end of a pipeline with pyzmq: `python -m benchmarks.zmq_end push|pull PORT COUNT SIZE`; pull binds."""

from __future__ import annotations

import sys

import zmq


def main() -> None:
    """Send or receive `COUNT` messages of `SIZE` octets, one by one as applications do."""
    way, port, count, size = sys.argv[1], *map(int, sys.argv[2:5])
    endpoint = f"tcp://127.0.0.1:{port}"
    with zmq.Context() as context, context.socket(zmq.PULL if way == "pull" else zmq.PUSH) as socket:
        if way == "pull":
            socket.bind(endpoint)
            for _ in range(count):
                socket.recv()
        else:
            socket.connect(endpoint)
            body = b"x" * size
            for _ in range(count):
                socket.send(body)


if __name__ == "__main__":
    main()
