"""Remote calls without a reply, and replies with an error. Calls are matched with replies by ids, or by order (MDP)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import end_of, ending_of, is_agreed
from zmtpscope.diagnosis.across.gone_workers import GONE_HINT, ended_at, gone_worker, left_at
from zmtpscope.diagnosis.across.hops import LONGEST_HOP_NS
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import client_name, duration, name_of, same_on
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.frame_ids import REQUEST
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedReplies
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted
from zmtpscope.zmtp.socket_types import TWO_WAY

UNANSWERED, FAILING = "call-unanswered", "call-failing"

MIN_WAIT = 3 * SECOND
MANY_TIMES = 3
"""A call is overdue when it has waited for this multiple of the slowest reply."""
MAX_SKIPPED, MAX_SKIPPED_UNNAMED = 1 / 2, 1 / 6
"""Unanswered calls before an answered one need no reply if they are more than this part of the answered calls, unless
their protocol requires replies: calls of kinds that were answered, and requests of unknown kinds."""
MAX_NAMED = 3
COMPUTING = {"apply_request", "execute_request"}
"""Jupyter requests that run code of the client, which may take long."""

HINT = (
    "check the called program: it is stopped, its handler blocks the event loop, or it failed without a reply; set a "
    "timeout for each call"
)

COMPUTING_HINT = "check whether its code still runs: interrupt it, or restart the program if that is stopped"

Called = tuple[Endpoint, str]


class Waiting:
    """The calls of one side that have no reply at the time `until` (ns)."""

    def __init__(self, connection: ObservedConnection, side: int, until: int) -> None:
        caller = connection.sides[side]
        assert caller.calls is not None
        self.connection, self.side, self.until, self.calls = connection, side, until, caller.calls
        self.pending = caller.pending_calls
        self.open = sorted(self.pending.values(), key=lambda call: call.moment.ns)
        self.waited = until - self.open[0].moment.ns

    @property
    def called(self) -> Called:
        return self.connection.endpoint, name_of(self.connection, 1 - self.side)


class Work:
    """Unanswered calls by caller, to find brokers: a broker has unanswered calls to its own workers."""

    def __init__(self, waiting: Iterable[Waiting]) -> None:
        self._at: dict[Endpoint, set[Called]] = {}
        """Workers that the listener at an endpoint waits for."""
        self._passed_on: dict[tuple[str, str], dict[Called, int]] = {}
        """Called programs by caller's address and id of the call, each with its latest time (ns)."""
        for each in waiting:
            if each.side == each.connection.listener:
                self._at.setdefault(each.connection.endpoint, set()).add(each.called)
            for id_, call in each.pending.items():
                latest = self._passed_on.setdefault((each.connection.sides[each.side].ip, id_), {})
                latest[each.called] = max(latest.get(each.called, 0), call.moment.ns)

    def handed_on(self, waiting: Waiting) -> set[Called]:
        """Return the programs for which the called program waits, if it is a broker.

        It sends requests to workers at the same endpoint, or passes on a call with the same id.
        """
        connection, side = waiting.connection, waiting.side
        found = set(self._at.get(connection.endpoint, ())) if side != connection.listener else set()
        broker = connection.sides[1 - side].ip
        for id_, call in waiting.pending.items():
            latest = self._passed_on.get((broker, id_), {})
            found.update(called for called, ns in latest.items() if ns >= call.moment.ns and called != waiting.called)
        return found


def _unanswered(knowledge: Knowledge) -> Iterator[Diagnosis]:
    waiting = [
        each
        for connection in knowledge.connections
        for side in (0, 1)
        if (each := _waiting(connection, side, knowledge)) is not None
    ]
    work, found, callers = Work(waiting), dict[Called, list[Waiting]](), dict[Called, list[Waiting]]()
    for each in waiting:
        handed_on = work.handed_on(each)
        if not handed_on:
            found.setdefault(each.called, []).append(each)
        for called in handed_on:
            callers.setdefault(called, []).append(each)
    for called, same in found.items():
        same.sort(key=lambda each: -each.waited)
        yield _diagnosis(same, callers.get(called, []), knowledge)


def _waiting(connection: ObservedConnection, side: int, knowledge: Knowledge) -> Waiting | None:
    caller, called = connection.sides[side], connection.sides[1 - side]
    if caller.calls is None or not caller.pending_calls or not connection.is_whole or not is_agreed(connection):
        return None
    if not TWO_WAY.issuperset(connection.socket_types()):
        return None  # requests of a REQ, or to a REP, have their own rules
    ending = ending_of(connection)
    is_left = ending is not None and ending.side != side
    if (ending is None and not connection.is_open) or is_left or caller.last_outage is not None or called.is_sending:
        return None
    waiting = Waiting(connection, side, end_of(connection, knowledge.last_ns))
    skipped = [each for each in waiting.open if not each.needs_reply and each.moment.ns < caller.calls.last_answered_ns]
    is_unnamed = any(each.name == REQUEST for each in skipped)
    if len(skipped) > caller.calls.answered * (MAX_SKIPPED_UNNAMED if is_unnamed else MAX_SKIPPED):
        return None  # some messages are acknowledged, but not each one
    enough = max(MIN_WAIT, MANY_TIMES * (caller.calls.latency.most or 0))
    return waiting if waiting.waited >= enough else None


