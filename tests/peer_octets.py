"""Octets that peers of ZMTP 3 send: the vocabulary of scripted traffic."""

from __future__ import annotations

from typing import Any

from zmtpscope.records import to_text
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.regime import Framing

GREETING = build_greeting_3()
"""The greeting of 3.1 with NULL."""


def command(mechanism: str, name: str, **fields: Any) -> bytes:
    return build_frame(Framing.V2, build_command(mechanism, name, fields), command=True)


def ready(socket_type: str, *others: tuple[str, str], identity: str | None = None) -> bytes:
    """A READY of NULL, with an identity (which may be empty) and other properties."""
    properties = [("Socket-Type", socket_type), *others, *([] if identity is None else [("Identity", identity)])]
    return command("NULL", "READY", metadata=[{"name": name, "value": value} for name, value in properties])


def hello(socket_type: str, version: str = "3.1", *, identity: str | None = None) -> bytes:
    """Greeting and READY of a NULL peer."""
    return build_greeting_3(version=version) + ready(socket_type, identity=identity)


def message(*bodies: bytes, long: bool = False) -> bytes:
    last = len(bodies) - 1
    return b"".join(build_frame(Framing.V2, body, more=part < last, long=long) for part, body in enumerate(bodies))


def subscribe(topic: bytes) -> bytes:
    return command("NULL", "SUBSCRIBE", topic=to_text(topic))


def cancel(topic: bytes) -> bytes:
    return command("NULL", "CANCEL", topic=to_text(topic))


def ping(context: bytes = b"", *, ttl_ms: int = 0) -> bytes:
    return command("NULL", "PING", ttl_ms=ttl_ms, context=context)


def pong(context: bytes = b"") -> bytes:
    return command("NULL", "PONG", context=context)
