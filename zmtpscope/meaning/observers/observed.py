"""What is remembered of each connection: enough to compare it with others, and to say what went wrong.

Everything is plain values that can be pickled: one connection of a busy system may be observed by one worker, and
compared with others by another. All of it is bounded; what has no room is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from zmtpscope.dissect import Record
from zmtpscope.dissect.identity import Stream, listening_side
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.findings import SEVERITIES
from zmtpscope.findings.kinds import Severity
from zmtpscope.meaning.moments import Moment
from zmtpscope.meaning.observers.observed_calls import ObservedCalls
from zmtpscope.meaning.observers.observed_heartbeats import ObservedHeartbeats
from zmtpscope.meaning.observers.observed_jupyter import ObservedJupyter
from zmtpscope.meaning.observers.observed_requests import ObservedRequests
from zmtpscope.meaning.observers.observed_rhythm import ObservedRhythm
from zmtpscope.meaning.observers.observed_rounds import ObservedRound
from zmtpscope.meaning.observers.observed_subscriptions import ObservedSubscriptions
from zmtpscope.meaning.observers.topics import PublishedTopics
from zmtpscope.records import RECORDS
from zmtpscope.zmtp.regime import Form

Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class ObservedFinding:
    """A finding as often as it was raised on a side of a connection: `ref` and `moment` are those of the first."""

    id: str
    severity: Severity
    side: int | None
    text: str
    hint: str | None
    moment: Moment
    ref: str
    last_ns: int
    count: int = 1


@dataclass(slots=True, eq=False)
class ObservedStall:
    """A stretch in which a side could not send, since its peer took nothing; or `count` of them, which took `duration`
    together. `until` says how the last one was over, at `end_ns`, or was seen last."""

    moment: Moment
    ref: str
    duration_ns: int
    longest_ns: int
    count: int
    until: str
    end_ns: int

    @classmethod
    def of(cls, values: dict[str, Any]) -> ObservedStall:
        """That of a record."""
        moment, took = Moment.of(values), values["duration_ns"]
        end = moment.ns + took if values["until_ns"] is None else values["until_ns"]
        longest, count = values["longest_ns"] or took, values["count"] or 1
        return cls(moment, ref_of(values), took, longest, count, values["until"], end)


@dataclass(slots=True, eq=False)
class ObservedOutage:
    """A stretch in which a side sent the same octets again and again, or keepalive probes, and its peer did not
    acknowledge them; or `count` of them, which took `duration` together. `offset` is the first octet of that kind,
    `until` says how the last stretch was over, at `end_ns`, or was seen last."""

    moment: Moment
    ref: str
    offset: int
    duration_ns: int
    until: str
    end_ns: int
    is_acknowledged: bool | None
    retransmissions: int
    probes: int
    smallest: int
    largest: int
    answers: int
    count: int

    @classmethod
    def of(cls, values: dict[str, Any]) -> ObservedOutage:
        """That of a record."""
        names = "offset", "duration_ns", "until", "until_ns", "acknowledged", "retransmissions", "keepalive_probes"
        counts = "smallest", "largest", "answers", "count"
        return cls(Moment.of(values), ref_of(values), *(values[name] for name in (*names, *counts)))


@dataclass(slots=True, eq=False)
class ObservedSizes:
    """The octets of the largest frame of the last message of a side, and of the largest before that, 0 where there is
    none; `last` is when the last octet of that message came, and it `began_ns` with its first."""

    last: Moment
    began_ns: int
    of_last: int
    before: int

    @property
    def largest(self) -> int:
        """Of all."""
        return max(self.of_last, self.before)


@dataclass(slots=True, eq=False)
class ObservedMessages:
    """The last messages of a side, as `RunSummary.last` has them. `files` are those that packets refer to; `are_all`
    says whether there were no others."""

    octets: bytes
    files: Sequence[str | None]
    are_all: bool

    @property
    def columns(self) -> Int64:
        """Their times (ns), references of packets, and offsets after their last octets in the TCP stream."""
        columns: Int64 = np.frombuffer(self.octets, np.int64).reshape(-1, 3).T
        return columns


@dataclass(slots=True, eq=False)
class ObservedSide:
    """One side. What was not captured is None."""

    ip: str
    port: int
    greeting: Moment | None = None
    ready: Moment | None = None
    """Its READY, or the greeting of a version without one."""
    version: str | None = None
    """That it announced."""
    mechanism: str | None = None
    """That it announced."""
    socket_type: str | None = None
    identity: str | None = None
    is_fallback: bool = False
    """Its greeting is the signature of a newer peer that goes on with 1.0."""
    username: str | None = None
    error: tuple[Moment, str | None] | None = None
    """Its ERROR, and the reason in it."""
    last_command: tuple[Moment, str] | None = None
    """The last command that it sent, and its name."""
    last_ns: int | None = None
    """When it said something last: a greeting, a command or a message."""
    heartbeats: ObservedHeartbeats | None = None
    """Its PINGs, if it sends any."""
    ended_stalls: list[ObservedStall] = field(default_factory=list)
    """Stretches in which it could not send, ..."""
    running_stall: ObservedStall | None = None
    """... and the one that goes on, where somebody looks while packets still come."""
    is_sending: bool = False
    """It has sent a part of a message, and packets still come."""
    ended_outages: list[ObservedOutage] = field(default_factory=list)
    """Stretches in which what it sent was not acknowledged, ..."""
    running_outage: ObservedOutage | None = None
    """... and the one that goes on, likewise."""
    subscriptions: ObservedSubscriptions | None = None
    """What it subscribed to, if it did."""
    published: PublishedTopics | None = None
    """What it published, if it is a publisher that did."""
    sizes: ObservedSizes | None = None
    """Of its messages, if it sent any."""
    rhythm: ObservedRhythm | None = None
    """Of its messages, if it sent any."""
    rounds: dict[int, ObservedRound] = field(default_factory=dict)
    """Messages that it sent again and again, proxy to proxy, by a number made of each."""
    jupyter: ObservedJupyter | None = None
    """Of its messages of Jupyter, if it sent any."""
    calls: ObservedCalls | None = None
    """Its calls, if it made any."""
    phantom: Moment | None = None
    """Its first message, if that is its identity once more."""
    last_messages: ObservedMessages | None = None
    """The last of them, until they are known to be acknowledged."""

    @property
    def stalls(self) -> list[ObservedStall]:
        """All stretches in which it could not send."""
        return [*self.ended_stalls, self.running_stall] if self.running_stall else self.ended_stalls

    @property
    def outages(self) -> list[ObservedOutage]:
        """All stretches in which what it sent was not acknowledged."""
        return [*self.ended_outages, self.running_outage] if self.running_outage else self.ended_outages

    @property
    def last_outage(self) -> ObservedOutage | None:
        """The one in which it sent octets again that were never acknowledged, up to the end or by now."""
        last = self.outages[-1] if self.ended_outages or self.running_outage else None
        return last if last is not None and last.is_acknowledged is False and last.retransmissions else None

    def heard(self, ns: int) -> None:
        """It says something at that time."""
        if self.last_ns is None or ns > self.last_ns:
            self.last_ns = ns


PLACES = {field.name: place for place, field in enumerate(RECORDS["connection"].fields)}
"""Places of the fields of a connection's record."""


