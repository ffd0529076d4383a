"""Remote calls matched with their replies, by ids or else by order, and the kinds of messages, such as
`get` and `set`."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.call_messages import MARK, UNKNOWN, Call, calls_of
from zmtpscope.diagnosis.observers.error_replies import errors_in
from zmtpscope.diagnosis.observers.frame_ids import HELD, REQUEST, FrameIds, Sent
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedSide
from zmtpscope.diagnosis.observers.observed_facts import MAX_CALLS, ObservedCalls, ObservedKinds, OpenCall
from zmtpscope.diagnosis.observers.observer import Observer, Rows, SocketTypes
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.diagnosis.observers.run_summaries import MAX_RECENT
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.zmtp.socket_types import TWO_WAY

IN_TURN_TYPES = frozenset({"REQ", "REP"})
CALLING = TWO_WAY | IN_TURN_TYPES
OCTETS = 500
IN_TURN = ""
"""Id of a REQ's call without one: the REQ waits for the reply before its next call."""

KINDS_LEARNED = 32
"""Number of first messages of a side that show its kinds."""


class Kinds:
    """Learns which kinds of messages each side answers. The kind is the command at the start of a message, such as
    `get`."""

    def __init__(self, observed: ObservedConnection) -> None:
        self.observed = observed
        self._side: int | None = None
        """The side that sent the last message."""
        self._turn: list[bytes] = []
        """Kinds of its messages since the last one of the other side."""
        self._learned = [0, 0]

    @property
    def is_over(self) -> bool:
        """Whether enough messages of both sides were read to know which kinds are answered."""
        return not self._turn and min(self._learned) >= KINDS_LEARNED

    def forget(self) -> None:
        for side in self.observed.sides:
            side.kinds = None

    def note_last(self, rows: Rows) -> None:
        """Store the kinds of each side's last messages, after which the other side has sent nothing."""
        for number, side in enumerate(self.observed.sides):
            if side.kinds is None and rows.sides[number]:
                side.kinds = ObservedKinds(first=rows.first_frames(number, 0, 1)[0].kind)
            if side.kinds is not None:
                last = rows.last_turn(number)[-MAX_RECENT:]
                recent = [each.kind for each in rows.first_frames(number, last.start, last.stop)] if last else []
                before = () if rows.sides[1 - number] else side.kinds.since
                side.kinds.since = (*before, *recent)[-MAX_RECENT:]

    def _wanted(self, side: int) -> int:
        """Return how many more messages of a side must be read to know its kinds."""
        return KINDS_LEARNED - self._learned[side]

    def learn_rows(self, rows: Rows) -> None:
        for side, begin, end, _, _ in rows.turns:
            if self.is_over:
                break
            self.learn(rows, side, begin, end)

    def learn(self, rows: Rows, side: int, begin: int, end: int) -> None:
        """Count the kinds of successive messages of a side, at the positions `begin` until before `end` of `rows`."""
        if side != self._side:
            if self._side is not None:
                observed = self.observed.sides[self._side].kinds
                assert observed is not None
                observed.answered(self._turn)
            self._side, self._turn = side, []
        wanted = min(end - begin, KINDS_LEARNED - self._learned[side])
        self._learned[side] += wanted
        if begin + wanted < end:
            self._turn = []  # its last message is not known
        else:
            self._turn += [rows.first(side, position).kind for position in range(begin, end)]


