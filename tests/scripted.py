"""Servers that do what a script says, octet by octet, for tests of whoever connects to them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48)
"""Of 3.1."""

Script = Callable[[socket.socket], object]


def ready(socket_type: bytes, *properties: tuple[bytes, bytes]) -> bytes:
    """The frame of a READY."""
    body = b"\x05READY"
    for name, value in ((b"Socket-Type", socket_type), *properties):
        body += bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value
    return bytes([4, len(body)]) + body


def take(connection: socket.socket, count: int) -> bytes:
    """The next `count` octets; fewer where the other side closes."""
    octets = b""
    while len(octets) < count and (more := connection.recv(count - len(octets))):
        octets += more
    return octets


@contextlib.contextmanager
def served(script: Script) -> Iterator[str]:
    """The endpoint of a server that runs `script` for each connection, and closes it then."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(5)
                    script(connection)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
