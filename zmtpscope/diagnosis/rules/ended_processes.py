"""Processes that ended: one diagnosis for all endpoints of a process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import NamedTuple

from zmtpscope.diagnosis.across.disconnects import CUT_OFF, FOR_EVER, Disconnect, ended, passing
from zmtpscope.diagnosis.across.endings import was_told_to_exit
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import client_name, duration, repeated, steady
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence
from zmtpscope.diagnosis.observers.observed import Endpoint
from zmtpscope.diagnosis.rules.connection_attempts import MIN_OUTAGE
from zmtpscope.grouping import divided_at_pauses, grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted, listed
from zmtpscope.zmtp.socket_types import PUBLISHERS_AND_RADIO

TOGETHER_NS = SECOND // 2
"""Endpoints lost within this time belong to one process, or one service."""

MAX_NAMED, MAX_LISTED = 3, 32

PRECISION = SECOND // 10
"""How precisely (ns) the time of the last attempt to connect is known."""

MIN_GONE = 3 * SECOND
"""Subscribers count as gone for good this long after their publisher left."""


SHARING, MIN_SENT = ("PUSH", "SCATTER"), 8
"""Socket types that share out work, and the number of messages that show that one is sending."""


class Aftermath(NamedTuple):
    """A text about the time after a peer left, with reconnections. `is_outage`: it was away for long."""

    text: str
    is_outage: bool


def aftermath(departures: Sequence[Disconnect], now: int) -> Aftermath:
    """Describe whether and when clients reconnected to a peer that left; `now` is the end of the capture (ns)."""
    last = departures[-1]
    gone = last.is_missed and last.back_ns is None
    back = [each.back_ns - each.ending.moment.ns for each in departures if each.back_ns is not None]
    if gone:
        gave_up = None if any(each.gave_up_ns is None for each in departures) else max(map(_gave_up, departures))
        is_waited_for = gave_up is None and now - last.ending.moment.ns >= MIN_OUTAGE
        is_long = is_waited_for or any(each.is_long_missed for each in departures)
        is_outage = last.by_listener and is_long and not any(was_told_to_exit(each.connection) for each in departures)
        if gave_up is not None:
            tried = duration(max(PRECISION, round((gave_up - last.ending.moment.ns) / PRECISION) * PRECISION))
            return Aftermath(f"; they retried without success for about {tried}, then no more", is_outage)
        return Aftermath("; no reconnection succeeded until the capture ended", is_outage)
    if back:
        usual = steady(back)
        later = duration(usual) if usual is not None else f"{duration(min(back))} to {duration(max(back))}"
        return Aftermath(f"; they reconnected {later} later", False)
    return Aftermath("; no client reconnected" if is_abandoned(last, now) else "", False)


def _gave_up(departure: Disconnect) -> int:
    return departure.gave_up_ns or 0


def is_abandoned(departure: Disconnect, now: int) -> bool:
    """Whether a publisher left its subscribers, or a receiver left a PUSH that was sending, and they were not connected
    again."""
    server, end = departure.connection.server, departure.ending.moment.ns
    if departure.is_missed or departure.back_ns is not None or now - end < MIN_GONE:
        return False
    if departure.by_listener:
        return server.socket_type in PUBLISHERS_AND_RADIO
    rhythm = server.rhythm if server.socket_type in SHARING else None
    return rhythm is not None and rhythm.count >= MIN_SENT and end - rhythm.last.ns <= rhythm.longest_ns


@once
def served_until(knowledge: Knowledge) -> dict[Endpoint, int]:
    """Return for each endpoint the latest time (ns) at which a client was connected."""
    found: dict[Endpoint, int] = {}
    for connection in knowledge.connections:
        until = FOR_EVER if connection.is_open else connection.last_ns
        found[connection.endpoint] = max(found.get(connection.endpoint, 0), until)
    return found


def of_processes(left: Sequence[Sequence[Disconnect]]) -> Iterator[list[Sequence[Disconnect]]]:
    """Group departures by process: endpoints of a host that were left at the same moments.

    `left` are the departures of each peer, in order of time.
    """
    of_listeners = []
    for departures in left:
        is_at_once = all(times[-1] - times[0] < TOGETHER_NS for times in _moments(departures))
        if is_at_once and all(each.by_listener and each.replaced_ns is None for each in departures):
            of_listeners.append(departures)
        else:
            yield [departures]
    often = grouped(((each[0].connection.endpoint[0], len(_moments(each))), each) for each in of_listeners)
    for same in often.values():
        for at_once in divided_at_pauses(same, _began, TOGETHER_NS):
            are_together = [_are_together(each, at_once[0]) for each in at_once]
            yield [*compress(at_once, are_together)]
            yield from ([each] for each, is_one in zip(at_once, are_together, strict=True) if not is_one)


def _moments(departures: Sequence[Disconnect]) -> list[list[int]]:
    """Return the times (ns) at which connections ended, one list for each moment."""
    return [*divided_at_pauses(map(ended, departures), int, TOGETHER_NS)]


def _are_together(one: Sequence[Disconnect], other: Sequence[Disconnect]) -> bool:
    """Whether two endpoints of one host were left at the same moments, equally often."""
    pairs = zip(_moments(one)[1:], _moments(other)[1:], strict=True)
    return all(abs(own[0] - others[0]) <= TOGETHER_NS for own, others in pairs)


def process_ended(left: Sequence[Sequence[Disconnect]], now: int) -> Diagnosis:
    departures = sorted((each for of_endpoint in left for each in of_endpoint), key=ended)
    first, last, moments = departures[0], departures[-1], _moments(departures)
    took = moments[0][-1] - moments[0][0]
    host = first.connection.endpoint[0]
    names = [_name(of_endpoint[0]) for of_endpoint in left]
    waiting = sum(each.connection.requests.waiting_count for each in departures if each.connection.requests is not None)
    requests = f", with {counted(waiting, 'request')} open" if waiting else ""
    after = aftermath(departures, now)
    return Diagnosis.of(
        "peer-departed",
        "warn" if after.is_outage else "note",
        f"{host} at {counted(len(left), 'endpoint')}",
        f"{host} left {len(left)} endpoints within {duration(took)}{repeated([time for time, *_ in moments])}: "
        f"{listed(names, MAX_NAMED)}; {counted(len(departures), 'connection')} ended{requests}{after.text}",
        "the process that listened at all of these exited or was killed: check its log around that time",
        evidence=(
            Evidence(first.ending.moment, f"FIN or RST of {', '.join(names[:MAX_LISTED])}", first.connection.ref),
        ),
        about=departures,
        explains=CUT_OFF,
        last_ns=last.ending.moment.ns,
    )


def is_in_turn(departures: Sequence[Disconnect], knowledge: Knowledge) -> bool:
    """Whether each port that a listener left replaced another port of it, or was replaced by one."""
    known = passing(knowledge)
    return all(each.by_listener and each.connection.ends in known for each in departures)


def left_in_turn(found: Iterable[Sequence[Disconnect]], knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose hosts whose sockets of one type listened on one port after another."""
    hosts = grouped(
        ((each.connection.endpoint[0], each.connection.server.socket_type), each)
        for departures in found
        if is_in_turn(departures, knowledge)
        for each in departures
    )
    for (host, socket_type), left in hosts.items():
        left.sort(key=ended)
        ports = [*dict.fromkeys(str(each.connection.endpoint[1]) for each in left)]
        missed = [client_name(each.connection) for each in left if each.is_missed and each.back_ns is None]
        tries = f"; {missed[0]} still tries to connect there" if missed else ""
        names = ", ".join(map(_name, left[:MAX_LISTED]))
        yield Diagnosis.of(
            "peer-departed",
            "note",
            f"{socket_type} of {host}, at one port after another",
            f"{socket_type} of {host} listened at one port after another, and left {listed(ports, MAX_NAMED)}{tries}",
            "no action for short-lived programs; otherwise bind to a fixed port, or let clients call zmq_disconnect "
            "for unused ports, because libzmq retries them otherwise",
            evidence=(Evidence(left[0].ending.moment, f"FIN or RST of {names}", left[0].connection.ref),),
            about=left,
            explains=CUT_OFF,
            last_ns=left[-1].ending.moment.ns,
        )


def _name(departure: Disconnect) -> str:
    """Return a short name of the listening socket that a process left: `ROUTER :5555`."""
    connection = departure.connection
    return " ".join(filter(None, (connection.server.socket_type, f":{connection.endpoint[1]}")))


def _began(departures: Sequence[Disconnect]) -> int:
    return ended(departures[0])
