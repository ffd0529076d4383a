"""Connections without security."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.endings import is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, client_name, name_of, server_name
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.rules.from_findings import with_finding
from zmtpscope.dissect.identity import is_loopback
from zmtpscope.grouping import grouped
from zmtpscope.words import counted, listed

PASSWORD = "PLAIN-04"
MAX_NAMED = 3

DOWNGRADE = "ZMTP-DOWNGRADE-01"
OLD = ("1.0", "2.0")
"""Versions without mechanisms and heartbeats."""


def _old_peers(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each client and endpoint where the version of the older side excludes security."""
    secured = {each.endpoint for each in knowledge.having(DOWNGRADE)}
    found = grouped(
        ((each.ends, newer ^ each.listener), each)
        for each in knowledge.connections
        if (newer := _newer_side(each)) is not None and each.endpoint not in secured
    )
    for (ends, _), connections in found.items():
        connection, newer = connections[0], _newer_side(connections[0]) or 0
        version = "" if connection.values is None else connection.values["version"]
        yield Diagnosis.of(
            "downgrade",
            "note",
            ends.name,
            f"{name_of(connection, newer)} speaks ZMTP {version} with {name_of(connection, 1 - newer)}, because the "
            "older side supports no newer version: it has no security and no heartbeats",
            "replace the old peer if you need either of them",
            evidence=(
                Evidence(connection.start, f"the connection begins, in which {version} was agreed on", connection.ref),
            ),
            about=connections,
            last_ns=connections[-1].last_ns,
        )


def _newer_side(connection: ObservedConnection) -> int | None:
    """Return the side that knows ZMTP 3.x, if the two certainly use an older version; otherwise None."""
    values = connection.values
    if values is None or values["version"] not in OLD or values["confidence"] != "proven":
        return None
    newer = [number for number, side in enumerate(connection.sides) if (side.version or "").startswith("3")]
    return newer[0] if len(newer) == 1 else None


def _unsecured(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for endpoint, found in grouped((each.endpoint, each) for each in knowledge.having(DOWNGRADE)).items():
        connections = knowledge.by_endpoint[endpoint]
        old = [each for each in connections if each.values is not None and each.values["version"] in OLD]
        if not old:
            continue
        names = list(dict.fromkeys(client_name(each) for each in old))
        version = "" if old[0].values is None else old[0].values["version"]
        announced = {side.mechanism for each in connections for side in each.sides} - {None, "NULL"}
        mechanism = " and ".join(sorted(map(str, announced))) or "security"
        yield Diagnosis.of(
            "downgrade",
            "error",
            address(endpoint),
            f"{listed(names, MAX_NAMED)} and {server_name(old[0])} communicate without {mechanism}, which others "
            f"use there: a peer of ZMTP {version} does not support it, and is served anyway",
            "replace the old peer, and refuse peers older than 3.0 where authentication matters",
            evidence=(Evidence(each.start, "a connection of an old peer", each.ref) for each in old[:MAX_EVIDENCE]),
            about=old,
            explained=((each.conn_id, DOWNGRADE) for each in found),
            last_ns=old[-1].last_ns,
        )


def _downgrade(knowledge: Knowledge) -> Iterator[Diagnosis]:
    yield from _unsecured(knowledge)
    yield from _old_peers(knowledge)


def _is_network(connection: ObservedConnection) -> bool:
    one, other = (side.ip for side in connection.sides)
    return one != other and not is_loopback(one)


def _passwords(knowledge: Knowledge) -> Diagnosis | None:
    seen = [each for each in with_finding(knowledge, PASSWORD) if _is_network(each.connection)]
    if not seen:
        return None
    clients = {each.connection.client.ip for each in seen}
    servers = dict.fromkeys(each.connection.endpoint for each in seen)
    more = f" and {len(servers) - 1} more" if len(servers) > 1 else ""
    return Diagnosis.of(
        "clear-text",
        "note",
        "all endpoints",
        f"{counted(len(clients), 'client')} sent a password to {server_name(seen[0].connection)}{more} unencrypted",
        "use CURVE if you do not trust the network",
        evidence=(Evidence(seen[0].finding.moment, "the first password", seen[0].finding.ref),),
        about=seen,
        last_ns=seen[-1].finding.last_ns,
    )


def _unencrypted(knowledge: Knowledge) -> Diagnosis | None:
    """Return one diagnosis of unencrypted traffic at all endpoints, because most systems have no security at all."""
    clear = (each for each in knowledge.connections if is_agreed(each) and _is_network(each) and _is_clear(each))
    seen = grouped((each.endpoint, each) for each in clear)
    if not seen:
        return None
    connections = [connection for each in seen.values() for connection in each]
    first, more = server_name(connections[0]), len(seen) - 1
    return Diagnosis.of(
        "clear-text",
        "note",
        "all endpoints",
        f"Messages of {first}{f' and {more} more' if more else ''} cross the network unencrypted",
        "use CURVE if you do not trust it",
        evidence=(Evidence(connections[0].start, "the first connection without encryption", connections[0].ref),),
        about=connections,
        last_ns=connections[-1].last_ns,
    )


def _is_clear(connection: ObservedConnection) -> bool:
    """Whether messages were certainly sent unencrypted: with NULL on both sides, or in a version without security."""
    if connection.values is None or connection.values["confidence"] != "proven":
        return False
    if connection.values["only_side"] is not None or connection.values["handshake"] != "complete":
        return False
    has_messages = connection.values["messages_0"] or connection.values["messages_1"]
    return bool(has_messages and connection.values["mechanism"] in (None, "NULL"))


def _clear_text(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = _passwords(knowledge) or _unencrypted(knowledge)
    if found is not None:
        yield found


TABLE = (
    Rule(
        "downgrade",
        "error",
        "A peer too old for security is accepted",
        "A client of ZMTP 1.0 or 2.0 exchanged messages at an endpoint that announces PLAIN, CURVE or GSSAPI. These "
        "versions have no security, and the older side decides the version. That the same program listens is inferred "
        "from its address and port. A note if no peer announces a mechanism there.",
        "No peer announced a mechanism with security at the endpoint: then it is a note.",
        _downgrade,
    ),
    Rule(
        "clear-text",
        "note",
        "Passwords or messages are sent unencrypted",
        "Passwords or messages are sent unencrypted between hosts. One diagnosis names all endpoints that receive "
        "PLAIN passwords. If there are none, it names all endpoints without security. Encryption below TCP "
        "(WireGuard, IPsec) is not visible in the capture.",
        "* Both sides are on one host.\n* An error or warning is reported: it is more important.",
        _clear_text,
        is_aside=True,
    ),
)
