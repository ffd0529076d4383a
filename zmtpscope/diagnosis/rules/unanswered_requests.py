"""Requests without a reply: still pending, given up, or lost with their connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.disconnects import gave_up_ns
from zmtpscope.diagnosis.across.gone_workers import GONE_HINT, gone_worker
from zmtpscope.diagnosis.across.hanging import (
    LONG_NS,
    MANY_TIMES,
    MIN_SILENCE_NS,
    GivenUp,
    Hanging,
    behind_brokers,
    given_up,
    hanging,
    is_long,
    is_lost,
    latencies,
    may_be_worker,
    sent_at,
)
from zmtpscope.diagnosis.across.hops import SentRequest, answered_later, reconnected_silently, repetitions_of
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import duration, name_of
from zmtpscope.diagnosis.diagnosis import LIKELY, MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted, listed

UNANSWERED = "request-unanswered"

LONG_OPEN_NS = 5 * SECOND
"""A request that waits for less time may just take long, so it is a warning."""

MIN_CLIENTS, MIN_REPLIES, MIN_SILENT_NS, FAR_LONGER = 2, 8, SECOND // 30, 10
"""Clients without a reply at the end, earlier replies, silence, and multiple of the slowest reply that make a note
about a REP: the rest of the wait was not captured."""

MAX_NAMED = 3

STUCK = (
    "its REQ can neither send nor receive without the reply: poll with a timeout and open a new socket (lazy pirate), "
    "or set ZMQ_REQ_RELAXED and ZMQ_REQ_CORRELATE"
)
NO_REPLY = (
    "check why the server did not reply: it hangs, failed, or has no code path that replies (or its reply was dropped "
    "before this capture point: capture at the server, too); for the client, "
)
GIVEN_UP_HINT = (
    "the server takes longer than the client waits, or hangs: measure how long it works on such a request, and raise "
    "the client's timeout above it; requests on a new connection wait behind all earlier ones"
)


def _unanswered(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each server with unanswered requests, except requests that a broker passed on to another server."""
    behind = behind_brokers(knowledge)
    clients = {client.conn_id for same in behind.values() for client in same}
    hung = (each for each in hanging(knowledge) if each.conn_id not in clients and _hangs(each, knowledge))
    told: set[str] = set()
    for same in grouped(((each.connection.endpoint, each.server_name), each) for each in hung).values():
        longest = max(same, key=attrgetter("waited"))
        line = _line_of(longest, knowledge) or [longest, *(each for each in same if each is not longest)]
        diagnosis = _no_reply(line, [client for each in line for client in behind.get(each.conn_id, ())], knowledge)
        told |= diagnosis.conn_ids
        yield diagnosis
    for client in given_up(knowledge):
        if not any(each.conn_id in told for each in client.requests):
            yield _too_short(client)
    for endpoint, waiting in _at_reps(knowledge).items():
        if told.isdisjoint(each.conn_id for each in waiting) and _stopped_at_the_end(endpoint, waiting, knowledge):
            yield replace(_no_reply(sorted(waiting, key=sent_at), [], knowledge), severity="note", certainty=LIKELY)


def _stopped_at_the_end(endpoint: Endpoint, waiting: Sequence[Hanging], knowledge: Knowledge) -> bool:
    """Whether a REP that used to reply at once stopped before the end of the capture, when several clients wait for it.

    Such a REP is reported after a shorter wait. Many captures end with their last packet, because clients that wait
    send none.
    """
    usual, oldest = latencies(knowledge)[endpoint], min(waiting, key=sent_at)
    if len(waiting) < MIN_CLIENTS or usual.most is None or usual.count < MIN_REPLIES or oldest.requests.is_guessed:
        return False
    is_open = all(each.ending is None for each in waiting)
    enough = max(MIN_SILENT_NS, FAR_LONGER * usual.most)
    return is_open and _last_reply(oldest, knowledge) < oldest.oldest.ns and oldest.waited >= enough


def _hangs(waiting: Hanging, knowledge: Knowledge) -> bool:
    return (
        is_long(waiting, knowledge)
        and not waiting.is_unacknowledged
        and not waiting.requests.are_displaced
        and not is_lost(waiting, knowledge)
        and not _was_repeated(waiting, knowledge)
        and not may_be_worker(waiting, knowledge)
        and not _is_queued(waiting, knowledge)
    )


