"""Calls and their replies, matched by their ids, or else by order."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.call_messages import MARK, UNKNOWN, Call, calls_of
from zmtpscope.diagnosis.observers.error_replies import errors_in
from zmtpscope.diagnosis.observers.frame_ids import HELD, REQUEST, FrameIds, Sent, frames_of
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedSide
from zmtpscope.diagnosis.observers.observed_facts import MAX_CALLS, ObservedCalls, OpenCall
from zmtpscope.diagnosis.observers.observer import Observer, Rows, SocketTypes
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.zmtp.socket_types import TWO_WAY

CALLING = TWO_WAY | {"REQ", "REP"}
OCTETS = 500
IN_TURN = ""
"""Id of a call without one, of a REQ: it waits for the reply before its next call."""


class CallObserver(Observer):
    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self._has_methods = False
        """Whether a JSON object that is a call has arrived."""
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
        if self.observed.requests is not None or not TWO_WAY.issuperset(self.observed.socket_types()):
            self._ids.is_over = True
        found = [
            (int(run.orders[row]), side, run, row, call)
            for side, runs in enumerate(rows.sides)
            for run in runs
            for row, call in self._calls_of(run)
        ]
        for _, number, run, row, call in sorted(found, key=itemgetter(0, 1)):
            moment = Moment.of_row(run, row, rows.files)
            if self._ids.is_over:
                self._take(moment, number, call)
                continue
            for sent in self._ids.take(Sent(moment, number, frames_of(run, row, call.id), call)):
                self._take(sent.moment, sent.side, sent.call)
        self._take_room()

    def _calls_of(self, run: MessageTable) -> Iterator[tuple[int, Call]]:
        """Yield calls and replies, each with its row; all messages, if frames may have ids."""
        calls = calls_of(run, are_read=self._has_methods or not self._ids.is_over)
        are_replies = run.socket_type == "REP" or run.peer_socket_type == "REQ"
        errors = dict(errors_in(run)) if are_replies or not self._ids.is_over else {}
        if self._ids.is_over and not errors:
            return calls
        known = dict(reversed([*calls]))  # of a broker's message and its body, the message counts
        rows = sorted({*known, *errors}) if self._ids.is_over else range(len(run.first))
        return ((row, self._with_error(known.get(row, UNKNOWN), errors.get(row))) for row in rows)

    def _with_error(self, call: Call, error: str | None) -> Call:
        return call if error is None or call.error is not None else call._replace(error=error)

    def _take_room(self) -> None:
        """Reserve the memory of messages that are held until their ids are known."""
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
        """Decide whether a message is a call or a reply, if it does not show that itself."""
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
        """Forget the oldest call that needs no reply."""
        calls, pending = caller.calls, caller.pending_calls
        oldest = None if calls is None else next((id_ for id_ in calls.open if id_ not in pending), None)
        if calls is not None and oldest is not None:
            del calls.open[oldest]
            self.room.give_back(self.observed, OCTETS)

    def _call(self, calls: ObservedCalls, id_: str, call: OpenCall) -> None:
        """Remember a call if there is room and it has a name. An earlier call with its id has had its reply."""
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
