"""Messages without the empty delimiter frame between the envelope and the request or reply."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.endings import ending_of
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, name_of, repeated
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection, ObservedFinding
from zmtpscope.grouping import grouped

MISSING = "delimiter-missing"

WHAT = {
    "REQREP-01": "sends {peer} a request without the empty frame before it: the reply cannot be routed back",
    "REQREP-03": "replies to {peer} without the empty frame before the reply: the reply is dropped",
    "REQREP-05": "sends {peer} a request without the empty frame before it: the REP drops it silently",
}
"""What the sender has done, by finding."""

HINTS = {
    "REQREP-01": "make the REQ send an empty frame first, as 28/REQREP requires",
    "REQREP-03": 'send the frames before the request back before the reply: address, b"", reply',
    "REQREP-05": 'send b"" and the request as two frames of one message, and remove b"" from the reply; or use a REQ',
}

LEAVES_NS = 100_000_000
"""A side that closes this soon after the reply closes because of it."""

Sender = tuple[str, str, str, Endpoint]
"""Finding, sender, receiver and their endpoint."""


def _missing(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = grouped(
        (
            (finding.id, name_of(each, finding.side), name_of(each, 1 - finding.side), each.endpoint),
            (each, finding),
        )
        for each in knowledge.connections
        for finding in each.findings.values()
        if finding.id in WHAT and finding.side is not None and finding.severity != "note"  # a note is a probe
    )
    for sender, met in found.items():
        yield _diagnosis(sender, met)
    yield from _without_id(knowledge)


def _without_id(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = grouped(
        ((name_of(each, 1 - requests.asker), name_of(each, requests.asker), each.endpoint), (each, requests.without_id))
        for each in knowledge.connections
        if (requests := each.requests) is not None and requests.without_id is not None and each.is_whole
    )
    for (sender, peer, endpoint), same in found.items():
        yield Diagnosis.of(
            MISSING,
            "error",
            f"{sender} to {peer} at {address(endpoint)}",
            f"{sender} replies to {peer} without the request id before the empty frame (ZMQ_REQ_CORRELATE): the "
            "reply is dropped",
            'send all frames before the request back before the reply: address, id, b"", reply',
            evidence=(
                Evidence(reply.moment, f"{sender} sends no request id", reply.ref) for _, reply in same[:MAX_EVIDENCE]
            ),
            about=(each for each, _ in same),
            explains=("REQREP-06",),
        )


def _diagnosis(of: Sender, met: list[tuple[ObservedConnection, ObservedFinding]]) -> Diagnosis:
    id_, sender, peer, endpoint = of
    count, last_ns = sum(finding.count for _, finding in met), max(finding.last_ns for _, finding in met)
    times = sorted(finding.moment.ns for _, finding in met)
    leaves = ", and the REQ closes the connection" if all(_leaves(*each) for each in met) else ""
    return Diagnosis.of(
        MISSING,
        "error",
        f"{sender} to {peer} at {address(endpoint)}",
        f"{sender} {WHAT[id_].format(peer=peer)}{leaves}{repeated(times, count, last_ns)}",
        HINTS[id_],
        evidence=(
            Evidence(finding.moment, f"{sender} sends no empty frame", finding.ref) for _, finding in met[:MAX_EVIDENCE]
        ),
        about=(connection for connection, _ in met),
        explains=(id_, "REQREP-06"),
        count=count,
        last_ns=last_ns,
    )


def _leaves(connection: ObservedConnection, finding: ObservedFinding) -> bool:
    """Whether a REQ of libzmq closed the connection because a reply had no delimiter."""
    ending, receiver = ending_of(connection), 1 - (finding.side or 0)
    is_req = finding.id == "REQREP-03" and connection.sides[receiver].socket_type == "REQ"
    return (
        is_req
        and ending is not None
        and ending.side == receiver
        and 0 <= ending.moment.ns - finding.moment.ns <= LEAVES_NS
    )


TABLE = (
    Rule(
        MISSING,
        "error",
        "A request or a reply does not start with an empty frame",
        "A request or reply has no empty delimiter frame, although its receiver expects one (REQREP-01, -03, -05). "
        "This concerns requests of a REQ or DEALER, and replies of a ROUTER or REP to a REQ.\n"
        "* A REP drops a request without delimiter silently.\n"
        "* A REQ drops a reply without delimiter. A REQ of libzmq also closes the connection permanently.\n"
        "* A REQ with ZMQ_REQ_CORRELATE drops every reply that does not repeat the id frame of its request.\n"
        "A ROUTER and a DEALER need no delimiter between them. Encrypted messages can be checked only with their "
        "keys.",
        "* A ROUTER and a DEALER talk to each other.\n* The frames are encrypted and their keys unknown.",
        _missing,
        (
            "request-unanswered",
            "request-lost",
            "late-reply",
            "peer-departed",
            "periodic-disconnect",
            "client-returns",
            "reconnect-storm",
        ),
    ),
)
