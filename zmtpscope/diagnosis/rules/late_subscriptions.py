"""Subscriptions that are late, not repeated after a reconnect, or missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence

from zmtpscope.diagnosis.across.deliveries import Delivery, Missed, deliveries, got_most
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.publishers import Publisher, Subscriber, places_of, publisher_name, publishers
from zmtpscope.diagnosis.across.resubscribing import had_time_to_subscribe, may_be_another_program, not_made_again
from zmtpscope.diagnosis.across.words import duration, name_of, names_of, of_topics, topic_name
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, MissedMessages, Rule
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedSubscription
from zmtpscope.diagnosis.observers.subscriptions import delay_of, ref_of_subscription
from zmtpscope.diagnosis.observers.topics import UNKNOWN
from zmtpscope.findings.kinds import Severity
from zmtpscope.grouping import grouped
from zmtpscope.records import MILLISECOND, SECOND
from zmtpscope.words import counted, how_many_times
from zmtpscope.zmtp.socket_types import PUBLISHERS

LATEST_NS = 10 * SECOND
"""A subscriber that subscribes later after its sibling has joined later."""

LATER_NS = 2 * SECOND
"""A connection that begins this much later than a sibling from the same host may belong to the same program."""

TOGETHER_NS = 200 * MILLISECOND
"""Subscribers within this time start together, because one of two is always first."""

DELAYED_NS = 50 * MILLISECOND
"""A subscription this long after the handshake is delayed: it was not made before connecting, or the program did not
call its socket."""

MAX_COUNTED = 64
"""Topics whose lost messages are counted."""


EXACTLY = "check --why TOPIC@PEER explains every message"
"""Counts in a diagnosis are lower bounds; this command gives the exact number."""


# -- too late ----------------------------------------------------------------------------------------------------------


def _late(knowledge: Knowledge) -> Iterator[Diagnosis]:
    compared = [(each, each.early) for each in deliveries(knowledge) if each.early is not None]
    found = grouped(
        ((delivery.publisher, delivery.subscriber.name), (delivery, early))
        for delivery, early in compared
        if early.messages and _is_late(delivery, early)
    )
    returns = grouped(
        ((delivery.publisher, delivery.subscriber.name, delivery.key), delivery.subscriber)
        for delivery, _ in compared
        if delivery.left_ns is not None
    )
    for (publisher, name), late in found.items():
        delivery, early = max(late, key=_gravity)
        again = {*returns.get((publisher, name, delivery.key), ())} - {delivery.subscriber}
        yield _late_diagnosis(publisher, name, late, delivery, early, len(again))


def _is_late(delivery: Delivery, early: Missed) -> bool:
    """Whether a subscriber missed messages because it subscribed too late.

    It subscribed soon after another subscriber of the publisher, or soon after its own previous connection. A
    connection that began much later from the host of the other subscriber may be the same program, with a dead old
    connection. If both started together, one of them is always first, and the result is False.
    """
    by, is_return = _since_sibling(delivery, early), delivery.left_ns is not None
    if by < TOGETHER_NS and not is_return and not _is_delayed(delivery):
        return False
    may_be_sibling = delivery.subscriber.client == early.sibling.client and by > LATER_NS
    return by <= LATEST_NS and (is_return or not may_be_sibling or _is_delayed(delivery))


def _since_sibling(delivery: Delivery, early: Missed) -> int:
    """Return the time (ns) by which the subscription was late.

    It counts from the subscription of the other subscriber, or from the end of this subscriber's previous connection if
    that was later.
    """
    siblings = early.sibling.intervals(delivery.key)
    since = siblings[0][0] if siblings else early.sibling.connection.start.ns
    return _since(delivery) - max(since, delivery.left_ns or 0)


def _since(delivery: Delivery) -> int:
    return delivery.subscriber.intervals(delivery.key)[0][0]


def _is_delayed(delivery: Delivery) -> bool:
    """Whether the first subscription of a connection came long after its handshake, as if the program subscribed too
    late.

    If a connection subscribed to another topic at once, later subscriptions are added when the program needs them, so
    the result is False.
    """
    subscriber = delivery.subscriber
    delay = delay_of(subscriber.connection, subscriber.subscriptions[0])
    return delay is not None and delay >= DELAYED_NS


def _late_severity(delivery: Delivery, early: Missed) -> Severity:
    """Return "warn", or "note" if the subscriber may have been started later on purpose, or be another program."""
    is_back = delivery.left_ns is not None and _since_sibling(delivery, early) >= TOGETHER_NS
    return "warn" if _is_delayed(delivery) or (is_back and not delivery.may_be_other) else "note"


def _late_diagnosis(
    publisher: Publisher,
    name: str,
    late: list[tuple[Delivery, Missed]],
    delivery: Delivery,
    early: Missed,
    returns: int,
) -> Diagnosis:
    """Return the diagnosis of subscribers that missed messages of a publisher (`late`), with the worst case `delivery`
    and `early`.

    That subscriber also returned to the topic `returns` times on later connections.
    """
    subscriber, sibling, key = delivery.subscriber, early.sibling, delivery.key
    subscription = subscriber.matching(key)[0]
    who, earlier = names_of(subscriber.end, sibling.end)
    delay = delay_of(subscriber.connection, subscription)
    after = f", {duration(delay)} after its own handshake" if _is_delayed(delivery) and delay is not None else ""
    others = len({each.key for each, _ in late}) - 1
    of = "" if subscription.topic == key.topic else f" of {topic_name(key.topic)}"
    more = f" (and of {counted(others, 'topic')} more)" if others else ""
    more += f"; it came back {how_many_times(returns)} more" if returns else ""
    if delivery.left_ns is None:
        published = "before"
        how = (
            f"{subscriber.asked_for(subscription.topic)} at {publisher_name(subscriber)} "
            f"{duration(_since_sibling(delivery, early))} after {earlier} did{after}"
        )
    else:
        published = "meanwhile"
        after += ", unless that is another program on the same host" if delivery.may_be_other else ""
        how = (
            f"came back to {publisher_name(subscriber)} and {subscriber.asked_for(subscription.topic)} again after "
            f"{duration(_since(delivery) - delivery.left_ns)}{after}"
        )
    first = sibling.topics[key].first
    return Diagnosis.of(
        "late-subscriber",
        _late_severity(delivery, early),
        f"{name} at {publisher.name}",
        f"{who} {how}, and missed at least {counted(early.messages, 'message')}{of} published {published}{more}",
        f"{_late_hint(delivery)}; {EXACTLY}",
        evidence=(
            Evidence(first, f"the first message of {topic_name(key.topic)} to {earlier}"),
            _evidence(subscriber, subscription, who),
        ),
        about=(each.subscriber for each, _ in late),
        count=sum(missed.messages for _, missed in late),
        last_ns=subscription.moment.ns,
        proven=not delivery.may_be_other,
        missed=MissedMessages(
            sibling.connection.stream.conn, 1 - sibling.side, key.topic, delivery.left_ns or 0, _since(delivery)
        ),
    )


def _late_hint(delivery: Delivery) -> str:
    if _is_delayed(delivery):
        return (
            "libzmq sends subscriptions when the program calls the socket: subscribe before connecting, and use the "
            "socket regularly until they are sent"
        )
    if delivery.left_ns is not None:
        return (
            "a publisher keeps no messages for absent subscribers: let a subscriber that returns request a snapshot "
            "(REQ and REP) or the last values"
        )
    if delivery.subscriber.is_of_groups:
        return (
            "a RADIO does not know who joined and keeps no messages: let each DISH report on another socket that it "
            "is ready, or request there the messages it missed"
        )
    return (
        "let the publisher wait for its subscribers (an XPUB receives subscriptions), or let late subscribers "
        "request a snapshot (REQ and REP) or the last values"
    )


def _gravity(late: tuple[Delivery, Missed]) -> tuple[bool, int]:
    return _late_severity(*late) == "warn", late[1].messages


# -- not again ---------------------------------------------------------------------------------------------------------


def _lost(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for publisher, before, after, lost in not_made_again(knowledge):
        yield _lost_diagnosis(publisher, before, after, lost, knowledge)


def _lost_diagnosis(
    publisher: Publisher,
    before: Subscriber,
    after: Subscriber,
    lost: Sequence[ObservedSubscription],
    knowledge: Knowledge,
) -> Diagnosis:
    start, end = after.connection.start, knowledge.last_ns if after.connection.is_open else after.connection.last_ns
    missed = _missed_since(publisher, after, lost, (start.ns, end + 1), knowledge)
    since = f"; at least {counted(missed, 'message')} of it went to another subscriber since" if missed else ""
    may_be_other = may_be_another_program(before, after)
    return Diagnosis.of(
        "subscription-lost-on-reconnect",
        "error" if missed and not may_be_other else "warn",
        f"{after.name} at {publisher.name}",
        f"{_name(after)} connected to {publisher_name(after)} again after "
        f"{duration(start.ns - before.connection.last_ns)} and did not "
        f"{'join again' if after.is_of_groups else 'subscribe again to'} "
        f"{of_topics([each.topic for each in lost])}{since}",
        "if the program makes a new socket, let it subscribe to the same topics; if it keeps its socket, raise its "
        "ZMQ_SNDHWM above the number of its subscriptions: libzmq drops subscriptions beyond it when it reconnects"
        + ("; no action if it is another program on that host" if may_be_other else ""),
        evidence=(
            _evidence(before, lost[0], _name(before)),
            Evidence(start, "the connection without that subscription", after.connection.ref),
        ),
        about=(before, after),
        count=len(lost),
        last_ns=start.ns,
        proven=not may_be_other,
    )


def _missed_since(
    publisher: Publisher,
    after: Subscriber,
    lost: Sequence[ObservedSubscription],
    time: tuple[int, int],
    knowledge: Knowledge,
) -> int:
    """Return a lower bound for the messages that a subscriber missed because it did not repeat its `lost`
    subscriptions.

    It is the largest number of matching messages that one other subscriber received in the time range `time` (ns).
    `after` is the connection of the subscriber.
    """
    got_most_of, messages = got_most(knowledge)[publisher], Counter[Subscriber]()
    keys, topics = publisher.ascending
    asked_for = [UNKNOWN] if UNKNOWN in got_most_of and any(each.matches(b"") for each in lost) else []
    asked_for += [key for places in places_of(lost, topics) for key in keys[places.start : places.stop]]
    for key in asked_for[:MAX_COUNTED]:
        if not after.matching(key):
            for sibling in got_most_of[key]:
                if sibling is not after:
                    messages[sibling] += sibling.topics[key].timeline.between(*time).least
    return max(messages.values(), default=0)


BY_HAND = (
    "a subscription is a message that begins with the octet 01, before the topic (or the SUBSCRIBE command of 3.1): "
    "correct the implementation that the program uses"
)

SUBSCRIBE_OR_JOIN = {
    "SUB": ("subscribed", 'let the program subscribe, to "" for everything; a new SUB has no subscription'),
    "XSUB": ("subscribed", BY_HAND),
    "DISH": ("joined a group", "let the program join the groups that it wants; a new DISH has joined none"),
}
"""The missing action in the past tense, and the hint, by socket type."""


OF_SUBSCRIBER = "ZMTP-SUB-07"

# -- not at all --------------------------------------------------------------------------------------------------------


def _none(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for publisher in publishers(knowledge):
        mute = (
            each
            for each in publisher.subscribers
            if each.socket_type in SUBSCRIBE_OR_JOIN and each.is_filtered and not each.subscriptions
            if each.socket_type != "XSUB" or _ordinary(each) is not None
        )
        found = grouped((each.name, each) for each in mute if had_time_to_subscribe(each, knowledge))
        hosts = {each.ip for each in publisher.subscribers if each.subscriptions}
        for name, own in found.items():
            first = own[0]
            end = knowledge.last_ns if first.connection.is_open else first.connection.last_ns
            ready = max(side.ready for side in first.connection.sides if side.ready is not None)
            message = _ordinary(first)
            yield Diagnosis.of(
                "no-subscription",
                "note" if message is None and _may_need_none(first, hosts, knowledge) else "warn",
                f"{name} at {publisher.name}",
                f"{_name(first)} was connected to {publisher_name(first)} for {duration(end - ready.ns)} and never "
                f"{SUBSCRIBE_OR_JOIN[first.socket_type or ''][0]}: it gets nothing"
                + ("" if message is None else "; it sent an ordinary message instead"),
                SUBSCRIBE_OR_JOIN[first.socket_type or ""][1] if message is None else BY_HAND,
                evidence=(
                    Evidence(ready, "the handshake was complete", first.connection.ref),
                    *(() if message is None else (Evidence(message, "the message", first.connection.ref),)),
                ),
                about=own,
                explains=(OF_SUBSCRIBER,),
                last_ns=own[-1].connection.last_ns,
                proven=first.socket_type != "XSUB",
            )


def _ordinary(subscriber: Subscriber) -> Moment | None:
    """Return when a subscriber sent an ordinary message; for an XSUB, when it sent the last one."""
    connection, sent = subscriber.connection, subscriber.connection.sides[subscriber.side].rhythm
    if subscriber.socket_type == "XSUB":
        return None if sent is None else sent.last
    finding = connection.finding(OF_SUBSCRIBER)
    return None if finding is None else finding.moment


def _may_need_none(subscriber: Subscriber, hosts: Container[str], knowledge: Knowledge) -> bool:
    """Whether a library may have opened the socket for a program that needs no subscription."""
    return subscriber.ip in hosts or _uses_others(subscriber.connection, knowledge)


def _uses_others(connection: ObservedConnection, knowledge: Knowledge) -> bool:
    """Whether the client of a connection also receives messages from a program of the publisher's host that is no
    publisher."""
    near = _receiving(knowledge).get((connection.client.ip, connection.server.ip), ())
    return any(abs(start - connection.start.ns) <= SECOND for start in near)


@once
def _receiving(knowledge: Knowledge) -> dict[tuple[str, str], list[int]]:
    """Return the start times (ns) of connections on which a listener sent messages to a client, by both addresses."""
    return grouped(
        ((each.client.ip, each.server.ip), each.start.ns)
        for each in knowledge.connections
        if each.server.rhythm is not None and each.server.socket_type not in PUBLISHERS
    )


# -- words -------------------------------------------------------------------------------------------------------------


def _name(subscriber: Subscriber) -> str:
    return name_of(subscriber.connection, subscriber.side)


def _evidence(subscriber: Subscriber, subscription: ObservedSubscription, name: str) -> Evidence:
    ref = ref_of_subscription(subscriber.connection, subscriber.side, subscription)
    return Evidence(subscription.moment, f"{name} {subscriber.asked_for(subscription.topic)}", ref)


TABLE = (
    Rule(
        "late-subscriber",
        "warn",
        "A subscriber subscribes too late",
        "A subscriber missed messages, because it subscribed to their topic at most ten seconds after another "
        "subscriber had received them. Since ZMTP 3.0 a publisher sends only topics that have a subscriber, so the "
        "loss is visible only if another subscriber received the messages.\n"
        "* Severity warning if its first subscription came at least 50 ms after its own handshake.\n"
        "* Severity warning if it had the topic on an earlier connection, and reconnected at least 200 ms later.\n"
        "* A note, and not proven, if a subscriber without identity closed the earlier connection itself: the later "
        "one may be another program on the same host.\n"
        "* Otherwise a note: it may have been started later on purpose.",
        "* No other subscriber received a message of the topic before.\n"
        "* The subscriber came more than ten seconds later.\n"
        "* Both subscribers started within 200 ms of each other, and this one subscribed at once.",
        _late,
    ),
    Rule(
        "subscription-lost-on-reconnect",
        "warn",
        "A client does not subscribe again after a reconnect",
        "The publisher's side ended a connection. The same client (address and identity) reconnected within a minute, "
        "and did not repeat a subscription that it had not cancelled. A capture does not show whether the program "
        "intended this.\n"
        "* Severity error if other subscribers have received messages of the subscription since.\n"
        "* A warning, and not proven, if the client has no identity, and none of its topics is one of the old "
        "connection: it may be another program on that host.",
        "* The client cancelled the subscription, or ended the connection itself.\n"
        "* The client has other connections at the same time, so it is unknown which of them replaces the old one.",
        _lost,
        ("no-subscription",),
    ),
    Rule(
        "no-subscription",
        "warn",
        "A SUB never subscribes, or a DISH never joins a group",
        "A SUB sent no subscription, or a DISH no JOIN, for at least a second after its handshake, so it receives "
        "nothing. The whole connection was captured. An XSUB is reported only if it sent an "
        "ordinary message, and then not as proven: without subscribers of its own it subscribes to nothing.\n"
        "* Severity note if another SUB of the same address subscribes at the endpoint.\n"
        "* Severity note if the same address connected within a second to another program of the publisher's host, "
        "which answers it: a library may open a SUB for programs that need none.",
        "* The handshake was complete for less than a second.\n"
        "* Subscriptions are not visible (ZMTP before 3.0, CURVE).",
        _none,
    ),
)
