"""Sides that used to answer the messages of their peer, and did not answer the latest ones.

Socket types and ids do not show which message answers which, so numbers, times and kinds of messages decide.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.opposites import OneWay, opposite
from zmtpscope.diagnosis.across.words import name_of
from zmtpscope.diagnosis.observers.durations import median
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedSide
from zmtpscope.diagnosis.observers.observed_facts import ObservedRhythm
from zmtpscope.diagnosis.observers.run_summaries import MAX_RECENT
from zmtpscope.findings.kinds import Severity
from zmtpscope.records import SECOND
from zmtpscope.words import counted
from zmtpscope.zmtp.socket_types import ROUTING

ANSWERING = ROUTING | {"CLIENT", "SERVER"}
"""Socket types whose listener may answer each message."""

MIN_SILENCE = 3 * SECOND

MIN_LASTED = 2 * SECOND
"""A side that sent messages for less time was still starting, without a steady rhythm."""

MIN_MESSAGES = 8

MIN_UNANSWERED = 3
"""Messages without an answer that show that a peer is silent."""

MIN_SURE = 2
"""Number of unanswered messages that is sufficient if the silent peer always answered their kinds."""

LARGEST_SHARE = 2
"""A peer that answers sends at least one message for this many received."""

MANY_PAUSES = 3
"""A silence is at least this multiple of the longest pause before."""

FASTER = 3
"""A side that now sends this many times as fast has another task, and waits for nothing."""

LONG_WAIT = 5 * SECOND
"""Messages at the end of an exchange wait at least this long for an answer."""

MIN_ANSWERS = 5
"""Minimum number of messages that were answered before the silence."""

THINKS_LONGER = 2
"""The side that asks takes at least this multiple of the other side's median time."""


class Unanswered(NamedTuple):
    """Messages that a side did not answer: the severity, and a text for a diagnosis.

    `asker` is the side that sent the messages, on this or on another connection.
    """

    severity: Severity
    text: str
    asker: ObservedSide | None = None


class Expected(NamedTuple):
    """Whether the messages since a side fell silent need an answer, by their kinds (the commands at their start).

    `is_none`: none is of a kind that was answered before. `is_unknown`: some are of kinds that were answered only at
    times. `sure` is the number of messages of kinds that were always answered.
    """

    is_none: bool
    is_unknown: bool
    sure: int

    @property
    def are_certain(self) -> bool:
        """Whether the kinds alone show that answers are missing."""
        return self.sure >= MIN_SURE


class Exchange(NamedTuple):
    """The messages of a silent side (`own`), and of the side that sends requests to it (`other`), up to now.

    The two use one connection, or two connections in opposite directions. `silent_ns` is the time since the last
    message of the silent side, and `expected` describes the messages after it.
    """

    own: ObservedRhythm
    other: ObservedRhythm
    asker: ObservedSide
    expected: Expected
    silent_ns: int
    missed: int
    """Number of messages that the asker sent after the silent side's last message."""
    before: int
    """Number of messages that the asker sent before that message."""

    @property
    def is_young(self) -> bool:
        """Whether the silent side had sent few messages before, none of them of a kind that was always answered."""
        is_short = self.own.lasted_ns < MIN_LASTED
        return not self.expected.are_certain and (min(self.own.count, self.before) < MIN_MESSAGES or is_short)


def unanswered(connection: ObservedConnection, side: int, until: int, knowledge: Knowledge) -> Unanswered | None:
    """Find a side that used to send about one message for each message received, and stopped while messages arrive.

    Returns None if it is not silent until `until` (ns), or the silence has another explanation. The severity is a note
    if the messages arrived on another connection, which may belong to another program. It is also a note if the side
    had sent only a few answers.
    """
    back = opposite(knowledge).get(connection.conn_id, OneWay(connection, 1 - side))
    exchange = _exchange(connection, side, until, back)
    if exchange is None or any(is_refuted_by(exchange) for is_refuted_by in REFUTATIONS):
        return None
    missed, asker = exchange.missed, exchange.asker
    several = f"{missed} messages" if missed < MAX_RECENT else f"about {missed} messages"
    is_certain = back.connection is connection and not (exchange.is_young or exchange.expected.is_unknown)
    severity: Severity = "warn" if is_certain and asker.jupyter is None else "note"  # Jupyter: code may take long
    return Unanswered(severity, f"though {name_of(back.connection, back.sender)} sent {several} since", asker)


def _exchange(connection: ObservedConnection, side: int, until: int, back: OneWay) -> Exchange | None:
    asker = back.connection.sides[back.sender]
    own, other = connection.sides[side].rhythm, asker.rhythm
    if own is None or other is None:
        return None
    return Exchange(own, other, asker, _expected(asker), until - own.last.ns, *_since(own, other))


def _begins_exchanges(exchange: Exchange) -> bool:
    return exchange.own.opens(exchange.other)


def _never_arrived(exchange: Exchange) -> bool:
    return exchange.asker.last_outage is not None


