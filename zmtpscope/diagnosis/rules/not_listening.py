"""Endpoints at which nothing listens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from zmtpscope.diagnosis.across.endings import is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, client_name, server_name
from zmtpscope.diagnosis.diagnosis import Diagnosis, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.rules.connection_attempts import InVain, Words, in_vain
from zmtpscope.dissect.identity import is_loopback
from zmtpscope.findings.capturing import REFUSED
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND

IN_TURN = ("DEALER", "REQ", "PUSH")
"""Socket types that send their messages to all their peers in turn."""
AT_ONCE = SECOND
"""A socket usually connects to all its endpoints within this time."""

NOT_LET_IN = InVain(
    REFUSED,
    Words(
        "Nothing listens at {where}",
        "start the server, or correct the address and port of the client; check that the server binds to an address "
        "that other hosts reach, not to 127.0.0.1",
    ),
    Words(
        "{where} refuses connections, although it serves {others} meanwhile",
        "the program runs: a firewall or load balancer answers with RST (for example above a limit of connections per "
        "host), or the program keeps its connections but has stopped listening; compare the network and rules of "
        "this client with the clients that are served",
    ),
    patience=0,
)


def _refused(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose refused endpoints, together for two hosts that refuse each other."""
    found = {each.subject: each for each in in_vain("connection-refused", NOT_LET_IN)(knowledge)}
    mutual, served, in_turn = _mutual(knowledge), _served_loopback(knowledge), _in_turn(knowledge)
    while found:
        subject = next(iter(found))
        diagnosis = found.pop(subject)
        other, elsewhere = found.pop(mutual.get(subject, ""), None), served.get(subject)
        if other is not None:
            diagnosis = replace(
                diagnosis,
                text=f"{subject} and {other.subject} connect to each other, and neither binds: {diagnosis.count} and "
                f"{other.count} attempts were refused",
                hint="bind the one with the stable address, and connect the other",
                evidence=diagnosis.evidence + other.evidence,
                count=diagnosis.count + other.count,
                explains=diagnosis.explains | other.explains,
            )
        elif elsewhere is not None:
            diagnosis = replace(
                diagnosis,
                text=f"{diagnosis.text}; {elsewhere} on the same host is served",
                hint=f"connect to {elsewhere}, since localhost may be 127.0.0.1 or ::1, or let the server bind to both",
            )
        elif subject in in_turn:
            diagnosis = replace(
                diagnosis,
                text=f"{diagnosis.text}; {in_turn[subject]} meanwhile",
                hint="start the server, or disconnect from it: if one socket connects to both, it sends to them in "
                "turn, and every second message waits for this one; ZMQ_IMMEDIATE leaves out peers that are not "
                "connected",
            )
        yield diagnosis


def _mutual(knowledge: Knowledge) -> dict[str, str]:
    """Return the endpoints, as subjects, whose hosts refused each other and never served a connection."""
    tried = {
        (each.client, each.endpoint[0]): each.endpoint
        for each in knowledge.findings
        if each.id == REFUSED and each.client and each.endpoint and each.endpoint not in knowledge.by_endpoint
    }
    return {
        address(endpoint): address(tried[host, client])
        for (client, host), endpoint in tried.items()
        if client != host and (host, client) in tried
    }


def _served_loopback(knowledge: Knowledge) -> dict[str, str]:
    """Return refused loopback addresses, as subjects, each with the address that serves the same port."""
    served = {
        port: (ip, port)
        for (ip, port), connections in knowledge.by_endpoint.items()
        if is_loopback(ip) and any(map(is_agreed, connections))
    }
    return {
        address(each.endpoint): address(served[each.endpoint[1]])
        for each in knowledge.findings
        if each.endpoint and each.endpoint[1] in served and is_loopback(each.endpoint[0])
        if each.endpoint != served[each.endpoint[1]]
    }


def _in_turn(knowledge: Knowledge) -> dict[str, str]:
    """Return refused endpoints, as subjects, each with a connection that may belong to the same socket.

    The client connected to another endpoint at about the same time, and is still connected.
    """
    refused = [each for each in knowledge.findings if each.id == REFUSED and each.client and each.endpoint]
    clients = {each.client for each in refused}
    own = grouped((each.client.ip, each) for each in knowledge.connections if each.client.ip in clients)
    found: dict[str, str] = {}
    for finding in refused:
        beside = (
            each
            for each in own.get(finding.client or "", ())
            if abs(each.start.ns - finding.moment.ns) <= AT_ONCE and each.endpoint != finding.endpoint
        )
        connection = next(filter(_serves_in_turn, beside), None)
        if connection is not None and finding.endpoint is not None:
            text = f"{client_name(connection)} is connected to {server_name(connection)}"
            found.setdefault(address(finding.endpoint), text)
    return found


def _serves_in_turn(connection: ObservedConnection) -> bool:
    return connection.client.socket_type in IN_TURN and connection.is_open and is_agreed(connection)


TABLE = (
    Rule(
        "connection-refused",
        "error",
        "Connection refused: nothing listens on the port",
        "Every SYN of the clients was answered with RST, and no attempt succeeded before the end of the capture. A "
        "capture shows the refusal, not its reason: the program may not run, or may be bound to another address. "
        "Other clients that are connected to the endpoint are named: then the program runs. A warning if the clients "
        "were connected before, a note for the first 10 s. If two hosts refuse each other, both connect and neither "
        "binds.",
        "A later attempt of any client succeeds, or nothing shows that the endpoint is ZeroMQ: neither a connection "
        "to it nor retry intervals, which libzmq randomises.",
        _refused,
    ),
)
