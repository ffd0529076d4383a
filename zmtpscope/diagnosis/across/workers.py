"""Workers of brokers that left."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import Ending, end_of, ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import client_name, duration
from zmtpscope.diagnosis.ends import Endpoint
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedRhythm
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted

BROKERS, WORKERS = ("ROUTER", "DEALER"), ("DEALER", "REQ", "REP")
MIN_WORK = 3
"""Minimum number of messages that a worker got."""
STAYED = SECOND // 2
"""A worker that is connected this long (ns) after another one left has stayed."""

GONE_HINT = "see why that worker left, and start it again: until then nothing answers what the broker gets"


class GoneWorker(NamedTuple):
    """A client that got work from a broker and closed its connection, after which no similar client was connected."""

    connection: ObservedConnection
    ending: Ending
    work: ObservedRhythm

    def text(self, since: int) -> str:
        """Return a clause about its end, in relation to a time (ns)."""
        ns = self.ending.moment.ns
        when = f"{duration(abs(since - ns))} {'earlier' if ns < since else 'later'}"
        return (
            f"; {client_name(self.connection)}, to which it had sent {counted(self.work.count, 'message')}, closed its "
            f"connection {when}, and no other one is there"
        )


def gone_worker(asked: ObservedConnection, since: int, until: int, knowledge: Knowledge) -> GoneWorker | None:
    """Return the last worker of the host that listens on `asked` if it left between two times, otherwise None."""
    gone = _gone_workers(knowledge).get(asked.endpoint[0], ())
    found = [each for each in gone if since <= each.ending.moment.ns <= until and each.connection is not asked]
    return found[-1] if found else None


@once
def _gone_workers(knowledge: Knowledge) -> dict[str, list[GoneWorker]]:
    """Return the last worker that left each endpoint, by the address of the broker, in order of time."""
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
