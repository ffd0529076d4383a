"""Peers that sent messages steadily and stopped, for good or for a while."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.endings import is_agreed
from zmtpscope.diagnosis.across.gone_workers import ended_at, left_at
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.silent_sides import MAX_COMPARED, Silence, silences
from zmtpscope.diagnosis.across.unanswering import (
    LARGEST_SHARE,
    MANY_PAUSES,
    MIN_MESSAGES,
    MIN_SILENCE,
    MIN_UNANSWERED,
)
from zmtpscope.diagnosis.across.words import client_name, duration, name_of, same_on, server_name
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedRhythm
from zmtpscope.diagnosis.observers.run_summaries import MAX_RECENT
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted
from zmtpscope.zmtp.socket_types import PUBLISHERS

FELL_SILENT = "fell-silent"

HINT = "check that program: it is stopped, blocked in a call, or has nothing more to send; "

HOST_ANSWERS = "its host still acknowledges data"

HOST_UNKNOWN = (
    "or its host, or the path to it, is down, which this capture does not show: only ZMQ_HEARTBEAT_IVL or "
    "ZMQ_TCP_KEEPALIVE on the other side detects it"
)

OLD_HINT = (
    "no packet ended the old connection: the path, a firewall, or the network of that host broke it, and messages that "
    "were on their way may be lost; ZMQ_HEARTBEAT_IVL on the listening side closes dead connections"
)

MISSING_HINT = (
    "find out why that program exited, and restart it; a ROUTER drops messages for a missing peer unless "
    "ZMQ_ROUTER_MANDATORY is set"
)


def _fell_silent(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each peer that stopped sending: a listener by its endpoint, a client by address and identity."""
    workers: dict[str, list[Silence]] = {}
    for silence in silences(knowledge):
        of_host = workers.setdefault(silence.connection.endpoint[0], [])
        if len(of_host) < MAX_COMPARED and _is_worker(silence):
            of_host.append(silence)
    found: dict[tuple[str, int] | tuple[str, str | None], list[Silence]] = {}
    missed: dict[str, tuple[ObservedConnection, list[Silence]]] = {}
    """Silences of a broker since a worker left, by conn_id of the worker."""
    for silence in silences(knowledge):
        own = workers[silence.connection.endpoint[0]] if silence.is_of_listener else []
        if any(_is_waited_for(worker, silence) for worker in own):
            continue
        left = _left_at(silence, knowledge)
        if left is not None:
            missed.setdefault(left.conn_id, (left, []))[1].append(silence)
        else:
            side = silence.connection.sides[silence.side]
            peer = silence.connection.endpoint if silence.is_of_listener else (side.ip, side.identity)
            found.setdefault(peer, []).append(silence)
    for same in found.values():
        yield _diagnosis(same)
    for left, same in missed.values():
        yield _missing(left, same)


def _is_worker(silence: Silence) -> bool:
    """Whether the silent client is a worker: the listener still sends to it."""
    asked = silence.connection.sides[1 - silence.side].rhythm
    is_asked = asked is not None and asked.since(silence.rhythm.last.ns) >= MIN_UNANSWERED
    return is_asked and not silence.is_of_listener and silence.severity == "warn"


def _is_waited_for(worker: Silence, broker: Silence) -> bool:
    """Whether a broker is silent to its clients only because a worker fell silent at the same time."""
    longest = max(SECOND, worker.rhythm.longest_ns, broker.rhythm.longest_ns)
    return abs(worker.rhythm.last.ns - broker.rhythm.last.ns) <= longest


def _left_at(broker: Silence, knowledge: Knowledge) -> ObservedConnection | None:
    """Return the connection of a worker that left for good when a broker fell silent to a client, or None."""
    if not broker.is_of_listener or broker.severity != "warn":
        return None
    return left_at(broker.connection, broker.rhythm, knowledge)


def _diagnosis(same: list[Silence]) -> Diagnosis:
    first = min(same, key=_gravity)
    connection, rhythm = first.connection, first.rhythm
    name = name_of(connection, first.side)
    if first.successor is not None:
        return _continued(first, first.successor)
    return Diagnosis.of(
        FELL_SILENT,
        first.severity,
        name,
        f"{name} sent nothing after packet {rhythm.last.packet}, for {duration(first.until - rhythm.last.ns)}, "
        f"{first.text}; its longest pause before was {duration(rhythm.longest_ns)}{same_on(len(same) - 1)}",
        HINT + (HOST_ANSWERS if _host_answers(first) else HOST_UNKNOWN),
        evidence=(Evidence(rhythm.last, "its last message"),),
        about=same,
        beside=() if first.blocked_by is None else (first.blocked_by,),
        last_ns=first.until,
        proven=False,
    )


