"""Attempts of clients to connect that failed: which endpoints they never reached, and which other clients an endpoint
served at that time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, RunFinding, once
from zmtpscope.diagnosis.across.words import address, client_name, server_name
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection
from zmtpscope.findings.capturing import NO_ROUTE, REFUSED, REJECTED, UNANSWERED
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted

MIN_LATE = SECOND
"""A client of libzmq often starts before its server: one that connects within this time has lost nothing."""


IN_TURN = ("DEALER", "REQ", "PUSH")
"""Socket types that send their messages to all their peers in turn."""
AT_ONCE = SECOND
"""A socket usually connects to all its endpoints within this time."""


class Tried(NamedTuple):
    """Failed attempts to connect to an endpoint, all with the same outcome (refused, unanswered ...).

    `findings` report the attempts of one client each. `before` are earlier connections of these clients, which ended;
    `back_ns` is the start of the first connection after the attempts, or 0. `served` names other clients of the
    endpoint.
    """

    endpoint: Endpoint
    findings: list[RunFinding]
    before: list[ObservedConnection]
    back_ns: int = 0
    served: Sequence[str] = ()
    """Names of other clients that the endpoint served during the attempts."""

    @property
    def was_left(self) -> bool:
        """Whether the clients were connected before, and the endpoint now serves no other client."""
        return bool(self.before) and not self.served

    @property
    def attempts(self) -> int:
        return sum(each.times for each in self.findings)

    @property
    def first_ns(self) -> int:
        return min(each.moment.ns for each in self.findings)

    @property
    def waited_ns(self) -> int:
        return self.back_ns - self.first_ns


class Client(NamedTuple):
    """Failed attempts of one client to connect, between two of its connections.

    `before` are its connections that had ended, and the next one begins at `back_ns` (None: there is none).
    `is_accepted`: a later TCP connection was established, with any protocol.
    """

    finding: RunFinding
    before: list[ObservedConnection]
    back_ns: int | None
    is_accepted: bool
    """Whether a later TCP connection was established, with any protocol."""


def clients_of(knowledge: Knowledge, id_: str) -> dict[Endpoint, list[Client]]:
    """Return the clients whose attempts had the outcome `id_`, by endpoint."""
    return grouped(
        (finding.ends.endpoint, _client(finding, knowledge.by_ends.get(finding.ends, ())))
        for finding in knowledge.findings
        if finding.id == id_ and finding.ends is not None
    )


def _client(finding: RunFinding, connections: Sequence[ObservedConnection]) -> Client:
    first = finding.moment.ns
    before = [each for each in connections if (end := _left_ns(each)) is not None and end <= first]
    later = [each for each in connections if each.start.ns > first]
    return Client(finding, before, min((each.start.ns for each in later if _is_back(each)), default=None), bool(later))


def _left_ns(connection: ObservedConnection) -> int | None:
    """Return when a connection ended, or when data first remained unacknowledged (ns); None if it is open."""
    ending = ending_of(connection)
    if ending is not None:
        return ending.moment.ns
    outages = [side.last_outage for side in connection.sides]
    return min((each.moment.ns for each in outages if each is not None), default=None)


def _is_back(connection: ObservedConnection) -> bool:
    """Whether the connection reached its peer: False if TCP connected the client to itself."""
    return is_agreed(connection) or connection.finding("ZMTP-CONN-11") is not None


def tried_in_vain(knowledge: Knowledge, id_: str, patience: int) -> Iterator[Tried]:
    """Yield the endpoints that clients never reached before the capture ended.

    `patience` is the longest time (ns) that an attempt can have waited for its outcome `id_`.
    """
    for endpoint, clients in clients_of(knowledge, id_).items():
        vain = [each for each in clients if _is_in_vain(each, knowledge)]
        if not vain:
            continue
        before = [connection for each in vain for connection in _last(each.before)]
        tried = Tried(endpoint, [each.finding for each in vain], before)
        served = _served_meanwhile(knowledge, tried, patience)
        is_back = any(each.back_ns is not None and each.back_ns > tried.first_ns for each in clients)
        if served or not is_back:  # otherwise the endpoint listens again, and these clients may have ended before
            yield tried._replace(served=served)


def _is_answered_too(finding: RunFinding, knowledge: Knowledge) -> bool:
    """Whether an attempt that has no answer in the capture probably got one.

    Three signs: ICMP, which hosts send at a limited rate, rejected other attempts of the client; attempts before and
    after it were refused; or only one direction of another connection was captured.
    """
    if finding.id != UNANSWERED or finding.ends is None:
        return False
    others = knowledge.findings_by_ends[finding.ends]
    is_answered = any(each.id in (REJECTED, NO_ROUTE) or _is_between_refusals(finding, each) for each in others)
    return is_answered or finding.client in _one_sided(knowledge)


def _is_between_refusals(finding: RunFinding, other: RunFinding) -> bool:
    return other.id == REFUSED and other.moment.ns < finding.moment.ns < other.until_ns


@once
def _one_sided(knowledge: Knowledge) -> set[str]:
    return {
        side.ip
        for each in knowledge.connections
        if each.values is not None and each.values["only_side"] is not None
        for side in each.sides
    }


def _is_in_vain(client: Client, knowledge: Knowledge) -> bool:
    return client.back_ns is None and not client.is_accepted and not _is_answered_too(client.finding, knowledge)


def is_zeromq(tried: Tried, knowledge: Knowledge) -> bool:
    """Whether an endpoint uses ZeroMQ: other clients speak ZMTP to it, or the intervals between attempts are those of
    libzmq.

    If earlier connections of the same client were not ZMTP, the endpoint uses another protocol.
    """
    if any(each.severity == "warn" and not each.was_connected for each in tried.findings):
        return True
    is_persistent = tried.attempts > 1 or any(each.until_ns - each.moment.ns >= MIN_LATE for each in tried.findings)
    return is_persistent and tried.endpoint in knowledge.by_endpoint


MAX_SERVED = 3
MIN_SERVED = 2 * SECOND
"""Minimum stay (ns) of a client that connected between another client's attempts, as evidence that it was served."""


