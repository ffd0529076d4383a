"""Findings that compare the two sides of a connection, in the order in which their packets were captured.

Heartbeats have a module of their own (`heartbeats.py`), and so has what the end of a connection tells (`closing.py`).
What other connections have to know is reported as facts (`reports.py`). Conditions and severities are those of
conformance.md.
"""

from __future__ import annotations

from collections.abc import Callable

from zmtpscope.capture.segments import ORDINALS
from zmtpscope.dissect.arrivals import Arrival, is_decided_by_time
from zmtpscope.dissect.durations import SECOND
from zmtpscope.dissect.findings import closing
from zmtpscope.dissect.findings.heartbeats import Heartbeats
from zmtpscope.dissect.findings.refusals import NOT_JUDGED, REFUSING, explain
from zmtpscope.dissect.findings.reports import Reports
from zmtpscope.dissect.findings.side_state import Fault, MustBeSilent, SideState
from zmtpscope.dissect.findings.timed_events import Moment, order
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.facts import Said
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.stream.arrivals import BlockView
from zmtpscope.dissect.stream.outputs import UnitRead
from zmtpscope.zmtp.events import Command, Greeting
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.socket_types import may_meet

FROM_THE_CLIENT = ("ZMTP3X-CMD-12", "CURVE-16")
"""What is said of an ERROR that only the server may send: it refuses nobody."""

Rows = tuple[list[int], list[int]]
"""The rows of a block with octets of side 0 and side 1."""