def _continued(old: Silence, new: ObservedConnection) -> Diagnosis:
    """Return the diagnosis of a client that continues on a new connection, while its old one stays open and silent."""
    name, last = name_of(old.connection, old.side), old.rhythm.last
    return Diagnosis.of(
        FELL_SILENT,
        "note",
        name,
        f"{name} sent nothing after packet {last.packet}, and connected again {duration(new.start.ns - last.ns)} "
        "later: its old connection is dead, without FIN or RST",
        OLD_HINT,
        evidence=(Evidence(last, "its last message on the old connection"), Evidence.opening(new)),
        about=(old.connection, new),
        last_ns=old.until,
        proven=False,
    )


def _missing(left: ObservedConnection, same: list[Silence]) -> Diagnosis:
    """Return the diagnosis of a worker that left, after which its broker sent nothing to clients."""
    first = min(same, key=_gravity)
    connection, rhythm, number = first.connection, first.rhythm, 1 - left.listener
    worker, broker, client = name_of(left, number), name_of(connection, first.side), name_of(connection, 1 - first.side)
    more = f" and {counted(len(same) - 1, 'other connection')}" if len(same) > 1 else ""
    moment = Moment(ended_at(left), left.start.file, None)
    return Diagnosis.of(
        FELL_SILENT,
        "warn",
        worker,
        f"{client}{more} {'get' if more else 'gets'} nothing since {worker} left: {broker} sent nothing after packet "
        f"{rhythm.last.packet}, for {duration(first.until - rhythm.last.ns)}, {first.text}",
        MISSING_HINT,
        evidence=(Evidence(rhythm.last, "the last message"), Evidence(moment, f"FIN of {worker}", left.ref)),
        about=(left, *(each.connection for each in same)),
        count=len(same),
        last_ns=first.until,
        proven=False,
    )


def _host_answers(silence: Silence) -> bool:
    """Whether the host of the silent side is up: its TCP has acknowledged data since its last message."""
    other = silence.asker or silence.connection.sides[1 - silence.side]
    return (other.last_ns or 0) > silence.rhythm.last.ns


def _gravity(silence: Silence) -> tuple[bool, int]:
    """Return a sort key: warnings before notes, then by time."""
    return silence.severity != "warn", silence.rhythm.last.ns


PAUSED = "paused"
REGULAR = 2
"""The longest pause of regular messages is at most this multiple of the mean."""
BURST = 4
"""Messages that came this many times as fast as usual were held up on the path."""


