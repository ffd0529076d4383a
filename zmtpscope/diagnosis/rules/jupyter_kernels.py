"""Jupyter kernels that do not answer a client, or are still busy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import end_of, ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import address, client_name, duration, server_name
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedJupyter
from zmtpscope.diagnosis.observers.run_summaries import MAX_RECENT
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted
from zmtpscope.zmtp.socket_types import PUBLISHERS_AND_RADIO

UNANSWERED = "jupyter-unanswered"
WRONG_SIGNATURE = "JUPYTER-01"

MIN_WAIT = 3 * SECOND
"""A kernel that starts or loads its modules takes less time."""

SIGNATURES = (
    "a kernel drops messages with a wrong signature, and reports it only in its log (Invalid Signature): compare key "
    "and signature_scheme of both connection files; --payload-file jupyter=FILE checks the signatures"
)
KERNEL = (
    "check whether the kernel is stopped or busy (interrupt it), or whether its log has Invalid Signature: another key"
)


class Asked(NamedTuple):
    """A client whose requests a kernel did not answer from `first` until `until` (ns), with its connections to that
    kernel.

    `ids` are the message ids of the requests.
    """

    connections: list[ObservedConnection]
    first: Moment
    until: int
    ids: set[str]

    @property
    def host(self) -> str:
        return self.connections[0].endpoint[0]

    @property
    def client(self) -> str:
        return self.connections[0].client.ip


def _unanswered(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = grouped(
        ((client.ip, client.identity, each.server.ip), each)
        for each in knowledge.connections
        if (client := each.client).socket_type == "DEALER" and client.jupyter is not None and client.jupyter.requests
    )
    for connections in found.values():
        if all(map(_is_unanswered, connections)):
            asked = _asked(connections, knowledge)
            if asked.until - asked.first.ns >= MIN_WAIT and _publishes_nothing(asked, knowledge):
                heartbeats = _heartbeats(asked, knowledge)
                if heartbeats or heartbeats is None:
                    yield _diagnosis(asked, heartbeats)


def _is_unanswered(connection: ObservedConnection) -> bool:
    """Whether the kernel sent no response on a complete connection with requests, and did not end the connection."""
    client, kernel = connection.client, connection.server
    ending = ending_of(connection)
    return (
        connection.is_whole
        and (connection.is_open if ending is None else ending.side != connection.listener)
        and client.last_outage is None
        and (kernel.jupyter is None or not kernel.jupyter.response_count)
        and connection.finding(WRONG_SIGNATURE) is None
    )


def _asked(connections: list[ObservedConnection], knowledge: Knowledge) -> Asked:
    moments = {id_: moment for each in _clients(connections) for id_, moment in each.asked.items()}
    until = max(end_of(each, knowledge.last_ns) for each in connections)
    return Asked(connections, min(moments.values(), key=attrgetter("ns")), until, set(moments))


def _publishes_nothing(asked: Asked, knowledge: Knowledge) -> bool:
    """Whether the kernel's publisher was captured, and published neither a response to the client nor a busy status."""
    found = False
    for connection in _between(knowledge).get((asked.client, asked.host, "SUB"), ()):
        published = connection.server
        found = found or (connection.is_whole and is_agreed(connection))
        jupyter = published.jupyter
        if jupyter is not None and (
            jupyter.busy or jupyter.forgot_ns >= asked.first.ns or not asked.ids.isdisjoint(jupyter.responses)
        ):
            return False
    return found


def _heartbeats(asked: Asked, knowledge: Knowledge) -> int | None:
    """Return the number of heartbeats that the kernel's host answered; 0 if none after the first request.

    None if the capture contains no heartbeats.
    """
    found = None
    for connection in _between(knowledge).get((asked.client, asked.host, "REQ"), ()):
        requests = connection.requests
        last = None if requests is None else requests.last_reply
        is_alive = requests is not None and last is not None and last.ns >= asked.first.ns
        found = (found or 0) + (requests.counts["answered"] if is_alive and requests is not None else 0)
    return found


@once
def _between(knowledge: Knowledge) -> dict[tuple[str, str, str | None], list[ObservedConnection]]:
    return grouped(((each.client.ip, each.server.ip, each.client.socket_type), each) for each in knowledge.connections)


def _diagnosis(asked: Asked, heartbeats: int | None) -> Diagnosis:
    connection = asked.connections[0]
    client, kernel = client_name(connection), server_name(connection)
    count = sum(each.requests for each in _clients(asked.connections))
    alive = f", although it answers {counted(heartbeats, 'heartbeat')}" if heartbeats else ""
    return Diagnosis.of(
        UNANSWERED,
        "warn",
        f"{client} at {address(connection.endpoint)}",
        f"{client} sends {counted(count, 'Jupyter request')} to {kernel}, and the kernel sends neither a reply nor a "
        f"status for {duration(asked.until - asked.first.ns)}{alive}",
        SIGNATURES if heartbeats else KERNEL,
        evidence=(Evidence(asked.first, "the first request"),),
        about=asked.connections,
        count=count,
        last_ns=asked.until,
        proven=False,
    )