def _silent_beside(waiting: Waiting, knowledge: Knowledge) -> list[str]:
    """Return names of other connections of the called host on which it has sent nothing since the call.

    If the client is called, several workers of one host may have stopped for the same reason.
    """
    connection, since = waiting.connection, waiting.open[0].moment.ns
    if waiting.side != connection.listener:
        return []
    return [
        each.conn_id
        for each in knowledge.by_ends[connection.ends]
        if each.socket_types() == connection.socket_types() and (each.client.last_ns or 0) <= since
    ]


def _diagnosis(same: list[Waiting], callers: list[Waiting], knowledge: Knowledge) -> Diagnosis:
    """Diagnose unanswered calls to one program. `callers` are calls of clients that wait at a broker for the same
    replies."""
    first = same[0]
    calls, connection = first.calls, first.connection
    caller, called = name_of(connection, first.side), name_of(connection, 1 - first.side)
    count, since = len(first.open), duration(first.waited)
    are_last = calls.last_answered_ns < first.open[0].moment.ns
    names = list(dict.fromkeys(call.name for call in first.open))
    shown = ", ".join(names[:MAX_NAMED]) + (", …" if len(names) > MAX_NAMED else "")
    many = "and more " if calls.is_incomplete else ""
    which = counted(count, "call")
    if are_last and calls.answered:
        which = f"the last {which}" if count > 1 else "the last call"
    has = "has" if count == 1 and not many else "have"
    before = f"; the {calls.answered} before had one" if are_last else f"; {calls.answered} others had one"
    if not calls.answered:
        before = "; no call had one"
    who_left = _who_left(first, knowledge)
    is_computing = COMPUTING.issuperset(names)
    more = same_on(len(same) - 1)
    if callers:
        more += f"; so {counted(len(callers), 'caller')} of {caller} {'waits' if len(callers) == 1 else 'wait'} too"
    return Diagnosis.of(
        UNANSWERED,
        "note" if is_computing or _may_take_long(first, knowledge) else "warn",
        called,
        f"{called} does not reply to {caller}: {which} {many}({shown}) {has} no reply for {since}{before}"
        f"{who_left}{more}",
        GONE_HINT if who_left else COMPUTING_HINT if is_computing else HINT,
        evidence=(Evidence(call.moment, f"a call of {caller}") for call in first.open[:MAX_EVIDENCE]),
        about=(*same, *callers),
        beside=_silent_beside(first, knowledge),
        count=sum(len(each.open) for each in same),
        last_ns=max(each.until for each in same),
        proven=False,
    )


def _may_take_long(waiting: Waiting, knowledge: Knowledge) -> bool:
    """Whether a pending call may be slow on purpose: it is a single one, the called program still sends, and no
    protocol limits the time."""
    call, connection = waiting.open[0], waiting.connection
    if len(waiting.open) > 1 or call.needs_reply:
        return False
    is_of_listener = waiting.side != connection.listener
    sides = (
        [each.server for each in knowledge.by_endpoint[connection.endpoint]] if is_of_listener else [connection.client]
    )
    return any(side.rhythm is not None and side.rhythm.last.ns > call.moment.ns for side in sides)


def _who_left(waiting: Waiting, knowledge: Knowledge) -> str:
    """Describe the worker that left a broker at about the time at which the broker stopped replying, or return ""."""
    connection, calls, broker = waiting.connection, waiting.calls, waiting.connection.server.rhythm
    if waiting.side == connection.listener or broker is None or not calls.answered:
        return ""
    oldest = waiting.open[0].moment.ns
    worker = gone_worker(connection, calls.last_reply_ns, waiting.until, knowledge)
    left = left_at(connection, broker, knowledge)
    if worker is not None:
        return worker.text(oldest)
    if left is None:
        return ""
    when = "before" if ended_at(left) < oldest else "after"
    time = duration(abs(oldest - ended_at(left)))
    return f"; {client_name(left)} left {time} {when} the first of them"


class Failed(NamedTuple):
    """All replies to calls of one name, from one listener, or from the clients at one endpoint.

    `replies` contains for each connection the side of the caller, and its replies.
    """

    name: str
    replies: list[tuple[ObservedConnection, int, ObservedReplies]]

    @property
    def calls(self) -> int:
        """Number of calls with a reply. If requests have no name, only replies with an error are counted."""
        return sum(
            each.count if self.name != REQUEST or connection.requests is None else connection.requests.latency.count
            for connection, _, each in self.replies
        )

    @property
    def errors(self) -> int:
        return sum(each.errors for _, _, each in self.replies)

    @property
    def first(self) -> tuple[ObservedConnection, int, ObservedReplies]:
        """The earliest error: connection, side of the caller, and the replies that contain it."""
        return min((each for each in self.replies if each[2].moment), key=lambda each: _moment(each[2]).ns)

    @property
    def share(self) -> str:
        """How many calls failed, as text: `3 of 9 calls of get_price with an error: "database is locked"`."""
        error = self.first[2].error
        calls = (
            counted(self.calls, "request") if self.name == REQUEST else f"{counted(self.calls, 'call')} of {self.name}"
        )
        return f"{self.errors} of {calls} with an error" + (f': "{error}"' if error else "")

    def hop(self, side: int) -> tuple[str, str, str]:
        """Return a key to find the same error on another connection: an address, the name of the call, and the first
        error.

        The address is that of the callers (`side` 0) or of the called program (1).
        """
        connection, caller, replies = self.first
        return connection.sides[abs(caller - side)].ip, self.name, replies.error


