"""Receivers that do not read their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.deliveries import TAKES_EFFECT_NS, Delivery, deliveries, got_most
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.publishers import Subscriber
from zmtpscope.diagnosis.across.words import address, duration, name_of, names_of, topic_name
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedFinding, ObservedStall
from zmtpscope.findings import SEVERITIES
from zmtpscope.findings.kinds import Severity
from zmtpscope.grouping import grouped
from zmtpscope.records import MILLISECOND, SECOND
from zmtpscope.words import counted
from zmtpscope.zmtp.socket_types import PUBLISHERS_AND_RADIO, SUBSCRIBERS_AND_DISH

SLOW_RECEIVER, PUSH_BLOCKED = "slow-receiver", "push-blocked"

SHORTEST_NS = 100 * MILLISECOND
"""Minimum length (ns) of a receiver's pause to report."""

LONG_NS = SECOND
"""A pause this long gets a warning, regardless of the effect."""

LONG_FULL_NS = 3 * SECOND
"""The queue of a worker may be full for a shorter time, because a PUSH fills it."""

OPENED, MIN_REOPENED, LONGER = "opened", 3, 2
"""A receiver reads slowly, but steadily, if it opened its window this many times, and the longest time was at most this
multiple of the second longest."""

RUNNING = "running"
"""`until` of a stall that continues."""

DISCONNECTED = "disconnected"
"""`until` of a stall that ended with the connection."""

GAP, UNREAD, READS_AGAIN = "SEQUENCE-01", "ZMTP-CONN-24", "ZMTP-CONN-25"

UNANSWERED_PINGS = ("ZMTP31-PING-04", "ZMTP31-PING-09")

UNFINISHED = ("ZMTP10-FRAME-05", "ZMTP10-FRAME-06", "ZMTP3X-FRAME-05", "ZMTP3X-FRAME-06")
"""Findings about a stream that ends inside a frame, as it must if a connection ends while one side is blocked."""

DROPPING = (
    "a publisher drops messages beyond its ZMQ_SNDHWM for a subscriber: make the subscriber read faster (in its own "
    "thread), raise ZMQ_RCVHWM there and ZMQ_SNDHWM here, or set ZMQ_CONFLATE if only the last value matters; check "
    "--why TOPIC@PEER explains every message"
)
TOO_MUCH = (
    "its receive window stayed open, so it reads what arrives: raise the ZMQ_SNDHWM of the publisher above its bursts, "
    "or publish less than the path to this subscriber carries (a slow or lossy link); check --why TOPIC@PEER explains "
    "every message"
)
WAITING = (
    "messages to it wait, and beyond ZMQ_SNDHWM the sender blocks (a ROUTER drops): make the receiver read faster "
    "(in its own thread), or share the work among more receivers"
)


STOPPED = (
    "check that program: it is stopped (a signal, a debugger), hangs, or takes longer for a message than they arrive; "
    "messages to it wait in the buffers of its system, and are lost if it ends"
)


FULL_QUEUE = (
    "libzmq reads nothing while the receive queue of a socket is full: make the receiver read faster (in its own "
    "thread), share the work among more receivers, or raise ZMQ_RCVHWM; a ZMQ_HEARTBEAT_TIMEOUT below the time that "
    "the queue is full closes the connection"
)


class Behind(NamedTuple):
    """How many more messages of a topic another subscriber (`sibling`) received, since the slow one stopped reading."""

    messages: int
    delivery: Delivery
    sibling: Subscriber


@once
def _slow(knowledge: Knowledge) -> Sequence[Diagnosis]:
    return [*map(_worst, grouped((each.subject, each) for each in _of_connections(knowledge)).values())]


def _worst(found: Sequence[Diagnosis]) -> Diagnosis:
    """Return the worst diagnosis of one receiver, with the counts of all its diagnoses."""
    worst = min(found, key=lambda diagnosis: (SEVERITIES.index(diagnosis.severity), -diagnosis.count))
    more = f" (and the same on {len(found) - 1} connections more)" if len(found) > 1 else ""
    return replace(
        worst,
        text=worst.text + more,
        count=sum(diagnosis.count for diagnosis in found),
        conn_ids=frozenset().union(*(diagnosis.conn_ids for diagnosis in found)),
        explains=frozenset().union(*(diagnosis.explains for diagnosis in found)),
    )


