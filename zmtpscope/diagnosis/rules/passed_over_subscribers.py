"""Subscribers that a publisher skips, although it sends matching messages to others."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.publishers import Publisher, Subscriber, publishers
from zmtpscope.diagnosis.across.words import duration, name_of, names_of, same_on
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed_facts import ObservedRhythm
from zmtpscope.records import SECOND
from zmtpscope.words import counted

PASSED_OVER = "subscriber-passed-over"

MIN_SILENCE = 3 * SECOND
"""Time without messages (ns) below which it is only a pause."""
MANY_PAUSES = 4
"""A silence shorter than this multiple of the longest earlier one is a pause."""
MIN_MESSAGES = 8
"""Messages that another subscriber gets meanwhile."""
MAX_COMPARED = 64
"""Subscribers of a publisher to check, and others to compare each with."""

HINT = (
    "the publisher no longer has this connection, as after a crash of its host, and a subscriber that only receives "
    "never notices: set ZMQ_HEARTBEAT_IVL or ZMQ_TCP_KEEPALIVE on the subscriber, which then reconnects"
)


def _passed_over(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for publisher in publishers(knowledge):
        if publisher.socket_type != "PUB" or publisher.endpoint is None or not publisher.subscribers[1:]:
            continue
        met = []
        for subscriber in publisher.subscribers[:MAX_COMPARED]:
            rhythm = _last_messages(subscriber, knowledge)
            if rhythm is not None:
                messages, other = _others_got(publisher, subscriber, rhythm.last.ns, knowledge.last_ns)
                if messages >= MIN_MESSAGES:
                    met.append((subscriber, rhythm, messages, other))
        if met:
            yield _diagnosis(met, knowledge.last_ns)


def _last_messages(subscriber: Subscriber, knowledge: Knowledge) -> ObservedRhythm | None:
    """Return the times of a subscriber's messages, if they stopped; None if they continue, or TCP holds them back."""
    connection, publisher = subscriber.connection, subscriber.connection.sides[1 - subscriber.side]
    rhythm = publisher.rhythm
    if rhythm is None or not connection.is_open or not subscriber.is_filtered or publisher.is_sending:
        return None
    if subscriber.ending is not None:
        return None
    is_held_back = publisher.last_outage is not None or subscriber.stalled_ns > rhythm.last.ns
    is_long = knowledge.last_ns - rhythm.last.ns >= max(MIN_SILENCE, MANY_PAUSES * rhythm.longest_ns)
    is_captured = rhythm.last.ns >= knowledge.lost_ns
    return rhythm if is_long and is_captured and not is_held_back else None


def _others_got(publisher: Publisher, subscriber: Subscriber, since: int, now: int) -> tuple[int, Subscriber]:
    """Return the other subscriber that received the most messages matching the subscriptions of `subscriber`, and their
    number.

    Only messages from `since` until `now` (ns) count.
    """
    best = 0, subscriber
    for other in publisher.subscribers[-MAX_COMPARED:]:
        if other is subscriber:
            continue
        messages = sum(
            topic.timeline.between(since + SECOND, now + 1).least
            for key, topic in other.topics.items()
            if any(each.until_ns is None for each in subscriber.matching(key))
        )
        if messages > best[0]:
            best = messages, other
    return best


def _diagnosis(met: list[tuple[Subscriber, ObservedRhythm, int, Subscriber]], now: int) -> Diagnosis:
    subscriber, rhythm, messages, other = met[0]
    connection = subscriber.connection
    who, favoured = names_of(subscriber.end, other.end)
    publisher = name_of(connection, 1 - subscriber.side)
    return Diagnosis.of(
        PASSED_OVER,
        "warn",
        publisher,
        f"{publisher} sent nothing to {who} after packet {rhythm.last.packet}, for {duration(now - rhythm.last.ns)}, "
        f"while {favoured} got {counted(messages, 'message')} to which {who} is "
        f"subscribed, too{same_on(len(met) - 1, 'other subscriber')}",
        HINT,
        evidence=(Evidence(rhythm.last, f"the last message to {who}"),),
        about=(each for each, *_ in met),
        proven=False,
    )


TABLE = (
    Rule(
        PASSED_OVER,
        "warn",
        "A publisher sends to other subscribers but not to this one",
        "A SUB with an open connection received messages, and then none for at least 3 s and four times its longest "
        "earlier pause. Meanwhile the publisher sent another SUB at least eight messages that this SUB subscribed to "
        "as well. A PUB sends a message to all its subscribers, so the sending program does not know this connection. "
        "For example, the publisher's host crashed and was restarted, and the SUB did not notice. Not proven: a "
        "publisher that is not libzmq may choose its receivers.",
        "* The receive window of the subscriber is closed, or TCP sends octets to it again.\n"
        "* The subscriber cancelled the subscription, or a side sent FIN.\n"
        "* Octets of its connection are missing from the capture.",
        _passed_over,
        ("fell-silent", "late-subscriber"),
    ),
)
