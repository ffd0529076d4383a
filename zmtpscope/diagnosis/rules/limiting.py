"""Rules for messages that are too large for their receiver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from zmtpscope.diagnosis.across.disconnects import CUT_OFF, FAILED, WITHOUT_A_WORD, Disconnect, disconnects
from zmtpscope.diagnosis.across.endings import Ending, ending_of
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, name_of
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.ends import Endpoint
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedSizes
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND

TOO_LARGE = "message-too-large"

AT_ONCE = SECOND // 10
"""A side that closes this soon (ns) after a message, without an error, closes because of it."""
BACK_NS = 2 * SECOND
"""If the library ended the connection, and not the program, it is reconnected within this time (ns)."""
AT_THE_HEADER = SECOND // 200
"""libzmq closes when it has read the header of the frame, within this time (ns)."""
MIN_TIMES = 3
MIN_SIZE = 64
"""In octets: a side that closes after smaller frames does not enforce a size limit."""
HINT = (
    "see ZMQ_MAXMSGSIZE where the connection is closed: a larger frame ends the connection without a word, whatever "
    "pattern; raise it there, or send less at once; else see whether that program fails on such a message"
)

STAYS_AWAY = "; a socket of libzmq that connected does not connect again after it"


class Sent(NamedTuple):
    """The messages of the side `sender` on a connection, and how the connection ended."""

    connection: ObservedConnection
    sender: int
    sizes: ObservedSizes
    ending: Ending | None

    @property
    def receiver(self) -> tuple[Endpoint, str | None]:
        """The endpoint, and the address of the receiver, or None if the receiver listens."""
        side = 1 - self.sender
        listens = side == self.connection.listener
        return self.connection.endpoint, None if listens else self.connection.sides[side].ip

    @property
    def is_followed_by_end(self) -> bool:
        """Whether the receiver closed during or immediately after the last message, without an error.

        False if the last message was the reply for which the receiver had waited.
        """
        if self.ending is None or self.ending.side == self.sender or self.ending.cause not in WITHOUT_A_WORD:
            return False
        requests = self.connection.requests
        if requests is not None and requests.asker != self.sender and not requests.waiting:
            return False
        said = self.connection.sides[1 - self.sender].last_ns
        is_silent = said is None or said <= self.sizes.last.ns
        end = self.ending.moment.ns
        return is_silent and self.sizes.began_ns <= end <= self.sizes.last.ns + AT_ONCE

    @property
    def largest_taken(self) -> int:
        """Size of the largest frame after which the connection continued."""
        return self.sizes.before if self.is_followed_by_end else max(self.sizes.before, self.sizes.of_last)


def _too_large(knowledge: Knowledge) -> Iterator[Diagnosis]:
    left = {each.connection.conn_id: each for each in disconnects(knowledge)}
    back = {conn_id: each.back_ns for conn_id, each in left.items()}
    sent = (
        Sent(connection, sender, side.sizes, ending_of(connection))
        for connection in knowledge.connections
        if connection.is_whole
        for sender, side in enumerate(connection.sides)
        if side.sizes is not None
    )
    found = grouped((each.receiver, each) for each in sent)
    for same in found.values():
        taken = max(each.largest_taken for each in same)
        least = max(taken + 1, MIN_SIZE)
        ended = [each for each in same if each.is_followed_by_end and each.sizes.of_last >= least]
        if not ended:
            continue
        often = len(ended) >= MIN_TIMES and _come_back(ended, back)
        if taken and (often or all(_is_reset_alone(each, knowledge, back) for each in ended)):
            yield _diagnosis(ended, taken)
        elif len(ended) == 1 and _stays_away(ended[0], found, left, knowledge.last_ns):
            yield _diagnosis(ended, taken, stays_away=True)


def _come_back(ended: list[Sent], back: Mapping[str, int | None]) -> bool:
    """Whether the two reconnected soon each time, except for the last."""
    soon = 0
    for each in ended:
        again = back.get(each.connection.conn_id)
        soon += again is not None and each.ending is not None and again - each.ending.moment.ns <= BACK_NS
    return soon >= len(ended) - 1


def _is_reset_alone(sent: Sent, knowledge: Knowledge, back: Mapping[str, int | None]) -> bool:
    """Whether a listening program reset the connection with unread octets, and continued.

    It ended no other connection at that time, and refused no client until the two were connected again.
    """
    connection, ending, again = sent.connection, sent.ending, back.get(sent.connection.conn_id)
    if ending is None or again is None or not ending.is_reset or ending.side != connection.listener:
        return False
    if again - ending.moment.ns > BACK_NS:
        return False
    others = (ending_of(each) for each in knowledge.by_endpoint[connection.endpoint] if each is not connection)
    return not any(
        other is not None and other.side == connection.listener and abs(other.moment.ns - ending.moment.ns) <= AT_ONCE
        for other in others
    ) and not any(
        finding.id in FAILED
        and finding.endpoint == connection.endpoint
        and ending.moment.ns <= finding.moment.ns <= again
        for finding in knowledge.findings
    )


def _stays_away(
    sent: Sent,
    found: Mapping[tuple[Endpoint, str | None], list[Sent]],
    left: Mapping[str, Disconnect],
    now: int,
) -> bool:
    """Whether a client closed within the message and never tries again, as libzmq does above its limit.

    Either it closed at the header of the frame, or another client took a frame as large.
    """
    connection, ending, departure = sent.connection, sent.ending, left.get(sent.connection.conn_id)
    if ending is None or departure is None or departure.by_listener or departure.is_missed:
        return False
    cut_off, end = departure.cut_off(), ending.moment.ns
    if cut_off is None or departure.back_ns is not None or now - end < BACK_NS:
        return False
    others = (
        each
        for (endpoint, ip), same in found.items()
        if endpoint == connection.endpoint and ip is not None
        for each in same
    )
    is_usual = any(each.largest_taken >= sent.sizes.of_last for each in others)
    return is_usual or end - sent.sizes.began_ns <= AT_THE_HEADER


def _diagnosis(ended: list[Sent], taken: int, *, stays_away: bool = False) -> Diagnosis:
    connection, sender = ended[0].connection, ended[0].sender
    smallest = min(each.sizes.of_last for each in ended)
    more = " or more" if any(each.sizes.of_last != smallest for each in ended) else ""
    receiver = name_of(connection, 1 - sender)
    often = len(ended) >= MIN_TIMES
    frame, who = f"a frame of {smallest} octets{more}", name_of(connection, sender)
    how = (
        f"closes the connection right after {frame} of {who}"
        if often
        else f"resets the connection while {who} sends {frame}, which is lost"
    )
    if stays_away:
        how = f"closes the connection while {who} sends {frame}, and does not come back"
    times = f", each of {len(ended)} times" if len(ended) > 1 else ""
    before = f"; the largest that it took has {taken} octets" if taken else ""
    return Diagnosis.of(
        TOO_LARGE,
        "error" if often else "warn",
        f"{receiver} at {address(connection.endpoint)}",
        f"{receiver} {how}{times}{before}",
        HINT + STAYS_AWAY if stays_away else HINT,
        evidence=(
            Evidence(each.sizes.last, f"a message with a frame of {each.sizes.of_last} octets", each.connection.ref)
            for each in ended[:MAX_EVIDENCE]
        ),
        about=ended,
        explains=(*CUT_OFF, "REQREP-06"),
        count=len(ended),
        last_ns=max(each.sizes.last.ns for each in ended),
        proven=False,
    )


TABLE = (
    Rule(
        TOO_LARGE,
        "error",
        "Connections are closed because of large messages",
        "A program that listens reset the connection in a frame that was larger than any that it took, and refused "
        "nobody until the two were connected again: it did not end. Or three times at least a side closed the "
        "connection within 100 ms after a message, without a word, each time that a frame of it was larger than any "
        "that it took, and the two were connected again within 2 s. Or a client closed once in the header of such a "
        "frame, or while another client took one as large, and never tried again. Who closes "
        "behind the reply for which it had waited is not meant. libzmq does so where a frame is larger than "
        "ZMQ_MAXMSGSIZE, of which its peer learns nothing: it connects again, and what was sent is lost. That the size "
        "is the reason is concluded: a program that fails on large messages, and is started again at once, looks the "
        "same. What the limit is no capture shows, only between which sizes it is.",
        "The receiver accepted a frame of this size, answered after it, or exited, or the two did not reconnect "
        "within 2 s.",
        _too_large,
        (
            *("request-lost", "request-unanswered", "late-reply"),
            *("peer-departed", "periodic-disconnect", "reconnect-storm", "fails-on-message"),
        ),
    ),
)
