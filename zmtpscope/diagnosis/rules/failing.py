"""Rules for programs that exit after a certain message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zmtpscope.diagnosis.across.disconnects import CUT_OFF, Disconnect, of_listeners
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, client_name, duration, how_often, server_name
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedSizes
from zmtpscope.diagnosis.observers.observed_facts import ObservedRhythm
from zmtpscope.records import SECOND

AT_ONCE = SECOND // 10
"""A program that fails on a message ends within this time (ns) after it."""
FASTER = 10
"""The end follows the message this many times as fast as the next message would: it is no coincidence."""
MIN_TIMES = 3

HINT = (
    "see the log of that program for the last message: the program fails on it, or takes it as an order to exit; "
    "messages sent to it meanwhile, or queued in it, are lost"
)


class Failure(NamedTuple):
    """A connection that the listener ended immediately after the last message of the client."""

    departure: Disconnect
    rhythm: ObservedRhythm
    sizes: ObservedSizes

    @property
    def connection(self) -> ObservedConnection:
        """The connection that ended."""
        return self.departure.connection

    @property
    def after(self) -> int:
        """Nanoseconds from the message to the end."""
        return self.departure.ending.moment.ns - self.rhythm.last.ns


def _fails(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Yield one diagnosis for each client at an endpoint, if the listener ends all its connections so."""
    for departures in of_listeners(knowledge).values():
        failures = [failure for each in departures if (failure := _failure(each)) is not None]
        if MIN_TIMES <= len(failures) == len(departures):
            yield _diagnosis(failures)


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


def _diagnosis(failures: list[Failure]) -> Diagnosis:
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
        f"{what} of {client}, to which it says nothing, {how_often(times)}",
        HINT,
        evidence=(
            Evidence(each.rhythm.last, "the last message", each.connection.ref) for each in failures[:MAX_EVIDENCE]
        ),
        about=failures,
        explains=CUT_OFF,
        count=len(failures),
        last_ns=max(times),
        proven=False,
    )


TABLE = (
    Rule(
        "fails-on-message",
        "warn",
        "A program exits on a certain message",
        "A listening program ended every connection that it ended with a client, at least three, within 100 ms after "
        "a message of the client, without notice, and at least ten times as fast as these messages follow each "
        "other. A time limit would end connections at any moment, not after messages. Requests that are matched with "
        "replies are reported by request-lost.",
        "One of the connections ends at another moment, or the program sends something after the message.",
        _fails,
        ("periodic-disconnect", "peer-departed", "reconnect-storm", "connection-refused", "fell-silent"),
    ),
)
