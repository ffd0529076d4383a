"""Workers that left their broker while clients of the broker wait for replies."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import Ending, end_of, ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import client_name, duration
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedRhythm
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted

BROKERS, WORKERS = ("ROUTER", "DEALER"), ("DEALER", "REQ", "REP")
MIN_WORK = 3
"""Number of messages that make a client a worker."""
STAYED = SECOND // 2
"""A worker that is connected this long (ns) after another one left has stayed."""

GONE_HINT = "find out why that worker left, and restart it: until then nothing processes the requests of the broker"


class GoneWorker(NamedTuple):
    """A worker that received requests from a broker and closed its connection, after which the broker had no worker.

    `work` is the rhythm of the messages that the broker sent to it.
    """

    connection: ObservedConnection
    ending: Ending
    work: ObservedRhythm

    def text(self, since: int) -> str:
        """Describe for a diagnosis when the worker left, before or after the time `since` (ns)."""
        ns = self.ending.moment.ns
        when = f"{duration(abs(since - ns))} {'earlier' if ns < since else 'later'}"
        return (
            f"; {client_name(self.connection)}, to which it had sent {counted(self.work.count, 'message')}, closed its "
            f"connection {when}, and no other one is there"
        )


def gone_worker(broker: ObservedConnection, since: int, until: int, knowledge: Knowledge) -> GoneWorker | None:
    """Return the last worker of a broker, if it left between `since` and `until` (ns), otherwise None.

    The broker is the host that listens on the connection `broker`.
    """
    gone = _gone_workers(knowledge).get(broker.endpoint[0], ())
    found = [each for each in gone if since <= each.ending.moment.ns <= until and each.connection is not broker]
    return found[-1] if found else None


@once
def _gone_workers(knowledge: Knowledge) -> dict[str, list[GoneWorker]]:
    """Return the workers that were the last to leave their endpoint, by IP address of the broker, in order of time."""
    last: dict[tuple[Endpoint, str | None], GoneWorker] = {}
    latest: dict[tuple[Endpoint, str | None], int] = {}
    for connection in knowledge.connections:
        broker, worker = connection.server, connection.client
        if broker.socket_type not in BROKERS or worker.socket_type not in WORKERS or not is_agreed(connection):
            continue
        ending = ending_of(connection)
        kind: tuple[Endpoint, str | None] = connection.endpoint, worker.socket_type
        latest[kind] = max(latest.get(kind, 0), end_of(connection, knowledge.last_ns + STAYED))
        has_left = ending is not None and ending.side != connection.listener
        if ending is not None and has_left and broker.rhythm is not None and broker.rhythm.count >= MIN_WORK:
            known = last.get(kind)
            if known is None or known.ending.moment.ns < ending.moment.ns:
                last[kind] = GoneWorker(connection, ending, broker.rhythm)
    return grouped(
        (endpoint[0], gone)
        for (endpoint, type_), gone in sorted(last.items(), key=lambda each: each[1].ending.moment.ns)
        if latest[endpoint, type_] < gone.ending.moment.ns + STAYED
    )


def left_at(broker: ObservedConnection, rhythm: ObservedRhythm, knowledge: Knowledge) -> ObservedConnection | None:
    """Return the connection of a worker that left for good when its broker stopped answering a client, or None.

    `rhythm` are the messages of the broker to that client. The broker closed its side of the worker's connection, so
    the program of the broker runs.
    """
    departures, last = _departures(knowledge).get(broker.endpoint[0], ()), rhythm.last.ns
    near = max(SECOND, rhythm.longest_ns)
    first = bisect_left(departures, last - near, key=ended_at)
    return next((each for each in departures[first : first + 1] if ended_at(each) <= last + near), None)


@once
def _departures(knowledge: Knowledge) -> dict[str, list[ObservedConnection]]:
    """Return connections of workers that left for good, by IP address of the broker, in order of their ends.

    A worker answered messages of the broker. It left for good if no connection of the same address and identity began
    later.
    """
    left = (
        each
        for same in knowledge.by_client.values()
        for each in same
        if _left_work(each) and same[-1].start.ns <= ended_at(each)
    )
    return grouped((each.server.ip, each) for each in sorted(left, key=ended_at))


def _left_work(connection: ObservedConnection) -> bool:
    """Whether the client of a connection answered the messages of the listener, and closed the connection."""
    client, server, ending = connection.client.rhythm, connection.server.rhythm, ending_of(connection)
    if ending is None or ending.side == connection.listener or ending.cause != "closed" or connection.is_open:
        return False
    return client is not None and server is not None and not client.opens(server)


def ended_at(connection: ObservedConnection) -> int:
    return end_of(connection, 0)