def _last(connections: list[ObservedConnection]) -> list[ObservedConnection]:
    """Return the connections of a client that ended last, after which it had none."""
    ends = [(each, end) for each in connections if (end := _left_ns(each)) is not None]
    last = max((end for _, end in ends), default=0)
    return [each for each, end in ends if last - end < MIN_LATE]


def _served_meanwhile(knowledge: Knowledge, tried: Tried, patience: int) -> list[str]:
    """Return the names of up to three other clients that the endpoint served while the attempts failed.

    They were connected from the first attempt on, or connected between two attempts and stayed long. Other connections
    of the same clients count if the server sends on them. `patience` is the longest time (ns) that an attempt can wait
    for its outcome.
    """
    clients = {each.client for each in tried.findings}
    if any(_is_unaccepted(each, tried) for each in knowledge.by_endpoint.get(tried.endpoint, ())):
        return []
    found: dict[str, None] = {}
    own: Counter[str] = Counter()
    for each in knowledge.by_endpoint.get(tried.endpoint, ()):
        client, is_between = each.client.ip, _is_between(each, tried)
        is_serving = each.start.ns < tried.first_ns < (each.server.last_ns or 0)
        own[client] += client in clients and is_serving and is_agreed(each)
        is_meanwhile = each.start.ns < tried.first_ns + patience and each.last_ns > tried.first_ns
        if client in clients or not (is_meanwhile or is_between) or not is_agreed(each) or len(found) == MAX_SERVED:
            continue
        ending, least = ending_of(each), each.start.ns + MIN_SERVED if is_between else tried.first_ns
        if ending is None or ending.moment.ns > least:
            found[client] = None
    return [*found, *(f"{counted(count, 'connection')} of {client}" for client, count in own.items() if count)]


def _is_unaccepted(connection: ObservedConnection, tried: Tried) -> bool:
    """Whether a client has waited for the greeting since before the attempts. If so, the listening program serves no
    client."""
    return connection.is_open and connection.server.last_ns is None and connection.start.ns < tried.first_ns


def _is_between(connection: ObservedConnection, tried: Tried) -> bool:
    """Whether a connection began between two attempts with the same outcome."""
    start = connection.start
    return any(
        each.moment.ns <= start.ns and each.moment.file == start.file and (start.packet or 0) < each.last_packet
        for each in tried.findings
    )


def in_turn(knowledge: Knowledge, id_: str) -> dict[str, str]:
    """Return, for each endpoint with the outcome `id_`, a text about a connection of the client to another endpoint.

    The client connected to the other endpoint at about the same time, and is still connected. So one socket may be
    connected to both endpoints, and send to them in turn.
    """
    tried = [each for each in knowledge.findings if each.id == id_ and each.client and each.endpoint]
    clients = {each.client for each in tried}
    own = grouped((each.client.ip, each) for each in knowledge.connections if each.client.ip in clients)
    found: dict[str, str] = {}
    for finding in tried:
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


def passed_on_in_vain(tried: Tried, knowledge: Knowledge) -> list[ObservedConnection]:
    """Return connections to a TCP proxy that waited without a greeting while the proxy tried to reach its server."""
    hosts = {each.client for each in tried.findings}
    until = max(each.until_ns for each in tried.findings) + MIN_LATE
    return [
        each
        for host in hosts
        for each in _waiting(knowledge).get(host or "", ())
        if tried.first_ns - MIN_LATE <= each.start.ns <= until and each.endpoint != tried.endpoint
    ]


@once
def _waiting(knowledge: Knowledge) -> dict[str, list[ObservedConnection]]:
    """Return connections of ZeroMQ clients to listeners that sent no data, by the IP address of the listener."""
    silent = (
        each for each in knowledge.connections if each.server.last_ns is None and each.client.greeting is not None
    )
    return grouped((each.server.ip, each) for each in silent)
