"""Result of a probe: a table with hints for people, or one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from zmtpscope.export.preview import quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.live.probe.probe import COMPLETE, JOINING, NEEDS_CREDENTIALS, WITHHELD, Found
from zmtpscope.words import either
from zmtpscope.zmtp.greeting import GREETING_3_SIZE

SCHEMA = 1
MAX_PROPERTIES = 20
SHOWN_APART = ("socket-type", "identity")

ONE_PARTNER = ("PAIR", "CHANNEL")
CREDENTIALS = {
    "PLAIN": "add --user NAME or --plain-file FILE",
    "CURVE": "add --server-key KEY, and --curve-file FILE if the server accepts only known clients",
}


def facts(endpoint: str, found: Found) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each line of the report, without control characters."""
    if found.remote is not None and found.remote not in endpoint:
        yield "address", found.remote
    if found.version is not None:
        spoken = found.version_in_force
        yield "version", found.version + (f", spoken as {spoken}" if spoken not in (None, found.version) else "")
    if found.mechanism is not None:
        yield "mechanism", safe_text(found.mechanism) + (f", as-server {found.as_server}" if found.as_server else "")
    if found.socket_type is not None:
        yield "socket type", safe_text(found.socket_type)
    elif found.possible_socket_types:
        yield "socket type", f"not announced; it may be {either(found.possible_socket_types)}"
    elif found.version is not None:
        yield "socket type", "not announced"
    if found.identity is not None:
        yield "identity", quoted(found.identity) if found.identity else "none"
    properties = [each for each in found.metadata or () if each["name"].lower() not in SHOWN_APART]
    for each in properties[:MAX_PROPERTIES]:
        yield f"property {safe_text(each['name'][:40])}", quoted(each["value"])
    if len(properties) > MAX_PROPERTIES:
        yield "properties", f"{len(properties) - MAX_PROPERTIES} more"
    if found.handshake is not None:
        joined = f", with us as {found.joined_as}" if found.handshake == COMPLETE else ""
        yield "handshake", ("not completed" if found.handshake == WITHHELD else found.handshake) + joined
    if found.ping is not None:
        yield "heartbeat", _ping(found)
    if found.arrivals:
        yield "greeting", _style(found)
    if found.version is not None:
        yield "implementation", f"likely {found.implementation}" if found.implementation else "unknown"
    if times := list(_times(found)):
        yield "time", ", ".join(times)


def _ping(found: Found) -> str:
    assert found.ping is not None
    if found.ping.seconds is None:
        return "no answer to PING"
    context = "with its context" if found.ping.context_returned else "without its context"
    return f"PING answered {context} in {_milliseconds(found.ping.seconds)}"


def _style(found: Found) -> str:
    """Describe how the peer greeted: how many octets it sent, and after how many octets of the probe's greeting."""
    if found.unasked >= GREETING_3_SIZE:
        return "64 octets at once, independent of ours"
    pieces = [
        (sent, sum(arrival.octets for arrival in arrivals))
        for sent, arrivals in groupby(found.arrivals, lambda arrival: arrival.sent)
    ]
    return ", ".join(
        f"{octets} more after {sent} of ours" if sent else f"{octets} octets before ours" for sent, octets in pieces
    )


def _times(found: Found) -> Iterator[str]:
    if found.connecting is not None:
        yield f"connected in {_milliseconds(found.connecting)}"
    if found.greeting is not None:
        yield f"greeted in {_milliseconds(found.greeting)}"
    if found.answering is not None and found.metadata is not None:
        yield f"READY in {_milliseconds(found.answering)}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def notes(found: Found, *, joins: bool) -> Iterator[str]:
    """Yield remarks about the result, and options that reveal more. `joins`: `--join` was given."""
    theirs = found.socket_type
    if found.handshake == NEEDS_CREDENTIALS:
        wanted = safe_text(found.mechanism or "")
        given = CREDENTIALS.get(found.mechanism or "", f"zmtpscope supports only {either(['NULL', *CREDENTIALS])}")
        yield f"it requires {wanted}, and announces its socket type only to peers that it accepts -> {given}"
    elif found.version == "1.0":
        yield "ZMTP 1.0 does not announce the socket type; nothing was sent, since messages may follow the greeting"
    elif found.handshake == WITHHELD and found.possible_socket_types:
        yield (
            "it accepted none of the socket types that are safe to try (or it refused our key) "
            "-> --join tries the other types, which can lose messages"
        )
    elif found.handshake == WITHHELD and theirs in ONE_PARTNER:
        yield f"a {theirs} has one partner, so the probe did not take its place -> --join does"
    elif found.handshake == WITHHELD and theirs in JOINING:
        yield (
            f"a {theirs} sends messages to every connected peer, so the handshake was not completed "
            "-> --join completes it, which can lose messages"
        )
    elif found.handshake == WITHHELD:
        yield "its READY has an unknown socket type, so the handshake was not completed"
    if found.version not in (None, "3.1") and (theirs in JOINING or theirs is None) and not joins:
        yield (
            "libzmq before 4.3.3 sends messages to a connection as soon as it is accepted: "
            "if this is one with messages to send, the probe may have lost some"
        )
    if found.handshake == COMPLETE and found.version == "3.0" and found.ping is None:
        yield "3.0 has no PING, but many peers answer it -> --ping sends one; libzmq before 4.2 reads it as a message"


def to_json(endpoint: str, found: Found) -> dict[str, Any]:
    """Convert a probe's result for `--json` (docs/probe.md); times are milliseconds."""
    ping = found.ping
    return {
        "schema": SCHEMA,
        "endpoint": endpoint,
        "remote": found.remote,
        "version": found.version,
        "version_in_force": found.version_in_force,
        "mechanism": found.mechanism,
        "as_server": found.as_server,
        "socket_type": found.socket_type,
        "possible_socket_types": found.possible_socket_types,
        "identity": found.identity,
        "metadata": found.metadata,
        "handshake": found.handshake,
        "joined_as": found.joined_as,
        "ping": None
        if ping is None
        else {
            "answered": ping.seconds is not None,
            "round_trip_ms": _rounded(ping.seconds),
            "context_returned": ping.context_returned,
        },
        "greeting": [arrival._asdict() for arrival in found.arrivals],
        "implementation": found.implementation,
        "connecting_ms": _rounded(found.connecting),
        "greeting_ms": _rounded(found.greeting),
        "answering_ms": _rounded(found.answering),
        "connections": found.connections,
        "octets": found.octets,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
