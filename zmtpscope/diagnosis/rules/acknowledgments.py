from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import ending_of
from zmtpscope.diagnosis.across.handshakes import MIN_PATH
from zmtpscope.diagnosis.across.hanging import behind_brokers
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.outages import Outage, outages
from zmtpscope.diagnosis.across.words import duration, name_of, same_on
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedOutage
from zmtpscope.dissect.tcp.connection import NO_ROUTE, REJECTED
from zmtpscope.findings.kinds import Severity
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted

MIN_SHARE = 1 / 20
"""Fraction of lost segments above which messages often wait. A full queue on the path loses fewer."""
MANY, LARGE_SHARE = 8, 1 / 8
"""Lost segments of a side; fewer count if they are a larger fraction."""
FULL = 1400
"""Octets of a large message that a segment carries."""

MIN_WAITING = 2
"""New connections to another host that wait to be accepted at a time: a single one may have met an outage."""

MIN_LONG = 3 * SECOND
"""Shorter outages are a note: TCP recovered, or may still recover."""

HINT = (
    "neither program is at fault: check the network between the two and that host (link, route, firewall, a "
    "suspended machine); firewalls and NAT drop idle connections, which ZMQ_TCP_KEEPALIVE with "
    "ZMQ_TCP_KEEPALIVE_IDLE, or ZMQ_HEARTBEAT_IVL, prevents"
)
RETURN_HINT = (
    "neither program is at fault: check the way back to the sender, behind the capture point (firewall, connection "
    "tracking, another route), and capture at the sender's host"
)
OVER_HINT = "neither program is at fault: check the network between the two at that time (link, route, congestion)"
ACCEPT_HINT = (
    "raise ZMQ_BACKLOG of the listening socket (100 by default; Linux limits it by net.core.somaxconn), or let clients "
    "connect at different times; if it lasts, check whether the listening program hangs or is stopped"
)
REJECTED_HINT = (
    "allow the connection in the firewall of that host or on the path: a REJECT rule without an exception for "
    "established connections answers like this"
)
ICMP = {REJECTED: "a firewall rejects it (ICMP)", NO_ROUTE: "no host or route takes it (ICMP)"}
LOSSY_HINT = (
    "neither program is at fault: check the link (radio signal, cable, duplex), and queues and rate limits on the path "
    "(policing, an overloaded switch or VPN)"
)
SIZE_HINT = (
    "check the path for a smaller MTU (VPN, tunnel) and for a firewall that drops ICMP 'fragmentation needed': lower "
    "the MTU of the interface, or clamp the MSS"
)


