"""Connections that ended without a ZMTP error: the peer that was left, its attempts to reconnect, and when it
succeeded.

Also endpoints that replace each other: a program that listens on another port at each start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import islice, pairwise
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import Ending, end_of, ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, RunFinding, once
from zmtpscope.diagnosis.observers.observed import Endpoint, Ends, ObservedConnection, ObservedFinding, began
from zmtpscope.findings.capturing import ATTEMPTS, HALF_OPEN
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND

WITHOUT_A_WORD = ("closed", "reset")
CUT_OFF = ("ZMTP3X-FRAME-05", "ZMTP3X-FRAME-06", "ZMTP10-FRAME-05", "ZMTP10-FRAME-06")
FAILED = ATTEMPTS.keys() - {HALF_OPEN}
"""Outcomes of attempts to connect that are no port scan."""
LONGEST_DEAD = 120 * SECOND
"""TCP retransmits to a vanished host for at most this long. Once it is back, it answers with RST."""
MAX_LATER = 8
"""Later connections to examine as replacements of a dead one."""
ANSWERED_NS = SECOND
"""A host answers packets of an unknown connection with RST within this time (ns)."""
STAYED = SECOND // 2
"""A client that is connected this long (ns) after another one left has stayed."""


class Disconnect(NamedTuple):
    """The end of a connection without a ZMTP error.

    `back_ns` is the time at which the two hosts were connected again, or None. `is_missed`: the client tried to
    reconnect; `is_long_missed`: for long. `leaves_siblings`: other clients of the endpoint with the same type stayed.
    `replaced_ns` is the time at which the client opened the next connection, if this one was dead before its end.
    `gave_up_ns` is the last attempt of a client that stopped trying.
    """

    connection: ObservedConnection
    ending: Ending
    back_ns: int | None
    is_missed: bool
    leaves_siblings: bool
    is_long_missed: bool
    """Whether the client tried in vain for so long that this alone is a warning."""
    replaced_ns: int | None = None
    gave_up_ns: int | None = None
    """Time of the client's last attempt to reconnect, long before the end of the capture."""

    @property
    def by_listener(self) -> bool:
        return self.ending.side == self.connection.listener

    def cut_off(self) -> ObservedFinding | None:
        """The finding that the connection ended inside a message."""
        return self.connection.finding(*CUT_OFF)

    def cuts_itself(self) -> bool:
        cut_off = self.cut_off()
        return cut_off is not None and cut_off.side == self.ending.side


def ended(disconnect: Disconnect) -> int:
    return disconnect.ending.moment.ns


@once
def disconnects(knowledge: Knowledge) -> Sequence[Disconnect]:
    attempts = _attempts(knowledge)
    staying = _staying(knowledge)
    return [
        each
        for (ends, _), connections in knowledge.by_client.items()
        for each in _of_client(connections, attempts.get(ends, NO_ATTEMPTS), staying)
    ]


@once
def gave_up_ns(knowledge: Knowledge) -> dict[str, int]:
    """Return the time (ns) of the last attempt to reconnect, by the conn_id of the lost connection, for clients that
    then stopped trying."""
    return {each.connection.conn_id: each.gave_up_ns for each in disconnects(knowledge) if each.gave_up_ns is not None}


@once
def of_listeners(knowledge: Knowledge) -> dict[tuple[Ends, str | None], list[Disconnect]]:
    """Return the connections that the listener ended, by client."""
    return grouped(
        ((each.connection.ends, each.connection.client.identity), each)
        for each in disconnects(knowledge)
        if each.by_listener
    )


def _of_client(
    connections: Sequence[ObservedConnection], attempts: LastAttempts, staying: dict[Kind, list[Stay]]
) -> Iterator[Disconnect]:
    starts = [each.start.ns for each in connections]
    agreed = [each.start.ns for each in connections if is_agreed(each)]
    for connection in connections:
        ending = ending_of(connection)
        if ending is None or ending.cause not in WITHOUT_A_WORD:
            continue
        end = ending.moment.ns
        replaced = replaced_ns(connection, connections)
        if replaced is not None:
            yield Disconnect(connection, ending, None, False, False, False, replaced)
            continue
        place = bisect_left(agreed, end)
        back = agreed[place] if place < len(agreed) else None
        is_missed = starts[-1] >= end or attempts.began_ns >= end
        is_long_missed = attempts.are_long and attempts.began_ns >= end
        siblings = _leaves_siblings(connection, end, staying)
        gave_up = attempts.gave_up_ns if attempts.began_ns >= end else None
        yield Disconnect(connection, ending, back, is_missed, siblings, is_long_missed, None, gave_up)


