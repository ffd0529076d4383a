"""Findings about the end of a connection: missing answers, and the reason for closing.

Only completely captured connections are evaluated, because an answer may be among missing octets.
"""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.findings.side_state import Fault, SideState
from zmtpscope.dissect.findings.timed_events import TimedEvent
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.notes import Note
from zmtpscope.records import SECOND
from zmtpscope.words import duration, listed
from zmtpscope.zmtp import z85
from zmtpscope.zmtp.greeting import GREETING_3_SIZE
from zmtpscope.zmtp.reader import Finding

OWED: dict[tuple[str | None, str | None, str | None], str] = {
    ("CURVE", "HELLO", None): "CURVE-21",
    ("CURVE", "INITIATE", "WELCOME"): "CURVE-24",
    ("PLAIN", "HELLO", None): "PLAIN-08",
    ("PLAIN", "INITIATE", "WELCOME"): "PLAIN-09",
    ("NULL", "READY", None): "NULL-08",
}
"""Findings to report if a handshake ends before the expected answer.

By mechanism, last handshake command of the waiting side, and of the answering side (None: only its greeting).
"""

WAITS_FOR_ZAP = ("PLAIN-08", "CURVE-24", "NULL-08")
"""The answering side may wait for its ZAP handler.

libzmq sends nothing while the handler is silent, and nothing for status 300 (wire.md 7.3); the other side waits for its
ZMQ_HANDSHAKE_IVL.
"""

SILENT_HINT = "its ZAP handler never answered, or answered 300 (temporary failure); or the process hangs"

SERVERS_NAMED = 3
"""Non-matching server keys that the finding names."""


Sides = tuple[SideState, SideState]


def evaluate(
    view: ConnectionView, sides: Sides, faults: list[Fault | None], arrival: Arrival, closed_by: int
) -> Iterator[Note]:
    """Yield findings about the end of a completely captured connection.

    `arrival` is the first FIN or RST, sent by side `closed_by`, with the ordinal of the end; `faults` is the last error
    of each side.
    """
    if not view.is_agreed():
        yield from _evaluate_greeting(sides, arrival, closed_by)
        yield from _evaluate_steps(view, sides, faults, arrival, closed_by)
    if view.is_read_whole():
        yield from _evaluate_requests(view, sides, arrival)
    yield from _evaluate_fault(faults, arrival, 1 - closed_by)


def _evaluate_fault(faults: list[Fault | None], arrival: Arrival, side: int) -> Iterator[Note]:
    """Report an error of one side after which the other side closed first, within a second.

    A side that closes after its own error had other reasons.
    """
    fault = faults[side]
    if fault is None or arrival.time - fault.arrival.time > SECOND:
        return
    error = fault.finding
    detail = f"it closed {(arrival.time - fault.arrival.time) / 1e6:.1f} ms after {error.id}"
    finding = Finding("ZMTP-CONN-08", error.start, error.length, None, detail)
    yield Note(side, finding, arrival, arrival.ordinal, (fault.reference,))


def _evaluate_greeting(sides: Sides, arrival: Arrival, closed_by: int) -> Iterator[Note]:
    """Report a complete greeting to which the other side, `closed_by`, reacted by closing.

    It probably requires another mechanism.
    """
    whole, part = sides[1 - closed_by].greeting, sides[closed_by].greeting
    if whole is None or part is None or part.event.stop >= GREETING_3_SIZE or whole.event.stop < GREETING_3_SIZE:
        return
    mechanism = whole.event.fields.get("mechanism")
    detail = f"it received a greeting for {mechanism}, and its own ends after {part.event.stop} octets"
    finding = Finding("ZMTP3X-GREETING-12", part.event.start, part.event.stop, None, detail)
    yield Note(closed_by, finding, arrival, arrival.ordinal)


def _evaluate_steps(
    view: ConnectionView, sides: Sides, faults: list[Fault | None], arrival: Arrival, closed_by: int
) -> Iterator[Note]:
    """Report a handshake that ended before an expected command, without an error that explains it.

    `faults` is the last error of each side, `arrival` the first FIN or RST, sent by side `closed_by`.
    """
    mechanism = _agreed_mechanism(sides)
    for number, side in enumerate(sides):
        debtor = sides[1 - number]
        last = debtor.step or debtor.greeting
        id_ = OWED.get((mechanism, _name(side.step), _name(debtor.step)))
        if id_ is None or side.step is None or last is None or last.event.stop != view.streams[1 - number].end:
            continue
        early = side.early_traffic(view.version)
        if early is not None:
            finding = Finding("NULL-05", None, 0, None, "the other side never sent READY")
            yield Note(number, finding, early, arrival.ordinal)
        waited = arrival.time - side.step.arrival.time
        explained = faults[number] is not None
        if explained or (closed_by == number and waited <= SECOND):  # a side that leaves at once waits for no answer
            continue
        who = "it closed" if closed_by == 1 - number else "the other side gave up"
        asked = side.subject if id_ == "PLAIN-08" else None
        detail = f"{who} {duration(waited)} {'after' if waited >= 0 else 'before'} {asked or 'it'}"
        if side.step.event.fields.get("mangled"):
            detail += "; the name of the command is misspelt"
        if early is not None:
            detail += "; traffic followed before the answer, and libzmq closes on this"
        if id_ == "CURVE-21":
            id_, proof = _about_server_key(view)
            detail += proof
        hint = SILENT_HINT if id_ in WAITS_FOR_ZAP and waited > SECOND and early is None else None
        finding = Finding(id_, None, 0, None, detail, hint)
        yield Note(1 - number, finding, arrival, arrival.ordinal, (view.reference(side.step),))


def _about_server_key(view: ConnectionView) -> tuple[str, str]:
    """Return the finding for an unanswered HELLO, and its explanation: whether the HELLO fits a known server key."""
    session = view.session
    if session is None:
        return "CURVE-21", ""
    if session.server is not None:
        return "CURVE-23", f"; it is encrypted for {z85.encode(session.server)}"
    known = [z85.encode(server.public) for server in session.keys.server_keys if server.secret is not None]
    if not known:
        return "CURVE-21", ""
    return "CURVE-22", f"; tried without success: {listed(known, SERVERS_NAMED)}"


def _agreed_mechanism(sides: Sides) -> str | None:
    one, other = (side.greeting and side.greeting.event.fields.get("mechanism") for side in sides)
    return one if one == other else None


def _evaluate_requests(view: ConnectionView, sides: Sides, arrival: Arrival) -> Iterator[Note]:
    """Report unanswered requests of a REQ.

    It waits for one reply to each request, so counting messages is enough.
    """
    for number, stream in enumerate(view.streams):
        announced = sides[number].type_event
        if announced is None or announced.event.fields["socket_type"] != "REQ":
            continue
        requests, replies = stream.messages.message_count, view.streams[1 - number].messages.message_count
        if requests > replies and sides[1 - number].type_event is not None:
            start = max(assembly.last_message for assembly in stream.messages.assemblies())
            asked = "1 request" if requests == 1 else f"{requests} requests"
            detail = f"{asked}, {replies or 'no'} {'reply' if replies == 1 else 'replies'}"
            finding = Finding("REQREP-06", start, stream.end - start, None, detail)
            yield Note(number, finding, stream.arrivals.at(start), arrival.ordinal)


def _name(step: TimedEvent | None) -> str | None:
    return None if step is None else step.event.fields["name"]
