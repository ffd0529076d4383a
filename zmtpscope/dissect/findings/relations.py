"""Findings that compare the two sides of a connection, in capture order; conformance.md defines them."""

from __future__ import annotations

from collections.abc import Callable

from zmtpscope.dissect.arrivals import Arrival, is_decided_by_time, stamp
from zmtpscope.dissect.findings import closing
from zmtpscope.dissect.findings.attempts import LOST
from zmtpscope.dissect.findings.heartbeats import Heartbeats
from zmtpscope.dissect.findings.refusals import NOT_JUDGED, REFUSING, explain
from zmtpscope.dissect.findings.reports import Reports
from zmtpscope.dissect.findings.side_state import Fault, MustBeSilent, SideState
from zmtpscope.dissect.findings.timed_events import TimedEvent, order
from zmtpscope.dissect.findings.times_to_live import TimesToLive
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.facts import ConnectionFact
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.stream.arrivals import BlockView
from zmtpscope.dissect.stream.outputs import UnitRead
from zmtpscope.dissect.tcp.directions import MIN_LATE
from zmtpscope.findings.capturing import OPENED_LATE
from zmtpscope.records import SECOND
from zmtpscope.words import host_port, how_many_times
from zmtpscope.zmtp.events import Command, Greeting
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.socket_types import may_meet

FROM_THE_CLIENT = ("ZMTP3X-CMD-12", "CURVE-16")
"""Findings about an ERROR sent by a client, which refuses no peer."""

NO_LIMIT = 1 << 62

Rows = tuple[list[int], list[int]]
"""Rows of a block with octets of side 0 and of side 1."""


