"""Rules for messages that circulate between two proxies, each of which receives the messages of the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import duration, name_of
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import MAX_ARRIVALS, ObservedRound

LONGEST_ROUND_NS, LONGEST_ON_ONE_HOST_NS = 250_000_000, 5_000_000
"""Messages repeated later may have been published again on both sides or, on one host, forwarded twice."""

MAX_COMPARED = 64
"""Maximum number of links from one host to another to compare with those back."""


class Link(NamedTuple):
    """A connection on which a proxy sends the same messages repeatedly to another proxy."""

    connection: ObservedConnection
    sender: int

    @property
    def hosts(self) -> tuple[str, str]:
        """Addresses of the sender and of the receiver."""
        sides = self.connection.sides
        return sides[self.sender].ip, sides[1 - self.sender].ip

    @property
    def rounds(self) -> dict[int, ObservedRound]:
        """The repeated messages that it sends."""
        return self.connection.sides[self.sender].rounds

    @property
    def name(self) -> str:
        """The name of the sender."""
        return name_of(self.connection, self.sender)


def _circling(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Yield one diagnosis for each pair of links that send each other's messages back."""
    links = [
        Link(connection, side)
        for connection in knowledge.connections
        for side in (0, 1)
        if connection.sides[side].rounds
    ]
    by_hosts: dict[tuple[str, str], list[Link]] = {}
    for link in links:
        there, back = link.hosts
        for other in by_hosts.get((back, there), ()):
            same = [number for number in link.rounds if number in other.rounds and _alternates(link, other, number)]
            if same and other.connection.endpoint != link.connection.endpoint:
                yield _diagnosis(other, link, same)
        same_way = by_hosts.setdefault(link.hosts, [])
        if len(same_way) < MAX_COMPARED:
            same_way.append(link)


def _alternates(one: Link, other: Link, number: int) -> bool:
    """Whether a message passed both links alternately."""
    here, there = one.rounds[number].times, other.rounds[number].times
    if there[0] < here[0]:
        here, there = there, here
    merged = [time for pair in zip(here, there, strict=True) for time in pair]
    longest = LONGEST_ON_ONE_HOST_NS if one.hosts[0] == one.hosts[1] else LONGEST_ROUND_NS
    return merged == sorted(merged) and merged[-1] - merged[0] <= longest * MAX_ARRIVALS


def _diagnosis(one: Link, other: Link, same: Sequence[int]) -> Diagnosis:
    first = min((one.rounds[number] for number in same), key=attrgetter("first.ns"))
    more = " and others" if len(same) > 1 else ""
    return Diagnosis.of(
        "messages-go-round",
        "warn",
        f"{one.name} and {other.name}",
        f"{one.name} and {other.name} send each other the same message{more} repeatedly: {first.count} times in "
        f"{duration(first.last_ns - first.first.ns)}, since packet {first.first.packet}",
        "each of the two proxies subscribes to the other, so nothing leaves the circle: forward messages in one "
        "direction only, or subscribe to different topics in each direction",
        evidence=(Evidence(first.first, "the message that came again first"),),
        about=(one, other),
        count=first.count,
        last_ns=first.last_ns,
        proven=False,
    )


TABLE = (
    Rule(
        "messages-go-round",
        "warn",
        "Messages circulate between two proxies",
        "Two links from an XPUB to an XSUB lead from one host to another and back, and carry the same message, octet "
        "by octet, in turn, at least eight times each. A round takes at most 250 ms, because publishers may send the "
        "same octets again, and at most 5 ms on one host, where proxies in a row look alike. Likely only: programs "
        "may send each other the same octets in turn.",
        "The message does not alternate between the links, or it returns so late that it may have been published "
        "again.",
        _circling,
        ("slow-receiver", "sequence-gap"),
    ),
)
