"""Servers that get more requests than they reply to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import end_of
from zmtpscope.diagnosis.across.hanging import Hanging, hanging, latencies
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import duration, name_of, same_on
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.durations import Trend, median
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import MAX_CALLS, ObservedOrder, ObservedRequests
from zmtpscope.grouping import grouped
from zmtpscope.records import MILLISECOND

OVERLOADED = "overloaded"

MIN_REPLIES = 16
"""Replies of a connection that are enough to compare the first with the last ones."""
PARTS = 4
SLOWER = 4
"""The last quarter of replies takes at least this multiple of the first."""
NOISE = 1.25
"""Factor by which a quarter of the replies may be quicker than the quarter before."""
MIN_LATENCY = 100 * MILLISECOND
"""Latency (ns) below which a server keeps up."""
MIN_WAITING = 4
"""Requests that wait at the end."""
MANY_TIMES = 3
"""A request that waits for this multiple of the last latencies does not wait in a queue."""
MIN_PENDING = 2
"""Requests that wait at a time, on average."""
ALIKE, SPREAD = 2, 4
"""The time between replies differs from the quickest reply by at most this factor; replies vary by at least this part
of the time between messages."""
LEAST_BUSY, MOST_BUSY = 0.6, 1.1
"""Fraction of the time that a server which takes one request at a time needs for all replies, by its quickest."""

HINT = (
    "add workers that share the requests (ROUTER and DEALER with zmq_proxy), make each request take less work, or "
    "send requests less often"
)
GIVEN_UP_HINT = (
    "raise the timeout of the clients above the time that all of their requests take one after the other, or let "
    "several workers share them: a REP also works on requests whose clients have given up; if its program is idle "
    "meanwhile, it hangs"
)


class Queue(NamedTuple):
    """Requests of side `asker` whose waiting times grow, and of which `pending` have no reply yet.

    `oldest` is the oldest of these; request number `known` was sent at `newest` (ns). `trend` contains the latencies of
    all replies. The last reply came at `last_reply` (ns), and the newest request with a reply was sent at
    `last_answered` (ns). `in_order`: replies were matched with requests only by the order of messages.
    """

    connection: ObservedConnection
    asker: int
    trend: Trend
    oldest: Moment
    newest: int
    known: int
    pending: int
    last_reply: int
    last_answered: int
    in_order: ObservedOrder | None = None

    @property
    def quarters(self) -> list[int]:
        """The typical latency (ns) in each quarter of the replies."""
        typical = self.trend.typical()
        part = len(typical) // PARTS
        return [round(median(typical[place * part : (place + 1) * part])) for place in range(PARTS)]

    def grows(self, now: int) -> bool:
        """Whether replies take ever longer, and the client still sends requests, up to `now` (ns)."""
        if self.trend.count < MIN_REPLIES or self.pending < MIN_WAITING:
            return False
        first, *_, last = quarters = self.quarters
        age = now - self.oldest.ns
        if self.last_answered - self.oldest.ns > last / ALIKE:
            return False  # newer ones overtook it: the server works on several at once
        between = (self.newest - self.oldest.ns) / max(1, self.known - 1)
        is_queued = age <= MANY_TIMES * last and 2 * between * self.pending >= age
        is_rising = all(later * NOISE >= sooner for sooner, later in pairwise(quarters))
        return is_queued and is_rising and last >= max(MIN_LATENCY, SLOWER * first)


def _overloaded(knowledge: Knowledge) -> Iterator[Diagnosis]:
    told: set[str] = set()
    for find in (_giving_up, _growing, _waiting_in_turn):
        for diagnosis in find(knowledge):
            if told.isdisjoint(diagnosis.conn_ids):
                told |= diagnosis.conn_ids
                yield diagnosis


# -- the clients give up ---------------------------------------------------------------------------------------------


def _gave_up_on_rep(waiting: Hanging) -> bool:
    """Whether a client closed its connection to a listening REP while a request was pending."""
    is_own = waiting.ending is not None and not waiting.was_left and not waiting.is_unacknowledged
    return is_own and waiting.is_to_rep and waiting.requests.asker != waiting.connection.listener


def _giving_up(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose REPs whose clients give up sooner than the REP can answer all requests that wait at the same time."""
    given_up = (each for each in hanging(knowledge) if _gave_up_on_rep(each))
    for endpoint, same in grouped((each.connection.endpoint, each) for each in given_up).items():
        quickest = latencies(knowledge)[endpoint].least
        at_once, patience = _most_at_once(same), round(median(each.waited for each in same))
        if quickest is None or quickest < MIN_LATENCY or at_once < MIN_WAITING or at_once * quickest <= patience:
            continue
        yield Diagnosis.of(
            OVERLOADED,
            "error",
            same[0].server_name,
            f"{same[0].server_name} gets more requests than it can reply to in time: {at_once} wait at once, and its "
            f"quickest reply took {duration(quickest)}; its clients gave up {len(same)}, each after about "
            f"{duration(patience)}",
            GIVEN_UP_HINT,
            evidence=(
                Evidence(each.oldest.request.moment, f"a request of {each.client_name}", each.oldest.request.ref)
                for each in same[:MAX_EVIDENCE]
            ),
            about=same,
            last_ns=max(each.until for each in same),
            proven=False,
        )


