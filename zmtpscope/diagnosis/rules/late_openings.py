"""Connections that opened late, since their SYNs were sent again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import client_name, duration, server_name
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedFinding
from zmtpscope.dissect.findings.attempts import LOST
from zmtpscope.findings.capturing import OPENED_LATE
from zmtpscope.grouping import divided_at_pauses, grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted

MIN_APART = 10 * SECOND
"""Clients that begin to connect this long after the others have another cause."""

MIN_UNACCEPTED = SECOND
"""A listener that greets a client no sooner does not accept connections meanwhile."""

MAX_CLIENTS = 3
"""Clients to name."""

UNANSWERED = "the first SYNs were not answered"

ANSWERS_LOST = (
    "the capture shows the answers, so they were lost between this point and the client: check that path and its "
    "firewalls"
)
FULL = (
    "the queue of its listener was full: check what that program did meanwhile; if many clients connect at once, raise "
    "ZMQ_BACKLOG (and net.core.somaxconn)"
)
LIMITED = (
    "a firewall limits new connections, the path loses packets, or the queue of the listener was full: if many clients "
    "connect at once, raise ZMQ_BACKLOG (and net.core.somaxconn)"
)
NOT_UP = (
    "the host was not up yet, or the path dropped packets; TCP waits longer after each SYN: ZMQ_CONNECT_TIMEOUT lets a "
    "client try again sooner"
)


class Late(NamedTuple):
    """A connection whose SYN the client sent again. `finding` reports the first SYN."""

    connection: ObservedConnection
    finding: ObservedFinding

    @property
    def began_ns(self) -> int:
        return self.finding.moment.ns

    @property
    def waited_ns(self) -> int:
        return self.finding.duration_ns

    @property
    def opened_ns(self) -> int:
        return self.began_ns + self.waited_ns


def _opened_late(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = (
        Late(each, finding)
        for each in knowledge.having(OPENED_LATE)
        if is_agreed(each) and (finding := each.finding(OPENED_LATE)) is not None
    )
    for of_endpoint in grouped((each.connection.endpoint, each) for each in found).values():
        for same in divided_at_pauses(of_endpoint, attrgetter("began_ns"), MIN_APART):
            yield _diagnosis(same, knowledge)


def _diagnosis(same: Sequence[Late], knowledge: Knowledge) -> Diagnosis:
    first, connection = same[0].finding, same[0].connection
    clients = list(dict.fromkeys(client_name(each.connection) for each in same))
    who = " and ".join(clients) if len(clients) <= MAX_CLIENTS else f"{len(clients)} clients"
    waits = sorted(each.waited_ns for each in same)
    after = " to ".join(dict.fromkeys(map(duration, (waits[0], waits[-1]))))
    times = f", on {counted(len(same), 'connection')}" if len(same) > 1 else ""
    others = _others(same, knowledge)
    unaccepted = [each for each in others if _is_unaccepted(each, same)]
    is_served = any(each.start.ns < first.moment.ns < (each.server.last_ns or 0) for each in others)
    if all(each.finding.answer == LOST for each in same):
        why, hint = "the answers to the first SYNs did not reach the client", ANSWERS_LOST
    elif unaccepted:
        several = counted(len(unaccepted), "established connection")
        why, hint = f"{UNANSWERED}; meanwhile the program did not accept {several} either", FULL
    elif is_served:
        why, hint = f"{UNANSWERED}, although it served others meanwhile", LIMITED
    else:
        why, hint = UNANSWERED, NOT_UP
    return Diagnosis.of(
        "opened-late",
        "warn" if unaccepted or (is_served and len(same) > 1) else "note",
        server_name(connection),
        f"{who} connected to {server_name(connection)} only after {after}{times}: {why}",
        hint,
        evidence=(Evidence(first.moment, "the first SYN", first.ref),),
        about=(*same, *unaccepted),
        explains=(OPENED_LATE,),
        count=len(same),
        last_ns=max(each.opened_ns for each in same),
    )


def _others(same: Sequence[Late], knowledge: Knowledge) -> list[ObservedConnection]:
    """Return the connections of the endpoint that opened at once before the late ones opened."""
    late, until = {each.connection.conn_id for each in same}, max(each.opened_ns for each in same)
    at_endpoint = knowledge.by_endpoint[same[0].connection.endpoint]
    return [each for each in at_endpoint if each.start.ns < until and each.conn_id not in late]


def _is_unaccepted(connection: ObservedConnection, same: Sequence[Late]) -> bool:
    """Whether the server sent no greeting to a client while the late connections waited, as if it did not accept."""
    opened, greeting = connection.client.greeting, connection.server.greeting
    until = max(each.opened_ns for each in same)
    if opened is None or opened.ns > until or (greeting is not None and greeting.ns < same[0].began_ns):
        return False
    return (until if greeting is None else greeting.ns) - opened.ns >= MIN_UNACCEPTED


TABLE = (
    Rule(
        "opened-late",
        "warn",
        "Connections open late because SYNs are sent again",
        "A client repeated the SYN of a connection for 2.5 s or longer, because no answer reached it.\n"
        "* Severity warning if the program accepted no other connection meanwhile: the accept queue of its listener "
        "was full.\n"
        "* Severity warning if several connections opened late while the program served others.\n"
        "* Otherwise a note: a firewall limits new connections, packets were lost, or the host was not up yet.",
        "The copies of the SYN follow sooner, or the connection is not ZMTP.",
        _opened_late,
        ("late-subscriber",),
    ),
)
