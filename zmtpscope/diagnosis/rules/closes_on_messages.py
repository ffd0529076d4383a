"""Connections that end because of a message: it is too large, or the receiving program exits on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from zmtpscope.diagnosis.across.disconnects import (
    CUT_OFF,
    FAILED,
    WITHOUT_A_WORD,
    Disconnect,
    disconnects,
    of_listeners,
)
from zmtpscope.diagnosis.across.endings import Ending, ending_of
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, client_name, duration, how_often, name_of, server_name
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedRhythm, ObservedSizes
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND

TOO_LARGE = "message-too-large"

AT_ONCE = SECOND // 10
"""A side that ends the connection this soon after a message, without an error, does so because of it."""
BACK_NS = 2 * SECOND
"""The time to the next connection if the library ended the connection, and not the program."""
AT_THE_HEADER = SECOND // 200
"""libzmq closes within this time when it has read the frame header."""
MIN_TIMES = 3
MIN_SIZE = 64
"""A side that closes after smaller frames (octets) does not enforce a size limit."""
TOO_LARGE_HINT = (
    "check ZMQ_MAXMSGSIZE of the side that closes: a larger frame ends the connection without notice; raise it "
    "there, or send smaller messages; otherwise check whether that program fails on such a message"
)

STAYS_AWAY = "; a libzmq socket that connected does not reconnect after it"


class Sent(NamedTuple):
    connection: ObservedConnection
    sender: int
    sizes: ObservedSizes
    ending: Ending | None

    @property
    def receiver(self) -> tuple[Endpoint, str | None]:
        """The endpoint, and the address of the receiver if it is a client, otherwise None."""
        side = 1 - self.sender
        listens = side == self.connection.listener
        return self.connection.endpoint, None if listens else self.connection.sides[side].ip

    @property
    def is_followed_by_end(self) -> bool:
        """Whether the receiver closed during or right after the last message, without an error.

        False if it had waited for this message as a reply.
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
        """Size of the largest frame after which the receiver kept the connection open."""
        return self.sizes.before if self.is_followed_by_end else max(self.sizes.before, self.sizes.of_last)


def _too_large(knowledge: Knowledge) -> Iterator[Diagnosis]:
    sent = [
        Sent(connection, sender, side.sizes, ending_of(connection))
        for connection in knowledge.connections
        if connection.is_whole
        for sender, side in enumerate(connection.sides)
        if side.sizes is not None
    ]
    suspected = {
        each.connection.endpoint for each in sent if each.sizes.of_last >= MIN_SIZE and each.is_followed_by_end
    }
    if not suspected:
        return
    left = {each.connection.conn_id: each for each in disconnects(knowledge)}
    back = {conn_id: each.back_ns for conn_id, each in left.items()}
    found = grouped((each.receiver, each) for each in sent if each.connection.endpoint in suspected)
    for same in found.values():
        taken = max(each.largest_taken for each in same)
        least = max(taken + 1, MIN_SIZE)
        ended = [each for each in same if each.is_followed_by_end and each.sizes.of_last >= least]
        if not ended:
            continue
        often = len(ended) >= MIN_TIMES and _come_back(ended, back)
        if taken and (often or all(_is_reset_alone(each, knowledge, back) for each in ended)):
            yield _too_large_diagnosis(ended, taken)
        elif len(ended) == 1 and _stays_away(ended[0], found, left, knowledge.last_ns):
            yield _too_large_diagnosis(ended, taken, stays_away=True)


def _come_back(ended: list[Sent], back: Mapping[str, int | None]) -> bool:
    """Whether the two peers soon reconnected each time, except perhaps after the last end."""
    soon = 0
    for each in ended:
        again = back.get(each.connection.conn_id)
        soon += again is not None and each.ending is not None and again - each.ending.moment.ns <= BACK_NS
    return soon >= len(ended) - 1


def _is_reset_alone(sent: Sent, knowledge: Knowledge, back: Mapping[str, int | None]) -> bool:
    """Whether a listening program reset this connection with unread octets, and continued to run.

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
    """Whether a client closed in the middle of a message and never connected again, as libzmq does above
    ZMQ_MAXMSGSIZE.

    It must have closed at the frame header, or another client must have accepted a frame of that size.
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


def _too_large_diagnosis(ended: list[Sent], taken: int, *, stays_away: bool = False) -> Diagnosis:
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
        how = f"closes the connection while {who} sends {frame}, and does not reconnect"
    times = f", each of {len(ended)} times" if len(ended) > 1 else ""
    before = f"; the largest one that it accepted has {taken} octets" if taken else ""
    return Diagnosis.of(
        TOO_LARGE,
        "error" if often else "warn",
        f"{receiver} at {address(connection.endpoint)}",
        f"{receiver} {how}{times}{before}",
        TOO_LARGE_HINT + STAYS_AWAY if stays_away else TOO_LARGE_HINT,
        evidence=(
            Evidence(each.sizes.last, f"a message with a frame of {each.sizes.of_last} octets", each.connection.ref)
            for each in ended[:MAX_EVIDENCE]
        ),
        about=ended,
        explains=(*CUT_OFF, "REQREP-06"),
        last_ns=max(each.sizes.last.ns for each in ended),
        proven=False,
    )