def _most_at_once(same: Sequence[Hanging]) -> int:
    """Return the largest number of requests that were pending at the same time."""
    most = at_once = 0
    for _, step in sorted([(each.oldest.ns, 1) for each in same] + [(each.until, -1) for each in same]):
        at_once += step
        most = max(most, at_once)
    return most


# -- the queue grows -------------------------------------------------------------------------------------------------


def _growing(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose servers with a client whose requests wait ever longer, up to the end of the capture."""
    found = grouped(
        ((connection.endpoint, name_of(connection, 1 - queue.asker), queue.in_order is None), queue)
        for connection in knowledge.connections
        if connection.is_whole
        for queue in _queues(connection)
        if queue.grows(end_of(connection, knowledge.last_ns))
    )
    for (endpoint, server, is_known), same in found.items():
        if is_known or _replies_in_turn(same, knowledge.by_endpoint[endpoint]):
            yield _growing_at(server, same, is_known=is_known)


def _queues(connection: ObservedConnection) -> Iterator[Queue]:
    """Yield the requests of each side that sends several without waiting for replies.

    They are matched with replies by envelopes, by ids of calls, or only by order.
    """
    requests, in_order = connection.requests, connection.in_order
    if requests is not None and not requests.is_lock_step and requests.last_reply is not None and requests.waiting:
        oldest, newest = requests.waiting[0].moment, requests.waiting[-1].moment.ns
        known, count = len(requests.waiting), requests.waiting_count
        last = requests.last_reply.ns, requests.last_answered_ns
        yield Queue(connection, requests.asker, requests.trend, oldest, newest, known, count, *last)
    for side, caller in enumerate(connection.sides if requests is None else ()):
        calls, pending = caller.calls, caller.pending_calls
        if calls is not None and pending:
            waiting = sorted((call.moment for call in pending.values()), key=attrgetter("ns"))
            ends = waiting[0], waiting[-1].ns
            last = calls.last_reply_ns, calls.last_answered_ns
            yield Queue(connection, side, calls.trend, *ends, len(waiting), len(waiting), *last)
    if in_order is not None and in_order.oldest is not None:
        count, last_reply = in_order.waiting_count, in_order.last_reply_ns
        times = in_order.oldest, in_order.newest_ns, count, count, last_reply, in_order.oldest.ns
        yield Queue(connection, in_order.asker, in_order.trend, *times, in_order)


def _replies_in_turn(queues: Sequence[Queue], connections: Sequence[ObservedConnection]) -> bool:
    """Whether the messages of a listener look like replies of a program that takes one request at a time.

    The quickest reply of such a program takes about as long as the time between two replies to any client. Messages
    that follow those of a client at a fixed distance are something else, such as an acknowledgment of every second
    message.
    """
    quickest = min(each.in_order.least_ns for each in queues if each.in_order is not None)
    recent = [each.server.rhythm.recent for each in connections if each.server.rhythm is not None]
    since = max(times[0] for times in recent)
    times = sorted(time for each in recent for time in each if time >= since)
    between = (times[-1] - times[0]) / max(1, len(times) - 1)
    return quickest / ALIKE <= between <= quickest * ALIKE and all(map(_is_spread, queues))


def _is_spread(queue: Queue) -> bool:
    rhythm, in_order = queue.connection.sides[queue.asker].rhythm, queue.in_order
    if rhythm is None or in_order is None:
        return False
    times, tenth = sorted(in_order.since_last), len(in_order.since_last) // 10
    between = rhythm.lasted_ns / max(1, rhythm.count - 1)
    return bool(times) and times[-1 - tenth] - times[tenth] >= between / SPREAD


def _growing_at(server: str, same: Sequence[Queue], *, is_known: bool) -> Diagnosis:
    worst = max(same, key=_waiting_count)
    first, *_, last = worst.quarters
    client = name_of(worst.connection, worst.asker)
    what = "the requests" if is_known else "the messages"
    waiting = f"{worst.pending} or more" if worst.pending == MAX_CALLS else str(worst.pending)
    if_ = "" if is_known else ", if it replies to each in order"
    return Diagnosis.of(
        OVERLOADED,
        "warn" if is_known else "note",
        server,
        f"{server} does not keep up with {what} of {client}{if_}: it replied after {duration(first)} at first and "
        f"after {duration(last)} at the end, and {waiting} wait{same_on(len(same) - 1, 'other client')}",
        HINT,
        evidence=(Evidence(worst.oldest, "the oldest one that waits"),),
        about=same,
        count=sum(map(_waiting_count, same)),
        last_ns=max(each.last_reply for each in same),
        proven=is_known,
    )


def _waiting_count(queue: Queue) -> int:
    return queue.pending


# -- a server takes one request at a time ------------------------------------------------------------------------------


def _waiting_in_turn(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose servers that reply to one REQ at a time, while several REQs wait most of the time."""
    found = grouped(
        (each.endpoint, (each, requests))
        for each in knowledge.connections
        if (requests := each.requests) is not None and requests.latency.count and _is_asked_by_req(each, requests)
    )
    for endpoint, same in found.items():
        usual = latencies(knowledge)[endpoint]
        if len(same) <= MIN_PENDING or usual.median is None or usual.least is None or usual.count < MIN_REPLIES:
            continue
        since = min(requests.first.moment.ns for _, requests in same if requests.first is not None)
        span = max(requests.last_reply.ns for _, requests in same if requests.last_reply is not None) - since
        pending, busy = (each * usual.count / max(1, span) for each in (usual.median, usual.least))
        if usual.median < max(MIN_LATENCY, MIN_PENDING * usual.least) or pending < MIN_PENDING:
            continue
        if not LEAST_BUSY <= busy <= MOST_BUSY:
            continue
        slowest = max(same, key=_longest)
        server = name_of(slowest[0], slowest[0].listener)
        yield Diagnosis.of(
            OVERLOADED,
            "note",
            server,
            f"{server} replies to one request at a time, and {pending:.1f} wait for it on average: its quickest reply "
            f"took {duration(usual.least)}, half of {usual.count} took {duration(usual.median)} or more",
            HINT,
            evidence=(
                Evidence(each.request.moment, f"a request that waited for {duration(each.took)}", each.request.ref)
                for each in slowest[1].longest[:1]
            ),
            about=(connection for connection, _ in same),
            count=usual.count,
        )


def _is_asked_by_req(connection: ObservedConnection, requests: ObservedRequests) -> bool:
    """Whether the client is a REQ that sends requests to the listener, and not a worker."""
    return connection.client.socket_type == "REQ" and requests.asker != connection.listener


def _longest(each: tuple[ObservedConnection, ObservedRequests]) -> int:
    return each[1].latency.most or 0


TABLE = (
    Rule(
        OVERLOADED,
        "warn",
        "A server gets more requests than it replies to",
        "A server receives requests faster than it replies. Requests of a DEALER to a REP, or calls with ids, were "
        "sent one after the other and wait at the end of the capture. The replies took ever longer: each quarter of "
        "them longer than the quarter before, and the last quarter four times as long as the first.\n"
        "* A note, and not proven, for a ROUTER and a DEALER if only the order of messages matches replies to "
        "requests. The quickest reply must take about as long as the time between two replies.\n"
        "* Not proven if at least four clients of a REP give up sooner than it can answer all of them in turn, judged "
        "by its quickest reply: the REP may hang instead.\n"
        "* Severity note for REQs if at least two requests wait on average, and half of the replies take at least 100 "
        "ms and twice the time of the quickest. The number of requests times the quickest reply must be about the "
        "whole time: the server was never idle.",
        "* All requests were sent at once, or the queue becomes shorter.\n"
        "* Newer requests overtake the oldest one, or the oldest has waited three times as long as the last replies "
        "took.\n"
        "* The server needs less time for all waiting requests than the clients wait.\n"
        "* Without ids: the listener once sent more messages than the client, or its messages follow the client's at "
        "a fixed distance.",
        _overloaded,
        ("request-unanswered", "late-reply", "slow-reply", "replies-slower"),
    ),
)
