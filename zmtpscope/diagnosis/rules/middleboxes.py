"""Connections that a middlebox resets in the name of a peer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import Ending, ending_of, lifetime
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import duration, name_of, repeated
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted

MIN_IDLE = SECOND
"""Messages that follow one another sooner keep the state of a firewall."""

IDLE_HINT = (
    "check the idle timeout of the load balancer, firewall or NAT between the two, and its log; ZMQ_HEARTBEAT_IVL, "
    "or ZMQ_TCP_KEEPALIVE with ZMQ_TCP_KEEPALIVE_IDLE, below that timeout keeps connections open"
)

BUSY_HINT = (
    "the connection was not idle, so this is no idle timeout: a filter (intrusion prevention, a rate limit, a new "
    "firewall rule) rejects it, perhaps because of the last message; check its log"
)


class Reset(NamedTuple):
    """A connection that a middlebox reset in the name of side `ending.side`."""

    connection: ObservedConnection
    ending: Ending

    @property
    def waiting(self) -> int:
        return 0 if self.connection.requests is None else self.connection.requests.waiting_count

    @property
    def is_busy(self) -> bool:
        """Whether messages followed each other closely before the RST, so that the connection was not idle."""
        rhythms = [side.rhythm for side in self.connection.sides if side.rhythm is not None]
        times = sorted(time for each in rhythms for time in each.recent if time <= self.ending.moment.ns)
        return len(times) > 1 and times[-1] - times[-2] < MIN_IDLE


def _reset_on_the_way(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = grouped(
        ((each.ends, ending.side == each.listener), Reset(each, ending))
        for each in knowledge.connections
        if (ending := ending_of(each)) is not None and ending.cause == "middlebox"
    )
    for same in found.values():
        yield _diagnosis(same)


def _diagnosis(same: Sequence[Reset]) -> Diagnosis:
    connection, ending = same[0].connection, same[0].ending
    own, other = name_of(connection, ending.side), name_of(connection, 1 - ending.side)
    values = connection.values or {}
    times = repeated([each.ending.moment.ns for each in same])
    lost = sum(each.waiting for each in same)
    requests = f"; {counted(lost, 'request')} had no reply yet" if lost else ""
    return Diagnosis.of(
        "reset-on-the-way",
        "error" if lost else "warn",
        own,
        f"a device between {other} and {own} reset their connection with the address of {own}, "
        f"{duration(lifetime(connection, ending))} after it began{times}: the RST has TTL {values['rst_ttl']}, and "
        f"the SYN of {own} had {values['syn_ttl']}{requests}",
        BUSY_HINT if all(each.is_busy for each in same) else IDLE_HINT,
        evidence=(
            Evidence(each.ending.moment, f"RST with the address of {own}", each.connection.ref)
            for each in same[:MAX_EVIDENCE]
        ),
        about=same,
        explains=("REQREP-06",),
        last_ns=same[-1].ending.moment.ns,
        proven=False,
    )


TABLE = (
    Rule(
        "reset-on-the-way",
        "error",
        "A middlebox resets connections",
        "A RST ended the connection, and its TTL (IPv6: hop limit) differs from that of the last SYN from the same "
        "address. A host sends both with the same TTL. So a load balancer, firewall or NAT sent the RST in the name "
        "of the host, usually because it had dropped the state of an idle connection. The peer still works, but did "
        "not receive the last messages.\n"
        "* Severity error if requests were pending, otherwise a warning.\n"
        "* Not proven: the route may have changed, or a firewall answered the SYN.",
        "The RST has the TTL of the SYN, or the SYN was not captured.",
        _reset_on_the_way,
        (
            "request-lost",
            "request-unanswered",
            "peer-departed",
            "periodic-disconnect",
            "client-returns",
            "reconnect-storm",
        ),
    ),
)