def _paused(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Make one diagnosis for each listening peer that paused and then continued."""
    whole = (each for each in knowledge.connections if each.is_whole and is_agreed(each))
    paused = (each for each in whole if _has_paused(each, knowledge))
    for same in grouped((each.endpoint, each) for each in paused).values():
        first = same[0]
        rhythm, name = first.server.rhythm, server_name(first)
        if rhythm is None or rhythm.longest_from is None:
            continue
        several = counted(rhythm.asked, "message") + (" and more" if rhythm.asked >= MAX_RECENT else "")
        beside = _publisher_paused(first, knowledge)
        too = "" if beside is None else f"; {server_name(beside)} sent nothing at that time, too"
        yield Diagnosis.of(
            PAUSED,
            "note",
            name,
            f"{name} sent nothing for {duration(rhythm.longest_ns)} after packet {rhythm.longest_from.packet}, "
            f"though {client_name(first)} sent {several} meanwhile; its next longest pause was "
            f"{duration(rhythm.second_ns)}{same_on(len(same) - 1)}{too}",
            "check what that program did meanwhile: it was stopped, blocked in a call, or busy",
            evidence=(Evidence(rhythm.longest_from, "its last message before"),),
            about=same,
            last_ns=rhythm.longest_from.ns + rhythm.longest_ns,
            proven=False,
        )


def _has_paused(connection: ObservedConnection, knowledge: Knowledge) -> bool:
    """Whether a listener that answers about every message once left some unanswered for a long time.

    Several, or one while a publisher of its host paused, too.
    """
    own, other = connection.server.rhythm, connection.client.rhythm
    if own is None or other is None or own.opens(other):
        return False
    if own.count < MIN_MESSAGES or own.count * LARGEST_SHARE < other.count or not _is_long_pause(connection):
        return False
    if own.asked_for_ns * other.count * BURST < own.asked * other.lasted_ns:
        return False  # they came at once after an outage
    is_several = own.asked >= MIN_UNANSWERED
    return is_several or (bool(own.asked) and _publisher_paused(connection, knowledge) is not None)


def _is_long_pause(connection: ObservedConnection) -> bool:
    """Whether a listener once sent nothing for far longer than usual, although it could send."""
    own = connection.server.rhythm
    is_stalled = bool(connection.server.stalls)
    is_cut_off = any(outage.retransmissions for side in connection.sides for outage in side.outages)
    is_long = own is not None and own.longest_ns >= max(MIN_SILENCE, MANY_PAUSES * own.second_ns)
    return is_long and not (is_stalled or is_cut_off)


@once
def _paused_publishers(knowledge: Knowledge) -> dict[str, list[ObservedConnection]]:
    """Return connections of listening publishers with a long pause between regular messages, by host."""
    return grouped(
        (each.server.ip, each)
        for each in knowledge.connections
        if each.server.socket_type in PUBLISHERS and each.is_whole and each.server.rhythm is not None
        if _is_regular(each.server.rhythm) and _is_long_pause(each)
    )


def _is_regular(rhythm: ObservedRhythm) -> bool:
    """Whether all pauses but the longest are similar."""
    others = rhythm.lasted_ns - rhythm.longest_ns
    return rhythm.count >= MIN_MESSAGES and rhythm.second_ns * (rhythm.count - 2) <= REGULAR * others


def _publisher_paused(connection: ObservedConnection, knowledge: Knowledge) -> ObservedConnection | None:
    """Return the connection of a publisher of the listener's host that paused at the same time, or None."""
    start, end = _longest_pause(connection)
    for each in _paused_publishers(knowledge).get(connection.server.ip, ())[:MAX_COMPARED]:
        since, until = _longest_pause(each)
        if abs(start - since) <= SECOND and abs(end - until) <= SECOND and each.endpoint != connection.endpoint:
            return each
    return None


def _longest_pause(connection: ObservedConnection) -> tuple[int, int]:
    """Return start and end (ns) of the longest pause of a listener."""
    rhythm = connection.server.rhythm
    if rhythm is None or rhythm.longest_from is None:
        return 0, 0
    return rhythm.longest_from.ns, rhythm.longest_from.ns + rhythm.longest_ns


TABLE = (
    Rule(
        FELL_SILENT,
        "warn",
        "A peer that sent messages steadily stopped sending",
        "A peer used to send about one message for each message that it received, and stopped. Never proven: a "
        "program with nothing more to send, or a broker without work, looks the same. Its longest pause is the "
        "longest time between two of its messages before it stopped. The kind of a message of a DEALER, ROUTER or "
        "PAIR is the command at its start.\n"
        "Answers stopped:\n"
        "* Severity warning if the peer had sent at least eight messages, and is silent for 3 s and three times its "
        "longest pause, while it receives at least three messages, or two of a kind that it always answered.\n"
        "* Otherwise a note in four cases: the received messages are of a kind that it never received before, they "
        "are Jupyter requests, the peer had answered only five messages before and many arrive now, or they arrive on "
        "a second connection in the other direction (a PUSH and a PULL on both hosts).\n"
        "* Severity note if a ROUTER or DEALER that answered each message in turn leaves the last ones unanswered for "
        "5 s.\n"
        "One peer of several stopped:\n"
        "* Severity note if a client is silent for four times its longest pause, while clients of the same type and "
        "rhythm continue. A REQ must be silent for fifteen times its longest pause, and 6 s.\n"
        "* Severity warning if that client is a DEALER with an identity, silent for fifteen times its longest pause, "
        "and 10 s.\n"
        "* Severity note if a PUB or PUSH is silent, while other servers of the same receiver continue.\n"
        "A sender stopped to all its peers:\n"
        "* Severity note if a PUB or PUSH sends nothing for fifteen times its longest pause, and 6 s, and had sent for "
        "at least eight times that pause. The same holds for a ROUTER or DEALER that receives almost nothing.\n"
        "* Severity note if a ROUTER, DEALER or PAIR that started exchanges at regular times, such as heartbeats, "
        "stops for ten intervals, and 6 s.\n"
        "Lost connections:\n"
        "* Severity note if a client with one connection at a time continues on a new one: it lost the old one.",
        "* The peer closes its connection itself, or cannot send because its receiver does not read.\n"
        "* The peer itself starts the exchanges, or never answered messages of the kinds that it receives now.\n"
        "* TCP repeats data without an acknowledgment.\n"
        "* A subscriber cancelled its subscription.\n"
        "* None of the other peers continues.\n"
        "* The peer is a broker that waits for a worker that fell silent or left, or for a reply to a request of its "
        "own host.",
        _fell_silent,
        ("half-closed",),
    ),
    Rule(
        PAUSED,
        "note",
        "A peer that answers sent nothing for a while, then continued",
        "A listener used to send about one message for each message that it received. Once it sent nothing for 3 s, "
        "and for three times any other pause, although at least three messages arrived. Then it continued. One "
        "message is enough if a regular publisher of its host paused at the same time. A capture does not show "
        "whether these messages needed an answer, or more work.",
        "* Another pause is at least a third as long.\n"
        "* The peer could not send, because its receiver did not read.\n"
        "* TCP had to repeat data for long, or the messages arrived together at the end of the pause, as after an "
        "outage of the path.",
        _paused,
    ),
)
