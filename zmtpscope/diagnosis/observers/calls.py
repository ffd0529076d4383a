"""Calls and their replies, matched by their ids, or else by order."""

from __future__ import annotations

from operator import itemgetter

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.call_messages import MARK, Call, calls_of
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedSide
from zmtpscope.diagnosis.observers.observed_facts import MAX_CALLS, ObservedCalls, OpenCall
from zmtpscope.diagnosis.observers.observer import Observer, Rows
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.zmtp.socket_types import TWO_WAY

CALLING = TWO_WAY | {"REQ", "REP"}
OCTETS = 500
IN_TURN = ""
"""Id of a call without one, of a REQ: it waits for the reply before its next call."""


class CallObserver(Observer):
    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self._has_methods = False
        """A JSON object that is a call arrived."""

    def rows(self, rows: Rows) -> None:
        types = self.observed.socket_types()
        if not CALLING.issuperset(types):
            return
        self._has_methods = self._has_methods or any(
            run.json is not None and MARK.search(run.data) for runs in rows.sides for run in runs
        )
        found = [
            (int(run.orders[row]), side, run, row, call)
            for side, runs in enumerate(rows.sides)
            for run in runs
            for row, call in calls_of(run, are_read=self._has_methods)
        ]
        for _, number, run, row, made in sorted(found, key=itemgetter(0, 1)):
            call = self._role(number, made)
            caller = self.observed.sides[1 - number if call.replies else number]
            moment = Moment.of_row(run, row, rows.files)
            if call.replies and caller.calls is not None:
                name = caller.calls.reply(call.id, moment.ns)
                if name is not None:
                    self.room.give_back(self.observed, OCTETS)
                    caller.replied(name, call.error, moment)
            elif call.id is not None and not call.replies:
                caller.calls = caller.calls or ObservedCalls()
                if len(caller.calls.open) == MAX_CALLS and call.id not in caller.calls.open:
                    self._forget(caller)
                self._call(caller.calls, call.id, OpenCall(moment, call.name, call.needs_reply))

    def _role(self, number: int, call: Call) -> Call:
        """Decide whether a message is a call or a reply, if it does not show it."""
        if call.replies is not None:
            return call
        if self.observed.sides[number].socket_type == "REQ":
            return call._replace(id=IN_TURN, replies=False)
        other = self.observed.sides[1 - number]
        if other.socket_type == "REQ":
            return call._replace(id=IN_TURN, replies=True)
        return call._replace(replies=other.calls is not None and call.id in other.calls.open)

    def _forget(self, caller: ObservedSide) -> None:
        """Forget the oldest call that needs no reply."""
        calls, pending = caller.calls, caller.pending_calls
        oldest = None if calls is None else next((id_ for id_ in calls.open if id_ not in pending), None)
        if calls is not None and oldest is not None:
            del calls.open[oldest]
            self.room.give_back(self.observed, OCTETS)

    def _call(self, calls: ObservedCalls, id_: str, call: OpenCall) -> None:
        """Remember a call if there is room and it has a name. Another call with its id shows that it had its reply."""
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
