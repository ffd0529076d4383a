"""Sockets of libzmq for tests, and a check of logins and keys for them, with the credentials of `tests.peers`."""

from __future__ import annotations

from typing import Any, NamedTuple

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils import z85

from tests.peers import CLIENT_KEY, CLIENT_SECRET, LOGIN, SERVER_KEY, SERVER_SECRET
from tests.waiting import PATIENCE


class Keys(NamedTuple):
    public: str
    secret: str


SERVER = Keys(z85.encode(SERVER_KEY).decode(), z85.encode(SERVER_SECRET).decode())
CLIENT = Keys(z85.encode(CLIENT_KEY).decode(), z85.encode(CLIENT_SECRET).decode())

OPTIONS: dict[tuple[str, bool], dict[str, Any]] = {
    ("PLAIN", False): dict(zip(("plain_username", "plain_password"), (word.encode() for word in LOGIN), strict=True)),
    ("PLAIN", True): {"plain_server": 1},
    ("CURVE", False): {
        "curve_serverkey": SERVER_KEY,
        "curve_secretkey": CLIENT_SECRET,
        "curve_publickey": CLIENT_KEY,
    },
    ("CURVE", True): {"curve_server": 1, "curve_secretkey": SERVER_SECRET, "curve_publickey": SERVER_KEY},
}
"""Socket options that make a socket a client, or a server, of a mechanism."""


def bind_to_free_port(socket: Any) -> str:
    """Bind a socket to a free port; return its endpoint."""
    return f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"


class Libzmq:
    """Creates sockets of libzmq, and closes them."""

    def __init__(self) -> None:
        self.context = zmq.Context()
        self.sockets: list[Any] = []

    def socket(self, socket_type: str, mechanism: str = "NULL", *, server: bool = False, **options: Any) -> Any:
        """Return a socket with the credentials of a client of this mechanism, or of its server."""
        made = self.context.socket(getattr(zmq, socket_type))
        self.sockets.append(made)
        made.rcvtimeo = made.sndtimeo = PATIENCE * 1000
        made.linger = 0
        made.reconnect_ivl = 10
        for name, value in (OPTIONS.get((mechanism, server), {}) | options).items():
            setattr(made, name, value)
        return made

    def bound(self, socket_type: str, mechanism: str = "NULL", **options: Any) -> tuple[Any, str]:
        """Return a listening socket, as the server of this mechanism, and its endpoint."""
        made = self.socket(socket_type, mechanism, server=True, **options)
        return made, bind_to_free_port(made)

    def endpoint(self, socket_type: str, mechanism: str = "NULL", **options: Any) -> str:
        return self.bound(socket_type, mechanism, **options)[1]

    def monitor(self, socket: Any, events: int) -> Any:
        """Return a socket that receives these events of a socket, one message each."""
        made = socket.get_monitor_socket(events)
        made.rcvtimeo = PATIENCE * 1000
        self.sockets.insert(0, made)
        return made

    def close(self) -> None:
        for each in self.sockets:
            each.close(linger=0)
        self.context.destroy(linger=0)


class Logins:
    """Checks clients of the servers of a context; admits the one login, and clients with one of `keys`."""

    def __init__(self, context: zmq.Context[Any]) -> None:
        self.keys = {CLIENT.public}
        self.authenticator = ThreadAuthenticator(context)
        self.authenticator.start()
        self.authenticator.configure_plain("*", dict([LOGIN]))
        self.authenticator.configure_curve_callback("*", credentials_provider=self)

    def callback(self, domain: str, key: bytes) -> bool:
        return key.decode() in self.keys

    def close(self) -> None:
        self.authenticator.stop()
