"""Creates sockets. All arguments are checked before anything is opened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from zmtpscope.live.peer.arguments import Endpoint, Text, check_kind, endpoint_of, several, text_of
from zmtpscope.live.peer.socket import Report, Socket
from zmtpscope.zmtp.peer import (
    CurveClient,
    CurveServer,
    Heartbeat,
    Limits,
    Null,
    PlainClient,
    PlainServer,
    Security,
    Settings,
)

if TYPE_CHECKING:
    from zmtpscope.live.recording.recording import Recording

NULL, LIMITS = Null(), Limits()


def _settings(
    socket_type: str,
    identity: Text,
    security: Security,
    properties: Sequence[tuple[str, str]],
    version: str,
    oldest: str | None,
    heartbeat: Heartbeat | None,
    limits: Limits,
) -> Settings:
    check_kind(security, (Null, PlainClient, PlainServer, CurveClient, CurveServer), "security")
    check_kind(heartbeat, (Heartbeat, type(None)), "heartbeat")
    check_kind(limits, (Limits,), "limits")
    name = text_of(identity, "an identity")
    return Settings(socket_type, security, name, tuple(properties), version, oldest, heartbeat, limits)


def connect(
    endpoint: str | Endpoint,
    socket_type: str,
    *,
    subscribe: Iterable[Text] = (),
    join: Iterable[Text] = (),
    identity: Text = "",
    security: Security = NULL,
    version: str = "3.1",
    oldest: str | None = None,
    properties: Sequence[tuple[str, str]] = (),
    heartbeat: Heartbeat | None = None,
    limits: Limits = LIMITS,
    report: Report | None = None,
    recording: Recording | None = None,
    comes_back: bool = True,
) -> Socket:
    """Create a socket that connects to `endpoint`: `tcp://host:port` or `ipc://path`.

    `subscribe` are topics (SUB, XSUB) and `join` groups (DISH), sent on each new connection. `Settings` describes the
    options from `identity` to `limits`. Raises `TypeError` and `ValueError`, with the reason.
    """
    settings = _settings(socket_type, identity, security, properties, version, oldest, heartbeat, limits)
    where = endpoint_of(endpoint, bind=False)
    socket = Socket(where, settings, listens=False, report=report, recording=recording, comes_back=comes_back)
    return _subscribed(socket, subscribe, join)


def bind(
    endpoint: str | Endpoint,
    socket_type: str,
    *,
    subscribe: Iterable[Text] = (),
    join: Iterable[Text] = (),
    identity: Text = "",
    security: Security = NULL,
    version: str = "3.1",
    oldest: str | None = None,
    properties: Sequence[tuple[str, str]] = (),
    heartbeat: Heartbeat | None = None,
    limits: Limits = LIMITS,
    report: Report | None = None,
    recording: Recording | None = None,
) -> Socket:
    """Create a socket that listens on `endpoint`: on loopback without a host, on all interfaces with host `*`.

    With port 0 the system chooses: see `Socket.endpoint` inside `async with`. Options are as in `connect`.
    """
    settings = _settings(socket_type, identity, security, properties, version, oldest, heartbeat, limits)
    where = endpoint_of(endpoint, bind=True)
    return _subscribed(Socket(where, settings, listens=True, report=report, recording=recording), subscribe, join)


def _subscribed(socket: Socket, topics: Iterable[Text], groups: Iterable[Text]) -> Socket:
    socket.set_subscriptions(several(topics, "subscribe"), several(groups, "join"))
    return socket