class Relations:
    """Compares the two sides of a connection, and collects findings.

    Call `add` for greetings and commands in any order, `evaluate` after each block, then `drain`.
    """

    is_refusal_noted = False
    awaiting = is_silence_due = False
    """Whether a side has a READY without later octets; whether a side should send nothing more."""

    def __init__(self, view: ConnectionView) -> None:
        self.view = view
        self.sides = (SideState(), SideState())
        self.reports = Reports(view)
        self._notes: list[Note] = []
        self.heartbeats: Heartbeats | None = None
        """Heartbeats, from the first one on."""
        self.times_to_live = TimesToLive(view)
        self.timed_events: list[TimedEvent] = []
        self.faults: list[Fault | None] = [None, None]
        """Last error of each side."""

    def add(self, side: int, event: Greeting | Command, read: UnitRead) -> None:
        timed = TimedEvent(read.decided, side, event, read.is_certain)
        self.timed_events.append(timed)
        name = event.fields.get("name")
        if name == "PING":
            self.times_to_live.announce(timed, read.next_octets)
        elif name == "READY" and event.regime.mechanism == "NULL":
            self._await_octets_behind(self.sides[side], read)

    def _await_octets_behind(self, side: SideState, ready: UnitRead) -> None:
        """Store which segment has the first octets after the first READY of a side; if there are none yet, wait for
        them."""
        if side.behind_ready is not None or side.awaited is not None:
            return
        side.behind_ready = ready.next_octets
        if ready.next_octets is None:
            self.awaiting, side.awaited = True, ready.decided.ordinal

    def drain(self) -> tuple[list[Note], list[ConnectionFact]]:
        notes, self._notes = self._notes, []
        if self.heartbeats is not None:
            notes += self.heartbeats.drain()
            notes += self.times_to_live.drain()
        return notes, self.reports.drain()

    def found(self, side: int, finding: Finding, arrival: Arrival, reference: str) -> None:
        """Store the last error of a side before the first FIN or RST, which may be a consequence of the error."""
        first, last = self.view.tcp.closing, self.faults[side]
        if first is not None and arrival.ordinal > first[0].ordinal:
            return
        if last is None or arrival.ordinal >= last.arrival.ordinal:
            self.faults[side] = Fault(arrival, finding, reference)

    def evaluate(self, block: BlockView | None = None, rows: Rows = ([], [])) -> None:
        """Process the greetings and commands added so far, in capture order.

        `rows` are, for each side, the rows of the block with its octets.
        """
        if self.awaiting and block is not None:
            self._look_behind_ready(block, rows)
        if self.timed_events:
            self._evaluate_events()
        if self.heartbeats is not None and block is not None:
            self.times_to_live.look_behind(block, rows)
        if self.is_silence_due and block is not None:
            self._look_for_octets_behind(block, rows)

    def awaits(self, side: int) -> int:
        """Return the time (ns) up to which the next octets of a side cause no finding; 0 if their time does not
        matter."""
        return self.times_to_live.until(side) or (NO_LIMIT if self.sides[side].awaited is not None else 0)

    def note_next_octets(self, side: int, arrival: Arrival) -> None:
        """Store the segment with the first octets that `side` sent after its READY or PING."""
        state = self.sides[side]
        if state.awaited is not None:
            state.behind_ready, state.awaited = arrival, None
        self.times_to_live.note_next_octets(side, arrival)

    def _look_behind_ready(self, block: BlockView, rows: Rows) -> None:
        for side, own in zip(self.sides, rows, strict=True):
            ready = side.awaited
            behind = () if ready is None else (row for row in own if block.ordinals[row] > ready)
            first = next(iter(behind), None)
            if first is not None:
                side.behind_ready, side.awaited = block.arrival(first), None

    def _evaluate_events(self) -> None:
        timed_events, self.timed_events = sorted(self.timed_events, key=order), []
        for timed in timed_events:
            if isinstance(timed.event, Greeting):
                self._greeting(timed)
            else:
                handler = HANDLERS.get(str(timed.event.fields.get("name")))
                if handler is not None:
                    handler(self, timed)
            if timed.event.fields.get("socket_type") is not None:
                self._socket_type(timed)

    def _note(
        self,
        id_: str,
        timed: TimedEvent,
        severity: str | None = None,
        detail: str | None = None,
        refs: tuple[str, ...] = (),
        hint: str | None = None,
    ) -> None:
        """Add a finding about a greeting or command."""
        event, arrival = timed.event, timed.arrival
        finding = Finding(id_, event.start, event.stop - event.start, severity, detail, hint)
        self._notes.append(Note(timed.side, finding, arrival, arrival.ordinal, refs, source=timed.source))

    def _note_at_arrival(self, id_: str, side: int, at: Arrival, ordinal: int, detail: str) -> None:
        """Add a finding about the segment `at` of `side`, which the segment `ordinal` showed."""
        self._notes.append(Note(side, Finding(id_, None, 0, None, detail), at, ordinal))

    # -- greetings and handshake -------------------------------------------------------------------------------------

    def _greeting(self, timed: TimedEvent) -> None:
        if all(side.greeting is None for side in self.sides):
            self._opened_late(timed.arrival)
        self.sides[timed.side].greeting = timed
        other = self.sides[1 - timed.side].greeting
        version = self.view.version
        secured = timed.event.fields.get("mechanism") not in (None, "NULL")
        if secured and timed.side == self.view.listener:
            self.reports.report("announced", timed)
        if other is None or version is None or not version.startswith("3"):
            return
        ours, theirs = timed.event.fields, other.event.fields
        if ours.get("mechanism") != theirs.get("mechanism"):
            detail = f"{theirs.get('mechanism')} against {ours.get('mechanism')}"
            self._note("ZMTP3X-GREETING-05", timed, detail=detail)
            for side in (0, 1):
                self._must_be_silent(side, "ZMTP3X-GREETING-13", timed, "the mechanisms were known to differ")
        elif ours.get("mechanism") not in (None, "NULL") and ours.get("as_server") == theirs.get("as_server"):
            severity = "warn" if ours.get("as_server") == 1 else None
            self._note("ZMTP3X-GREETING-08", timed, severity)
        if {ours.get("version_announced"), theirs.get("version_announced")} == {"3.0", "3.1"}:
            self._note("ZMTP-DOWNGRADE-02", timed)

    def _opened_late(self, arrival: Arrival) -> None:
        """Store that the SYN was sent again. The finding is added with the first greeting."""
        tcp = self.view.tcp
        waited = tcp.last_syn.time - tcp.start.time
        if waited >= MIN_LATE:
            sent = f"the SYN was sent {how_many_times(tcp.syns)} in {waited / SECOND:.1f} s"
            sent += f" to reach {host_port(*tcp.addresses[1])}"
            sent += "; the first answers did not reach the client" * tcp.is_answer_lost
            finding, last = Finding(OPENED_LATE, None, 0, None, sent), stamp(tcp.last_syn)
            values = {"duration_ns": waited, "syns": tcp.syns, "answer": LOST if tcp.is_answer_lost else None}
            self._notes.append(Note(None, finding, tcp.start, arrival.ordinal, last=last, values=values))

    def _socket_type(self, timed: TimedEvent) -> None:
        self.sides[timed.side].type_event = timed
        other = self.sides[1 - timed.side].type_event
        if other is None:
            return
        ours, theirs = str(timed.event.fields["socket_type"]), str(other.event.fields["socket_type"])
        if not may_meet(ours, theirs):
            id_ = "ZMTP20-GREETING-04" if self.view.version == "2.0" else "ZMTP3X-META-08"
            self._note(id_, timed, detail=f"{ours} and {theirs}")
        elif "ROUTER" in (ours, theirs) or ours == "PAIR":
            self.reports.served(timed, other)

    def _ready(self, timed: TimedEvent) -> None:
        self.sides[timed.side].step = timed
        early = self.sides[1 - timed.side].early_traffic(self.view.version)
        if early is None or timed.arrival.time - early.time <= SECOND or early.ordinal > timed.arrival.ordinal:
            return
        if self.view.is_whole_until(timed.arrival.ordinal):
            detail = f"READY of the other side arrived {(timed.arrival.time - early.time) / SECOND:.1f} s later"
            self._note_at_arrival("NULL-05", 1 - timed.side, early, timed.arrival.ordinal, detail)

    def _initiate(self, timed: TimedEvent) -> None:
        side, key = self.sides[timed.side], timed.event.fields.get("client_longterm_key")
        side.step = timed
        if key is not None:
            side.subject = f"the client's key {key}"

    def _hello(self, timed: TimedEvent) -> None:
        side, key, user = self.sides[timed.side], *map(timed.event.fields.get, ("client_key", "username"))
        side.step = timed
        if user is not None:
            side.subject = f'the login of the user "{user}"'
        if key is not None:
            self.reports.report("hello", timed, key)

    def _welcome(self, timed: TimedEvent) -> None:
        self.sides[timed.side].step = timed
        nonce = timed.event.fields.get("long_nonce")
        if nonce is not None:
            self.reports.report("welcome", timed, nonce)

    def _error(self, timed: TimedEvent) -> None:
        refused, asker = timed.event.regime.shakes_hands, self.sides[1 - timed.side].step
        side = self.sides[timed.side]
        side.step = timed
        side.refused = timed.arrival.ordinal if side.refused is None else side.refused
        self._must_be_silent(1 - timed.side, "NULL-04", timed, "ERROR was received")
        if timed.side == self.view.listener:
            user = None if asker is None else asker.event.fields.get("username")
            if timed.event.fields.get("reason") not in NOT_JUDGED:
                self.reports.report("refused", timed, (timed.event.regime.mechanism, user))
        if (
            refused
            and not self.is_refusal_noted
            and not any(each.id in FROM_THE_CLIENT for each in timed.event.findings)
        ):
            self._refusal(timed)

    def _refusal(self, timed: TimedEvent) -> None:
        event, refusing = timed.event, REFUSING.get(timed.event.regime.mechanism or "")
        if refusing is None:
            return
        self.is_refusal_noted = True
        detail, hint = explain(refusing, event.fields.get("reason"), self.sides[1 - timed.side].subject)
        if event.fields.get("mangled"):
            detail += "; the name ERROR is misspelt, as by libzmq 4.3"
        self._note(refusing.id, timed, None, detail, (self.view.reference(timed),), hint)

    # -- sides that continue -------------------------------------------------------------------------------------------

    def _must_be_silent(self, number: int, id_: str, timed: TimedEvent, reason: str) -> None:
        """Store that side `number` must be silent from the command `timed` on.

        `id_` and `reason` are those of the finding if it is not.
        """
        side = self.sides[number]
        if side.must_be_silent is None:
            self.is_silence_due = True
            side.must_be_silent = MustBeSilent(id_, timed.arrival.ordinal, timed.arrival.time, reason)

    def _look_for_octets_behind(self, block: BlockView, rows: Rows) -> None:
        """Report a side that sends octets more than a second after an event that requires its silence.

        Octets within that second may have been in flight.
        """
        for number, side in enumerate(self.sides):
            since = side.must_be_silent
            if since is None or side.has_spoken_noted:
                continue
            decided = None if is_decided_by_time(since.ordinal) else block.row_of(since.ordinal)
            if decided is not None:  # its last octet may have arrived late
                since = side.must_be_silent = since._replace(time=block.times[decided])
            for row in rows[number]:
                if block.ordinals[row] > since.ordinal and block.times[row] - since.time > SECOND:
                    side.has_spoken_noted = True
                    self._note_going_on(number, since, block.arrival(row))
                    break

    def _note_going_on(self, number: int, since: MustBeSilent, arrival: Arrival) -> None:
        refused = self.sides[number].refused
        has_refused = refused is not None and refused <= arrival.ordinal  # the reader reports it then
        if not has_refused and self.view.is_whole_until(arrival.ordinal):
            detail = f"{(arrival.time - since.time) / SECOND:.1f} s after {since.reason}"
            self._note_at_arrival(since.id, number, arrival, arrival.ordinal, detail)

    # -- heartbeats and the end --------------------------------------------------------------------------------------

    def _heartbeat(self, timed: TimedEvent) -> None:
        if self.heartbeats is None:
            self.heartbeats = Heartbeats(self.view)
        self.heartbeats.feed(timed, self.view.is_whole_until(timed.arrival.ordinal))

    def end(self, arrival: Arrival, whole: bool) -> None:
        """Add the findings at the end of the connection. `whole`: every octet was captured."""
        tcp = self.view.tcp
        first = tcp.closing if tcp.has_ended else None
        at = arrival if first is None else first[0]._replace(ordinal=arrival.ordinal)
        if whole:
            self.evaluate()
            if self.heartbeats is not None and self.view.is_read_whole():
                self.heartbeats.end(at, first is not None)
                if first is not None:
                    self.times_to_live.end(at)
            if first is not None:
                self._notes += closing.evaluate(self.view, self.sides, self.faults, at, first[1])
        self.reports.end(arrival, (self.sides[0].greeting, self.sides[1].greeting))


HANDLERS: dict[str, Callable[[Relations, TimedEvent], None]] = {
    "READY": Relations._ready,
    "HELLO": Relations._hello,
    "WELCOME": Relations._welcome,
    "INITIATE": Relations._initiate,
    "ERROR": Relations._error,
    "PING": Relations._heartbeat,
    "PONG": Relations._heartbeat,
}
