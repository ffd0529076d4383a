"""Calls and their replies: zerorpc and JSON-RPC 2.0 match by id, 7/MDP and 18/MDP by order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from operator import itemgetter
from typing import Any, NamedTuple

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed_facts import MAX_CALLS, ObservedCalls
from zmtpscope.diagnosis.observers.observer import Observer, Rows
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.records import to_text

CALLING = frozenset({"DEALER", "ROUTER", "REQ", "REP"})
MESSAGEPACK, JSON = "messagepack", "json"
ERROR = "ERR"
"""Name of the event by which zerorpc reports an exception."""
OF_ITS_OWN = "_zpc_"
"""Prefix of events that zerorpc itself sends, such as heartbeats."""
MARK = b'"jsonrpc"'
LONGEST_ID, LONGEST_NAME, LONGEST_ERROR = 80, 40, 80
OCTETS = 500
"""Approximate memory of an open call."""
MDP_CLIENT, MDP_WORKER = {b"MDPC01": False, b"MDPC02": True}, {b"MDPW01": False, b"MDPW02": True}
"""Whether a version has partial replies, by the first frame; 18/MDP has them."""
REQUEST, PARTIAL, FINAL = b"\2", b"\3", b"\4"
WORK = "work"
"""Name shown for work that a broker sends to a worker: its messages do not contain the service."""


class Call(NamedTuple):
    """A call, or a reply to a call (`replies`). A reply without an id belongs to the oldest call.

    `error` is the text of a reply that reports an error.
    """

    id: str | None
    name: str
    replies: bool
    error: str | None = None


class CallObserver(Observer):
    def rows(self, rows: Rows) -> None:
        if not CALLING.issuperset(self.observed.socket_types()):
            return
        found = [
            (int(run.orders[row]), side, run, row, call)
            for side, runs in enumerate(rows.sides)
            for run in runs
            for row, call in _calls(run)
        ]
        for _, number, run, row, call in sorted(found, key=itemgetter(0, 1)):
            caller = self.observed.sides[1 - number if call.replies else number]
            moment = Moment.of_row(run, row, rows.files)
            if call.replies and caller.calls is not None:
                name = caller.calls.reply(call.id, moment.ns)
                if name is not None:
                    self.room.give_back(self.observed, OCTETS)
                    caller.replied(name, call.error, moment)
            elif call.id is not None and not call.replies:
                caller.calls = caller.calls or ObservedCalls()
                self._call(caller.calls, call.id, moment, call.name)

    def _call(self, calls: ObservedCalls, id_: str, moment: Moment, name: str) -> None:
        """Remember a call if there is room. Another call with its id shows that it had its reply."""
        if id_ in calls.open:
            if calls.open[id_][1] != name:
                calls.open[id_] = moment, name
        elif len(calls.open) < MAX_CALLS and self.room.take(self.observed, OCTETS):
            calls.open[id_] = moment, name
        else:
            calls.is_incomplete = True


def _calls(run: MessageTable) -> Iterator[tuple[int, Call]]:
    """Yield calls and replies, each with its row."""
    rows = range(len(run.first))
    if b"MDPC0" in run.data or b"MDPW0" in run.data:
        for row in rows:
            call = _of_mdp(run, row)
            if call is not None:
                yield row, call
    payloads: Iterable[Dissected | None] = map(run.made, rows) if MARK in run.data else run.payloads or ()
    for row, made in enumerate(payloads):
        call = None
        if made is not None and made.protocol == MESSAGEPACK:
            call = _of_zerorpc(made.fields)
        elif made is not None and made.protocol == JSON:
            call = _of_json_rpc(made.fields)
        if call is not None:
            yield row, call


def _of_zerorpc(fields: Any) -> Call | None:
    """Return the call or reply of a zerorpc event, which has a header with ids, a name and arguments.

    Any event of a call counts as a reply: the server works on the call.
    """
    if not (isinstance(fields, list) and len(fields) == 3 and isinstance(fields[0], dict)):
        return None
    header, name, arguments = fields
    own, asked = header.get("message_id"), header.get("response_to")
    if not (isinstance(own, bytes | str) and "v" in header and isinstance(name, bytes | str)):
        return None
    if isinstance(asked, bytes | str):
        error = shown_error(arguments[:2]) if name in (ERROR, ERROR.encode()) and isinstance(arguments, list) else None
        return Call(_text(asked)[:LONGEST_ID], "", True, error)
    shown = shown_name(_text(name))
    return None if shown.startswith(OF_ITS_OWN) else Call(_text(own)[:LONGEST_ID], shown, replies=False)


def _of_json_rpc(fields: Any) -> Call | None:
    """Return the call or reply of a JSON-RPC object; None for a notification, which has no id."""
    if not isinstance(fields, dict) or fields.get("jsonrpc") != "2.0":
        return None
    id_, method = fields.get("id"), fields.get("method")
    if id_ is None or isinstance(id_, dict | list):
        return None
    if method is not None:
        return Call(repr(id_)[:LONGEST_ID], shown_name(str(method)), replies=False)
    error = fields.get("error")
    texts = [error.get("message")] if isinstance(error, dict) else [] if error is None else [error]
    return Call(repr(id_)[:LONGEST_ID], "", True, None if error is None else shown_error(texts))


def _of_mdp(run: MessageTable, row: int) -> Call | None:
    """Return the request or final reply of a broker's client or worker; None for a partial reply."""
    frames = [run.head(frame) or b"" for frame in range(int(run.first[row]), int(run.last[row]) + 1)]
    header, *rest = frames[1:] if not frames[0] and len(frames) > 1 else frames
    is_from_broker = run.socket_type == "ROUTER"
    if header in MDP_CLIENT:
        if MDP_CLIENT[header]:
            kind, *rest = rest or [b""]
        else:
            kind = FINAL if is_from_broker else REQUEST
        if is_from_broker:
            return Call(None, "", replies=True) if kind == FINAL else None
        return _request(rest[0], rest[1:]) if kind == REQUEST and rest else None
    if header in MDP_WORKER and rest:
        if is_from_broker:
            return _request(WORK.encode(), rest[3:]) if rest[0] == REQUEST else None
        return Call(None, "", replies=True) if rest[0] == (FINAL if MDP_WORKER[header] else PARTIAL) else None
    return None


def _request(name: bytes, body: list[bytes]) -> Call:
    return Call(blake2b(b"\0".join(body), digest_size=8).hexdigest(), shown_name(_text(name)), replies=False)


def shown_name(text: str) -> str:
    """Return the beginning of a name, escaped."""
    return to_text(text[:LONGEST_NAME].encode("utf-8", "backslashreplace"))


def shown_error(texts: Iterable[Any]) -> str:
    """Join the parts of an error, such as type and message, escaped."""
    text = ": ".join(_text(each) for each in texts if isinstance(each, bytes | str) and each)
    return to_text(text[:LONGEST_ERROR].encode("utf-8", "backslashreplace"))


def _text(octets: bytes | str) -> str:
    return octets if isinstance(octets, str) else octets.decode("utf-8", "backslashreplace")