class Relations:
    """The relation findings of one connection. `add` moments in any order, `evaluate` them when a block is read, and
    `drain` what there is to say then."""

    refusal_told = False
    awaiting = listening = False
    """Whether some side has a READY with nothing behind it yet, and whether some should say nothing any more."""

    def __init__(self, view: ConnectionView) -> None:
        self.view = view
        self.sides = (SideState(), SideState())
        self.reports = Reports(view)
        self._notes: list[Note] = []
        self.heartbeats: Heartbeats | None = None
        """Once there are any."""
        self.moments: list[Moment] = []
        self.faults: list[Fault | None] = [None, None]
        """The last error of each side."""

    def add(self, side: int, event: Greeting | Command, read: UnitRead) -> None:
        """Something was read on `side`."""
        self.moments.append(Moment(read.decided, side, event, read.is_certain))
        if event.fields.get("name") == "READY" and event.regime.mechanism == "NULL":
            if read.next_octets is not None:
                self.sides[side].behind_ready = read.next_octets
            else:
                self.awaiting, self.sides[side].awaited = True, read.decided.ordinal

    def drain(self) -> tuple[list[Note], list[Said]]:
        """What is to be said, and what other connections may have to know, of what was not given yet."""
        notes, self._notes = self._notes, []
        if self.heartbeats is not None:
            notes += self.heartbeats.drain()
        return notes, self.reports.drain()

    def found(self, side: int, finding: Finding, arrival: Arrival, reference: str) -> None:
        """Remember the last error in front of the first FIN or RST, which may be sent because of it."""
        first, last = self.view.tcp.closing, self.faults[side]
        if first is not None and arrival.ordinal > first[0].ordinal:
            return
        if last is None or arrival.ordinal >= last.arrival.ordinal:
            self.faults[side] = Fault(arrival, finding, reference)

    def evaluate(self, block: BlockView | None = None, rows: Rows = ([], [])) -> None:
        """Judge what was added, in the order of capture; `rows` are those of the block with octets of either side."""
        if self.awaiting and block is not None:
            self._look_behind_ready(block, rows)
        if self.moments:
            self._evaluate_moments()
        if self.listening and block is not None:
            self._listen(block, rows)

    def _look_behind_ready(self, block: BlockView, rows: Rows) -> None:
        for side, own in zip(self.sides, rows, strict=True):
            ready = side.awaited
            behind = () if ready is None else (row for row in own if block.ordinals[row] > ready)
            first = next(iter(behind), None)
            if first is not None:
                side.behind_ready, side.awaited = block.arrival(first), None

    def _evaluate_moments(self) -> None:
        moments, self.moments = sorted(self.moments, key=order), []
        for moment in moments:
            if isinstance(moment.event, Greeting):
                self._greeting(moment)
            else:
                handler = HANDLERS.get(str(moment.event.fields.get("name")))
                if handler is not None:
                    handler(self, moment)
            if moment.event.fields.get("socket_type") is not None:
                self._socket_type(moment)

    def _note(
        self,
        id_: str,
        moment: Moment,
        severity: str | None = None,
        detail: str | None = None,
        refs: tuple[str, ...] = (),
        hint: str | None = None,
    ) -> None:
        """A finding about what was said, decidable once that was there."""
        event, arrival = moment.event, moment.arrival
        finding = Finding(id_, event.start, event.stop - event.start, severity, detail, hint)
        self._notes.append(Note(moment.side, finding, arrival, arrival.ordinal, refs, source=moment.source))

    def _note_at_arrival(self, id_: str, side: int, at: Arrival, ordinal: int, detail: str) -> None:
        """A finding about what the segment `at` brought, decidable with that of `ordinal`."""
        self._notes.append(Note(side, Finding(id_, None, 0, None, detail), at, ordinal))

    # -- greetings and handshake -------------------------------------------------------------------------------------

    def _greeting(self, moment: Moment) -> None:
        self.sides[moment.side].greeting = moment
        other = self.sides[1 - moment.side].greeting
        version = self.view.version
        secured = moment.event.fields.get("mechanism") not in (None, "NULL")
        if secured and moment.side == self.view.listener:
            self.reports.report("announced", moment)
        if other is None or version is None or not version.startswith("3"):
            return
        ours, theirs = moment.event.fields, other.event.fields
        if ours.get("mechanism") != theirs.get("mechanism"):
            detail = f"{theirs.get('mechanism')} against {ours.get('mechanism')}"
            self._note("ZMTP3X-GREETING-05", moment, detail=detail)
            for side in (0, 1):
                self._must_be_silent(side, "ZMTP3X-GREETING-13", moment, "the mechanisms were known to differ")
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
            id_ = "ZMTP20-GREETING-04" if self.view.version == "2.0" else "ZMTP3X-META-08"
            self._note(id_, moment, detail=f"{ours} and {theirs}")
        elif "ROUTER" in (ours, theirs) or ours == "PAIR":
            self.reports.served(moment, other)

    def _ready(self, moment: Moment) -> None:
        self.sides[moment.side].step = moment
        early = self.sides[1 - moment.side].early_traffic(self.view.version)
        if early is None or moment.arrival.time - early.time <= SECOND or early.ordinal > moment.arrival.ordinal:
            return
        if self.view.is_whole_until(moment.arrival.ordinal):
            detail = f"that of the other side came {(moment.arrival.time - early.time) / SECOND:.1f} s later"
            self._note_at_arrival("NULL-05", 1 - moment.side, early, moment.arrival.ordinal, detail)

    def _initiate(self, moment: Moment) -> None:
        side, key = self.sides[moment.side], moment.event.fields.get("client_longterm_key")
        side.step = moment
        if key is not None:
            side.subject = f"the client's key {key}"

    def _hello(self, moment: Moment) -> None:
        side, key, user = self.sides[moment.side], *map(moment.event.fields.get, ("client_key", "username"))
        side.step = moment
        if user is not None:
            side.subject = f'the login of the user "{user}"'
        if key is not None:
            self.reports.report("hello", moment, key)

    def _welcome(self, moment: Moment) -> None:
        self.sides[moment.side].step = moment
        nonce = moment.event.fields.get("long_nonce")
        if nonce is not None:
            self.reports.report("welcome", moment, nonce)

    def _error(self, moment: Moment) -> None:
        refused, asker = moment.event.regime.shakes_hands, self.sides[1 - moment.side].step
        side = self.sides[moment.side]
        side.step = moment
        side.refused = moment.arrival.ordinal if side.refused is None else side.refused
        self._must_be_silent(1 - moment.side, "NULL-04", moment, "ERROR was received")
        if moment.side == self.view.listener:
            user = None if asker is None else asker.event.fields.get("username")
            if moment.event.fields.get("reason") not in NOT_JUDGED:
                self.reports.report("refused", moment, (moment.event.regime.mechanism, user))
        if refused and not self.refusal_told and not any(each.id in FROM_THE_CLIENT for each in moment.event.findings):
            self._refusal(moment)

    def _refusal(self, moment: Moment) -> None:
        """Say who was not let in, and why."""
        event, refusing = moment.event, REFUSING.get(moment.event.regime.mechanism or "")
        if refusing is None:
            return
        self.refusal_told = True
        detail, hint = explain(refusing, event.fields.get("reason"), self.sides[1 - moment.side].subject)
        if event.fields.get("mangled"):
            detail += "; the name ERROR is misspelt, as by libzmq 4.3"
        self._note(refusing.id, moment, None, detail, (self.view.reference(moment),), hint)

    # -- sides that go on --------------------------------------------------------------------------------------------

    def _must_be_silent(self, number: int, id_: str, moment: Moment, reason: str) -> None:
        """From `moment` on this side has nothing more to say."""
        side = self.sides[number]
        if side.must_be_silent is None:
            self.listening = True
            side.must_be_silent = MustBeSilent(id_, moment.arrival.ordinal, moment.arrival.time, reason)

    def _listen(self, block: BlockView, rows: Rows) -> None:
        """Whether a side goes on, more than a second later: what is sent sooner may have been under way."""
        for number, side in enumerate(self.sides):
            since = side.must_be_silent
            if since is None or side.has_spoken_noted:
                continue
            is_new = bool(block.times) and since.ordinal >= block.ordinals[0]
            if is_new and not is_decided_by_time(since.ordinal):  # the last octet of it may have come late
                time = block.times[(since.ordinal - block.ordinals[0]) // ORDINALS]
                since = side.must_be_silent = since._replace(time=time)
            for row in rows[number]:
                if block.ordinals[row] > since.ordinal and block.times[row] - since.time > SECOND:
                    side.has_spoken_noted = True
                    self._note_going_on(number, since, block.arrival(row))
                    break

    def _note_going_on(self, number: int, since: MustBeSilent, arrival: Arrival) -> None:
        refused = self.sides[number].refused
        has_refused = refused is not None and refused <= arrival.ordinal  # then the reader says it
        if not has_refused and self.view.is_whole_until(arrival.ordinal):
            detail = f"{(arrival.time - since.time) / SECOND:.1f} s after {since.reason}"
            self._note_at_arrival(since.id, number, arrival, arrival.ordinal, detail)

    # -- heartbeats and the end --------------------------------------------------------------------------------------

    def _heartbeat(self, moment: Moment) -> None:
        if self.heartbeats is None:
            self.heartbeats = Heartbeats(self.view)
        self.heartbeats.take(moment, self.view.is_whole_until(moment.arrival.ordinal))

    def end(self, arrival: Arrival, whole: bool) -> None:
        """The connection is over, or the capture; `whole`: every octet of it was captured."""
        tcp = self.view.tcp
        first = tcp.closing if tcp.has_ended else None
        at = arrival if first is None else first[0]._replace(ordinal=arrival.ordinal)
        if whole:
            self.evaluate()
            if self.heartbeats is not None and self.view.is_read_whole():
                self.heartbeats.end(at, first is not None)
            if first is not None:
                self._notes += closing.judge(self.view, self.sides, self.faults, at, first[1])
        self.reports.end(arrival, (self.sides[0].greeting, self.sides[1].greeting))


HANDLERS: dict[str, Callable[[Relations, Moment], None]] = {
    "READY": Relations._ready,
    "HELLO": Relations._hello,
    "WELCOME": Relations._welcome,
    "INITIATE": Relations._initiate,
    "ERROR": Relations._error,
    "PING": Relations._heartbeat,
    "PONG": Relations._heartbeat,
}
