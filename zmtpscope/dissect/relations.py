"""Findings that compare the two sides of a connection, in the order in which their packets were captured.

Only connections that were captured whole are judged at their end: where octets are missing, so may be an answer.
What other connections have to know is reported as facts (`endpoints.py`). Conditions and severities are those of
conformance.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from zmtpscope.dissect.arrivals import Arrival, BlockView
from zmtpscope.dissect.endpoints import Ending, Fact, Located, Party
from zmtpscope.findings import FINDINGS
from zmtpscope.zmtp import z85
from zmtpscope.zmtp.events import Command, Greeting
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.regime import Form
from zmtpscope.zmtp.socket_types import may_meet

if TYPE_CHECKING:
    from zmtpscope.dissect.dialogue import Dialogue

SECOND = 1_000_000_000
OPEN_PINGS = 3
WHOLE_GREETING = 64
MOST_OPEN_PINGS = 64
"""No more open PINGs than these are remembered."""

LARGEST_IDENTITY = 255
"""Octets; one that is larger is no identity."""

OWED: dict[tuple[str | None, str | None, str | None], str] = {
    ("CURVE", "HELLO", None): "CURVE-21",
    ("CURVE", "INITIATE", "WELCOME"): "CURVE-24",
    ("PLAIN", "HELLO", None): "PLAIN-08",
    ("PLAIN", "INITIATE", "WELCOME"): "PLAIN-09",
    ("NULL", "READY", None): "NULL-08",
}
"""What to say where a handshake ends without the answer that a side owes: by mechanism, the last handshake command of
the side that asked, and that of the side that owes the answer (None: it has sent its greeting only)."""

SERVERS_NAMED = 3
"""So many server keys are named that a HELLO was not made for."""

Rows = tuple[list[int], list[int]]
"""The rows of a block with octets of side 0 and side 1."""


class Moment(NamedTuple):
    """Something one side said, when its last octet was captured."""

    arrival: Arrival
    side: int
    event: Greeting | Command


class Hush(NamedTuple):
    """What a side did when it went on behind something that it had to close on, and when that came."""

    id: str
    ordinal: int
    time: int
    reason: str


class Side:
    """What is known of one side so far."""

    greeting: Moment | None = None
    step: Moment | None = None
    """Its last handshake command."""
    awaited: int | None = None
    """The ordinal of its READY, where nothing had come behind that when it was read, and the mechanism is NULL ..."""
    behind_ready: Arrival | None = None
    """... and the first segment with octets behind it."""
    hush: Hush | None = None
    hush_told: bool = False
    type_told: Moment | None = None
    ponged: bool = False
    pings_told: bool = False

    def __init__(self) -> None:
        self.pings: deque[Moment] = deque()


class Relations:
    """The relation findings of one connection. `add` moments in any order, `weigh` them when a block is read."""

    party: Party | None = None
    """What other connections know this one by, once it has reported something."""
    awaiting = hushing = False
    """Whether some side has a READY with nothing behind it yet, and whether some should say nothing any more."""

    def __init__(self, dialogue: Dialogue) -> None:
        self.dialogue = dialogue
        self.sides = (Side(), Side())
        self.moments: list[Moment] = []
        self.fault: tuple[Arrival, int, Finding, str] | None = None
        """The last error: when, whose, what, and the identity of the record it is about."""

    def add(self, side: int, event: Greeting | Command, arrival: Arrival) -> None:
        """Something was read on `side`; its last octet came with `arrival`."""
        self.moments.append(Moment(arrival, side, event))
        if event.fields.get("name") == "READY" and event.regime.mechanism == "NULL":
            stream = self.dialogue.streams[side]
            if stream.end > event.stop:
                self.sides[side].behind_ready = stream.arrivals.at(event.stop)
            else:
                self.awaiting, self.sides[side].awaited = True, arrival.ordinal

    def found(self, side: int, finding: Finding, arrival: Arrival, reference: str) -> None:
        """Remember the last error, in case the connection closes because of it."""
        if (finding.severity or FINDINGS[finding.id].severity) != "error":
            return
        if self.fault is None or (arrival.ordinal, side) >= (self.fault[0].ordinal, self.fault[1]):
            self.fault = (arrival, side, finding, reference)

    def weigh(self, view: BlockView | None = None, rows: Rows = ([], [])) -> None:
        """Judge what was added, in the order of capture; `rows` are those of the block with octets of either side."""
        if self.awaiting and view is not None:
            self._look_behind_ready(view, rows)
        if self.moments:
            self._weigh_moments()
        if self.hushing and view is not None:
            self._listen(view, rows)

    def _look_behind_ready(self, view: BlockView, rows: Rows) -> None:
        for side, own in zip(self.sides, rows, strict=True):
            ready = side.awaited
            behind = () if ready is None else (row for row in own if view.ordinals[row] > ready)
            first = next(iter(behind), None)
            if first is not None:
                side.behind_ready, side.awaited = view.arrival(first), None

    def _weigh_moments(self) -> None:
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

    def _whole_until(self, ordinal: int) -> bool:
        """Whether no octet was missing up to the segment `ordinal`."""
        return all(tcp.begun for tcp in self.dialogue.connection.tcp) and all(
            stream.lost_since is None or stream.lost_since > ordinal for stream in self.dialogue.streams
        )

    def _report(self, kind: str, moment: Moment, value: Any = None) -> None:
        """Something that other connections may have to know."""
        if self._whole_until(moment.arrival.ordinal):
            self._put(kind, moment.arrival, moment, value)

    def _put(self, kind: str, arrival: Arrival, moment: Moment, value: Any) -> None:
        connection = self.dialogue.connection
        if self.party is None:
            initial = connection.tcp[0].initial
            self.party = Party(self.dialogue.teller, connection.start, connection.listener, initial)
        event, source = moment.event, int(moment.event.regime.opened)
        unit = Located(moment.side, source, event.start, event.stop, type(event).__name__.lower())
        self.dialogue.sink.facts.append(Fact(arrival, self.party, kind, unit, value))

    def _note(self, id_: str, moment: Moment, severity: str | None = None, detail: str | None = None) -> None:
        self._note_unit(id_, moment, moment.arrival, severity, detail)

    def _note_unit(
        self, id_: str, moment: Moment, arrival: Arrival, severity: str | None, detail: str | None = None
    ) -> None:
        """A finding about what was said, which `arrival` made decidable."""
        event = moment.event
        finding = Finding(id_, event.start, event.stop - event.start, severity, detail)
        self.dialogue.teller.finding(moment.side, finding, arrival, arrival.ordinal, source=int(event.regime.opened))

    # -- greetings and handshake -------------------------------------------------------------------------------------

    def _greeting(self, moment: Moment) -> None:
        self.sides[moment.side].greeting = moment
        other = self.sides[1 - moment.side].greeting
        version = self.dialogue.version
        secured = moment.event.fields.get("mechanism") not in (None, "NULL")
        if secured and moment.side == self.dialogue.connection.listener:
            self._report("announced", moment)
        if other is None or version is None or not version.startswith("3"):
            return
        ours, theirs = moment.event.fields, other.event.fields
        if ours.get("mechanism") != theirs.get("mechanism"):
            detail = f"{theirs.get('mechanism')} against {ours.get('mechanism')}"
            self._note("ZMTP3X-GREETING-05", moment, detail=detail)
            for side in (0, 1):
                self._hush(side, "ZMTP3X-GREETING-13", moment, "the mechanisms were known to differ")
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
        elif "ROUTER" in (ours, theirs) or ours == "PAIR":
            self._served(moment, other)

    def _served(self, moment: Moment, other: Moment) -> None:
        """Both sides have told their types: what a socket that knows its peers by identity, or has one only, got."""
        listener = self.dialogue.connection.listener
        if listener is None:
            return
        asked, told = (moment, other) if moment.side == listener else (other, moment)
        socket_type = asked.event.fields["socket_type"]
        identity = told.event.fields.get("identity") or ""
        if socket_type == "PAIR" or (socket_type == "ROUTER" and 0 < len(identity) <= LARGEST_IDENTITY):
            fact = told._replace(arrival=Arrival(moment.arrival.ordinal, told.arrival.packet, told.arrival.time))
            self._report("served", fact, (socket_type, identity if socket_type == "ROUTER" else ""))

    def _ready(self, moment: Moment) -> None:
        self.sides[moment.side].step = moment
        early = self.sides[1 - moment.side].behind_ready
        if early is None or moment.arrival.time - early.time <= SECOND or early.ordinal > moment.arrival.ordinal:
            return
        if self._is_early_traffic(1 - moment.side) and self._whole_until(moment.arrival.ordinal):
            detail = f"that of the other side came {(moment.arrival.time - early.time) / SECOND:.1f} s later"
            self._note_at_arrival("NULL-05", 1 - moment.side, early, moment.arrival.ordinal, detail)

    def _is_early_traffic(self, number: int) -> bool:
        """Whether what a side sent behind its READY was traffic, on 3.1: ERROR is none."""
        step = self.sides[number].step
        return step is not None and step.event.fields["name"] == "READY" and self.dialogue.version == "3.1"

    def _note_at_arrival(self, id_: str, side: int, at: Arrival, ordinal: int, detail: str) -> None:
        self.dialogue.note(side, Finding(id_, None, 0, None, detail), at._replace(ordinal=ordinal))

    def _step(self, moment: Moment) -> None:
        self.sides[moment.side].step = moment

    def _hello(self, moment: Moment) -> None:
        self.sides[moment.side].step = moment
        key = moment.event.fields.get("client_key")
        if key is not None:
            self._report("hello", moment, key)

    def _welcome(self, moment: Moment) -> None:
        self.sides[moment.side].step = moment
        nonce = moment.event.fields.get("long_nonce")
        if nonce is not None:
            self._report("welcome", moment, nonce)

    def _error(self, moment: Moment) -> None:
        self.sides[moment.side].step = moment
        asker = self.sides[1 - moment.side].step
        self._hush(1 - moment.side, "NULL-04", moment, "ERROR was received")
        if moment.side == self.dialogue.connection.listener:
            user = None if asker is None else asker.event.fields.get("username")
            self._report("refused", moment, (moment.event.regime.mechanism, user))

    # -- sides that go on --------------------------------------------------------------------------------------------

    def _hush(self, number: int, id_: str, moment: Moment, reason: str) -> None:
        """From `moment` on this side has nothing more to say."""
        side = self.sides[number]
        if side.hush is None:
            self.hushing, side.hush = True, Hush(id_, moment.arrival.ordinal, moment.arrival.time, reason)

    def _listen(self, view: BlockView, rows: Rows) -> None:
        """Whether a side goes on, more than a second later: what is sent sooner may have been under way."""
        for number, side in enumerate(self.sides):
            hush = side.hush
            if hush is None or side.hush_told:
                continue
            if hush.ordinal >= view.ordinals[0]:  # it is of this block, and its last octet may have come late
                hush = side.hush = hush._replace(time=view.times[hush.ordinal - view.ordinals[0]])
            for row in rows[number]:
                if view.ordinals[row] > hush.ordinal and view.times[row] - hush.time > SECOND:
                    side.hush_told = True
                    self._note_words(number, hush, view.arrival(row))
                    break

    def _note_words(self, number: int, hush: Hush, arrival: Arrival) -> None:
        step = self.sides[number].step
        has_refused = step is not None and step.event.fields["name"] == "ERROR"  # then the reader has said it
        if not has_refused and self._whole_until(arrival.ordinal):
            detail = f"{(arrival.time - hush.time) / SECOND:.1f} s after {hush.reason}"
            self._note_at_arrival(hush.id, number, arrival, arrival.ordinal, detail)

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

    def close(self, arrival: Arrival) -> None:
        """The connection closed with `arrival` (FIN or RST captured), and every octet of it was captured."""
        if not self._is_agreed():
            closed_by = self.dialogue.connection.first_to_close
            self._refused_greeting(arrival, closed_by)
            self._unanswered_step(arrival, closed_by)
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

    def _is_agreed(self) -> bool:
        """Whether both sides have ended their handshake."""
        one, other = (stream.reader for stream in self.dialogue.streams)
        return one is not None and other is not None and one.handshake_done and other.handshake_done

    def _unanswered_step(self, arrival: Arrival, closed_by: int | None) -> None:
        """The handshake ended where one side owed the other an answer, and no error says why."""
        mechanism = self._agreed_mechanism()
        for number, side in enumerate(self.sides):
            debtor = self.sides[1 - number]
            last, stream = debtor.step or debtor.greeting, self.dialogue.streams[1 - number]
            id_ = OWED.get((mechanism, _name(side.step), _name(debtor.step)))
            if id_ is None or side.step is None or last is None or last.event.stop != stream.end:
                continue
            early = side.behind_ready if self._is_early_traffic(number) else None
            if early is not None:
                self._note_at_arrival("NULL-05", number, early, arrival.ordinal, "that of the other side never came")
            waited = arrival.time - side.step.arrival.time
            explained = self.fault is not None and self.fault[1] == number
            if explained or (closed_by == number and waited <= SECOND):  # who leaves at once waits for no answer
                continue
            who = "it closed" if closed_by == 1 - number else "the other side gave up"
            detail = f"{who} {f'{waited / SECOND:.1f} s' if waited > SECOND else f'{waited / 1e6:.1f} ms'} after it"
            if side.step.event.fields.get("mangled"):
                detail += "; the name of the command is misspelt"
            if early is not None:
                detail += "; traffic had followed at once, on which libzmq closes"
            if id_ == "CURVE-21":
                id_, proof = self._about_server_key()
                detail += proof
            asked = side.step.event
            reference = f"{stream.stream.conn_id}/{number}/{int(asked.regime.opened)}/{asked.start}/command"
            self.dialogue.note(1 - number, Finding(id_, None, 0, None, detail), arrival, (reference,))

    def _about_server_key(self) -> tuple[str, str]:
        """Whether a HELLO without an answer was made for a server key that is known: the finding, and what to add."""
        session = self.dialogue.session
        if session is None:
            return "CURVE-21", ""
        if session.server is not None:
            return "CURVE-23", f"; it was made for {z85.encode(session.server)}"
        known = [z85.encode(server.public) for server in session.keys.server_keys if server.secret is not None]
        if not known:
            return "CURVE-21", ""
        more = f" and {len(known) - SERVERS_NAMED} more" if len(known) > SERVERS_NAMED else ""
        return "CURVE-22", f"; tried in vain: {', '.join(known[:SERVERS_NAMED])}{more}"

    def _agreed_mechanism(self) -> str | None:
        """What both sides announced."""
        one, other = (side.greeting and side.greeting.event.fields.get("mechanism") for side in self.sides)
        return one if one == other else None

    def end(self, arrival: Arrival) -> None:
        """The connection is over, or the capture: report what other connections may have to know of it."""
        greeting = self.sides[0].greeting or self.sides[1].greeting
        if greeting is None:
            return
        connection, failed, unsecured = self.dialogue.connection, False, None
        if connection.listener is not None:
            if connection.close_how in ("fin", "rst"):
                # not by the wish of the side that opened it
                failed = connection.first_to_close == connection.listener or not self._is_agreed()
            if self.dialogue.version in ("1.0", "2.0"):
                unsecured = self._unsecured(connection.listener)
        if self.party is not None or failed or unsecured is not None:
            self._put("ended", arrival, greeting, Ending(failed, unsecured))

    def _unsecured(self, listener: int) -> str | None:
        """What was said with a client that is too old for security, though the listening side is not."""
        greeting = self.sides[listener].greeting
        if greeting is None:
            return None
        messages = sum(stream.assembly.message_count for stream in self.dialogue.streams)
        told = str(greeting.event.fields.get("version_announced"))
        newer = greeting.event.regime.form is Form.PSEUDO_SIGNATURE or told.startswith("3")
        return f"{messages} messages in {self.dialogue.version}" if newer and messages else None

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
        self._note_unit(id_, moment, moment.arrival._replace(ordinal=arrival.ordinal), severity)


HANDLERS: dict[str, Callable[[Relations, Moment], None]] = {
    "READY": Relations._ready,
    "HELLO": Relations._hello,
    "WELCOME": Relations._welcome,
    "INITIATE": Relations._step,
    "ERROR": Relations._error,
    "PING": Relations._ping,
    "PONG": Relations._pong,
}


def _order(moment: Moment) -> tuple[int, int, int]:
    return moment.arrival.ordinal, moment.side, moment.event.start


def _name(step: Moment | None) -> str | None:
    return None if step is None else step.event.fields["name"]
