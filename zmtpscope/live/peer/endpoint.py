"""Endpoints as ZeroMQ writes them: `tcp://host:port` and `ipc://path`."""

from __future__ import annotations

from typing import NamedTuple

LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
ANYWHERE = "*"


class Endpoint(NamedTuple):
    """Where to connect or listen; `path` of ipc, else `host` and `port`. `host` None: all interfaces.

    A path that begins with a NUL is a name of Linux and no file; it is written with an @.
    """

    host: str | None
    port: int
    path: str | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return "ipc://" + ("@" + self.path[1:] if self.path.startswith("\0") else self.path)
        host = ANYWHERE if self.host is None else f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


def parse_endpoint(text: str, *, bind: bool = False) -> Endpoint:
    """An endpoint from its text. Raises `ValueError`, whose text says what is missing.

    `bind`: port 0 is one that the system chooses, `*` for a host are all interfaces, and no host is loopback.
    """
    transport, separator, rest = text.partition("://")
    if not separator:
        raise ValueError(f"{text!r} is no endpoint; tcp://host:port and ipc://path are")
    if transport == "ipc":
        if not rest:
            raise ValueError("ipc:// needs a path, as in ipc:///tmp/socket")
        return Endpoint(None, 0, "\0" + rest[1:] if rest.startswith("@") else rest)
    if transport != "tcp":
        raise ValueError(f"{transport}:// is not supported; tcp:// and ipc:// are")
    host, _, port = rest.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > LAST_PORT or not (bind or int(port)):
        if bind and port == ANYWHERE:
            port = "0"
        else:
            raise ValueError(f"{text!r} has no port from 1 to {LAST_PORT}, as in tcp://127.0.0.1:5555")
    if host.startswith("["):
        if not host.endswith("]"):
            raise ValueError(f"{text!r} has no port after the address, as in tcp://[::1]:5555")
        host = host[1:-1]
    if host == ANYWHERE and bind:
        return Endpoint(None, int(port))
    if host == ANYWHERE or not (host or bind):
        raise ValueError(f"{text!r} names no host to connect to, as in tcp://127.0.0.1:{port}")
    return Endpoint(host or LOOPBACK, int(port))
