"""Endpoints, and checks of socket arguments, so that errors are raised at the call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zmtpscope.records import from_text, to_text

LOOPBACK = "127.0.0.1"
LAST_PORT = 65535
ANYWHERE = "*"


class Endpoint(NamedTuple):
    """The address of a socket: `path` for ipc, otherwise `host` (None: all interfaces) and `port`.

    A path that begins with NUL is in Linux's abstract namespace; it is written with @ instead of NUL.
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
    """Parse `tcp://host:port` or `ipc://path`. Raises `ValueError` with the missing part.

    With `bind`, port 0 lets the system choose, host `*` means all interfaces, and no host means loopback.
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


Octets = bytes | bytearray | memoryview
Text = str | bytes
"""Octets, or text: UTF-8, other octets as `\\xNN`, backslashes doubled."""


def checked_parts(parts: object) -> list[bytes]:
    """Return the parts of a message to send.

    Raises `TypeError` unless `parts` is a list (or tuple) of octets, and `ValueError` if it is empty.
    """
    if not isinstance(parts, list | tuple):
        raise TypeError(f"a message is a list of parts, for example [b'hello'], not {_kind(parts)}")
    if not parts:
        raise ValueError("a message has at least one part")
    for part in parts:
        if type(part) is not bytes:
            return [_part(part) for part in parts]
    return parts if isinstance(parts, list) else [*parts]


def _part(part: object) -> bytes:
    if isinstance(part, str):
        raise TypeError(f"a part of a message is octets, as {part[:20].encode()!r}, not text")
    if not isinstance(part, bytes | bytearray | memoryview):
        raise TypeError(f"a part of a message is octets, not {_kind(part)}")
    return bytes(part)


def octets_of(text: object, what: str) -> bytes:
    """Return the octets of a topic, group or identity, which `what` names. Raises `TypeError` for other types."""
    if isinstance(text, str):
        return from_text(text)
    if not isinstance(text, bytes):
        raise TypeError(f"{what} is text or octets, not {_kind(text)}")
    return text


def text_of(text: object, what: str) -> str:
    """Return the text of a topic, group or identity, which `what` names. Raises `TypeError` for other types."""
    return text if isinstance(text, str) else to_text(octets_of(text, what))


def several(texts: Iterable[Text], option: str) -> list[Text]:
    """Return the topics or groups of an option as a list. Raises `TypeError` for a single text."""
    if isinstance(texts, str | bytes):
        raise TypeError(f"{option} takes a list, as {option}=[{texts!r}]")
    return [*texts]


def endpoint_of(endpoint: object, *, bind: bool) -> Endpoint:
    """Return the endpoint that a text names.

    Raises `TypeError` unless it is text, and `ValueError` like `parse_endpoint`.
    """
    if isinstance(endpoint, Endpoint):
        return endpoint
    if not isinstance(endpoint, str):
        raise TypeError(f"an endpoint is text, for example 'tcp://127.0.0.1:5555', not {_kind(endpoint)}")
    return parse_endpoint(endpoint, bind=bind)


def check_kind(value: object, kinds: tuple[type, ...], option: str) -> None:
    """Raise `TypeError` if the value of an option has none of the types `kinds`."""
    if not isinstance(value, kinds):
        expected = " or ".join("None" if kind is type(None) else f"{kind.__name__}(...)" for kind in kinds)
        raise TypeError(f"{option} is {expected}, not {_kind(value)}")


def _kind(value: object) -> str:
    return type(value).__name__
