"""Clients that connect again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, client_name, how_often, server_name
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection, ObservedFinding
from zmtpscope.diagnosis.rules.other_clients import said_nothing
from zmtpscope.words import counted

MIN_TIMES = 3
"""Number of connections ended by the server from which on it is no coincidence."""

STORM = "ZMTP-CONN-10"
MIN_FAILED = 6
"""Failed connections of a storm. Those without data from the client are health checks."""


class Storm(NamedTuple):
    """The connections of a client that reconnects again and again to one endpoint, and the finding that reports it."""

    connections: Sequence[ObservedConnection]
    finding: ObservedFinding

    @property
    def is_ended_by_server(self) -> bool:
        """Whether the server ended each connection after a complete handshake."""
        ends = [(each, ending) for each in self.connections if (ending := ending_of(each)) is not None]
        return len(ends) >= MIN_TIMES and all(is_agreed(each) and end.side == each.listener for each, end in ends)


def _reconnect_storm(knowledge: Knowledge) -> Iterator[Diagnosis]:
    ended: dict[Endpoint, list[Storm]] = {}
    for ends, own in knowledge.by_ends.items():
        findings = [each.finding(STORM) for each in own]
        found = next((each for each in findings if each is not None), None)
        if found is None or sum(not said_nothing(each) for each in own) < MIN_FAILED:
            continue
        storm = Storm(own, found)
        if storm.is_ended_by_server:
            ended.setdefault(ends.endpoint, []).append(storm)
        else:
            text = f"{client_name(own[0])} connects to {server_name(own[0])} repeatedly without increasing its delay, "
            yield _storm([storm], ends.name, text, "find out why the connections end; ")
    for endpoint, storms in ended.items():
        first = storms[0].connections[0]
        others = f" and {counted(len(storms) - 1, 'other client')}" if storms[1:] else ""
        text = f"{server_name(first)} ends each connection of {client_name(first)}{others}, which connects again, "
        hint = "find out why that program closes them or restarts: see its log; "
        yield _storm(storms, address(endpoint), text, hint)


def _storm(storms: Sequence[Storm], subject: str, text: str, hint: str) -> Diagnosis:
    times = [each.start.ns for each in storms[0].connections]
    return Diagnosis.of(
        "reconnect-storm",
        "warn",
        subject,
        f"{text}{how_often(times)}",
        f"{hint}ZMQ_RECONNECT_IVL_MAX increases the delay of clients",
        evidence=(Evidence.of(each.finding) for each in storms[:MAX_EVIDENCE]),
        about=(each for storm in storms for each in storm.connections),
        last_ns=max(storm.connections[-1].last_ns for storm in storms),
    )


TABLE = (
    Rule(
        "reconnect-storm",
        "warn",
        "A client reconnects repeatedly",
        "More than five connections of a client to an endpoint failed within a minute, and the client did not wait "
        "longer from one attempt to the next. If the server ended each of them, it is named. libzmq always waits "
        "ZMQ_RECONNECT_IVL (100 ms), unless ZMQ_RECONNECT_IVL_MAX is set. Find out why the connections end: the "
        "retries are usually a consequence.",
        "* The waits between attempts grow.\n* The client sends nothing on its connections, like a health check.",
        _reconnect_storm,
        ("peer-departed",),
    ),
)
