"""Endpoints that replace each other: programs that end, and listen at another port the next time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import end_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.ends import Endpoint, Ends

MIN_CHOSEN = 32_768
"""Lowest port that systems and libraries choose automatically."""
FOR_EVER = 1 << 62


class Served(NamedTuple):
    """The time during which a client used an endpoint: from its first connection to the end of its last one."""

    since_ns: int
    until_ns: int
    endpoint: Endpoint


@once
def passing(knowledge: Knowledge) -> frozenset[Ends]:
    """Return the clients and endpoints for which the program moved to another port of its host: one endpoint ended
    before the next was used.

    Both have the same socket type. Such publishers live for a moment, or a service chooses a port at each start.
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
    """Return the endpoints that were left before the next one was connected to."""
    return {
        each.endpoint
        for before, after in pairwise(sorted(served))
        if before.until_ns <= after.since_ns
        for each in (before, after)
    }