class CallObserver(Observer):
    """Matches calls with replies, and learns the kinds of messages, between sockets that both send at any time."""

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self._has_methods = False
        """Whether a JSON object that is a call has arrived."""
        self._kinds = Kinds(observed)
        self._ids = FrameIds()
        self._held = 0
        """Memory reserved for the messages in `_ids`."""

    @classmethod
    def follows(cls, socket_types: SocketTypes) -> bool:
        return CALLING.issuperset(socket_types)

    def rows(self, rows: Rows) -> None:
        self._has_methods = self._has_methods or any(
            run.json is not None and MARK.search(run.data) for runs in rows.sides for run in runs
        )
        if self.observed.requests is not None:  # these match each reply
            self._kinds.forget()
            self._ids.give_up()
        elif not TWO_WAY.issuperset(self.observed.socket_types()):
            self._ids.is_over = True
        else:
            self._kinds.note_last(rows)
            if not self._ids.is_over:
                self._learn(rows)
                self._take_room()
                return
            if not self._kinds.is_over:
                self._kinds.learn_rows(rows)
        is_in_turn = not IN_TURN_TYPES.isdisjoint(self.observed.socket_types())
        found = [
            (int(run.orders[row]), side, run, row, call)
            for side, runs in enumerate(rows.sides)
            for run in runs
            for row, call in self._calls_of(run)
            if is_in_turn or call is not UNKNOWN
        ]
        for _, side, run, row, call in sorted(found, key=itemgetter(0, 1)):
            self._take(Moment.of_row(run, row, rows.files), side, call)

    def _calls_of(self, run: MessageTable) -> Iterable[tuple[int, Call]]:
        """Return the row of each message of one sender that is a call or reply, with the call."""
        calls = calls_of(run, are_read=self._has_methods)
        are_replies = run.socket_type == "REP" or run.peer_socket_type == "REQ"
        errors = dict(errors_in(run)) if are_replies else {}
        return _with_errors(calls, errors).items() if errors else calls

    def _learn(self, rows: Rows) -> None:
        """Process all messages of a batch, as long as their first frames may contain ids of an unknown protocol."""
        known = [_by_position(rows, side) for side in (0, 1)]
        for side, begin, end, _, _ in rows.turns:
            if self._kinds.is_over and self._ids.is_over and not any(known):
                break
            if not self._kinds.is_over:
                self._kinds.learn(rows, side, begin, end)
            for position in range(begin, end):
                call = known[side].get(position, UNKNOWN)
                if self._ids.is_over and call is UNKNOWN:
                    continue
                sent = Sent.of(side, rows.first(side, position), call)
                for each in [sent] if self._ids.is_over else self._ids.take(sent):
                    if each.call is not UNKNOWN:
                        moment = Moment.of_packet(each.first.time, each.first.packet, rows.files)
                        self._take(moment, each.side, each.call)

    def _take_room(self) -> None:
        """Reserve memory for the messages that are kept until it is known whether they have ids."""
        needed = HELD * len(self._ids.held)
        if needed > self._held and not self.room.take(self.observed, needed - self._held):
            self._ids.give_up()
            needed = 0
        if needed < self._held:
            self.room.give_back(self.observed, self._held - needed)
        self._held = needed

    def _take(self, moment: Moment, number: int, made: Call) -> None:
        call = self._role(number, made)
        caller = self.observed.sides[1 - number if call.replies else number]
        if call.replies:
            name = None if caller.calls is None else caller.calls.reply(call.id, moment.ns)
            if name is not None:
                self.room.give_back(self.observed, OCTETS)
                caller.replied(name, call.error, moment)
            elif call.error is not None and not call.id:
                caller.replied(REQUEST, call.error, moment)
        elif call.id is not None:
            caller.calls = caller.calls or ObservedCalls()
            if len(caller.calls.open) == MAX_CALLS and call.id not in caller.calls.open:
                self._forget(caller)
            self._call(caller.calls, call.id, OpenCall(moment, call.name, call.needs_reply))

    def _role(self, number: int, call: Call) -> Call:
        """Return the call with `replies` decided: whether the message of side `number` is a call or a reply."""
        if call.replies is not None:
            return call
        if self.observed.sides[number].socket_type == "REQ":
            return call._replace(id=IN_TURN, replies=False)
        other = self.observed.sides[1 - number]
        if other.socket_type == "REQ":
            return call._replace(id=IN_TURN, replies=True)
        if self.observed.sides[number].socket_type == "REP":
            return call._replace(replies=True)
        return call._replace(replies=other.calls is not None and call.id in other.calls.open)

    def _forget(self, caller: ObservedSide) -> None:
        """Make room: drop the oldest open call of a side, among its calls that need no reply."""
        calls, pending = caller.calls, caller.pending_calls
        oldest = None if calls is None else next((id_ for id_ in calls.open if id_ not in pending), None)
        if calls is not None and oldest is not None:
            del calls.open[oldest]
            self.room.give_back(self.observed, OCTETS)

    def _call(self, calls: ObservedCalls, id_: str, call: OpenCall) -> None:
        """Store an open call with its id. If the id is in use, the earlier call must have had its reply."""
        before = calls.open.get(id_)
        if not call.name:
            if before is not None:
                del calls.open[id_]
                self.room.give_back(self.observed, OCTETS)
        elif before is not None:
            if before.name != call.name:
                calls.open[id_] = call
        elif len(calls.open) < MAX_CALLS and self.room.take(self.observed, OCTETS):
            calls.open[id_] = call
        else:
            calls.is_incomplete = True


def _with_errors(calls: Iterable[tuple[int, Call]], errors: dict[int, str]) -> dict[int, Call]:
    """Return calls, and replies with an error, by row in order. If a broker's message and its body both are calls, the
    message counts."""
    found = dict(reversed([*calls]))
    for row, error in errors.items():
        call = found.get(row, UNKNOWN)
        found[row] = call._replace(error=error) if call.error is None else call
    return dict(sorted(found.items()))


def _by_position(rows: Rows, side: int) -> dict[int, Call]:
    """Return the calls and replies of a side that its payload dissectors recognised, by position in the batch."""
    found = {
        (number, row): call
        for number, run in enumerate(rows.sides[side])
        for row, call in _with_errors(calls_of(run, are_read=True), dict(errors_in(run))).items()
        if call is not UNKNOWN
    }
    if len(rows.sides[side]) == 1:
        return {row: call for (_, row), call in found.items()}
    return {position: found[place] for position, place in enumerate(rows.places(side)) if place in found}
