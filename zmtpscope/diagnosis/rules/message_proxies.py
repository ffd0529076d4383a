"""Proxies that do not forward all messages or subscriptions, and messages that circulate between two proxies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.deliveries import TAKES_EFFECT_NS, surely_sent
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.publishers import Publisher, Subscriber, publishers
from zmtpscope.diagnosis.across.words import duration, name_of, topic_name
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import MAX_ARRIVALS, ObservedRound
from zmtpscope.diagnosis.observers.timeline import Timeline
from zmtpscope.diagnosis.observers.topics import TopicKey
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted

LONGEST_ROUND_NS, LONGEST_ON_ONE_HOST_NS = 250_000_000, 5_000_000
"""Longest time of a round. Messages repeated later may have been published on both sides or, on one host, forwarded
twice."""

MAX_LINKS = 64
"""Links from one host to another to compare with the links back."""


class Link(NamedTuple):
    """A connection on which a proxy (side `sender`) repeatedly sends the same messages to another proxy."""

    connection: ObservedConnection
    sender: int

    @property
    def hosts(self) -> tuple[str, str]:
        sides = self.connection.sides
        return sides[self.sender].ip, sides[1 - self.sender].ip

    @property
    def rounds(self) -> dict[int, ObservedRound]:
        return self.connection.sides[self.sender].rounds

    @property
    def name(self) -> str:
        return name_of(self.connection, self.sender)


def _circling(knowledge: Knowledge) -> Iterator[Diagnosis]:
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
                yield _circling_diagnosis(other, link, same)
        same_way = by_hosts.setdefault(link.hosts, [])
        if len(same_way) < MAX_LINKS:
            same_way.append(link)


def _alternates(one: Link, other: Link, number: int) -> bool:
    """Whether a message passed over the two links alternately. `number` is its checksum."""
    here, there = one.rounds[number].times, other.rounds[number].times
    if there[0] < here[0]:
        here, there = there, here
    merged = [time for pair in zip(here, there, strict=True) for time in pair]
    longest = LONGEST_ON_ONE_HOST_NS if one.hosts[0] == one.hosts[1] else LONGEST_ROUND_NS
    return merged == sorted(merged) and merged[-1] - merged[0] <= longest * MAX_ARRIVALS


def _circling_diagnosis(one: Link, other: Link, same: Sequence[int]) -> Diagnosis:
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


DROPS = "proxy-drops"

MIN_SILENCE, MIN_MESSAGES = 3 * SECOND, 8
"""A proxy has stopped if it forwards nothing for this long and receives this many messages meanwhile."""

PATIENCE_NS = SECOND
"""Time (ns) within which a proxy forwards a subscription."""

MAX_COMPARED = 524_288
"""Topics in and out to compare in a run. Proxies that need more are skipped."""


class Proxy(NamedTuple):
    """A host that subscribes (`incoming`), and publishes at one endpoint (`outgoing`), as a proxy does."""

    incoming: list[Subscriber]
    outgoing: Publisher


class Dropped(NamedTuple):
    """A lower bound for the messages of a topic that a proxy received and did not send to a subscriber."""

    messages: int
    key: TopicKey
    subscriber: Subscriber


def _proxies(knowledge: Knowledge) -> Iterator[Proxy]:
    """Yield hosts with an XSUB, bound or not, and exactly one bound XPUB.

    Another program on the same host may own one of the two.
    """
    subscribers = (each for publisher in publishers(knowledge) for each in publisher.subscribers)
    incoming = grouped((each.ip, each) for each in subscribers if each.socket_type == "XSUB")
    outgoing = grouped(
        (each.ip, each) for each in publishers(knowledge) if each.endpoint is not None and each.socket_type == "XPUB"
    )
    for ip, bound in outgoing.items():
        if ip in incoming and len(bound) == 1:
            yield Proxy(incoming[ip], bound[0])


def _dropping(knowledge: Knowledge) -> Iterator[Diagnosis]:
    room = MAX_COMPARED
    for proxy in _proxies(knowledge):
        behind = [each for each in proxy.outgoing.subscribers if each.is_filtered]
        count = sum(len(each.topics) for each in proxy.incoming) * len(behind)
        if count <= room:
            room -= count
            found = list(_dropped(proxy, behind, knowledge.last_ns))
            if found:
                yield _dropping_diagnosis(proxy, found)
            elif (stopped := _stopped(proxy, behind, knowledge.last_ns)) is not None:
                yield stopped


def _dropped(proxy: Proxy, behind: Sequence[Subscriber], now: int) -> Iterator[Dropped]:
    incoming = grouped(
        (key, topic.timeline) for each in proxy.incoming for key, topic in each.topics.items() if key.topic is not None
    )
    latest = max(each.latest_ns for each in proxy.incoming)
    for subscriber in behind:
        for key, timelines in incoming.items():
            messages = _missing(timelines, latest, subscriber, key, now)
            if messages > 0:
                yield Dropped(messages, key, subscriber)


def _missing(incoming: Sequence[Timeline], latest_ns: int, subscriber: Subscriber, key: TopicKey, now: int) -> int:
    """Return a lower bound for the messages of a topic that a proxy received and did not send to a subscriber.

    Only the time of its last subscription counts. `incoming` are the times of received messages, the last at
    `latest_ns`.
    """
    intervals = () if subscriber.mixes(key) else subscriber.intervals(key)
    if not intervals:
        return 0
    since, until = intervals[-1]
    if subscriber.is_open and until == subscriber.last_ns:
        until = now
    begin = since + TAKES_EFFECT_NS
    end = surely_sent(subscriber, latest_ns, until)
    if end is None or end <= begin:
        return 0
    went_in = sum(timeline.between(begin, end).least for timeline in incoming)
    own = subscriber.topics.get(key)
    return went_in - (0 if own is None else own.timeline.count - own.timeline.before(begin).least)


def _stopped(proxy: Proxy, behind: Sequence[Subscriber], now: int) -> Diagnosis | None:
    """Diagnose a proxy that forwarded messages, and then sent nothing to any subscriber until the last of them left; or
    return None."""
    last = max((each.latest_ns for each in proxy.outgoing.subscribers), default=0)
    waiting = [each for each in behind if each.latest_ns and (each.is_open or each.last_ns > last)]
    end = max((now if each.is_open else each.last_ns for each in waiting), default=0)
    if end - last < MIN_SILENCE or any(map(_is_held_back, (*waiting, *proxy.incoming))):
        return None
    went_in = {
        key: sum(
            each.topics[key].timeline.between(last + SECOND, end + 1).least
            for each in proxy.incoming
            if key in each.topics
        )
        for key in dict.fromkeys(key for each in proxy.incoming for key in each.topics)
    }
    wanted = {
        subscriber: sum(
            count
            for key, count in went_in.items()
            if count and any(each.ended_by != "cancel" for each in subscriber.matching(key))
        )
        for subscriber in waiting
    }
    subscriber = max(wanted, key=wanted.__getitem__)
    rhythm = subscriber.connection.sides[1 - subscriber.side].rhythm
    if wanted[subscriber] < MIN_MESSAGES or rhythm is None:
        return None
    who = name_of(subscriber.connection, subscriber.side)
    return Diagnosis.of(
        DROPS,
        "warn",
        f"the proxy at {proxy.outgoing.name}",
        f"The proxy {name_of(subscriber.connection, 1 - subscriber.side)} sent nothing after packet "
        f"{rhythm.last.packet}, for {duration(end - last)}, though it got {counted(wanted[subscriber], 'message')} "
        f"since to which {who} is subscribed",
        "check that program: it is stopped, or blocked in a call; its host still acknowledges data",
        evidence=(Evidence(rhythm.last, f"the last message to {who}"),),
        about=waiting,
        count=wanted[subscriber],
        proven=False,
    )


def _is_held_back(subscriber: Subscriber) -> bool:
    """Whether the publisher cannot send to a subscriber, because of TCP or a closed receive window."""
    publisher = subscriber.connection.sides[1 - subscriber.side]
    return publisher.last_outage is not None or publisher.is_sending or subscriber.stalled_ns > subscriber.latest_ns


def _dropping_diagnosis(proxy: Proxy, found: list[Dropped]) -> Diagnosis:
    worst = max(found, key=attrgetter("messages"))
    source = next(each for each in proxy.incoming if worst.key in each.topics)
    first, subscriber = source.topics[worst.key].first, worst.subscriber
    others = len(found) - 1
    more = f" (and others for {others} more)" if others else ""
    topic = topic_name(worst.key.topic)
    return Diagnosis.of(
        DROPS,
        "warn",
        f"the proxy at {proxy.outgoing.name}",
        f"The proxy {name_of(subscriber.connection, 1 - subscriber.side)} received at least "
        f"{counted(worst.messages, 'message')} of {topic} that it did not forward to "
        f"{name_of(subscriber.connection, subscriber.side)}, which was subscribed{more}",
        "raise ZMQ_SNDHWM of its XPUB, or make the subscriber read faster: an XPUB drops messages beyond it (with "
        "ZMQ_XPUB_NODROP it waits instead)",
        evidence=(
            Evidence(first, f"the first message of {topic} into the proxy"),
            Evidence(subscriber.connection.start, "the connection to the subscriber", subscriber.connection.ref),
        ),
        about=(each.subscriber for each in found),
        count=sum(each.messages for each in found),
        proven=False,
    )


NOT_FORWARDED = "subscriptions-not-forwarded"


def _not_forwarding(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each proxy that has subscribers, but has subscribed to nothing itself."""
    for proxy in _proxies(knowledge):
        asked = [each for each in proxy.outgoing.subscribers if each.is_filtered and each.subscriptions]
        is_mute = all(each.is_filtered and not each.subscriptions for each in proxy.incoming)
        if not asked or not is_mute:
            continue
        subscriber, first = asked[0], asked[0].subscriptions[0]
        waiting = [each for each in proxy.incoming if each.last_ns - first.moment.ns >= PATIENCE_NS]
        if not waiting:
            continue
        xsub = waiting[0]
        yield Diagnosis.of(
            NOT_FORWARDED,
            "warn",
            f"the proxy at {proxy.outgoing.name}",
            f"The proxy {name_of(subscriber.connection, 1 - subscriber.side)} forwards no subscription: "
            f"{name_of(subscriber.connection, subscriber.side)} {subscriber.asked_for(first.topic)} there, and "
            f"{name_of(xsub.connection, xsub.side)} subscribed to nothing at "
            f"{name_of(xsub.connection, 1 - xsub.side)}",
            "make the proxy forward in both directions, as zmq_proxy does: it must read subscriptions from its XPUB "
            "and send them on its XSUB",
            evidence=(
                Evidence(first.moment, f"{name_of(subscriber.connection, subscriber.side)} subscribed"),
                Evidence(xsub.connection.start, "the connection of the XSUB begins", xsub.connection.ref),
            ),
            about=(*asked, *waiting),
            count=len(asked),
            proven=False,
        )


