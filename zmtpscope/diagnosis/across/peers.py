"""Peers over all their connections: times, counts, and how each connection ended.

A connecting peer is identified by its identity, or else its address, with its socket type and the endpoint to which it
connects. A listening peer is identified by its endpoint. Several similar programs on one host without identity are one
peer, because the wire does not distinguish them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from zmtpscope.diagnosis.across.endings import Ending, ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, RunFinding
from zmtpscope.diagnosis.across.words import address, cadence
from zmtpscope.diagnosis.observers.observed import Endpoint, Ends, ObservedConnection, began
from zmtpscope.diagnosis.observers.observer import derived
from zmtpscope.dissect import Record
from zmtpscope.findings.capturing import ATTEMPTS
from zmtpscope.grouping import grouped

MAX_DEPARTURES = 100


class Departure(NamedTuple):
    """The end of a connection of a peer. `by_itself`: the peer ended it."""

    connection: ObservedConnection
    ending: Ending
    by_itself: bool


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer and its connections, in order of start.

    It connects to the endpoint `remote`, or listens if `remote` is None. `attempts` are its failed attempts to connect.
    """

    address: str
    identity: str | None
    socket_type: str | None
    remote: Endpoint | None
    connections: tuple[ObservedConnection, ...]
    attempts: tuple[RunFinding, ...] = ()

    @property
    def name(self) -> str:
        return self.identity or self.address

    @property
    def listens(self) -> bool:
        return self.remote is None

    def side_of(self, connection: ObservedConnection) -> int:
        return connection.listener if self.listens else 1 - connection.listener

    def departures(self) -> list[Departure]:
        """The ends of its connections that were captured, in order of time."""
        ends = [(connection, ending_of(connection)) for connection in self.connections]
        found = [Departure(each, end, end.side == self.side_of(each)) for each, end in ends if end is not None]
        return sorted(found, key=attrgetter("ending.moment.ns"))

    @property
    def failed(self) -> int:
        failed = [each for each in self.connections if each.values is not None and not is_agreed(each)]
        return len(failed) + sum(each.times for each in self.attempts)

    @property
    def state(self) -> str:
        agreed = [each for each in self.connections if is_agreed(each)]
        if any(ending_of(each) is None and each.is_open for each in agreed):
            return "connected"
        return "gone" if agreed else "never connected"

    def record(self, ordinal: int) -> Record:
        """Return the derived record `peer`; `ordinal` is the position of the end of the capture."""
        return _record(self, ordinal)


def peers(knowledge: Knowledge) -> list[Peer]:
    """Return all peers: listeners in order of their endpoints, then clients in the order in which they appeared."""
    listening = [_listener(endpoint, connections) for endpoint, connections in knowledge.by_endpoint.items()]
    return listening + list(_connecting(knowledge))


def _listener(endpoint: Endpoint, connections: Sequence[ObservedConnection]) -> Peer:
    sides = [each.server for each in connections]
    identity = next((side.identity for side in reversed(sides) if side.identity), None)
    socket_type = next((side.socket_type for side in reversed(sides) if side.socket_type), None)
    return Peer(address(endpoint), identity, socket_type, None, tuple(connections))


Known = tuple[str | None, str | None]
"""Identity and socket type, as far as known."""


def _connecting(knowledge: Knowledge) -> Iterator[Peer]:
    attempts = {
        ends: failed
        for ends, findings in knowledge.findings_by_ends.items()
        if (failed := [each for each in findings if each.id in ATTEMPTS])
    }
    for ends in {**knowledge.by_ends, **attempts}:
        known = grouped(
            ((each.client.identity or None, each.client.socket_type), each) for each in knowledge.by_ends.get(ends, ())
        )
        yield from _of_client(ends, _merged(known), tuple(attempts.get(ends, ())))


def _merged(known: dict[Known, list[ObservedConnection]]) -> dict[Known, list[ObservedConnection]]:
    """Join all connections of a client address into one peer, if those with a known socket type agree on it and the
    identity.

    The keys of `known` are identity and socket type.
    """
    whole = [each for each in known if each[1] is not None]
    if len(whole) == 1:
        merged = [connection for connections in known.values() for connection in connections]
        return {whole[0]: sorted(merged, key=began)}
    return known


def _of_client(
    ends: Ends, known: dict[Known, list[ObservedConnection]], attempts: tuple[RunFinding, ...]
) -> Iterator[Peer]:
    """Yield the peers at a client address. `known` are its connections, by identity and socket type.

    Failed attempts show neither identity nor type, so the first peer gets all of them.
    """
    ip, endpoint = ends
    if not known:
        yield Peer(ip, None, None, endpoint, (), attempts)
    for place, ((identity, socket_type), connections) in enumerate(known.items()):
        yield Peer(ip, identity, socket_type, endpoint, tuple(connections), () if place else attempts)


def _record(peer: Peer, ordinal: int) -> Record:
    connections, starts = peer.connections, [each.start.ns for each in peer.connections]
    starts += [each.moment.ns for each in peer.attempts]
    first = min([each.start for each in connections] + [each.moment for each in peer.attempts])
    departures = peer.departures()[-MAX_DEPARTURES:]
    sides = [(each.values, peer.side_of(each)) for each in connections if each.values is not None]
    return derived(
        "peer",
        ordinal,
        first,
        name=peer.name,
        identity=peer.identity,
        address=peer.address,
        socket_type=peer.socket_type,
        role="listens" if peer.listens else "connects",
        remote=None if peer.remote is None else address(peer.remote),
        connections=len(connections),
        failed=peer.failed,
        start_ns=first.ns,
        end_ns=max([each.last_ns for each in connections] + starts),
        state=peer.state,
        cadence_ns=None if peer.listens else cadence(sorted(each.start.ns for each in connections)),
        departures=[_departure_values(each) for each in departures],
        messages_sent=sum(of[f"messages_{side}"] or 0 for of, side in sides),
        messages_received=sum(of[f"messages_{1 - side}"] or 0 for of, side in sides),
    )


def _departure_values(departure: Departure) -> dict[str, Any]:
    connection, ending, by_itself = departure
    return {
        "ts_ns": ending.moment.ns,
        "conn_id": connection.conn_id,
        "cause": ending.cause,
        "by": "itself" if by_itself else "other",
    }
