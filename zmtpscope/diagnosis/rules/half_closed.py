"""Connections that one side closed and the other side's program left open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, duration, name_of
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import Endpoint, Ends, ObservedConnection
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted

HALF_CLOSED = "half-closed"

MIN_WAIT = 2 * SECOND
"""A program that reads its streams to the end closes much sooner."""

MIN_WAITING, MIN_FORGOTTEN = SECOND, 3
"""Number of connections, and their wait, that make a warning of a program that continues elsewhere."""
MAX_QUEUED = 100
"""With more messages in its queue, the program may not have seen the FIN yet."""

HINT = (
    "make it read until the end of the stream and close its descriptor; otherwise it runs out of descriptors. If it "
    "is stopped, hangs or still has messages to read, fix that first"
)


class HalfClosed(NamedTuple):
    """A connection that side `closer` closed with a FIN at `moment`. The other side acknowledged the FIN, and neither
    sent data nor closed."""

    connection: ObservedConnection
    closer: int
    moment: Moment

    @property
    def silent(self) -> int:
        return 1 - self.closer

    @property
    def program(self) -> tuple[Endpoint, str | None]:
        """The program that does not close: the endpoint, and the address of the client, or None if it is
        the listener."""
        connection = self.connection
        ip = None if self.silent == connection.listener else connection.sides[self.silent].ip
        return connection.endpoint, ip


def _half_closed(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = (each for each in map(_of_connection, knowledge.connections) if each is not None)
    for same in grouped((each.program, each) for each in found).values():
        if knowledge.last_ns - same[0].moment.ns >= MIN_WAIT:
            yield _diagnosis(same, knowledge)


def _of_connection(connection: ObservedConnection) -> HalfClosed | None:
    """Return the connection if one side has not closed it; None if the network, a closed window or a large message
    delays that."""
    values, ending = connection.values, ending_of(connection)
    if ending is None or (values is not None and not values["fin_acknowledged"]):
        return None
    if any(each.is_sending for each in connection.sides) if values is None else values["unfinished_bytes"]:
        return None
    if not (connection.is_open and connection.is_whole and is_agreed(connection) and ending.cause == "closed"):
        return None
    other = connection.sides[1 - ending.side]
    is_stuck = bool(connection.sides[ending.side].stalls) or other.last_outage is not None
    if is_stuck or (other.last_ns or 0) > ending.moment.ns:
        return None
    return HalfClosed(connection, ending.side, ending.moment)


def _diagnosis(same: Sequence[HalfClosed], knowledge: Knowledge) -> Diagnosis:
    first = same[0]
    name, closer = name_of(first.connection, first.silent), name_of(first.connection, first.closer)
    closers = {each.connection.sides[each.closer].ip for each in same}
    peers = closer if len(closers) == 1 else counted(len(closers), "peer")
    several = "its connection" if len(same) == 1 else f"{len(same)} connections"
    goes_on = _goes_on(first, same, knowledge)
    forgotten = [each for each in same if _is_forgotten(each, knowledge.last_ns)]
    since = f"{duration(knowledge.last_ns - first.moment.ns)} before the capture ended"
    return Diagnosis.of(
        HALF_CLOSED,
        "warn" if goes_on and len(forgotten) >= MIN_FORGOTTEN else "note",
        f"{name} at {address(first.connection.endpoint)}",
        f"{name} does not close its side of {several} with {peers}, whose {'first ' if len(same) > 1 else ''}FIN its "
        f"system acknowledged {since}{'; it goes on with others' if goes_on else ''}",
        HINT,
        evidence=(
            Evidence(each.moment, f"FIN of {name_of(each.connection, each.closer)}", each.connection.ref)
            for each in same[:MAX_EVIDENCE]
        ),
        about=same,
        last_ns=same[-1].moment.ns,
    )


def _is_forgotten(half: HalfClosed, now: int) -> bool:
    rhythm = half.connection.sides[half.closer].rhythm
    return now - half.moment.ns >= MIN_WAITING and (rhythm is None or rhythm.count <= MAX_QUEUED)


def _goes_on(first: HalfClosed, same: Sequence[HalfClosed], knowledge: Knowledge) -> bool:
    """Whether the program sends data on its other connections after the first FIN."""
    endpoint, ip = first.program
    own = knowledge.by_endpoint[endpoint] if ip is None else knowledge.by_ends[Ends(ip, endpoint)]
    return any(
        ((each.server if ip is None else each.client).last_ns or 0) > first.moment.ns
        for each in own
        if each is not first.connection
    )


TABLE = (
    Rule(
        HALF_CLOSED,
        "warn",
        "A program does not close connections that its peers closed",
        "A program leaves a connection open that its peer closed. The peer sent FIN, and the kernel of the other host "
        "acknowledged it, but the program there neither sent data nor closed until the end of the capture, for at "
        "least 2 s. libzmq closes within milliseconds. The program may leak descriptors, be stopped, or hang.\n"
        "* Severity warning if the program left at least three connections open for a second each, although it "
        "continued to send on others. On each of the three, the peer had sent at most a hundred messages, so the "
        "program is not still reading them.\n"
        "* Otherwise a note.",
        "* The program still sends on the connection.\n"
        "* The kernel did not acknowledge the FIN.\n"
        "* A receive window was closed.\n"
        "* Data of the program is not acknowledged, and its FIN can only follow that data.\n"
        "* The capture ends within 2 s.",
        _half_closed,
    ),
)