def _not_acknowledged(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each pair of hosts and direction at most twice: once for outages that continue, and once for
    past ones."""
    every = _one_each(outages(knowledge))
    established = {each.hosts for each in every if not each.is_first}
    small = {(each.hosts, each.is_over) for each in every if not each.is_large}
    found = grouped(
        (
            (
                each.hosts,
                each.is_over,
                each.is_large and (each.hosts, each.is_over) not in small,
                each.is_first and each.hosts not in established,
                each.outage.acknowledged_before,
            ),
            each,
        )
        for each in every
    )
    behind = behind_brokers(knowledge)
    for (hosts, is_over, fails_by_size, are_new, _), same in found.items():
        clients = {client.conn_id for each in same for client in behind.get(each.connection.conn_id, ())}
        is_accepting = are_new and (hosts[0] == hosts[1] or (is_over and len(same) >= MIN_WAITING))
        yield _diagnosis(same, clients, fails_by_size=fails_by_size, is_accepting=is_accepting)


def _one_each(every: Sequence[Outage]) -> list[Outage]:
    """Return the outages, without lost acknowledgments of a side if data of that side is lost on the same
    connection."""
    lossy = {(each.connection.conn_id, each.sender) for each in every if not each.outage.acknowledged_before}
    return [
        each
        for each in every
        if not each.outage.acknowledged_before or (each.connection.conn_id, 1 - each.sender) not in lossy
    ]


def _diagnosis(same: Sequence[Outage], clients: set[str], *, fails_by_size: bool, is_accepting: bool) -> Diagnosis:
    first = min(same, key=attrgetter("since.ns"))
    longest = max(each.outage.duration_ns for each in same)
    is_long = longest >= MIN_LONG or any(_is_given_up(each) for each in same)
    severity: Severity = "note" if not is_long else "warn" if first.is_over else "error"
    hint = OVER_HINT if first.is_over else SIZE_HINT if fails_by_size else HINT
    hint = RETURN_HINT if first.outage.acknowledged_before else hint
    hint = ACCEPT_HINT if is_accepting else REJECTED_HINT if first.outage.icmp == REJECTED else hint
    return Diagnosis.of(
        "not-acknowledged",
        severity,
        name_of(first.connection, 1 - first.sender),
        (_accepting(first) if is_accepting else _text(first, fails_by_size=fails_by_size)) + _more(same),
        hint,
        evidence=(evidence for each in same[:MAX_EVIDENCE] for evidence in _evidence(each)),
        about=same,
        beside=clients,
        explains=("REQREP-06",),
        count=sum(each.outage.count for each in same),
        last_ns=max(each.outage.end_ns for each in same),
        proven=not (is_accepting or first.outage.acknowledged_before),
    )


def _is_given_up(each: Outage) -> bool:
    ending = ending_of(each.connection)
    return ending is not None and ending.cause in ("unacknowledged", "heartbeat")


def _accepting(each: Outage) -> str:
    sender, receiver = (name_of(each.connection, side) for side in (each.sender, 1 - each.sender))
    verbs = ("did", "waited") if each.is_over else ("does", "waits")
    took, again = duration(each.outage.duration_ns), counted(each.outage.retransmissions, "time")
    return (
        f"{receiver} {verbs[0]} not acknowledge the first data of {sender} for {took}, sent again {again}: the "
        f"connection {verbs[1]} to be accepted, behind others"
    )


def _text(each: Outage, *, fails_by_size: bool) -> str:
    sender, receiver = (name_of(each.connection, side) for side in (each.sender, 1 - each.sender))
    outage = each.outage
    took = duration(outage.duration_ns)
    if not outage.retransmissions:
        reset = ", until TCP gave up" if _is_given_up(each) else ""
        return f"{receiver} answers none of {outage.probes} TCP keepalive probes of {sender} for {took}{reset}"
    again = f"sent again {counted(outage.retransmissions, 'time')}"
    if outage.acknowledged_before:
        if each.is_over:
            return (
                f"The acknowledgments of {receiver} did not reach {sender} for {took}: acknowledged data was {again}, "
                "and later messages waited"
            )
        return (
            f"The acknowledgments of {receiver} do not reach {sender}, which sends acknowledged data again since "
            f"packet {each.since.packet}: {again} in {took}"
        )
    if each.is_over:
        return (
            f"{receiver} acknowledged no data of {sender} for {took}, {again}, and then acknowledged it: messages "
            "arrived that much later"
        )
    since = f"since packet {each.since.packet}"
    if fails_by_size:
        what = f"{receiver} does not acknowledge large segments of {sender} {since}"
        sizes = sorted({outage.smallest, outage.largest})
        octets = " to ".join(map(str, sizes))
        return f"{what}: {octets} octets, {again} in {took}; all earlier data that arrived was smaller{_lost(each)}"
    why = "" if outage.icmp is None else f"{ICMP[outage.icmp]}, "
    return f"{receiver} acknowledges no data of {sender} {since}: {why}{again} in {took}{_lost(each)}"


def _lost(each: Outage) -> str:
    if not each.messages:
        return ""
    least = "at least " if each.are_more else ""
    return f"; {least}{counted(each.messages, 'message')} may not have arrived"


def _more(same: Sequence[Outage]) -> str:
    others = len({each.connection.conn_id for each in same}) - 1
    return same_on(others, "more connection")


def _evidence(each: Outage) -> Iterator[Evidence]:
    sender = name_of(each.connection, each.sender)
    if each.messages:
        yield Evidence(each.since, f"the first message of {sender} that was not acknowledged")
    what = "sends the same octets again" if each.outage.retransmissions else "sends a keepalive probe"
    yield Evidence(each.outage.moment, f"{sender} {what}", each.outage.ref)


class Lossy(NamedTuple):
    """A connection whose path loses segments of side `sender`. `losses` sums them up as one outage."""

    connection: ObservedConnection
    sender: int
    losses: ObservedOutage

    @property
    def share(self) -> float:
        """The fraction of segments that were lost. The number of sent segments is estimated: messages times segments of
        the largest one."""
        side = self.connection.sides[self.sender]
        messages = 0 if side.rhythm is None else side.rhythm.count
        each = 1 if side.sizes is None else max(1, side.sizes.largest // FULL)
        return self.losses.count / max(1, messages * each)

    @property
    def may_be_reordered(self) -> bool:
        """Whether all data arrived within a round trip, sooner than TCP repairs a loss."""
        first = self.connection.client.greeting
        path = 0 if first is None else first.ns - self.connection.start.ns
        return path >= MIN_PATH and self.losses.longest_ns < path


def _packets_lost(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = (
        Lossy(connection, number, side.losses)
        for connection in knowledge.connections
        for number, side in enumerate(connection.sides)
        if side.losses is not None and (connection.values is None or connection.values["only_side"] is None)
    )
    many = (each for each in found if each.losses.count >= MANY or each.share >= LARGE_SHARE)
    for (sender, receiver), same in grouped((_hosts(each), each) for each in many).items():
        yield _lossy(sender, receiver, same)


def _hosts(lossy: Lossy) -> tuple[str, str]:
    sides = lossy.connection.sides
    return sides[lossy.sender].ip, sides[1 - lossy.sender].ip


def _lossy(sender: str, receiver: str, same: Sequence[Lossy]) -> Diagnosis:
    worst = max(same, key=_losses)
    first, last = min(each.losses.moment.ns for each in same), max(each.losses.end_ns for each in same)
    count = sum(map(_losses, same))
    who = name_of(worst.connection, worst.sender)
    return Diagnosis.of(
        "packets-lost",
        "warn" if any(each.share >= MIN_SHARE and not each.may_be_reordered for each in same) else "note",
        f"{sender} to {receiver}",
        f"The path from {sender} to {receiver} loses or reorders packets: data of {who} was sent again, or arrived "
        f"late, {counted(count, 'time')} in {duration(last - first)}{same_on(len(same) - 1, 'more connection')}; "
        "messages arrive late, since each waits for the data before it",
        LOSSY_HINT,
        evidence=(
            Evidence(each.losses.moment, "data is sent again, or arrives late", each.losses.ref)
            for each in same[:MAX_EVIDENCE]
        ),
        about=(each.connection for each in same),
        count=count,
        last_ns=last,
        proven=False,
    )


def _losses(lossy: Lossy) -> int:
    return lossy.losses.count


TABLE = (
    Rule(
        "packets-lost",
        "warn",
        "The path loses or reorders packets",
        "Packets from one host to the other were lost or delayed on the path. Each shows in one of two ways: TCP sent "
        "data again because no acknowledgment arrived, or data arrived 10 ms or more after later data. All of this "
        "data was acknowledged within a second.\n"
        "* Reported for at least eight packets of one side, or for four if they are one segment in eight or more.\n"
        "* Not proven: TCP also sends data again that only arrives late, after later data.\n"
        "* The programs lose no message. A message that arrives late also delays the messages after it.\n"
        "* The data may have arrived, and only its acknowledgment was lost on the way back.\n"
        "* Severity note if less than one segment in twenty was lost, as when a fast sender fills a queue on the path. "
        "Also a note if all of this data arrived within the round trip of the handshake: TCP repairs no loss so soon.",
        "* At least one octet in three is in the capture twice, as in captures on several interfaces.\n"
        "* The receiver acknowledged the missing octets, and no host sent them again: the capture lost them, not the "
        "path.",
        _packets_lost,
        ("not-acknowledged", "slow-reply", "replies-slower"),
    ),
    Rule(
        "not-acknowledged",
        "error",
        "A peer's data is not acknowledged",
        "TCP sent the same octets or keepalive probes again for at least a second, and no packet of the other side "
        "acknowledged them. The fault is in the network or in the receiving host. It is not in a program, because the "
        "kernel acknowledges data even for a program that hangs. Messages sent from then on may not have arrived.\n"
        "* Only large packets: if all repeated segments are larger than any data that arrived before, the path may "
        "drop large packets (path MTU).\n"
        "* Only new connections: if just the first data of new connections is affected, they probably wait until the "
        "listening program accepts them. Until then its kernel answers SYNs and drops data. Reported so only "
        "if both ends are on one host, or if two connections waited: otherwise the network may have lost the data.\n"
        "* Acknowledged data: if TCP repeats data at least twice, 0.2 s or more apart, although the capture contains "
        "its acknowledgment, the path loses acknowledgments between the capture point and the sender. Not proven: on "
        "a slow path they may only be late.\n"
        "* Severity note if it lasted less than 3 s and TCP has not given up.\n"
        "* Severity warning if the octets were finally acknowledged: messages arrived late.",
        "* The other side acknowledges the octets within a second.\n"
        "* The receive window of the other side is closed.\n"
        "* No packet of the other side was captured.",
        _not_acknowledged,
        (
            *("request-unanswered", "request-lost", "late-reply", "slow-reply", "replies-slower", "peer-departed"),
            *("reconnect-storm", "connection-unanswered", "heartbeat-timeout", "fell-silent", "call-unanswered"),
        ),
    ),
)
