from __future__ import annotations

from typing import NamedTuple

LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
ANYWHERE = "*"


class Endpoint(NamedTuple):
    """`path` for ipc, otherwise `host` (None: all interfaces) and `port`.

    A path that begins with NUL is in Linux's abstract namespace, not a file; it is written with @ instead of NUL.
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
    """Parse `tcp://host:port` or `ipc://path`. Raises `ValueError`, with the part that is missing.

    With `bind`, port 0 lets the system choose, the host `*` means all interfaces, and an empty host means loopback.
    """
    transport, separator, rest = text.partition("://")
    if not separator:
        raise ValueError(f"{text!r} is not an endpoint; use tcp://host:port or ipc://path")
    if transport == "ipc":
        if not rest:
            raise ValueError("ipc:// needs a path, for example ipc:///tmp/socket")
        return Endpoint(None, 0, "\0" + rest[1:] if rest.startswith("@") else rest)
    if transport != "tcp":
        raise ValueError(f"{transport}:// is not supported; use tcp:// or ipc://")
    host, _, port = rest.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > LAST_PORT or not (bind or int(port)):
        if bind and port == ANYWHERE:
            port = "0"
        else:
            raise ValueError(f"{text!r} has no port from 1 to {LAST_PORT}; use for example tcp://127.0.0.1:5555")
    if host.startswith("["):
        if not host.endswith("]"):
            raise ValueError(f"{text!r} has no port after the address; use for example tcp://[::1]:5555")
        host = host[1:-1]
    if host == ANYWHERE and bind:
        return Endpoint(None, int(port))
    if host == ANYWHERE or not (host or bind):
        raise ValueError(f"{text!r} has no host to connect to; use for example tcp://127.0.0.1:{port}")
    return Endpoint(host or LOOPBACK, int(port))