class ConnectionValues(Mapping[str, Any]):
    """The fields of a connection's record, in a third of the memory of a dict: thousands of them are remembered."""

    __slots__ = ("_row",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._row = tuple(map(values.__getitem__, PLACES))

    def __getitem__(self, name: str) -> Any:
        return self._row[PLACES[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)


MOST_STALLS = 64
MOST_FINDINGS = 64
"""Of one connection; more are only counted with the last one."""


@dataclass(slots=True, eq=False)
class ObservedConnection:
    """A connection that speaks ZMTP. `stream` is that of side 0; `values` are those of its record, which is there when
    it has ended."""

    stream: Stream
    sides: tuple[ObservedSide, ObservedSide]
    listener: int
    """The side that was connected to, as far as is known."""
    start: Moment
    """The first that is known of it: its first packet once it has ended, else that of its first record."""
    last_ns: int
    spoke_ns: int
    """Time of the last octets of either side."""
    values: Mapping[str, Any] | None = None
    gaps: int = 0
    findings: dict[tuple[str, int | None], ObservedFinding] = field(default_factory=dict)
    """By id and side."""
    requests: ObservedRequests | None = None
    """Where socket types, or envelopes, tell requests from replies."""
    remembered: int = 0
    """Octets of memory that observers have taken for it (`Room`)."""
    answers: dict[str, Any] = field(default_factory=dict)
    """What was found of it since something was learnt last, once it has ended (`found_once`)."""

    @classmethod
    def of(cls, stream: Stream, moment: Moment) -> ObservedConnection:
        """One of which nothing more is known than who sent its first record."""
        if stream.side:
            stream = _turned_round(stream)
        sides = ObservedSide(stream.src_ip, stream.src_port), ObservedSide(stream.dst_ip, stream.dst_port)
        listener = listening_side((sides[0].port, sides[1].port))
        return cls(stream._replace(side=0), sides, listener, moment, moment.ns, moment.ns)

    @property
    def conn_id(self) -> str:
        """The same in every run and file."""
        return self.stream.conn_id

    def stream_of(self, side: int) -> Stream:
        """What the records of one side share."""
        return _turned_round(self.stream) if side else self.stream

    @property
    def endpoint(self) -> tuple[str, int]:
        """Address and port that were connected to."""
        side = self.sides[self.listener]
        return side.ip, side.port

    @property
    def is_open(self) -> bool:
        """Whether it goes on where the capture ends."""
        return self.values is None or self.values["close"] == "open"

    @property
    def is_doubtful(self) -> bool:
        """Whether it is only likely that this is ZMTP: 1.0 frames, which other protocols can look like, are all that
        shows it."""
        return self.values is not None and self.values["version"] == "1.0" and self.values["confidence"] != "proven"

    @property
    def is_whole(self) -> bool:
        """Whether it was captured from its beginning, in both directions, without gaps: what is not there was not
        sent."""
        if self.values is None:
            return self.is_unbroken and all(side.greeting is not None for side in self.sides)
        return self.values["opened_by"] is not None and self.is_unbroken

    @property
    def is_unbroken(self) -> bool:
        """Whether it was captured without gaps in both directions, from wherever it was captured on."""
        values = self.values
        if values is None:
            return not self.gaps
        is_unbroken: bool = (
            values["only_side"] is None
            and not (values["gap_bytes"] or values["unseen_bytes"] or values["undissected_bytes"])
            and values["close"] not in ("reused", "evicted")
        )
        return is_unbroken

    @property
    def ref(self) -> str:
        """The identity of its record, as `refs` hold it."""
        return f"{self.conn_id}///connection"

    def spoke(self, side: int, ns: int) -> None:
        """A message of a side was complete at that time."""
        self.sides[side].heard(ns)
        if ns > self.last_ns:
            self.last_ns = ns
        if ns > self.spoke_ns:
            self.spoke_ns = ns

    def socket_types(self) -> tuple[str | None, str | None]:
        """Those of both sides."""
        return self.sides[0].socket_type, self.sides[1].socket_type

    def side_of(self, *socket_types: str) -> int | None:
        """The side whose socket type is one of these; None where none is, or both are."""
        found = [side for side in (0, 1) if self.sides[side].socket_type in socket_types]
        return found[0] if len(found) == 1 else None

    def finding(self, *ids: str) -> ObservedFinding | None:
        """The first finding with one of these ids."""
        found: ObservedFinding | None = None
        for (id_, _), each in self.findings.items():
            if id_ in ids and (found is None or each.moment.ns < found.moment.ns):
                found = each
        return found


def found_once(find: Callable[[ObservedConnection], Answer]) -> Callable[[ObservedConnection], Answer]:
    """Let a function be called but once for each connection that has ended, which keeps the answer: many rules ask for
    the same."""
    name = find.__name__

    @wraps(find)
    def ask(connection: ObservedConnection) -> Answer:
        if connection.values is None:
            return find(connection)
        if name not in connection.answers:
            connection.answers[name] = find(connection)
        answer: Answer = connection.answers[name]
        return answer

    return ask


def _turned_round(stream: Stream) -> Stream:
    here, there = stream[3:5], stream[5:]
    return Stream(stream.conn, stream.conn_id, 1 - (stream.side or 0), *there, *here)


def ref_of(values: dict[str, Any]) -> str:
    """The identity of a record: conn_id/side/source/offset/record, what it has not left out."""
    places = (values.get(name) for name in ("conn_id", "side", "source", "offset", "record"))
    return "/".join("" if place is None else str(place) for place in places)


def observe_record(connection: ObservedConnection, record: Record) -> None:
    """Learn what a record says of its connection."""
    connection.answers.clear()
    connection.last_ns = max(connection.last_ns, record.values["ts_ns"])
    if record.type in SPOKEN:
        connection.spoke_ns = max(connection.spoke_ns, record.values["ts_ns"])
    learn = LEARN.get(record.type)
    if learn is not None:
        learn(connection, record.values)


def _greeting(connection: ObservedConnection, values: dict[str, Any]) -> None:
    side = connection.sides[values["side"]]
    side.heard(values["ts_ns"])
    side.greeting = side.greeting or Moment.of(values)
    side.version = values["version_announced"] or side.version
    side.mechanism = values["mechanism"] or side.mechanism
    side.is_fallback = values["form"] == Form.PSEUDO_SIGNATURE.value
    _name(side, values)
    if values["socket_type"] is not None:
        side.ready = side.greeting


def _command(connection: ObservedConnection, values: dict[str, Any]) -> None:
    if values["side"] is None:
        return
    side, name, moment = connection.sides[values["side"]], values["name"], Moment.of(values)
    side.heard(moment.ns)
    side.last_command = moment, name or ""
    _name(side, values)
    side.username = values["username"] if values["username"] is not None else side.username
    if name in ("READY", "INITIATE"):  # the client of CURVE and PLAIN says who it is with INITIATE
        side.ready = side.ready or moment
    elif name == "ERROR" and side.error is None:
        side.error = moment, values["reason"]


def _name(side: ObservedSide, values: dict[str, Any]) -> None:
    side.socket_type = values["socket_type"] or side.socket_type
    side.identity = values["identity"] or side.identity


def _finding(connection: ObservedConnection, values: dict[str, Any]) -> None:
    """Findings of one id may be of several severities: what is told is the first of the worst."""
    key, count = (values["id"], values["side"]), values["count"] or 1
    known = connection.findings.get(key)
    if known is not None:
        known.count += count
        known.last_ns = max(known.last_ns, values["ts_ns"])
        if SEVERITIES.index(known.severity) <= SEVERITIES.index(values["severity"]):
            return
        count = known.count
    if known is not None or len(connection.findings) < MOST_FINDINGS:
        texts = values["id"], values["severity"], values["side"], values["text"], values["hint"]
        moment = Moment.of(values)
        connection.findings[key] = ObservedFinding(*texts, moment, ref_of(values), moment.ns, count)


def _gap(connection: ObservedConnection, values: dict[str, Any]) -> None:
    connection.gaps += 1


def _stall(connection: ObservedConnection, values: dict[str, Any]) -> None:
    side = connection.sides[values["side"]]
    side.running_stall = None
    if len(side.ended_stalls) < MOST_STALLS:
        side.ended_stalls.append(ObservedStall.of(values))


def _retransmission(connection: ObservedConnection, values: dict[str, Any]) -> None:
    side = connection.sides[values["side"]]
    side.running_outage = None
    if len(side.ended_outages) == MOST_STALLS:
        del side.ended_outages[-1]  # the last one may not be over
    side.ended_outages.append(ObservedOutage.of(values))


def _connection(connection: ObservedConnection, values: dict[str, Any]) -> None:
    connection.values = ConnectionValues(values)
    if values["opened_by"] is not None:
        connection.listener = 1 - values["opened_by"]
    connection.start = Moment(values["start_ns"], values["file"], values["packet"])
    connection.last_ns = values["end_ns"]
    for number, side in enumerate(connection.sides):
        side.socket_type = side.socket_type or values[f"socket_type_{number}"]
        side.identity = side.identity or values[f"identity_{number}"]


LEARN = {
    "greeting": _greeting,
    "command": _command,
    "finding": _finding,
    "gap": _gap,
    "stall": _stall,
    "retransmission": _retransmission,
    "connection": _connection,
}

SPOKEN = frozenset({"greeting", "command"})
"""Records of octets; messages are those of `Derivation`."""