Hop = tuple[str, str, str]


def _failing(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each listener that replies with errors, and the clients of each endpoint that do."""
    found: dict[tuple[Endpoint, bool], dict[str, Failed]] = {}
    for connection in knowledge.connections:
        for side in (0, 1):
            for name, replies in connection.sides[side].replies.items():
                names = found.setdefault((connection.endpoint, side == connection.listener), {})
                names.setdefault(name, Failed(name, [])).replies.append((connection, side, replies))
    failing = [[each for each in names.values() if each.errors] for names in found.values()]
    behind = grouped((each.hop(0), each) for same in failing for each in same)
    for same in failing:
        own = [each for each in same if not _is_passed_on(each, behind)]
        if own:
            yield _failing_at(sorted(own, key=lambda each: -each.errors))


def _is_passed_on(failed: Failed, behind: Mapping[Hop, Sequence[Failed]]) -> bool:
    """Whether a broker only passed on these errors: another program sent it the same errors, the first just before."""
    since = _moment(failed.first[2]).ns
    workers = [each for each in behind.get(failed.hop(1), ()) if each is not failed]
    is_after = any(0 <= since - _moment(each.first[2]).ns <= LONGEST_HOP_NS for each in workers)
    return is_after and sum(each.errors for each in workers) >= failed.errors


def _failing_at(same: list[Failed]) -> Diagnosis:
    connection, side, _ = same[0].first
    server = name_of(connection, 1 - side)
    more = f"; also {' and '.join(each.share for each in same[1:MAX_NAMED])}" if same[1:] else ""
    more += ", …" if len(same) > MAX_NAMED else ""
    return Diagnosis.of(
        FAILING,
        "note",
        server,
        f"{server} answered {same[0].share}{more}",
        "check the log of that program for these calls: the network and the sockets work, since each error is a reply",
        evidence=(Evidence(_moment(each.first[2]), f"the first error of {each.name}") for each in same[:MAX_EVIDENCE]),
        about=(connection for each in same for connection, _, replies in each.replies if replies.errors),
        count=sum(each.errors for each in same),
        last_ns=max(replies.last_ns for each in same for _, _, replies in each.replies),
        proven=all(each.name != REQUEST for each in same),
    )


def _moment(replies: ObservedReplies) -> Moment:
    assert replies.moment is not None
    return replies.moment


TABLE = (
    Rule(
        FAILING,
        "note",
        "Calls are answered with an error",
        "The replies to calls are errors: the calls reached the program, which rejected them or failed. A note, "
        "because a capture does not show whether the caller expects the error. These replies are errors:\n"
        "* A JSON-RPC 2.0 object with the member `error`, the event ERR of zerorpc, or a Jupyter reply with the "
        "status `error`.\n"
        "* A JSON or MessagePack object with an error (a text or an object), or with the status of a failure. It must "
        "contain the id of the call, or reply to a REQ.\n"
        "* A text that begins with a word such as `ERROR:` or `ValueError:`, or a frame that contains only a word of "
        "this kind.\n"
        "* A pickle of a Python exception.",
        "* The replies contain results.\n"
        "* A broker forwards the errors of another program. Then that program is named.",
        _failing,
    ),
    Rule(
        UNANSWERED,
        "warn",
        "A call has no reply",
        "A call had no reply for at least 3 s, and for three times the longest time of any reply. Not proven: the "
        "call may take long. Calls are matched with replies by ids or by their order:\n"
        "* zerorpc, aiozmq, JSON-RPC 2.0 and Jupyter put an id into each call, and the reply repeats it. So do many "
        "objects with a method, command or action.\n"
        "* In other protocols, the first frame, or its first octets, count as an id if five replies repeat five "
        "different ones. The ids must have 8 octets, or be repeated quickly.\n"
        "* Clients and workers of a broker of 7/MDP or 18/MDP receive one reply per request, in order.\n"
        "A note in two cases:\n"
        "* The call is a Jupyter request that runs code.\n"
        "* The call is a single one of another protocol, and the called program continues: the call may wait for a "
        "lock.",
        "* A reply or a zerorpc heartbeat has the id of the call.\n"
        "* The called program closes the connection, or one of its messages is incomplete.\n"
        "* TCP did not acknowledge the call.\n"
        "* The called program is a broker that waits for its worker.\n"
        "* Methods of this protocol were never answered, or many calls were not.",
        _unanswered,
        ("fell-silent", "peer-departed", "periodic-disconnect", "client-returns"),
    ),
)
