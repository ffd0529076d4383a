"""Servers that reply slowly: to single requests, or from some time on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.hanging import (
    LONG_NS,
    MANY_TIMES,
    MIN_OTHERS,
    SlowReply,
    latencies,
    longest_beside,
    slowest,
)
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, duration, name_of, same_on
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.durations import Distribution, median
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedRequests
from zmtpscope.grouping import grouped
from zmtpscope.records import MILLISECOND
from zmtpscope.words import counted

MIN_REPLIES = 24

PART = 8
"""The first and the last of this many parts are compared."""

SLOWER = 8
"""The last part takes at least this multiple of the first."""

MIN_NS = 50 * MILLISECOND
"""Minimum duration (ns) of the last part."""

STAYS = 4
"""The whole last quarter takes at least this multiple of the first part. Otherwise it was slow only for a while."""


GROWS = 1.5
"""The last part takes at least this multiple of the second quarter. Otherwise replies have waited for regular events
for some time."""


class Slowing(NamedTuple):
    """A connection whose replies took `first` (ns) at the start and `last` (ns) at the end."""

    connection: ObservedConnection
    requests: ObservedRequests
    first: int
    last: int


def _slower(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = (each for each in map(_slowing, knowledge.connections) if each is not None)
    for endpoint, same in grouped((each.connection.endpoint, each) for each in found).items():
        yield _diagnosis(endpoint, same)


def _slowing(connection: ObservedConnection) -> Slowing | None:
    """Return the connection if its replies become ever slower, otherwise None.

    Only a REQ is evaluated, because requests of other socket types may wait in a queue.
    """
    requests = connection.requests
    if requests is None or not requests.is_lock_step or requests.trend.count < MIN_REPLIES:
        return None
    typical = requests.trend.typical()
    part = len(typical) // PART
    first, last = round(median(typical[:part])), round(median(typical[-part:]))
    is_slower = last >= max(MIN_NS, SLOWER * first) and min(typical[-len(typical) // 4 :]) >= STAYS * first
    is_slower &= last >= GROWS * median(typical[len(typical) // 4 : len(typical) // 2])
    return Slowing(connection, requests, first, last) if is_slower else None


def _diagnosis(endpoint: Endpoint, same: list[Slowing]) -> Diagnosis:
    worst = max(same, key=_factor)
    connection, requests = worst.connection, worst.requests
    server, client = name_of(connection, 1 - requests.asker), name_of(connection, requests.asker)
    others = len(same) - 1
    more = f" (and on {counted(others, 'connection')} more)" if others else ""
    replies = sum(each.requests.trend.count for each in same)
    evidence = [
        Evidence(moment, text)
        for moment, text in (
            (None if requests.first is None else requests.first.moment, f"the first request of {client}"),
            (requests.last_reply, "the last reply"),
        )
        if moment is not None
    ]
    return Diagnosis.of(
        "replies-slower",
        "note",
        f"{server} at {address(endpoint)}",
        f"{server} replies to {client} ever more slowly{more}: after {duration(worst.first)} at first, after "
        f"{duration(worst.last)} at the end, over {requests.trend.count} replies",
        "check what grows in that program over time or with each request (a table, a queue, a log), or what else "
        "runs on its host; no action if later requests asked for more",
        evidence=tuple(evidence),
        about=same,
        count=replies,
        last_ns=None if requests.last_reply is None else requests.last_reply.ns,
        proven=False,
    )


def _factor(slowing: Slowing) -> float:
    return slowing.last / slowing.first


SLOW_HINTS: dict[tuple[str | None, str | None], str] = {
    ("REQ", "REP"): "check what the program did with that request, or with the one before it: a REP replies to one "
    "at a time",
    ("REQ", "ROUTER"): "check what the program did with that request, or meanwhile: it was busy, blocked or stopped, "
    "or its worker was",
}
"""Hints by socket types of client and server."""


def _slow_replies(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each REP, or ROUTER with REQs, about its slowest reply or its last replies."""
    slowed = grouped((each.connection.endpoint, each) for each in map(_turned_slow, knowledge.connections) if each)
    for endpoint, replies in slowest(knowledge).items():
        worst, usual = replies[0] if replies else None, latencies(knowledge)[endpoint]
        if worst is None or worst.connection.requests is None:
            continue
        connection, asker = worst.connection, worst.connection.requests.asker
        since, until = worst.request.moment.ns, worst.request.moment.ns + worst.took
        delayed = [each for each in replies if each.overlaps(since, until)]
        beside = longest_beside(endpoint, since, until, knowledge)
        is_slow = worst.took >= max(LONG_NS, MANY_TIMES * beside) and usual.count - len(delayed) >= MIN_OTHERS
        types = connection.sides[asker].socket_type, connection.sides[1 - asker].socket_type
        if types not in SLOW_HINTS or usual.median is None:
            continue
        if not is_slow:
            if endpoint in slowed:
                yield _slow_since(slowed[endpoint])
            elif _are_few_slow(worst, usual):
                yield _pauses(worst, replies, usual)
            continue
        late = [each for each in delayed if each.took >= LONG_NS]
        others, typical = usual.count - len(delayed), duration(usual.median)
        took = f"{duration(beside)} at most, median {typical}" if beside else f"{typical} by the median"
        yield Diagnosis.of(
            "slow-reply",
            "note",
            name_of(connection, 1 - asker),
            f"{name_of(connection, 1 - asker)} took {duration(worst.took)} to reply to {name_of(connection, asker)}; "
            f"{others} other replies took {took}",
            SLOW_HINTS[types],
            evidence=(Evidence(worst.request.moment, "the request", worst.request.ref),),
            about=delayed,
            count=len(late),
            last_ns=until,
        )


