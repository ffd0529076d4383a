from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, duration, names_of
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection
from zmtpscope.records import SECOND

UNBALANCED = "unbalanced-push"

MIN_MESSAGES = 100
SMALL_PART = 4
"""A PULL got too little if its share is less than this fraction of an even one."""
TOGETHER_NS = 10 * SECOND
"""Time (ns) within which PULLs connect that were started together."""
LATER_NS = SECOND // 20
"""A PULL that connects this much later has missed the messages sent before."""


class Share(NamedTuple):
    connection: ObservedConnection
    messages: int

    @property
    def since(self) -> int:
        """Time (ns) from which this PULL could receive messages."""
        ready = [side.ready.ns for side in self.connection.sides if side.ready is not None]
        return max(ready, default=self.connection.start.ns)


def _unbalanced(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for endpoint, connections in knowledge.by_endpoint.items():
        shares = _shares(connections)
        total = sum(share.messages for share in shares)
        if len(shares) > 1 and total >= MIN_MESSAGES:
            least = min(shares, key=attrgetter("messages"))
            if least.messages * len(shares) * SMALL_PART < total:
                yield _diagnosis(endpoint, shares, least, total)


def _shares(connections: Sequence[ObservedConnection]) -> list[Share]:
    """Return the PULLs that connected to one PUSH at about the same time, and stayed to the last message."""
    found, sent = [], 0
    for connection in connections:
        push = connection.listener
        if connection.sides[push].socket_type == "PUSH" and connection.values is not None and connection.is_whole:
            found.append(Share(connection, connection.values[f"messages_{push}"]))
            sent = max(sent, connection.sides[push].last_ns or 0)
    if not found:
        return []
    begin = min(share.since for share in found)
    end = min(sent, max(_left(share.connection) for share in found))
    return [share for share in found if share.since - begin <= TOGETHER_NS and end - _left(share.connection) <= SECOND]


def _diagnosis(endpoint: Endpoint, shares: Sequence[Share], least: Share, total: int) -> Diagnosis:
    most = max(shares, key=attrgetter("messages"))
    favoured, other = names_of(*((each.connection, 1 - each.connection.listener) for each in (most, least)))
    late = least.since - most.since
    why = ""
    if late >= LATER_NS:
        why = f", which connected {duration(late)} later: the messages sent until then went to others"
    stalled = sum(stall.duration_ns for stall in least.connection.server.stalls)
    if stalled:
        why += f"; it read nothing for {duration(stalled)}"
    return Diagnosis.of(
        UNBALANCED,
        "warn",
        f"PUSH {address(endpoint)}",
        f"{favoured} got {most.messages} of the {total} messages of PUSH {address(endpoint)}, and "
        f"{other} {least.messages}{why}",
        "a PUSH distributes messages in turn among the connected peers with room when it sends: start sending when "
        "all workers have reported, keep queues short (ZMQ_SNDHWM, ZMQ_RCVHWM), or let workers request work (ROUTER "
        "and REQ)",
        evidence=(
            Evidence(each.connection.start, f"got {each.messages}", each.connection.ref) for each in (most, least)
        ),
        about=shares,
        count=most.messages,
    )


def _left(connection: ObservedConnection) -> int:
    values = connection.values
    assert values is not None
    left: int = values["closed_ns"] or values["end_ns"] + (values["idle_ns"] or 0)
    return left


TABLE = (
    Rule(
        UNBALANCED,
        "warn",
        "The messages of a PUSH are shared unevenly",
        "One PULL received much less of a PUSH than the others. Several PULLs connected to the PUSH within ten "
        "seconds and stayed. The PUSH sent at least a hundred messages, and this PULL received less than a quarter of "
        "its share. Usually it connected after many messages were sent, or did not read for a while. A PUSH that "
        "connects to several PULLs is not checked, because a capture does not show which connections belong to one "
        "socket.",
        "The PULLs did not connect within ten seconds of each other, or did not stay.",
        _unbalanced,
    ),
)
