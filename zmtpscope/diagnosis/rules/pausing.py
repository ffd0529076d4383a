"""Rules for peers that sent nothing for a while and then continued."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.endings import is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import client_name, duration, server_name
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.run_summaries import MAX_RECENT
from zmtpscope.diagnosis.rules.ceasing import LARGEST_SHARE, MANY_PAUSES, MIN_MESSAGES, MIN_SILENCE, MIN_UNANSWERED
from zmtpscope.grouping import grouped
from zmtpscope.words import counted

PAUSED = "paused"


def _paused(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Yield one diagnosis for each listening peer that paused and then continued."""
    paused = (each for each in knowledge.connections if each.is_whole and is_agreed(each) and _has_paused(each))
    for same in grouped((each.endpoint, each) for each in paused).values():
        first = same[0]
        rhythm, name = first.server.rhythm, server_name(first)
        if rhythm is None or rhythm.longest_from is None:
            continue
        several = f"{rhythm.asked} messages" if rhythm.asked < MAX_RECENT else f"{rhythm.asked} messages and more"
        more = f"; the same on {counted(len(same) - 1, 'other connection')}" if len(same) > 1 else ""
        yield Diagnosis.of(
            PAUSED,
            "note",
            name,
            f"{name} sent nothing for {duration(rhythm.longest_ns)} after packet {rhythm.longest_from.packet}, "
            f"though {client_name(first)} sent {several} meanwhile; its next longest pause was "
            f"{duration(rhythm.second_ns)}{more}",
            "check what that program did meanwhile: it was stopped, blocked in a call, or busy",
            evidence=(Evidence(rhythm.longest_from, "its last message before"),),
            about=same,
            last_ns=rhythm.longest_from.ns + rhythm.longest_ns,
            proven=False,
        )


def _has_paused(connection: ObservedConnection) -> bool:
    """Whether the listener answers about every message, and once left several unanswered for a long time."""
    own, other = connection.server.rhythm, connection.client.rhythm
    if own is None or other is None or own.opens(other):
        return False
    if own.count < MIN_MESSAGES or own.count * LARGEST_SHARE < other.count:
        return False
    is_long = own.longest_ns >= max(MIN_SILENCE, MANY_PAUSES * own.second_ns)
    is_stalled = bool(connection.server.stalls)
    is_cut_off = any(outage.retransmissions for side in connection.sides for outage in side.outages)
    return is_long and own.asked >= MIN_UNANSWERED and not (is_stalled or is_cut_off)


TABLE = (
    Rule(
        PAUSED,
        "note",
        "A peer that answers sent nothing for a while, then continued",
        "The listener sent about one message for each received one, and once none for 3 s and for three times any "
        "other pause, although at least three messages arrived in that time. A capture does not show whether these "
        "messages needed an answer or more work.",
        "Another pause is a third as long, the peer could not send because its receiver did not read, or TCP had to "
        "retransmit for long.",
        _paused,
    ),
)
