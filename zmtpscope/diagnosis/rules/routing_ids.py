"""ROUTERs that send to a wrong routing id: that of a closed connection, or one that no client has."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import end_of, ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import (
    address,
    client_name,
    duration,
    name_of,
    names_of,
    same_on,
    server_name,
    zre_node,
)
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import Endpoint, Ends, ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedRhythm
from zmtpscope.diagnosis.rules.socket_types import TAKEN_ID
from zmtpscope.records import SECOND
from zmtpscope.words import counted

OLD_ROUTING_ID = "old-routing-id"

MIN_SENT, MIN_HEARD = 8, 3
"""Messages that the ROUTER sent unasked on the old connection, and that the client sent on the new one."""
PUSHES = 1.5
"""A ROUTER that sends this multiple of the received messages does not only answer."""
MIN_SILENCE = 5 * SECOND
MANY_PAUSES = 10
"""The ROUTER is silent on the new connection for this multiple of the longest pause before."""

HINT = (
    "a ROUTER silently drops messages to the routing id of a connection that is gone: give the client a fixed identity "
    "(ZMQ_ROUTING_ID) or let it register again after it connects; let the ROUTER use the routing id of the client's "
    "last message, and set ZMQ_ROUTER_MANDATORY to get an error for unknown ids"
)


class Moved(NamedTuple):
    """A client that reconnected to a ROUTER, which sent nothing on the new connection for `silent` (ns). `router` is
    its side."""

    old: ObservedConnection
    new: ObservedConnection
    router: int
    silent: int

    @property
    def pushed(self) -> ObservedRhythm:
        """The times of the ROUTER's messages on the old connection."""
        rhythm = self.old.sides[self.old.side_of("ROUTER") or 0].rhythm
        assert rhythm is not None
        return rhythm