def _of_connections(knowledge: Knowledge) -> Iterator[Diagnosis]:
    by_receiver = grouped(
        ((each.subscriber.connection.conn_id, each.subscriber.side), each) for each in deliveries(knowledge)
    )
    for connection in knowledge.connections:
        for sender in (0, 1):
            own = by_receiver.get((connection.conn_id, 1 - sender), [])
            stalls = connection.sides[sender].stalls
            unread = connection.findings.get((UNREAD, 1 - sender))
            if stalls:
                diagnosis = _stalled(connection, sender, stalls, own, knowledge)
            elif unread is not None:
                diagnosis = _stopped(connection, sender, unread)
            else:
                diagnosis = _dropped(connection, sender, own)
            diagnosis = diagnosis or _leaves_pings(connection, sender)
            if diagnosis is not None:
                yield diagnosis


def _stalled(
    connection: ObservedConnection,
    sender: int,
    stalls: Sequence[ObservedStall],
    own: Sequence[Delivery],
    knowledge: Knowledge,
) -> Diagnosis | None:
    lasted = [_lasted(stall, connection, knowledge) for stall in stalls]
    total = sum(lasted)
    behind = max(
        (_behind(each, stalls[0].moment.ns, knowledge) for each in own), key=attrgetter("messages"), default=None
    )
    if total < SHORTEST_NS:
        return None
    last = stalls[-1]
    longest = max(time if stall.count == 1 else stall.longest_ns for stall, time in zip(stalls, lasted, strict=True))
    skipped = _skipped(connection, sender, stalls[0].moment.ns)
    is_steady = _is_back_pressure(connection, sender, stalls, lasted)
    is_worse = (longest >= LONG_NS and not is_steady) or (behind is not None and behind.messages > 0) or skipped
    severity: Severity = "warn" if is_worse else "note"
    times = sum(stall.count for stall in stalls)
    how = f" in {times} stretches" if times > 1 else ""
    state = "; it is still closed" if last.until == RUNNING else ""
    if last.until == DISCONNECTED and times == 1:
        state = ", until the connection ended: it may be stopped, or hang"
    receiver, was_left = 1 - sender, last.until == DISCONNECTED
    name, fewer = name_of(connection, receiver), ""
    if behind is not None and behind.messages > 0:
        name, sibling = names_of((connection, receiver), behind.sibling.end)
        fewer = (
            f", and it got at least {counted(behind.messages, 'message')} of {topic_name(behind.delivery.key.topic)} "
            f"fewer than {sibling} since it closed first"
        )
    if skipped:
        fewer += f"; messages to it were dropped: their sequence numbers have {counted(skipped, 'gap')} since"
    is_blocked = connection.sides[sender].socket_type == "PUSH" and severity == "warn"
    return Diagnosis.of(
        PUSH_BLOCKED if is_blocked else SLOW_RECEIVER,
        severity,
        _subject(connection, receiver),
        f"{name} {'is slow to' if is_steady else 'does not'} read the data of {name_of(connection, sender)}: "
        "its receive window was closed for "
        f"{duration(total)}{how}{state}{fewer}",
        DROPPING if connection.sides[sender].socket_type in PUBLISHERS_AND_RADIO else WAITING,
        evidence=(
            Evidence(stall.moment, f"closed for {duration(time)}", stall.ref)
            for stall, time in zip(stalls[:MAX_EVIDENCE], lasted, strict=False)
        ),
        about=(connection,),
        explains=UNANSWERED_PINGS + UNFINISHED if was_left else UNANSWERED_PINGS,
        count=times,
        last_ns=last.moment.ns + lasted[-1],
    )


def _is_back_pressure(
    connection: ObservedConnection, sender: int, stalls: Sequence[ObservedStall], lasted: Sequence[int]
) -> bool:
    """Whether a PUSH is only slowed down: its receiver closes the window again and again, but continues to read."""
    reopened = sum(stall.until == OPENED for stall in stalls)
    is_usual = reopened >= MIN_REOPENED and max(lasted) <= LONGER * sorted(lasted)[-2]
    return connection.sides[sender].socket_type == "PUSH" and is_usual