def replaced_ns(connection: ObservedConnection, own: Sequence[ObservedConnection]) -> int | None:
    """Return when the client began the connection that replaced this dead one (ns), or None.

    A dead connection was reset after the handshake of the next connection in `own` (in order of start), and was unused
    since then: the client's host or network was gone for a while.
    """
    ending = ending_of(connection)
    if ending is None or not ending.is_reset:
        return None
    end, received = ending.moment.ns, connection.client.last_ns or 0
    first = bisect_left(own, max(received, connection.start.ns + 1, end - LONGEST_DEAD), key=began)
    for later in islice(own, first, first + MAX_LATER):
        later_end = ending_of(later)
        is_alive = later_end is None or later_end.moment.ns > end
        if later.start.ns < end and is_alive and is_agreed(later):
            return later.start.ns if _is_dead(connection, later.start.ns, end - ANSWERED_NS) else None
    return None


def _is_dead(connection: ObservedConnection, since: int, until: int) -> bool:
    """Whether neither side sent a message from `since` until `until` (ns) that the other side acknowledged."""
    return not any(
        side.rhythm is not None and side.last_outage is None and side.rhythm.has_message(since, until)
        for side in connection.sides
    )


class LastAttempts(NamedTuple):
    """The last series of failed attempts of a client to reconnect.

    `began_ns` is its start, and `are_long`: it lasted long. `gave_up_ns` is its end if it ended long before the
    capture, otherwise None.
    """

    began_ns: int
    are_long: bool
    gave_up_ns: int | None = None


NO_ATTEMPTS = LastAttempts(0, False)


def _attempts(knowledge: Knowledge) -> dict[Ends, LastAttempts]:
    return {
        ends: max(
            (_last_attempts(each, knowledge.last_ns) for each in findings if each.id in FAILED),
            key=attrgetter("began_ns"),
            default=NO_ATTEMPTS,
        )
        for ends, findings in knowledge.findings_by_ends.items()
    }


def _last_attempts(finding: RunFinding, now: int) -> LastAttempts:
    gave_up = finding.until_ns if finding.is_given_up(now) else None
    return LastAttempts(finding.moment.ns, finding.severity == "warn", gave_up)


Kind = tuple[Endpoint, str | None]
"""Endpoint and socket type of clients."""


class Stay(NamedTuple):
    """The time range (ns) in which a client was connected. `client` is its address and identity."""

    until_ns: int
    since_ns: int
    client: tuple[str, str | None]


def _staying(knowledge: Knowledge) -> dict[Kind, list[Stay]]:
    """Return, for each kind of client (endpoint, socket type ...), the two clients that stayed connected longest.

    Two, because one of them may be the client that is compared with the others.
    """
    found: dict[Kind, dict[tuple[str, str | None], Stay]] = {}
    for connection in knowledge.connections:
        if is_agreed(connection):
            kind, client = _kind(connection)
            stay, known = _stay(connection), found.setdefault(kind, {})
            known[client] = max(stay, known.get(client, stay), key=_until)
    return {kind: nlargest(2, known.values(), key=_until) for kind, known in found.items()}


def _until(stay: Stay) -> tuple[int, int]:
    return stay.until_ns, stay.since_ns


def _stay(connection: ObservedConnection) -> Stay:
    return Stay(end_of(connection, connection.last_ns), connection.start.ns, _kind(connection)[1])


def _kind(connection: ObservedConnection) -> tuple[Kind, tuple[str, str | None]]:
    side = connection.client
    return (connection.endpoint, side.socket_type), (side.ip, side.identity)


def _leaves_siblings(connection: ObservedConnection, end: int, staying: dict[Kind, list[Stay]]) -> bool:
    kind, client = _kind(connection)
    return any(
        stay.client != client and stay.since_ns < end and stay.until_ns >= end + STAYED
        for stay in staying.get(kind, ())
    )


MIN_CHOSEN = 32_768
"""Lowest port that systems and libraries choose automatically."""
FOR_EVER = 1 << 62


class Served(NamedTuple):
    """The time in which a client used an endpoint, from its first connection to the end of its last one."""

    since_ns: int
    until_ns: int
    endpoint: Endpoint


@once
def passing(knowledge: Knowledge) -> frozenset[Ends]:
    """Return the pairs of client and endpoint where the program left one port of its host before it used the next.

    It has the same socket type at each: publishers that live for a moment, or a service that chooses a port at each
    start.
    """
    found: dict[tuple[str, str | None, str], dict[Endpoint, Served]] = {}
    for connection in knowledge.connections:
        endpoint = connection.endpoint
        if endpoint[1] >= MIN_CHOSEN and is_agreed(connection):
            client, until = connection.client.ip, end_of(connection, FOR_EVER)
            served = found.setdefault((endpoint[0], connection.server.socket_type, client), {})
            known = served.get(endpoint, Served(connection.start.ns, until, endpoint))
            served[endpoint] = known._replace(until_ns=max(known.until_ns, until))
    return frozenset(
        Ends(client, endpoint)
        for (_, _, client), served in found.items()
        for endpoint in _successive([*served.values()])
    )


def _successive(served: Sequence[Served]) -> set[Endpoint]:
    """Return the endpoints that were no longer used when the next one of the host was used first."""
    return {
        each.endpoint
        for before, after in pairwise(sorted(served))
        if before.until_ns <= after.since_ns
        for each in (before, after)
    }
