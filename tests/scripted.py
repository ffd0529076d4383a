"""Servers that follow a script, octet by octet, for tests of clients."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.peer_octets import GREETING, command, ready
from tests.waiting import PATIENCE

REFUSAL = command("NULL", "ERROR", reason="400")

Script = Callable[[socket.socket], object]


def receive(connection: socket.socket, size: int) -> bytes:
    """Receive `size` octets; end the script if the other side closes."""
    octets = b""
    while len(octets) < size:
        piece = connection.recv(size - len(octets))
        if not piece:
            raise ConnectionError
        octets += piece
    return octets


def hold(connection: socket.socket) -> None:
    """Read until the other side closes."""
    while connection.recv(1 << 16):
        pass


def handshake(connection: socket.socket, socket_type: str, greeting: bytes = GREETING) -> None:
    """Up to the READY of both sides."""
    connection.sendall(greeting)
    receive(connection, 64)
    connection.sendall(ready(socket_type))
    receive(connection, receive(connection, 2)[1])


def sending_script(*octets: bytes, closes: bool = False) -> Script:
    """Send this, then close, or wait until the other side closes."""

    def script(connection: socket.socket) -> None:
        connection.sendall(b"".join(octets))
        if not closes:
            hold(connection)

    return script


@contextmanager
def served(script: Script, *, once: bool = False) -> Iterator[str]:
    """The endpoint of a server that runs `script` for each connection, or the first alone, and closes it then."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                if once:
                    listener.close()
                with connection, suppress(OSError):
                    connection.settimeout(PATIENCE)
                    script(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(PATIENCE)
