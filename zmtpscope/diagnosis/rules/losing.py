"""Rules for requests that are lost with their connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from zmtpscope.diagnosis.across.hanging import Hanging, behind_brokers, hanging, is_lost
from zmtpscope.diagnosis.across.hops import Asked, answered_later, asked_again
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import duration, name_of
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.rules.requesting import STUCK
from zmtpscope.grouping import grouped
from zmtpscope.words import counted

LOST = "request-lost"

OFTEN = 3
"""A server that leaves this often after the same request fails on it."""
LOST_HINT = "a request is lost with its connection: " + STUCK


def _lost(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Yield at most two diagnoses for each endpoint: for requests lost for good, and for requests made up for later."""
    behind = behind_brokers(knowledge)
    lost = [
        (each, _made_up_for(each, behind, knowledge))
        for each in hanging(knowledge)
        if not each.is_unacknowledged and not each.was_cut and is_lost(each, knowledge)
    ]
    for_ever = (
        each for each, again in lost if again is None and not asked_again(each.oldest, each.until, knowledge).times
    )
    for same in grouped((each.connection.endpoint, each) for each in for_ever).values():
        yield _lost_for_ever(same, behind, knowledge)
    for_a_while = ((each.connection.endpoint, (each, again)) for each, again in lost if again is not None)
    for same_again in grouped(for_a_while).values():
        yield _lost_for_a_while(same_again, behind)


def _made_up_for(left: Hanging, behind: Mapping[str, Sequence[Hanging]], knowledge: Knowledge) -> Asked | None:
    """Return the later answered request of the REQ, or of a client of the broker.

    Other socket types may send any request while an earlier one is lost, so they do not count.
    """
    waiting = [each for each in (*behind.get(left.conn_id, ()), left) if each.requests.is_lock_step]
    found = (answered_later(each.oldest, left.until, knowledge) for each in waiting)
    return next((each for each in found if each is not None), None)


def _lost_for_ever(same: Sequence[Hanging], behind: Mapping[str, Sequence[Hanging]], knowledge: Knowledge) -> Diagnosis:
    first = same[0]
    count = sum(each.requests.waiting_count for each in same)
    clients = [client for each in same for client in behind.get(each.conn_id, ())]
    stuck = ": its REQ waits for ever unless it has a time-out" if first.requests.is_lock_step else ""
    more = f" (and {count - 1} more requests)" if count > 1 else ""
    before = asked_again(first.oldest, 0, knowledge).times
    again = f"as on {counted(before, 'connection')} before, and not again" if before else "and nobody asked again"
    is_certain = first.is_owed
    return Diagnosis.of(
        LOST,
        "error" if is_certain else "warn",
        first.asked,
        f"{_left(first, clients)}{more}, {again}: the reply will not come{stuck}",
        LOST_HINT,
        evidence=(
            Evidence(each.oldest.request.moment, f"the request of {each.asker}", each.oldest.request.ref)
            for each in (*same, *clients)[:MAX_EVIDENCE]
        ),
        about=(*same, *clients),
        explains=("REQREP-06",),
        count=count,
        last_ns=max(each.until for each in same),
        proven=is_certain,
    )


def _lost_for_a_while(same: Sequence[tuple[Hanging, Asked]], behind: Mapping[str, Sequence[Hanging]]) -> Diagnosis:
    first, again = same[0]
    clients = [client for each, _ in same for client in behind.get(each.conn_id, ())]
    everybody = [*(each for each, _ in same), *clients]
    later = again.request.moment.ns - first.until
    who = name_of(again.connection, again.asker)
    contents = {each.oldest.request.content for each, _ in same}
    is_another = 0 not in contents and again.request.content not in contents
    asked = "asked something else" if is_another else "asked again"
    is_often, is_same = len(same) >= OFTEN, is_another and len(contents) == 1
    times = f" (and {len(same) - 1} times more{', after the same request' if is_same else ''})" if len(same) > 1 else ""
    return Diagnosis.of(
        LOST,
        "warn" if is_often and is_same else "note",
        first.asked,
        f"{_left(first, clients)}; {duration(later)} later {who} {asked} and was answered{times}",
        ("check whether the server fails on this request: " if is_same and is_often else "find out why it left: ")
        + LOST_HINT,
        evidence=(
            Evidence(first.oldest.request.moment, f"the request of {first.asker}", first.oldest.request.ref),
            Evidence(again.request.moment, "what was asked later, and answered", again.request.ref),
        ),
        about=everybody,
        explains=("REQREP-06",),
        count=len(same),
        last_ns=max(each.until for each, _ in same),
    )


def _left(waiting: Hanging, clients: Sequence[Hanging]) -> str:
    """Return the text about the server that left; `clients` wait for the same reply at a broker."""
    for_whom = f" (for {clients[0].asker}, which asked {clients[0].asked})" if clients else ""
    return (
        f"{waiting.asked} left {duration(waiting.waited)} after {waiting.asker} had asked it in packet "
        f"{waiting.oldest.request.moment.packet}{for_whom}"
    )


TABLE = (
    Rule(
        LOST,
        "error",
        "A server leaves with a pending request",
        "The server closed the connection first, before it replied, and the client did not send the same request "
        "again on a new connection. libzmq does not repeat requests: a REQ without ZMQ_REQ_RELAXED waits forever. A "
        "note if a REQ of the same address received a reply to any request at the endpoint on a later connection. If "
        "a broker forwarded the request, the waiting client is named. A server that had not replied for long before "
        "it left probably hung: see request-unanswered.",
        "The client sends the same request again, or had waited for long before the server left.",
        _lost,
    ),
)