def _is_queued(waiting: Hanging, knowledge: Knowledge) -> bool:
    """Whether a request waits only because a REP still replies to others first.

    A REP serves its clients in turn, and each REQ has one request in the queue, so a request waits for one round of all
    clients.
    """
    if not waiting.is_to_rep:
        return False
    is_bound = waiting.requests.asker != waiting.connection.listener
    replies = _replies_of(knowledge)[waiting.connection.endpoint] if is_bound else _replies([waiting.connection])
    if replies is None or replies.last_ns <= waiting.oldest.ns:
        return False
    if waiting.until - replies.last_ns > max(LONG_NS, MANY_TIMES * replies.usual):
        return False
    return not waiting.requests.is_lock_step or waiting.waited <= max(LONG_NS, MANY_TIMES * replies.round)


class Replies(NamedTuple):
    """Replies of a server to its clients: the time (ns) of the last, the usual time (ns) between two, and the number of
    clients."""

    last_ns: int
    usual: int
    clients: int

    @property
    def round(self) -> int:
        """The time (ns) in which a server replies once to each of its clients."""
        return self.usual * self.clients


@once
def _replies_of(knowledge: Knowledge) -> dict[Endpoint, Replies | None]:
    endpoints = {each.connection.endpoint for each in hanging(knowledge)}
    return {endpoint: _replies(knowledge.by_endpoint[endpoint]) for endpoint in endpoints}