FASTER = 10
"""The end follows the message this many times sooner than the next message would: no coincidence."""

FAILS_HINT = (
    "check the log of that program for the last message: the program fails on it, or treats it as a request to "
    "exit; messages that were queued for it are lost"
)


class Failure(NamedTuple):
    """A connection that the listener ended right after the client's last message."""

    departure: Disconnect
    rhythm: ObservedRhythm
    sizes: ObservedSizes

    @property
    def connection(self) -> ObservedConnection:
        return self.departure.connection

    @property
    def after(self) -> int:
        return self.departure.ending.moment.ns - self.rhythm.last.ns


def _fails(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each client and endpoint where the listener ends all connections right after a message of the client."""
    for departures in of_listeners(knowledge).values():
        failures = [failure for each in departures if (failure := _failure(each)) is not None]
        if MIN_TIMES <= len(failures) == len(departures):
            yield _failing_diagnosis(failures)


def _failure(departure: Disconnect) -> Failure | None:
    connection = departure.connection
    server, client = connection.server, connection.client
    rhythm, sizes = client.rhythm, client.sizes
    if rhythm is None or sizes is None or connection.requests is not None or not connection.is_whole:
        return None
    failure = Failure(departure, rhythm, sizes)
    is_answered = server.last_ns is not None and server.last_ns > rhythm.last.ns
    since = rhythm.first_ns if rhythm.count > 1 else connection.start.ns
    usual = (rhythm.last.ns - since) / max(rhythm.count - 1, 1)
    is_at_once = 0 <= failure.after <= AT_ONCE and failure.after * FASTER <= usual
    return failure if is_at_once and not is_answered else None


def _failing_diagnosis(failures: list[Failure]) -> Diagnosis:
    first = failures[0].connection
    sizes = {each.sizes.of_last for each in failures}
    what = f"a message with a frame of {min(sizes)} octets" if len(sizes) == 1 else "a message"
    times = [each.departure.ending.moment.ns for each in failures]
    server, client = server_name(first), client_name(first)
    return Diagnosis.of(
        "fails-on-message",
        "warn",
        f"{server} at {address(first.endpoint)}",
        f"{server} ends each connection of {client} within {duration(max(each.after for each in failures))} after "
        f"{what} of {client}, without a reply, {how_often(times)}",
        FAILS_HINT,
        evidence=(
            Evidence(each.rhythm.last, "the last message", each.connection.ref) for each in failures[:MAX_EVIDENCE]
        ),
        about=failures,
        explains=CUT_OFF,
        last_ns=max(times),
        proven=False,
    )


TABLE = (
    Rule(
        TOO_LARGE,
        "error",
        "Connections are closed because of large messages",
        "A receiver closed a connection at a frame larger than any that it accepted before. libzmq does this if a "
        "frame exceeds ZMQ_MAXMSGSIZE. The sender gets no reason and connects again, and the message is lost. Three "
        "cases are reported:\n"
        "* A listening program reset the connection inside such a frame. It refused no client until the two were "
        "connected again, so it did not exit.\n"
        "* A side closed the connection within 100 ms after such a frame, at least three times, and the two were "
        "connected again within 2 s each time.\n"
        "* A client closed once in the header of such a frame, or while another client accepted a frame of that size, "
        "and never connected again.\n"
        "The size is inferred as the reason: a program that fails on large messages and is restarted at once looks "
        "the same. A capture does not show the limit, only two sizes that it lies between.",
        "* The receiver accepted a frame of this size, or answered after it.\n"
        "* The receiver exited, or the two did not reconnect within 2 s.\n"
        "* The side that closes had waited for this message as a reply.",
        _too_large,
        (
            *("request-lost", "request-unanswered", "late-reply"),
            *("peer-departed", "periodic-disconnect", "client-returns", "reconnect-storm", "fails-on-message"),
        ),
    ),
    Rule(
        "fails-on-message",
        "warn",
        "A program exits on a certain message",
        "A listening program closed at least three connections of a client, each within 100 ms after a message of the "
        "client. To exclude chance, each close must also follow within a tenth of the usual time between such "
        "messages. A timer would close at any moment, so the program probably fails on the message. Requests that are "
        "matched with replies are reported by request-lost instead.",
        "* One of the connections ends at another moment.\n* The program sends something after the message.",
        _fails,
        (
            "periodic-disconnect",
            "client-returns",
            "peer-departed",
            "reconnect-storm",
            "connection-refused",
            "fell-silent",
        ),
    ),
)
