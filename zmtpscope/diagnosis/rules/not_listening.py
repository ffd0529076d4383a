"""Endpoints at which no program listens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from zmtpscope.diagnosis.across.attempts import in_turn
from zmtpscope.diagnosis.across.endings import is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address
from zmtpscope.diagnosis.diagnosis import Diagnosis, Rule
from zmtpscope.diagnosis.rules.connection_attempts import BEFORE_A_PROXY, IN_TURN_HINT, InVain, Words, in_vain
from zmtpscope.dissect.identity import is_loopback
from zmtpscope.findings.capturing import REFUSED

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
    mutual, served = _mutual(knowledge), _served_loopback(knowledge)
    beside, local = in_turn(knowledge, REFUSED), _served_locally(knowledge)
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
        elif subject in local:
            diagnosis = replace(
                diagnosis,
                text=f"{diagnosis.text}; {local[subject]} is served",
                hint=f"if both are one host, its server is bound to {local[subject]} only: bind it to tcp://*:PORT, or "
                "to the address that the client uses; otherwise start the server",
            )
        elif subject in beside:
            diagnosis = replace(
                diagnosis,
                text=f"{diagnosis.text}; {beside[subject]} meanwhile",
                hint=f"start the server, or {IN_TURN_HINT}",
            )
        yield diagnosis


def _mutual(knowledge: Knowledge) -> dict[str, str]:
    """Return pairs of endpoints, as text, whose hosts refused each other's connections and never served one."""
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
    """Return, for each refused loopback address with port, as text, another loopback address that serves that port."""
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


def _served_locally(knowledge: Knowledge) -> dict[str, str]:
    """Return, for each refused address that is not loopback, as text, a loopback address that serves the same port."""
    served = {
        port: address((ip, port))
        for (ip, port), connections in knowledge.by_endpoint.items()
        if is_loopback(ip) and any(map(is_agreed, connections))
    }
    tried = (each.endpoint for each in knowledge.findings if each.id == REFUSED and each.endpoint)
    return {address((ip, port)): served[port] for ip, port in tried if port in served and not is_loopback(ip)}


TABLE = (
    Rule(
        "connection-refused",
        "error",
        "Connection refused: nothing listens on the port",
        "Every SYN of the clients was answered with RST, and no attempt succeeded before the end of the capture. A "
        "capture shows the refusal, not its reason: the program may not run, or it may be bound to another address.\n"
        "* If other clients are connected to the endpoint, the program runs. The diagnosis then names these clients.\n"
        "* If two hosts refuse each other, both connect and neither binds.\n"
        "* Severity warning if the clients were connected before.\n"
        "* Severity note if they have tried for less than 10 s: the server may still start.",
        "* A later attempt of any client succeeds.\n"
        "* Nothing shows that the endpoint is ZeroMQ. Signs of ZeroMQ are an established connection, and the random "
        "retry intervals of libzmq.",
        _refused,
        BEFORE_A_PROXY,
    ),
)