TABLE = (
    Rule(
        "messages-go-round",
        "warn",
        "Messages circulate between two proxies",
        "The same message, octet by octet, passes in turn over two links from an XPUB to an XSUB: from one host to "
        "another, and back. Each link carries it at least eight times. So the proxies on the two hosts forward to "
        "each other.\n"
        "* A round takes at most 250 ms, because publishers may send the same octets again.\n"
        "* On one host a round takes at most 5 ms, because proxies in a row look alike there.\n"
        "Not proven: two programs may send each other the same octets in turn.",
        "The message does not alternate between the links, or it returns so late that it may have been published "
        "again.",
        _circling,
        ("slow-receiver", "sequence-gap"),
    ),
    Rule(
        NOT_FORWARDED,
        "warn",
        "A proxy does not forward subscriptions",
        "A host has an XSUB and an XPUB, and forwards no subscription. Subscribers subscribed at the XPUB, and for at "
        "least a second the XSUB subscribed to nothing at any publisher. Therefore publishers send it nothing. Not "
        "proven: a capture does not show whether both sockets belong to one program.",
        "Any XSUB of the host subscribes to anything.",
        _not_forwarding,
    ),
    Rule(
        DROPS,
        "warn",
        "A proxy does not forward messages",
        "A host receives messages on an XSUB and sends them on an XPUB, as a proxy does, but some do not leave it. "
        "Both sides of the proxy must be in the capture. Two cases are reported:\n"
        "* A subscriber of the XPUB, which was subscribed to a topic and read its data, received fewer messages of "
        "that topic than the XSUB did.\n"
        "* The XPUB sent nothing to any subscriber for 3 s, although the XSUB received at least eight messages that "
        "match their subscriptions.\n"
        "Not proven: a capture does not show whether one program owns both sockets and forwards all messages.",
        "* The subscriber was not subscribed when the XSUB received the messages.\n"
        "* The connection of the subscriber ended before the messages could reach it.",
        _dropping,
        ("fell-silent",),
    ),
)
