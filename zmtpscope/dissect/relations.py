"""Findings that compare the two sides of a connection, in the order in which their packets were captured.

Only connections that were captured whole are judged at their end: where octets are missing, so may be an answer.
Conditions and severities are those of conformance.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.findings import FINDINGS
from zmtpscope.zmtp.events import Command, Greeting
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.socket_types import may_meet

if TYPE_CHECKING:
    from zmtpscope.dissect.dialogue import Dialogue

SECOND = 1_000_000_000
OPEN_PINGS = 3
WHOLE_GREETING = 64
MOST_OPEN_PINGS = 64
"""No more open PINGs than these are remembered."""


class Moment(NamedTuple):
    """Something one side said, when its last octet was captured."""

    arrival: Arrival
    side: int
    event: Greeting | Command


@dataclass(slots=True)
class Side:
    """What is known of one side so far."""

    greeting: Moment | None = None
    type_told: Moment | None = None
    pings: deque[Moment] = field(default_factory=deque)
    ponged: bool = False
    pings_told: bool = False


class Relations:
    """The relation findings of one connection. `add` moments in any order, `weigh` them when a block is read."""

    def __init__(self, dialogue: Dialogue) -> None:
        self.dialogue = dialogue
        self.sides = (Side(), Side())
        self.moments: list[Moment] = []
        self.fault: tuple[Arrival, int, Finding, str] | None = None
        """The last error: when, whose, what, and the identity of the record it is about."""

    def add(self, side: int, event: Greeting | Command, arrival: Arrival) -> None:
        """Something was read on `side`; its last octet came with `arrival`."""
        self.moments.append(Moment(arrival, side, event))

    def found(self, side: int, finding: Finding, arrival: Arrival, reference: str) -> None:
        """Remember the last error, in case the connection closes because of it."""
        if (finding.severity or FINDINGS[finding.id].severity) != "error":
            return
        if self.fault is None or (arrival.ordinal, side) >= (self.fault[0].ordinal, self.fault[1]):
            self.fault = (arrival, side, finding, reference)

    def weigh(self) -> None:
        """Judge what was added, in the order of capture."""
        if not self.moments:
            return
        moments, self.moments = sorted(self.moments, key=_order), []
        for moment in moments:
            if isinstance(moment.event, Greeting):
                self._greeting(moment)
            else:
                handler = HANDLERS.get(str(moment.event.fields.get("name")))
                if handler is not None:
                    handler(self, moment)
            if moment.event.fields.get("socket_type") is not None:
                self._socket_type(moment)

    def _note(self, id_: str, moment: Moment, severity: str | None = None, detail: str | None = None) -> None:
        start, length = moment.event.start, moment.event.stop - moment.event.start
        self.dialogue.note(moment.side, Finding(id_, start, length, severity, detail), moment.arrival)

    # -- greetings and handshake -------------------------------------------------------------------------------------

    def _greeting(self, moment: Moment) -> None:
        self.sides[moment.side].greeting = moment
        other = self.sides[1 - moment.side].greeting
        version = self.dialogue.version
        if other is None or version is None or not version.startswith("3"):
            return
        ours, theirs = moment.event.fields, other.event.fields
        if ours.get("mechanism") != theirs.get("mechanism"):
            detail = f"{theirs.get('mechanism')} against {ours.get('mechanism')}"
            self._note("ZMTP3X-GREETING-05", moment, detail=detail)
        elif ours.get("mechanism") not in (None, "NULL") and ours.get("as_server") == theirs.get("as_server"):
            severity = "warn" if ours.get("as_server") == 1 else None
            self._note("ZMTP3X-GREETING-08", moment, severity)
        if {ours.get("version_announced"), theirs.get("version_announced")} == {"3.0", "3.1"}:
            self._note("ZMTP-DOWNGRADE-02", moment)

    def _socket_type(self, moment: Moment) -> None:
        self.sides[moment.side].type_told = moment
        other = self.sides[1 - moment.side].type_told
        if other is None:
            return
        ours, theirs = str(moment.event.fields["socket_type"]), str(other.event.fields["socket_type"])
        if not may_meet(ours, theirs):
            id_ = "ZMTP20-GREETING-04" if self.dialogue.version == "2.0" else "ZMTP3X-META-08"
            self._note(id_, moment, detail=f"{ours} and {theirs}")

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def _ping(self, moment: Moment) -> None:
        side = self.sides[moment.side]
        if len(side.pings) < MOST_OPEN_PINGS:
            side.pings.append(moment)
        if len(side.pings) > OPEN_PINGS and not side.pings_told:
            side.pings_told = True
            self._note("ZMTP31-PING-09", moment, self._unanswered_severity(1 - moment.side))

    def _pong(self, moment: Moment) -> None:
        self.sides[moment.side].ponged = True
        asker = self.sides[1 - moment.side]
        context = moment.event.fields.get("context")
        if not asker.pings:
            self._note("ZMTP31-PING-08", moment)
            return
        ping = asker.pings.popleft().event.fields
        asked = ping.get("context")
        if ping.get("ttl_ms") is None:
            if context:
                self._note("ZMTP31-PING-10", moment)
        elif (context or b"") != (asked or b"")[:16] and context != asked:
            self._note("ZMTP31-PING-03", moment)

    def _unanswered_severity(self, silent: int) -> str | None:
        """libzmq 4.0 and 4.1 speak 3.0 and do not know PING."""
        return "note" if self.dialogue.version == "3.0" and not self.sides[silent].ponged else None

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self, arrival: Arrival, closed_by: int | None) -> None:
        """The connection closed with `arrival` (FIN or RST captured), `closed_by` first."""
        self._refused_greeting(arrival, closed_by)
        self._unanswered_request(arrival)
        for number, side in enumerate(self.sides):
            if side.pings and self.dialogue.said_something_after(1 - number, side.pings[0].arrival):
                self._note_at("ZMTP31-PING-04", side.pings[0], arrival, self._unanswered_severity(1 - number))
        if self.fault is not None and arrival.time - self.fault[0].time <= SECOND:
            told, side_number, finding, reference = self.fault
            milliseconds = (arrival.time - told.time) / 1e6
            detail = f"{finding.id} came {milliseconds:.1f} ms before"
            note = Finding("ZMTP-CONN-08", finding.start, finding.length, None, detail)
            self.dialogue.note(side_number, note, arrival, (reference,))

    def _refused_greeting(self, arrival: Arrival, closed_by: int | None) -> None:
        """A whole greeting was answered by a close: the usual picture of a mechanism that is not wanted."""
        if closed_by is None:
            return
        whole, part = self.sides[1 - closed_by].greeting, self.sides[closed_by].greeting
        if whole is None or part is None or part.event.stop >= WHOLE_GREETING or whole.event.stop < WHOLE_GREETING:
            return
        mechanism = whole.event.fields.get("mechanism")
        detail = f"the greeting it received asks for {mechanism}, its own ends after {part.event.stop} octets"
        finding = Finding("ZMTP3X-GREETING-12", part.event.start, part.event.stop, None, detail)
        self.dialogue.note(closed_by, finding, arrival)

    def _unanswered_request(self, arrival: Arrival) -> None:
        """A REQ waits for one reply to each request, so the messages of both sides can simply be counted."""
        for number, stream in enumerate(self.dialogue.streams):
            told = self.sides[number].type_told
            if told is None or told.event.fields["socket_type"] != "REQ":
                continue
            requests = stream.message_count
            replies = self.dialogue.streams[1 - number].message_count
            if requests > replies and self.sides[1 - number].type_told is not None:
                start = max(assembly.last_message for assembly in stream.assemblies())
                detail = f"{requests} requests, {replies} replies"
                finding = Finding("REQREP-06", start, stream.end - start, None, detail)
                last = stream.arrivals.at(start)
                self.dialogue.note(number, finding, Arrival(arrival.ordinal, last.packet, last.time))

    def _note_at(self, id_: str, moment: Moment, arrival: Arrival, severity: str | None) -> None:
        start, length = moment.event.start, moment.event.stop - moment.event.start
        decided = Arrival(arrival.ordinal, moment.arrival.packet, moment.arrival.time)
        self.dialogue.note(moment.side, Finding(id_, start, length, severity), decided)


HANDLERS: dict[str, Callable[[Relations, Moment], None]] = {
    "PING": Relations._ping,
    "PONG": Relations._pong,
}


def _order(moment: Moment) -> tuple[int, int, int]:
    return moment.arrival.ordinal, moment.side, moment.event.start