def _stopped(connection: ObservedConnection, sender: int, unread: ObservedFinding) -> Diagnosis:
    """Return the diagnosis of a receiver whose kernel acknowledges data only by its timer, from the finding `unread`
    on.

    A note if the receiver shares work with others: with a ZMQ_RCVHWM of 1, a busy worker reads as rarely.
    """
    receiver = 1 - sender
    again = connection.findings.get((READS_AGAIN, receiver))
    reads = "" if again is None or again.count < unread.count else f"; it reads again {again.detail}"
    return Diagnosis.of(
        SLOW_RECEIVER,
        "warn" if connection.sides[receiver].socket_type in SUBSCRIBERS_AND_DISH else "note",
        _subject(connection, receiver),
        f"{name_of(connection, receiver)} did not read the data of {name_of(connection, sender)} for at least 2 s, "
        f"{unread.detail}: its system acknowledged it by a timer, and at once before{reads}",
        STOPPED,
        evidence=map(Evidence.of, filter(None, (unread, again))),
        about=(connection,),
        explains=(UNREAD, READS_AGAIN),
        last_ns=connection.last_ns,
        proven=False,
    )


def _leaves_pings(connection: ObservedConnection, sender: int) -> Diagnosis | None:
    """Diagnose a receiver that sends messages, but stopped answering PINGs that follow messages; or return None.

    libzmq reads nothing from a connection while the receive queue of the socket is full.
    """
    side, receiver = connection.sides[sender], 1 - sender
    found = [each for id_ in UNANSWERED_PINGS if (each := connection.findings.get((id_, sender))) is not None]
    if not found or side.heartbeats is None or side.rhythm is None or side.last_outage is not None:
        return None
    left = [ping for ping in side.heartbeats.waiting if ping.next_data_ns is not None and not ping.is_within]
    if not left or not side.heartbeats.counts["answered"] or side.rhythm.first_ns > left[0].moment.ns:
        return None
    name, lasted = name_of(connection, receiver), connection.last_ns - left[0].moment.ns
    is_long = lasted >= LONG_FULL_NS or connection.sides[receiver].socket_type in SUBSCRIBERS_AND_DISH
    return Diagnosis.of(
        SLOW_RECEIVER,
        "warn" if is_long else "note",
        _subject(connection, receiver),
        f"{name} does not read the data of {name_of(connection, sender)}: it goes on to send, but leaves the PING in "
        f"packet {left[0].moment.packet}, which follows messages, without a PONG for {duration(lasted)}",
        FULL_QUEUE,
        evidence=(Evidence(ping.moment, "a PING without PONG", ping.ref) for ping in left[:MAX_EVIDENCE]),
        about=(connection,),
        explains=UNANSWERED_PINGS,
        count=len(left),
        last_ns=left[-1].moment.ns,
        proven=False,
    )


def _skipped(connection: ObservedConnection, sender: int, since: int) -> int:
    """Return the number of gaps in the sequence numbers of a side's messages; 0 if they began before `since` (ns).

    `since` is the time at which the side was first unable to send.
    """
    gap = connection.findings.get((GAP, sender))
    return 0 if gap is None or gap.moment.ns < since else gap.count


def _lasted(stall: ObservedStall, connection: ObservedConnection, knowledge: Knowledge) -> int:
    """Return the duration of a stall (ns).

    If the window is still closed, and no packets are missing, the stall lasts until the end of the capture.
    """
    is_running = stall.until == RUNNING and connection.is_whole
    return stall.duration_ns + (knowledge.last_ns - stall.end_ns if is_running else 0)


def _behind(delivery: Delivery, since: int, knowledge: Knowledge) -> Behind:
    """Return how many more messages the best other subscriber received from `since` (ns) on, when the slow one first
    stopped reading."""
    end = knowledge.last_ns - TAKES_EFFECT_NS
    slow = delivery.subscriber
    if slow.mixes(delivery.key):
        return Behind(0, delivery, slow)
    if not slow.connection.is_open:
        end = min(end, slow.connection.last_ns)
    got = 0 if delivery.topic is None else delivery.topic.timeline.between(since, knowledge.last_ns + 1).most
    found = [
        Behind(sibling.topics[delivery.key].timeline.between(since, end).least - got, delivery, sibling)
        for sibling in got_most(knowledge)[delivery.publisher][delivery.key]
        if sibling is not slow
    ]
    return max(found, key=attrgetter("messages"), default=Behind(0, delivery, slow))