def _old_routing_id(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for ends, connections in knowledge.by_ends.items():
        for old, new in _replaced(connections):
            moved = _moved(old, new, knowledge.last_ns)
            if moved is not None:
                goes_on = _last_sent(knowledge).get(ends.endpoint, 0) > moved.new.start.ns
                yield _diagnosis(ends, moved, goes_on)
                break


def _replaced(connections: Sequence[ObservedConnection]) -> Iterator[tuple[ObservedConnection, ObservedConnection]]:
    """Yield each ended connection with the next one of the same address, in order of start.

    Pairs are skipped if another connection ended in between, because the new one might replace either.
    """
    starts = [each.start.ns for each in connections]
    ended = [(ending.moment.ns, each) for each in connections if (ending := ending_of(each)) is not None]
    ends = sorted(end for end, _ in ended)
    for end, old in ended:
        place = bisect_left(starts, end)
        if 0 < place < len(starts):
            between = bisect_right(ends, starts[place]) - bisect_left(ends, starts[place - 1])
            if between == 1:
                yield old, connections[place]


def _moved(old: ObservedConnection, new: ObservedConnection, now: int) -> Moved | None:
    before, after = old.side_of("ROUTER"), new.side_of("ROUTER")
    if before is None or after is None or {"ROUTER", "DEALER"} != set(new.socket_types()):
        return None
    if not all(each.is_whole and is_agreed(each) for each in (old, new)):
        return None
    identities = old.sides[1 - before].identity, new.sides[1 - after].identity
    if identities[0] and identities[0] == identities[1]:
        return None  # the ROUTER reaches it by the same routing id
    pushed, asked = old.sides[before].rhythm, old.sides[1 - before].rhythm
    sent, heard = new.sides[after].rhythm, new.sides[1 - after].rhythm
    if pushed is None or sent is not None or heard is None or heard.count < MIN_HEARD:
        return None
    if pushed.count < max(MIN_SENT, PUSHES * (0 if asked is None else asked.count)):
        return None
    silent = end_of(new, now) - heard.first_ns
    return Moved(old, new, after, silent) if silent >= max(MIN_SILENCE, MANY_PAUSES * pushed.longest_ns) else None


@once
def _last_sent(knowledge: Knowledge) -> dict[Endpoint, int]:
    """Return for each endpoint the time (ns) of the last message of its ROUTER."""
    found: dict[Endpoint, int] = {}
    for connection in knowledge.connections:
        router = connection.side_of("ROUTER")
        rhythm = None if router is None else connection.sides[router].rhythm
        if rhythm is not None:
            found[connection.endpoint] = max(found.get(connection.endpoint, 0), rhythm.last.ns)
    return found


def _diagnosis(ends: Ends, moved: Moved, goes_on: bool) -> Diagnosis:
    old, new, router, silent = moved
    name, peer = name_of(new, router), name_of(new, 1 - router)
    heard = new.sides[1 - router].rhythm
    count = 0 if heard is None else heard.count
    return Diagnosis.of(
        OLD_ROUTING_ID,
        "note" if goes_on else "warn",
        ends.name,
        f"{name} sends nothing on the new connection of {peer}, on which {counted(count, 'message')} arrived in "
        f"{duration(silent)}; on the old one it sent {moved.pushed.count}, as if it still used the routing id of that "
        "one",
        HINT,
        evidence=(
            Evidence(moved.pushed.last, f"the last message of {name} on the old connection", old.ref),
            Evidence(new.start, "the new connection begins", new.ref),
        ),
        about=(new,),
        proven=False,
    )


CLIENT_UNANSWERED = "client-unanswered"

MIN_ASKED = 3
"""Messages of a client, and of the client that it is compared with."""
MIN_WAIT, LONG_WAIT = 3 * SECOND, 10 * SECOND
MAX_FEW = 8
"""A client that sends more messages without any answer needs none."""
MIN_REGULAR, REGULAR = 4, 2
"""Regular messages, whose longest pause is at most this multiple of the average one."""
SAME_SIZE = 2
"""Frames that differ by at most this factor are messages of the same kind."""

UNKNOWN_ID = (
    "a ROUTER silently drops messages to a routing id that no client has: compare the id in the program, octet by "
    "octet, with the client's; ZMQ_ROUTER_MANDATORY turns the drop into an error"
)

NOT_SERVED = (
    "check whether a worker of the ROUTER serves what this client requests, and the ROUTER's log for rejected messages"
)


def _client_unanswered(knowledge: Knowledge) -> Iterator[Diagnosis]:
    yield from _nobody_answered(knowledge)
    for endpoint, connections in knowledge.by_endpoint.items():
        asking = [each for each in connections if _asks(each)]
        served = [each for each in asking if _is_served(each)]
        sizes = [sizes for each in served if (sizes := each.client.sizes) is not None]
        largest = [each.largest for each in sizes]
        left_out = [
            each for each in asking if sizes and _is_left_out(each, min(largest), max(largest), knowledge.last_ns)
        ]
        if not left_out or len(left_out) > len(served):
            continue  # the ROUTER answers some kinds of clients, and others never
        first = left_out[0]
        client, answered = names_of(*((each, 1 - each.listener) for each in (first, served[0])))
        name, rhythm = server_name(first), first.client.rhythm
        count = 0 if rhythm is None else rhythm.count
        earlier = next((each for each in served if _is_same_identity(each, first)), None)
        if earlier is None:
            what = f", although it answers each message of {answered}"
        else:
            what = ", as if it still had the earlier connection of that identity and had missed its end"
        yield Diagnosis.of(
            CLIENT_UNANSWERED,
            "warn"
            if earlier is not None or _sizes(first) in {(each.of_last, each.before) for each in sizes}
            else "note",
            f"{name} at {address(endpoint)}",
            f"{name} sends nothing to {client}, from which {count} messages came{what}{same_on(len(left_out) - 1)}",
            TAKEN_ID if earlier is not None else UNKNOWN_ID if first.client.identity else NOT_SERVED,
            evidence=(Evidence(each.start, "the connection begins", each.ref) for each in left_out[:MAX_EVIDENCE]),
            about=left_out,
            proven=False,
        )


def _nobody_answered(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Yield a note for each endpoint at which a ROUTER sent nothing to any client."""
    for endpoint, connections in knowledge.by_endpoint.items():
        if any(each.server.rhythm is not None or _expects_nothing(each.client.rhythm) for each in connections):
            continue
        waited = [(wait, each) for each in connections if (wait := _waits(each, knowledge.last_ns)) >= LONG_WAIT]
        if not waited:
            continue
        longest, first = max(waited, key=itemgetter(0))
        name, client = server_name(first), client_name(first)
        rhythm = first.client.rhythm
        assert rhythm is not None
        yield Diagnosis.of(
            CLIENT_UNANSWERED,
            "note",
            f"{name} at {address(endpoint)}",
            f"{name} sent nothing to any client: {client} has been waiting for {duration(longest)} after "
            f"{counted(rhythm.count, 'message')}{same_on(len(waited) - 1)}",
            "no action if no answer is due; otherwise check whether that program and its workers run, and its log "
            "for rejected messages",
            evidence=(Evidence(rhythm.last, f"the last message of {client}"),),
            about=(each for _, each in waited),
            proven=False,
        )


def _expects_nothing(rhythm: ObservedRhythm | None) -> bool:
    """Whether a client probably needs no answer: it sent messages at regular times, and none was answered."""
    if rhythm is None or rhythm.count < MIN_REGULAR or rhythm.lasted_ns < MIN_WAIT:
        return False
    return rhythm.longest_ns * (rhythm.count - 1) <= REGULAR * rhythm.lasted_ns


def _waits(connection: ObservedConnection, now: int) -> int:
    """Return the time (ns) since the last message of a DEALER to a ROUTER; 0 if it sends a stream of messages."""
    server, client = connection.server, connection.client
    if (client.socket_type, server.socket_type) != ("DEALER", "ROUTER") or client.calls is not None:
        return 0
    if zre_node(client.identity) is not None:  # nodes of ZRE answer on connections of their own
        return 0
    if client.rhythm is None or client.rhythm.count > MAX_FEW or client.last_outage is not None:
        return 0
    if not connection.is_whole or not is_agreed(connection):
        return 0
    return end_of(connection, now) - client.rhythm.last.ns


def _sizes(connection: ObservedConnection) -> tuple[int, int] | None:
    """Return the size of a client's last message, and of its largest earlier one; None if unknown."""
    sizes = connection.client.sizes
    return None if sizes is None else (sizes.of_last, sizes.before)


def _is_same_identity(earlier: ObservedConnection, later: ObservedConnection) -> bool:
    """Whether an earlier connection with the same identity may be open for the listener, which did not close it."""
    one, other = earlier.client.identity, later.client.identity
    values = earlier.values
    has_closed = values is not None and values[f"fin_ns_{earlier.listener}"] is not None
    return bool(one) and one == other and earlier.start.ns < later.start.ns and not has_closed


def _asks(connection: ObservedConnection) -> bool:
    """Whether a connecting DEALER sent several messages to a listening ROUTER."""
    server, client = connection.server, connection.client
    if (client.socket_type, server.socket_type) != ("DEALER", "ROUTER") or client.pending_calls:
        return False
    is_asking = client.rhythm is not None and client.rhythm.count >= MIN_ASKED
    return is_asking and connection.is_whole and is_agreed(connection)


def _is_served(connection: ObservedConnection) -> bool:
    """Whether the ROUTER sent one message for each message of the client."""
    sent, came = connection.server.rhythm, connection.client.rhythm
    return sent is not None and came is not None and 0 <= came.count - sent.count <= 1


def _is_left_out(connection: ObservedConnection, smallest: int, largest: int, now: int) -> bool:
    """Whether the ROUTER has sent nothing to a client for long, although its messages are of the usual size.

    `smallest` and `largest` are the sizes of the messages that the ROUTER answers.
    """
    client = connection.client
    if connection.server.rhythm is not None or client.last_outage is not None:
        return False
    until = end_of(connection, now)
    is_usual = client.sizes is not None and smallest <= client.sizes.largest * SAME_SIZE <= largest * SAME_SIZE**2
    return is_usual and client.rhythm is not None and until - client.rhythm.first_ns >= MIN_WAIT


TABLE = (
    Rule(
        OLD_ROUTING_ID,
        "warn",
        "A ROUTER sends to the old routing id of a client that reconnected",
        "A ROUTER sent a client at least eight messages, and more than it received. The client reconnected with "
        "another identity or none, and so with another routing id, and sent at least three messages. Since then the "
        "ROUTER sent it nothing for 5 s, and for ten times its longest earlier pause. The ROUTER probably still sends "
        "to the old routing id: libzmq drops these messages before they are on the wire, so it is not proven.\n"
        "* Severity note if the ROUTER sends to other clients meanwhile.",
        "* The ROUTER sends anything on the new connection.\n"
        "* The identity is the same as before.\n"
        "* The ROUTER only ever answered messages.\n"
        "* Other connections of the same address ended meanwhile.",
        _old_routing_id,
    ),
    Rule(
        CLIENT_UNANSWERED,
        "warn",
        "A ROUTER answers other clients but never this one",
        "A ROUTER answers one DEALER and ignores another. To the answered DEALER it sent one message for each "
        "received, at least three. To the ignored one it sent nothing for 3 s, although that DEALER sent at least "
        "three messages of about the same size. The ROUTER may send to an unknown routing id, which libzmq drops "
        "before it is on the wire. Or another connection, which has ended without the ROUTER noticing, still owns the "
        "identity of the client. Not proven: the program may ignore that client on purpose.\n"
        "* Severity note if the messages of the two DEALERs differ in size.\n"
        "* Severity note if the ROUTER sent nothing to any client, and one DEALER has waited for 10 s after a few "
        "messages.",
        "* The ROUTER sends anything to that client.\n"
        "* The ROUTER answers fewer clients than it ignores.\n"
        "* The messages of the client have another size, or were not acknowledged.\n"
        "* The ROUTER answers no client, and a client sends at regular times.",
        _client_unanswered,
        ("fell-silent",),
    ),
)