def _need_no_answer(exchange: Exchange) -> bool:
    """Whether all messages since the silent side's last one are of kinds that were never answered."""
    return exchange.expected.is_none


def _paused_as_long_before(exchange: Exchange) -> bool:
    return exchange.silent_ns < MANY_PAUSES * exchange.own.longest_ns


def _are_answers_themselves(exchange: Exchange) -> bool:
    """Whether the messages after the silence began may be answers to the silent side, after which both
    sides stopped."""
    own, other = exchange.own, exchange.other
    return own.count - exchange.before >= exchange.missed and other.last.ns - own.last.ns < MIN_SILENCE


def _was_only_starting(exchange: Exchange) -> bool:
    """Whether the silent side had sent too few messages before to expect more.

    False if it had answered nearly every message, and then left many unanswered.
    """
    own, before = exchange.own, exchange.before
    answered_each = not exchange.expected.is_unknown and own.count >= max(MIN_ANSWERS, before - 1)
    return exchange.is_young and not (answered_each and exchange.missed >= MAX_RECENT)


def _answers_seldom(exchange: Exchange) -> bool:
    """Whether too few messages were answered before the silence, or too few arrived since, to expect an answer."""
    is_frequent = exchange.before >= MIN_ANSWERS and exchange.own.count * LARGEST_SHARE >= exchange.before
    return not exchange.expected.are_certain and not (is_frequent and exchange.missed >= MIN_UNANSWERED)


def _has_another_task(exchange: Exchange) -> bool:
    """Whether the peer sends much faster since the silence began: it now streams data, and waits for no answers."""
    if exchange.expected.are_certain:
        return False
    usual = (exchange.own.last.ns - exchange.other.first_ns) / exchange.before
    return (exchange.other.last.ns - exchange.own.last.ns) / exchange.missed * FASTER < usual


REFUTATIONS = (
    _begins_exchanges,
    _never_arrived,
    _need_no_answer,
    _paused_as_long_before,
    _are_answers_themselves,
    _was_only_starting,
    _answers_seldom,
    _has_another_task,
)
"""Evidence that a silent side owes no answer, in the order of evaluation: the last one needs messages before and since,
which `_answers_seldom` ensures."""


def _expected(asker: ObservedSide) -> Expected:
    kinds = asker.kinds
    if kinds is None or kinds.are_many:
        return Expected(is_none=False, is_unknown=False, sure=0)
    answered = [kinds.is_answered(kind) for kind in kinds.since]
    is_unknown = None in answered and True not in answered
    sure = sum(map(kinds.is_always_answered, kinds.since))
    return Expected(bool(answered) and not any(answered) and not is_unknown, is_unknown, sure)


def _since(own: ObservedRhythm, other: ObservedRhythm) -> tuple[int, int]:
    """Return the number of messages of `other` after the last message of `own`, and the number before it.

    If all remembered messages are after it, both numbers are estimates.
    """
    missed = other.since(own.last.ns)
    if missed == MAX_RECENT:
        usual = max(1, (other.recent[-1] - other.recent[0]) // (MAX_RECENT - 1))
        missed = max(missed, min(other.count, (other.last.ns - own.last.ns) // usual))
    return missed, other.count - missed


def last_unanswered(connection: ObservedConnection, side: int, until: int) -> Unanswered | None:
    """Find a listening ROUTER, DEALER or SERVER that answered each message, or each of a kind, except the last ones.

    Returns None if it is not silent until `until` (ns). The severity is a note: a worker that has returned its result
    waits for its broker in the same way.
    """
    exchange = _exchange(connection, side, until, OneWay(connection, 1 - side))
    if exchange is None or side != connection.listener or _begins_exchanges(exchange):
        return None
    if not all(each.socket_type in ANSWERING for each in connection.sides) or connection.requests is not None:
        return None
    own, other, expected = exchange.own, exchange.other, exchange.expected
    missed = other.since(own.last.ns)
    if not missed or other.first_ns > own.first_ns or expected.is_none:
        return None
    waited = until - other.recent[-missed]
    if waited < max(LONG_WAIT, MANY_PAUSES * own.longest_ns) or not (expected.sure or _answered_at_once(own, other)):
        return None
    return Unanswered("note", f"though {name_of(connection, 1 - side)} sent {counted(missed, 'message')} since")


def _answered_at_once(own: ObservedRhythm, other: ObservedRhythm) -> bool:
    """Whether a side (`own`) answered each message of `other` before the next one arrived, except the last ones."""
    missed = other.count - own.count
    asked = other.recent[: len(other.recent) - missed]
    if not 1 <= missed < len(other.recent) - 1 or own.count < MIN_ANSWERS:
        return False
    times = [time for turn in zip(asked, own.recent[-len(asked) :], strict=True) for time in turn]
    steps = [later - sooner for sooner, later in pairwise(times)]
    return min(steps) >= 0 and median(steps[1::2]) >= THINKS_LONGER * median(steps[::2])