def _replies(connections: Sequence[ObservedConnection]) -> Replies | None:
    asked = [each.requests for each in connections if each.requests is not None]
    last = max((each.last_reply.ns for each in asked if each.last_reply is not None), default=None)
    if last is None:
        return None
    first = min((each.first.moment.ns for each in asked if each.first is not None), default=last)
    return Replies(last, (last - first) // max(1, sum(each.latency.count for each in asked)), len(asked))


def _line_of(waiting: Hanging, knowledge: Knowledge) -> list[Hanging]:
    """Return the requests that have waited for the same listening REP since its last reply, oldest first.

    A REP answers the requests of all its connections in order, so it hangs on the first one. Empty if `waiting` is a
    request to another socket type.
    """
    endpoint = waiting.connection.endpoint
    at_rep = _at_reps(knowledge).get(endpoint, ())
    if waiting not in at_rep:
        return []
    last = _last_reply(waiting, knowledge)
    return sorted((each for each in at_rep if each is waiting or each.until > last), key=sent_at)


def _last_reply(waiting: Hanging, knowledge: Knowledge) -> int:
    """Return the time (ns) of the last reply at the endpoint of `waiting`, or 0."""
    replies = _replies_of(knowledge)[waiting.connection.endpoint]
    return 0 if replies is None else replies.last_ns


@once
def _at_reps(knowledge: Knowledge) -> dict[Endpoint, list[Hanging]]:
    return grouped(
        (each.connection.endpoint, each)
        for each in hanging(knowledge)
        if each.is_to_rep and each.requests.asker != each.connection.listener and not each.is_unacknowledged
    )


def _no_reply(line: Sequence[Hanging], clients: Sequence[Hanging], knowledge: Knowledge) -> Diagnosis:
    """Return the diagnosis of requests that wait at one endpoint (`line`, the main one first).

    `clients` are requests of clients that wait for the same replies at a broker.
    """
    first = line[0]
    oldest = first.oldest.request
    usual = latencies(knowledge)[first.connection.endpoint]
    before = "; it answered none"
    if usual.median is not None:
        others = "others" if _last_reply(first, knowledge) > first.oldest.ns else "before"
        before = f"; {usual.count} {others} were answered, median {duration(usual.median)}"
    is_certain = first.is_owed
    is_over = first.ending is not None or first.waited >= LONG_OPEN_NS
    is_early = usual.median is None and first.ending is None and first.waited < MIN_SILENCE_NS
    everybody = [*line, *clients]
    since = _last_reply(first, knowledge) or first.oldest.ns - SECOND
    worker = None if first.is_to_rep else gone_worker(first.connection, since, first.until, knowledge)
    if worker is not None:
        before = worker.text(first.oldest.ns)
    return Diagnosis.of(
        UNANSWERED,
        "note" if is_early else "error" if is_certain and is_over else "warn",
        first.server_name,
        f"{first.server_name} does not reply to {first.client_name}{_for_whom(clients)}: the request in packet "
        f"{oldest.moment.packet} {_waits(first)}{_more(line)}{before}",
        (NO_REPLY if worker is None else f"{GONE_HINT}; for the client, ") + STUCK,
        evidence=(
            Evidence(each.oldest.request.moment, f"the request of {each.client_name}", each.oldest.request.ref)
            for each in everybody[:MAX_EVIDENCE]
        ),
        about=everybody,
        explains=("REQREP-02", "REQREP-06"),
        count=sum(each.requests.waiting_count for each in line),
        last_ns=max(each.until for each in line),
        proven=is_certain,
    )


def _for_whom(clients: Sequence[Hanging]) -> str:
    if not clients:
        return ""
    others = len({each.client for each in clients}) - 1
    more = f", and {counted(others, 'client')} more" if others else ""
    return f" (for {clients[0].client_name}, which asked {clients[0].server_name}{more})"


def _waits(waiting: Hanging) -> str:
    if waiting.ending is None:
        return f"waits for {duration(waiting.waited)}"
    who = f"{waiting.server_name} left" if waiting.was_left else f"{waiting.client_name} closed the connection"
    return f"waited without a reply for {duration(waiting.waited)}, until {who}"


def _more(line: Sequence[Hanging]) -> str:
    count = sum(each.requests.waiting_count for each in line) - 1
    if not count:
        return ""
    names = list(dict.fromkeys(each.client_name for each in line[1:]))
    place = " behind it" if names and line[0].is_to_rep else ""
    text = f"; {count} more{place} {'has' if count == 1 else 'have'} no reply either"
    if not names:
        return text
    longest = max(each.waited for each in line[1:])
    return f"{text}: {listed(names, MAX_NAMED)}, for {duration(longest)} at most"


def _too_short(client: GivenUp) -> Diagnosis:
    same = client.requests
    first = same[0]
    is_certain = first.is_owed
    answered = f"only {client.answered} answered" if client.answered else "none was answered"
    return Diagnosis.of(
        UNANSWERED,
        "error" if is_certain else "warn",
        first.server_name,
        f"{first.client_name} gives up {len(same)} of {len(same) + client.answered} requests to {first.server_name}, "
        f"{client.patience}: {answered}",
        GIVEN_UP_HINT,
        evidence=(
            Evidence(
                each.oldest.request.moment,
                f"a request of {each.client_name}, given up after {duration(each.waited)}",
                each.oldest.request.ref,
            )
            for each in same[:MAX_EVIDENCE]
        ),
        about=same,
        explains=("REQREP-06",),
        last_ns=max(each.until for each in same),
        proven=is_certain,
    )


def _was_repeated(waiting: Hanging, knowledge: Knowledge) -> bool:
    return waiting.ending is not None and repetitions_of(waiting.oldest, waiting.oldest.ns, knowledge).is_answered


LOST = "request-lost"

OFTEN = 3
"""A server that leaves this often after the same request fails on it."""
SOON_NS = 3 * SECOND
"""A client that stops to reconnect within this time ended with its server."""
LOST_HINT = "a request is lost with its connection: " + STUCK


def _lost(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each endpoint at most twice: for requests lost for good, and for requests that were answered when
    repeated."""
    behind = behind_brokers(knowledge)
    clients = {client.conn_id for same in behind.values() for client in same}
    lost = [
        (each, _made_up_for(each, behind, knowledge))
        for each in hanging(knowledge)
        if not each.is_unacknowledged and not each.was_cut and is_lost(each, knowledge)
        if each.conn_id not in clients
    ]
    for_a_while = grouped((each.connection.endpoint, (each, again)) for each, again in lost if again is not None)
    fatal = {endpoint: content for endpoint, same in for_a_while.items() if (content := _fatal_content(same))}
    for_ever = grouped(
        (each.connection.endpoint, each)
        for each, again in lost
        if again is None and not repetitions_of(each.oldest, each.until, knowledge).times
    )
    for endpoint, same in for_ever.items():
        others = [each for each in same if each.oldest.request.content != fatal.get(endpoint)]
        if others:
            yield _lost_for_ever(others, behind, knowledge)
    for endpoint, same_again in for_a_while.items():
        more = [each for each in for_ever.get(endpoint, ()) if each.oldest.request.content == fatal.get(endpoint)]
        yield _lost_for_a_while(same_again, more, behind)


def _fatal_content(lost: Sequence[tuple[Hanging, SentRequest]]) -> int | None:
    """Return the content of the request after which the server left each time, if it left often and others were
    answered."""
    contents = {each.oldest.request.content for each, _ in lost}
    later = {again.request.content for _, again in lost}
    return contents.pop() if len(lost) >= OFTEN and len(contents) == 1 and 0 not in contents | later else None


def _made_up_for(left: Hanging, behind: Mapping[str, Sequence[Hanging]], knowledge: Knowledge) -> SentRequest | None:
    """Return a later answered request of the same REQ, or of a client of the broker; None if the client got no reply
    since.

    Other socket types may send any request while an earlier one is lost, so they do not count. Nor does a request of
    another client, if the REQ reconnected and is silent, because it still waits.
    """
    if left.requests.is_lock_step and reconnected_silently(left.oldest, left.until, knowledge):
        return None
    waiting = [each for each in (*behind.get(left.conn_id, ()), left) if each.requests.is_lock_step]
    found = (answered_later(each.oldest, left.until, knowledge) for each in waiting)
    return next((each for each in found if each is not None), None)


def _lost_for_ever(same: Sequence[Hanging], behind: Mapping[str, Sequence[Hanging]], knowledge: Knowledge) -> Diagnosis:
    first = same[0]
    count = sum(each.requests.waiting_count for each in same)
    clients = [client for each in same for client in behind.get(each.conn_id, ())]
    stuck = ": its REQ waits forever unless it has a timeout" if first.requests.is_lock_step else ""
    are_done = all(_ended_too(each, knowledge) for each in same)
    if are_done:
        stuck = "; the client ended soon after"
    more = f" (and {count - 1} more requests)" if count > 1 else ""
    before = repetitions_of(first.oldest, 0, knowledge).times
    again = f"as on {counted(before, 'connection')} before, and not again" if before else "and nobody asked again"
    is_certain = first.is_owed
    return Diagnosis.of(
        LOST,
        "note" if are_done else "error" if is_certain else "warn",
        first.server_name,
        f"{_left(first, clients)}{more}, {again}: the reply will not come{stuck}",
        LOST_HINT,
        evidence=(
            Evidence(each.oldest.request.moment, f"the request of {each.client_name}", each.oldest.request.ref)
            for each in (*same, *clients)[:MAX_EVIDENCE]
        ),
        about=(*same, *clients),
        explains=("REQREP-06",),
        count=count,
        last_ns=max(each.until for each in same),
        proven=is_certain,
    )


def _ended_too(waiting: Hanging, knowledge: Knowledge) -> bool:
    """Whether the client stopped trying to reconnect within moments, as in an orderly shutdown of client and server."""
    gave_up, last = gave_up_ns(knowledge).get(waiting.conn_id), knowledge.by_ends[waiting.connection.ends][-1]
    return gave_up is not None and gave_up - waiting.until <= SOON_NS and last.start.ns <= waiting.until


def _lost_for_a_while(
    same: Sequence[tuple[Hanging, SentRequest]], more: Sequence[Hanging], behind: Mapping[str, Sequence[Hanging]]
) -> Diagnosis:
    """Diagnose requests whose client was answered later. `more` are the same requests, but not answered since."""
    first, again = same[0]
    lost = [*(each for each, _ in same), *more]
    clients = [client for each in lost for client in behind.get(each.conn_id, ())]
    later = again.request.moment.ns - first.until
    who = name_of(again.connection, again.asker)
    contents = {each.oldest.request.content for each in lost}
    is_another = 0 not in contents and again.request.content not in contents
    asked = "asked something else" if is_another else "asked again"
    is_often, is_same = len(lost) >= OFTEN, is_another and len(contents) == 1
    times = f" (and {len(lost) - 1} times more{', after the same request' if is_same else ''})" if len(lost) > 1 else ""
    return Diagnosis.of(
        LOST,
        "warn" if is_often and is_same else "note",
        first.server_name,
        f"{_left(first, clients)}; {duration(later)} later {who} {asked} and was answered{times}",
        ("check whether the server fails on this request: " if is_same and is_often else "find out why it left: ")
        + LOST_HINT,
        evidence=(
            Evidence(first.oldest.request.moment, f"the request of {first.client_name}", first.oldest.request.ref),
            Evidence(again.request.moment, "what was asked later, and answered", again.request.ref),
        ),
        about=(*lost, *clients),
        explains=("REQREP-06",),
        count=len(lost),
        last_ns=max(each.until for each in lost),
    )


def _left(waiting: Hanging, clients: Sequence[Hanging]) -> str:
    """Describe a request whose server left before it replied. `clients` wait for the same reply at a broker."""
    for_whom = f" (for {clients[0].client_name}, which asked {clients[0].server_name})" if clients else ""
    asked = f"{waiting.client_name} had asked it in packet {waiting.oldest.request.moment.packet}{for_whom}"
    if waiting.ending is not None and waiting.ending.is_unknown:
        return (
            f"{waiting.server_name} no longer knew its connection when {asked}: its host was restarted, or another "
            "host or a firewall answers"
        )
    return f"{waiting.server_name} left {duration(waiting.waited)} after {asked}"


TABLE = (
    Rule(
        UNANSWERED,
        "error",
        "A request has no reply",
        "A client sent a request and received no reply before the connection or the capture ended. It waited for at "
        "least a second, and for three times the longest time of any reply at this endpoint. A request is a message "
        "of a REQ, a message with an envelope, or a message to a REP. A capture does not show what the server does "
        "with the request, or whether it would have replied later.\n"
        "* Proven if the server is a REP, if it is a REQ that works for a ROUTER, or if the client is a REQ that "
        "received a reply before.\n"
        "* Otherwise likely: for example, if socket types are unknown (ZMTP 1.0, ZWS 2.0, or the start was not "
        "captured). The client is then the side that sent first in eight messages that alternate.\n"
        "* If a broker forwarded the request, the server behind the broker is named.\n"
        "* A REP answers the requests of all its connections in order. So its oldest pending request is named, even "
        "if the client of that request has given up.\n"
        "* If the server left after it had not replied for that time, the missing reply remains the cause.\n"
        "Given up: a REQ closes its connection with a pending request at least three times, and at most a tenth of "
        "its requests received replies.\n"
        "* Reported if the waits are equal (the last may be shorter): the timeout of the REQ is too short, or the "
        "server hangs.\n"
        "* Reported with any waits that add up to 3 s, if the REP replied to no request.\n"
        "A note in two cases:\n"
        "* The wait is shorter than 3 s, and the server has not replied to anything yet.\n"
        "* Two or more clients of a REP wait when the capture ends, each ten times as long as any reply took.",
        "* The request has a reply, or the client sent it again on another connection and received the reply there.\n"
        "* The client is a REQ that waits for work from its broker, so its message is not a request.\n"
        "* The server left within a second: see request-lost.\n"
        "* The request is in the queue of a REP that continues to reply.",
        _unanswered,
        consequences=("request-lost", "fell-silent", "half-closed"),
    ),
    Rule(
        LOST,
        "error",
        "A server leaves with a pending request",
        "The server closed the connection before it replied, and the client did not send the same request again on a "
        "new connection. libzmq does not repeat requests: a REQ without ZMQ_REQ_RELAXED waits forever.\n"
        "* If a broker forwarded the request, the waiting client is named.\n"
        "* If the server had not replied for long before it left, it probably hung: see request-unanswered.\n"
        "* Severity note if a REQ of the address of the client later received a reply at the endpoint: it may be the "
        "same program. But an error if a REQ reconnected and sent nothing for 3 s, because it still waits.\n"
        "* Severity note if the client stopped reconnecting within 3 s, as in an orderly shutdown.",
        "* The client sends the same request again.\n* The client had waited for long before the server left.",
        _lost,
        ("reconnect-storm",),
    ),
)