BUSY = "kernel-busy"

MIN_BUSY = 10 * SECOND
"""Requests that wait for less time behind another one are usual."""


def _busy(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose busy kernels, once for each connection with pending requests."""
    for connection in knowledge.connections:
        client, kernel = connection.client, connection.server
        if client.jupyter is None or client.rhythm is None or not connection.is_whole or not connection.is_open:
            continue
        for other in _between(knowledge).get((client.ip, connection.endpoint[0], "SUB"), ()):
            published = other.server.jupyter
            if published is None or published.busy is None or not _is_same_kernel(connection, published):
                continue
            since, waiting = published.busy, client.rhythm.since(published.busy.ns)
            has_replied = kernel.rhythm is not None and kernel.rhythm.last.ns > since.ns
            is_long = knowledge.last_ns - since.ns >= MIN_BUSY
            if waiting and not has_replied and is_long and not _is_held_up(published, knowledge):
                yield _busy_diagnosis(connection, other, waiting, knowledge.last_ns)
                break


def _is_held_up(published: ObservedJupyter, knowledge: Knowledge) -> bool:
    """Whether a published status "busy" is out of date: the kernel has since sent the reply to the same request.

    A program that forwards statuses late may have published it.
    """
    assert published.busy is not None
    return published.busy_with is not None and _answered(knowledge).get(published.busy_with, 0) > published.busy.ns


@once
def _answered(knowledge: Knowledge) -> dict[str, int]:
    """Return the time (ns) of the last reply to each Jupyter request, by message id, on any connection."""
    found: dict[str, int] = {}
    for side in (side for each in knowledge.connections for side in each.sides):
        if side.jupyter is not None and side.socket_type not in PUBLISHERS_AND_RADIO:
            for id_, ns in side.jupyter.responses.items():
                found[id_] = max(ns, found.get(id_, 0))
    return found


def _is_same_kernel(shell: ObservedConnection, published: ObservedJupyter) -> bool:
    """Whether a shell connection and a publisher responded to the same request."""
    client, kernel = shell.client.jupyter, shell.server.jupyter
    asked = client is not None and published.busy_with in client.asked
    return asked or (kernel is not None and not published.responses.keys().isdisjoint(kernel.responses))


def _busy_diagnosis(connection: ObservedConnection, publisher: ObservedConnection, waiting: int, now: int) -> Diagnosis:
    published, asker = publisher.server.jupyter, connection.client.jupyter
    assert published is not None
    assert published.busy is not None
    client, kernel = client_name(connection), server_name(connection)
    request = None if asker is None else asker.asked.get(published.busy_with or "")
    more = f"{counted(waiting, 'request')}{' or more' if waiting == MAX_RECENT else ''}"
    return Diagnosis.of(
        BUSY,
        "note",
        kernel,
        f"{kernel}, a Jupyter kernel, is busy with one request since packet {published.busy.packet}, for "
        f"{duration(now - published.busy.ns)}, with {more} of {client} waiting behind it",
        "a kernel executes requests one at a time: interrupt it if that request should have ended",
        evidence=(
            *(() if request is None else (Evidence(request, "the request"),)),
            Evidence(published.busy, "status busy"),
        ),
        about=(connection, publisher),
        count=waiting,
        last_ns=now,
    )


def _clients(connections: Sequence[ObservedConnection]) -> Iterator[ObservedJupyter]:
    for connection in connections:
        client = connection.client
        if client.jupyter is not None:
            yield client.jupyter


TABLE = (
    Rule(
        UNANSWERED,
        "warn",
        "A Jupyter kernel ignores a client",
        "A client sends Jupyter requests, and for at least 3 s the kernel sends no reply to any of them, and "
        "publishes no status for them. If the kernel answers heartbeats meanwhile, the client usually has another "
        "key: the kernel silently drops messages with a wrong signature. If the key of the kernel is given, zmtpscope "
        "checks the signature (JUPYTER-01). Not proven: a kernel that has been busy since before the capture looks "
        "the same.",
        "* The kernel replies to one of the requests, or publishes a status for it.\n"
        "* A kernel of that host is busy.\n"
        "* The published statuses are not captured.\n"
        "* The heartbeats have no reply.",
        _unanswered,
        ("peer-departed", "fell-silent", "periodic-disconnect", "client-returns"),
    ),
    Rule(
        BUSY,
        "note",
        "Requests wait for a Jupyter kernel that is busy",
        "The last status that a kernel published was not idle, at least 10 s ago, and a client has sent requests to "
        "it since. A note only: a long computation looks the same as an endless one.",
        "* The kernel has published idle since, or has replied to the client on any connection.\n"
        "* No request is pending.",
        _busy,
        ("fell-silent", "call-unanswered"),
    ),
)
