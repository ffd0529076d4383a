"""Middleboxes whose timeout ends connections without data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zmtpscope.diagnosis.across.disconnects import CUT_OFF, Disconnect, ended, of_listeners
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, duration, server_name
from zmtpscope.diagnosis.diagnosis import Diagnosis, Rule
from zmtpscope.diagnosis.rules.departures import (
    LARGEST_DEVIATION,
    MIN_PERIOD,
    ends_of,
    how_they_end,
    relayed_by,
)
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND

EQUAL_PART, EQUAL_NS = 0.02, SECOND // 20
"""Silences that differ by less, as a fraction or as a time, have one timer."""
MAX_SILENCES = 64
"""Groups of equal silences to compare at an endpoint."""
IDLE_TIME_OUT = "idle-time-out"
IDLE_TIME_OUT_HINT = (
    "raise the timeout of the proxy, load balancer or firewall above the slowest reply (timeout client and timeout "
    "server of HAProxy), or send heartbeats more often (ZMQ_HEARTBEAT_IVL)"
)


def _idle_time_outs(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each endpoint at which connections end after the same silence, both with and without a
    pending request."""
    departed = (each for same in of_listeners(knowledge).values() for each in same)
    for endpoint, departures in grouped((each.connection.endpoint, each) for each in departed).items():
        same = _equal_silences(departures)
        waiting = [each for each in same if _is_waiting(each)]
        if not any(_is_apart(idle, waiting) for idle in same if idle not in waiting):
            continue
        connection, silence = waiting[0].connection, _silence(waiting[0])
        yield Diagnosis.of(
            IDLE_TIME_OUT,
            "error",
            address(endpoint),
            f"{server_name(connection)} {how_they_end(same)} {len(same)} connections after {duration(silence)} of "
            f"silence each, {len(waiting)} with a request open and the others idle: a timeout on the path, not a "
            "server that hangs",
            IDLE_TIME_OUT_HINT,
            evidence=ends_of(same),
            about=same,
            beside=relayed_by(knowledge, same),
            explains=CUT_OFF,
            last_ns=max(map(ended, same)),
            proven=False,
        )


def _equal_silences(departures: Sequence[Disconnect]) -> list[Disconnect]:
    """Return the largest group of departures after the same silence, in order of time."""
    ordered = sorted((each for each in departures if _silence(each) >= MIN_PERIOD), key=_silence)
    groups = [
        [
            each
            for each in ordered[place:]
            if _silence(each) - _silence(first) <= max(EQUAL_NS, EQUAL_PART * _silence(first))
        ]
        for place, first in enumerate(ordered[:MAX_SILENCES])
    ]
    if not groups:
        return []
    largest: list[Disconnect] = max(groups, key=len)
    return sorted(largest, key=ended)


def _is_apart(idle: Disconnect, waiting: Sequence[Disconnect]) -> bool:
    """Whether an idle connection ended at another time than all with a pending request: a server that ends closes all
    at once."""
    least = LARGEST_DEVIATION * _silence(idle)
    return any(abs(ended(idle) - ended(each)) > least for each in waiting)


def _silence(departure: Disconnect) -> int:
    return departure.ending.moment.ns - departure.connection.spoke_ns


def _is_waiting(departure: Disconnect) -> bool:
    requests = departure.connection.requests
    return requests is not None and bool(requests.waiting)


TABLE = (
    Rule(
        IDLE_TIME_OUT,
        "error",
        "A timeout of a middlebox ends connections, even while they wait for a reply",
        "The listening side ended at least two connections after an equal silence (within 2 %): at least one while a "
        "request was pending, and at least one while no request was. A server that hangs or fails does not end idle "
        "connections after an equal time, but proxies and load balancers do. Not proven: the program itself may have "
        "a timeout.",
        "* The silences differ.\n* No idle connection ended after the same silence.",
        _idle_time_outs,
        (
            *(
                "request-lost",
                "request-unanswered",
                "late-reply",
                "periodic-disconnect",
                "client-returns",
                "peer-departed",
            ),
            "reconnect-storm",
        ),
    ),
)