MIN_LAST = 5
"""Slow replies at the end that show that a server became slow."""
GAP = 2
"""Each of them took at least this multiple of every earlier reply, by the means of groups."""


class TurnedSlow(NamedTuple):
    """A connection on which the last replies, `slow` in number, took `last` (ns) each, and earlier ones
    `usual` (ns)."""

    connection: ObservedConnection
    requests: ObservedRequests
    slow: int
    usual: int
    last: int


def _turned_slow(connection: ObservedConnection) -> TurnedSlow | None:
    """Return the connection of a REQ if its last replies are all far slower than the earlier ones, otherwise None."""
    requests = connection.requests
    if requests is None or not requests.is_lock_step or requests.trend.count < MIN_REPLIES:
        return None
    trend = requests.trend
    typical, rest = trend.typical(), trend.rest_count
    usual = median(typical)
    least = max(MIN_NS, SLOWER * usual)
    slow = [*takewhile(least.__le__, reversed(typical))]
    if len(slow) * trend.size + rest < MIN_LAST or not slow or max(typical[: -len(slow)]) * GAP > min(slow):
        return None
    if rest and 2 ** (trend.rest / rest) < least:
        return None  # the very last replies were quick again
    last = round(median(slow))
    return TurnedSlow(connection, requests, requests.latency.above(last // GAP), round(usual), last)


def _slow_since(same: list[TurnedSlow]) -> Diagnosis:
    worst = max(same, key=attrgetter("last"))
    connection, requests = worst.connection, worst.requests
    server, client = name_of(connection, 1 - requests.asker), name_of(connection, requests.asker)
    slow = sorted(
        (request.moment for took, request in requests.longest if took > worst.last / GAP), key=attrgetter("ns")
    )
    return Diagnosis.of(
        "slow-reply",
        "note",
        server,
        f"{server} became slow: its last replies to {client}, {worst.slow} of {requests.trend.count}, took "
        f"about {duration(worst.last)} each, those before about {duration(worst.usual)}{same_on(len(same) - 1)}",
        "check what changed in that program or on its host since (a lock, a disk, a database, load of others); no "
        "action if these requests asked for more",
        evidence=(Evidence(moment, "a request with a slow reply") for moment in slow[:MAX_EVIDENCE]),
        about=same,
        count=worst.slow,
        last_ns=None if requests.last_reply is None else requests.last_reply.ns,
        proven=False,
    )


MAX_SHARE = 1 / 10
"""Fraction of slow replies up to which a server only pauses now and then."""
FAR_SLOWER = 100
"""The slowest replies take at least this multiple of the median."""


def _are_few_slow(worst: SlowReply, usual: Distribution) -> bool:
    """Whether only a few replies, at different times, took far longer than the others."""
    few = usual.above(worst.took // MANY_TIMES) <= MAX_SHARE * usual.count
    return few and worst.took >= max(LONG_NS, FAR_SLOWER * (usual.median or 0))


def _pauses(worst: SlowReply, replies: Sequence[SlowReply], usual: Distribution) -> Diagnosis:
    connection, least = worst.connection, worst.took // MANY_TIMES
    assert connection.requests is not None
    assert usual.median is not None
    server, count = name_of(connection, 1 - connection.requests.asker), usual.above(least)
    slow = [each for each in replies if each.took > least]
    return Diagnosis.of(
        "slow-reply",
        "note",
        server,
        f"{server} took up to {duration(worst.took)} for {count} of {usual.count} replies; half took "
        f"{duration(usual.median)} or less",
        "check what that program does at these times (garbage collection, disk, another task), and whether these "
        "requests need more work",
        evidence=(Evidence(each.request.moment, "the request", each.request.ref) for each in slow[:MAX_EVIDENCE]),
        about=slow,
        count=count,
        last_ns=max(each.request.moment.ns + each.took for each in slow),
    )


TABLE = (
    Rule(
        "slow-reply",
        "note",
        "A reply takes much longer than all others",
        "Some replies of a REP, or of a ROUTER to a REQ, took much longer than others at that endpoint. While a REP "
        "works on one request, all others wait. A capture does not show whether these requests needed more work. "
        "Three cases are reported:\n"
        "* One reply took at least a second, and three times as long as each of at least three replies at other "
        "times.\n"
        "* A few replies, at most one in ten, took a hundred times as long as the median.\n"
        "* A REQ received at least 24 replies, and the last five or more became slow. Each of these took at least 50 "
        "ms, eight times as long as most, and twice as long as any before.",
        "* Many other replies at that endpoint, at another time, took at least a third as long.\n"
        "* The reply took ten minutes or more, and no connection has a message in that time: the clock was set "
        "forward.",
        _slow_replies,
    ),
    Rule(
        "replies-slower",
        "note",
        "Replies take ever longer",
        "The replies to a REQ take ever longer on one connection. It received at least 24 replies. The last eighth of "
        "them took at least 50 ms, eight times as long as the first eighth, and one and a half times as long as the "
        "second quarter. The last quarter took four times as long as the first eighth. All of these are medians, so "
        "single long replies do not matter. Not proven: a capture does not show whether later requests needed more "
        "work.",
        "* Several requests are pending at a time.\n* The durations decrease in the last quarter.",
        _slower,
    ),
)