def _dropped(connection: ObservedConnection, sender: int, own: Sequence[Delivery]) -> Diagnosis | None:
    """Diagnose a subscriber that received fewer messages than others although its receive window was open; or return
    None.

    `own` are the topics that it received or subscribed to.
    """
    missed = [(delivery.missed, delivery) for delivery in own if delivery.missed is not None]
    if not missed:
        return None
    most, delivery = max(missed, key=lambda each: each[0].messages)
    if not most.messages:
        return None
    receiver = 1 - sender
    name, sibling = names_of((connection, receiver), most.sibling.end)
    first = most.sibling.topics[delivery.key].first
    return Diagnosis.of(
        SLOW_RECEIVER,
        "warn",
        _subject(connection, receiver),
        f"{name_of(connection, sender)} dropped {counted(most.messages, 'message')} of "
        f"{topic_name(delivery.key.topic)} at least for {name}: it was subscribed, and {sibling} got them",
        TOO_MUCH,
        evidence=(Evidence(first, f"the first message of {topic_name(delivery.key.topic)} to {sibling}"),),
        about=(connection,),
        count=most.messages,
        proven=False,
    )


def _subject(connection: ObservedConnection, receiver: int) -> str:
    return f"{name_of(connection, receiver)} at {address(connection.endpoint)}"


def _of_rule(rule: str) -> Callable[[Knowledge], Iterator[Diagnosis]]:
    return lambda knowledge: (diagnosis for diagnosis in _slow(knowledge) if diagnosis.rule == rule)


TABLE = (
    Rule(
        SLOW_RECEIVER,
        "warn",
        "A receiver does not read fast enough",
        "The program of a receiver reads too slowly, or is busy. A capture does not show the queues of libzmq, but "
        "four signs of them.\n"
        "Closed window: the receive window of the receiver was closed (RFC 9293, 3.8.6), so its peer could not send.\n"
        "* Severity warning if the window was closed for a second at a time, if other subscribers of the publisher "
        "received more, or if sequence numbers have gaps since.\n"
        "* Otherwise a note.\n"
        "Dropped messages: no window was closed, but another subscriber received messages that this one also "
        "subscribed to, and did not receive.\n"
        "* Likely: the publisher reached its ZMQ_SNDHWM for this subscriber. The path is too slow, or a burst was too "
        "long.\n"
        "Late acknowledgments: the kernel of the receiver acknowledged data at once, and then at least eight times in "
        "a row for 2 s only after its timer for delayed acknowledgments (35 to 55 ms). So the program no longer "
        "reads. Not proven.\n"
        "* Severity note if the receiver is no subscriber: a worker that takes one message at a time looks the same.\n"
        "* Not visible below five messages per second, because Linux has no such delay after a pause of 200 ms.\n"
        "Missing PONGs: the receiver sends messages and used to answer PINGs, but leaves out the PONG to a PING that "
        "follows messages. libzmq stops reading while the receive queue of a socket is full. Not proven.\n"
        "* Severity note if the receiver is a worker, and it lasts less than 3 s.",
        "* The receive window was closed for less than 100 ms in total.\n"
        "* No other subscriber received more messages.\n"
        "* The kernel of the receiver acknowledges data at once, or did so late from the start.",
        _of_rule(SLOW_RECEIVER),
        ("sequence-gap", "fell-silent", "proxy-drops"),
    ),
    Rule(
        PUSH_BLOCKED,
        "warn",
        "A PUSH cannot send because a PULL does not read",
        "A PULL closed its receive window for a second at a time, so a PUSH could not send to it. Once its ZMQ_SNDHWM "
        "is reached, a PUSH sends to its other peers that read, and blocks if there are none. A capture shows that no "
        "data is sent, but not whether the program blocks.",
        "* Each time, the PULL opened its receive window again within a second.\n"
        "* The PULL opened its window at least three times, and its longest closed time was at most twice the second "
        "longest: the PULL reads slowly, but steadily.",
        _of_rule(PUSH_BLOCKED),
        ("unbalanced-push",),
    ),
)
