"""Endpoints that refuse some connections of a client and accept others in between."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from zmtpscope.diagnosis.across.endings import ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, RunFinding
from zmtpscope.diagnosis.across.words import address
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection, began
from zmtpscope.findings.capturing import REFUSED
from zmtpscope.records import SECOND
from zmtpscope.words import how_many_times

MIN_SERIES = 5
"""Refusals between connections that are no restart of the server."""

MAX_ATTEMPTS, MAX_WAIT = 3, SECOND
"""Attempts of one series, and time (ns) until the next connection. A server that restarts is away for longer."""

HINT = (
    "several hosts or programs share this address (a service, a load balancer, NAT), and one of them does not listen: "
    "check each; or a limit refuses connections above a number"
)


def _partly_refused(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for ends, findings in knowledge.findings_by_ends.items():
        refused = [each for each in findings if each.id == REFUSED]
        if len(refused) < MIN_SERIES:
            continue
        between = [each for each in refused if _is_between(each, knowledge.by_ends.get(ends, ()))]
        if len(between) >= MIN_SERIES:
            attempts = sum(each.times for each in refused)
            where = address(ends.endpoint)
            yield Diagnosis.of(
                "partly-refused",
                "warn",
                ends.name,
                f"{where} refuses some connections of {ends.client} and accepts others in between: it refused "
                f"{how_many_times(attempts)}",
                HINT,
                evidence=(Evidence(each.moment, "a refused attempt", each.ref) for each in between[:MAX_EVIDENCE]),
                explained=((each.ref.partition("/")[0], each.id) for each in refused),
                count=attempts,
                last_ns=between[-1].until_ns,
            )


def _is_between(refused: RunFinding, connections: Sequence[ObservedConnection]) -> bool:
    """Whether a client connected right after one to three refusals, and the server had not ended its previous
    connection."""
    place = bisect_left(connections, refused.moment.ns, key=began)
    if place == len(connections) or refused.times > MAX_ATTEMPTS:
        return False
    following = connections[place]
    if not is_agreed(following) or following.start.ns - refused.until_ns > MAX_WAIT:
        return False
    ending = ending_of(connections[place - 1]) if place else None
    return ending is None or ending.side != connections[place - 1].listener


TABLE = (
    Rule(
        "partly-refused",
        "warn",
        "An address refuses some connections and accepts others",
        "A client was refused once to three times, and connected within a second. This happened at least five times. "
        "The server had not ended the client's connection before, so it did not restart. Either several programs "
        "share the address and one of them does not listen, or the server refuses connections above a limit.",
        "The server ended the connections before, or refused attempts for longer: it was restarted.",
        _partly_refused,
    ),
)
