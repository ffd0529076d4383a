"""Observations of each connection, for rules and for comparisons with other connections.

Memory is bounded; observations for which there is no room are only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed_facts import (
    ConnectionValues,
    ObservedCalls,
    ObservedHeartbeats,
    ObservedJupyter,
    ObservedKinds,
    ObservedMessages,
    ObservedOrder,
    ObservedReplies,
    ObservedRequests,
    ObservedRhythm,
    ObservedRound,
    ObservedSizes,
    ObservedSubscriptions,
    OpenCall,
)
from zmtpscope.diagnosis.observers.topics import PublishedTopics
from zmtpscope.dissect import Record
from zmtpscope.dissect.identity import Stream, listening_side
from zmtpscope.findings import SEVERITIES, detail_of
from zmtpscope.findings.kinds import Severity
from zmtpscope.records import SECOND
from zmtpscope.words import host_port
from zmtpscope.zmtp.regime import Form

Answer = TypeVar("Answer")

Endpoint = tuple[str, int]

MAX_NAMES = 64

FALLBACK, ZWS_RESPONSE = Form.PSEUDO_SIGNATURE.value, Form.ZWS_RESPONSE.value


@dataclass(slots=True, eq=False)
class ObservedFinding:
    """A finding about one side, with the number of its occurrences. `ref` and `moment` are of the first one.

    `duration_ns` (0: unknown) and `answer` are fields of findings about attempts to connect.
    """

    id: str
    severity: Severity
    side: int | None
    text: str
    hint: str | None
    moment: Moment
    ref: str
    last_ns: int
    count: int = 1
    duration_ns: int = 0
    answer: str | None = None

    @property
    def detail(self) -> str:
        return detail_of(self.id, self.text)


@dataclass(slots=True, eq=False)
class ObservedStall:
    """Times during which a side could not send, because the receive window of its peer was closed.

    There were `count` times, of `duration_ns` in total. `until` shows how the last one ended, at `end_ns`, or that it
    continues; then `end_ns` is the last packet that shows it.
    """

    moment: Moment
    ref: str
    duration_ns: int
    longest_ns: int
    count: int
    until: str
    end_ns: int

    @classmethod
    def of(cls, record: Record) -> ObservedStall:
        values, moment = record.own, Moment.of_record(record)
        took = values["duration_ns"]
        end = moment.ns + took if values["until_ns"] is None else values["until_ns"]
        longest, count = values["longest_ns"] or took, values["count"] or 1
        return cls(moment, ref_of(record), took, longest, count, values["until"], end)


@dataclass(slots=True, eq=False)
class ObservedOutage:
    """Times during which a side repeated octets, from stream offset `offset` on, or keepalive probes, without an
    acknowledgment.

    There were `count` times, of `duration_ns` in total. `until` shows how the last one ended, at `end_ns`, or that it
    continues; then `end_ns` is the last packet that shows it.
    """

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
    longest_ns: int
    icmp: str | None
    acknowledged_before: bool
    """Whether the octets had been acknowledged before: the acknowledgments did not reach the sender."""

    @property
    def is_loss(self) -> bool:
        """Whether these are single lost segments, which TCP repeated and the peer acknowledged within a second."""
        return self.longest_ns < SECOND and self.is_acknowledged is True

    @classmethod
    def of(cls, record: Record) -> ObservedOutage:
        names = "offset", "duration_ns", "until", "until_ns", "acknowledged", "retransmissions", "keepalive_probes"
        counts = "smallest", "largest", "answers", "count", "longest_ns", "icmp", "acknowledged_before"
        return cls(Moment.of_record(record), ref_of(record), *(record.own[name] for name in (*names, *counts)))


@dataclass(slots=True, eq=False)
class ObservedSide:
    """One side of a connection. Values that were not captured are None."""

    ip: str
    port: int
    greeting: Moment | None = None
    ready: Moment | None = None
    """First octet of READY, or of the greeting in versions without READY."""
    version: str | None = None
    mechanism: str | None = None
    socket_type: str | None = None
    identity: str | None = None
    is_fallback: bool = False
    """Whether a newer peer continues with 1.0 after its signature."""
    refuses_websocket: bool = False
    """Whether it refuses the WebSocket, or its sub-protocol."""
    username: str | None = None
    error: tuple[Moment, str | None] | None = None
    """The ERROR command, and its reason."""
    last_command: tuple[Moment, str] | None = None
    last_ns: int | None = None
    """Time of the last greeting, command or message."""
    heartbeats: ObservedHeartbeats | None = None
    ended_stalls: list[ObservedStall] = field(default_factory=list)
    """Past ones."""
    running_stall: ObservedStall | None = None
    is_sending: bool = False
    """Whether a message is incomplete while the capture continues."""
    ended_outages: list[ObservedOutage] = field(default_factory=list)
    """Past ones."""
    running_outage: ObservedOutage | None = None
    losses: ObservedOutage | None = None
    """Lost segments that were soon sent again."""
    subscriptions: ObservedSubscriptions | None = None
    published: PublishedTopics | None = None
    sizes: ObservedSizes | None = None
    rhythm: ObservedRhythm | None = None
    kinds: ObservedKinds | None = None
    """Set if both sides send and receive at any time."""
    rounds: dict[int, ObservedRound] = field(default_factory=dict)
    """Messages repeated by a proxy to another, by checksum."""
    jupyter: ObservedJupyter | None = None
    calls: ObservedCalls | None = None
    replies: dict[str, ObservedReplies] = field(default_factory=dict)
    """Replies to this side's calls, by name of the call."""
    phantom: Moment | None = None
    """The first message, if it is the identity (a fault of libzmq 4.0.3)."""
    last_messages: ObservedMessages | None = None
    """Dropped once acknowledged."""

    @property
    def stalls(self) -> list[ObservedStall]:
        return [*self.ended_stalls, self.running_stall] if self.running_stall else self.ended_stalls

    @property
    def outages(self) -> list[ObservedOutage]:
        return [*self.ended_outages, self.running_outage] if self.running_outage else self.ended_outages

    @property
    def last_outage(self) -> ObservedOutage | None:
        """Return the last outage, if its octets were never acknowledged."""
        last = self.outages[-1] if self.ended_outages or self.running_outage else None
        return last if last is not None and last.is_acknowledged is False and last.retransmissions else None

    @property
    def pending_calls(self) -> dict[str, OpenCall]:
        """The calls without a reply that need one, by id.

        A call needs a reply by its protocol, or because other calls with its name received one.
        """
        calls = {} if self.calls is None else self.calls.open
        return {id_: call for id_, call in calls.items() if call.needs_reply or call.name in self.replies}

    def replied(self, name: str, error: str | None, moment: Moment) -> None:
        """Count a reply to a call of this side with the name `name`. `error` is the error in the reply, or None."""
        if name not in self.replies and len(self.replies) < MAX_NAMES:
            self.replies[name] = ObservedReplies()
        if name in self.replies:
            self.replies[name].add(error, moment)

    def note_time(self, ns: int) -> None:
        if self.last_ns is None or ns > self.last_ns:
            self.last_ns = ns


MAX_STALLS = 64
MISORDERED = "ZMTP-CONN-27"

MAX_FINDINGS = 64
"""Findings to remember of one connection."""


class Ends(NamedTuple):
    client: str
    endpoint: Endpoint

    @property
    def name(self) -> str:
        """The name of client and endpoint for a diagnosis: `10.0.0.2 at 10.0.0.1:5555`."""
        return f"{self.client} at {host_port(*self.endpoint)}"


@dataclass(slots=True, eq=False)
class ObservedConnection:
    """The observations of one ZMTP connection.

    `stream` is the stream of side 0. `values` are the fields of the connection's record, or None while it is open.
    """

    stream: Stream
    sides: tuple[ObservedSide, ObservedSide]
    start: Moment
    """Its first packet once it has ended; until then, that of its first record."""
    last_ns: int
    spoke_ns: int
    values: Mapping[str, Any] | None = None
    half_closed: tuple[int, int] | None = None
    """The side that sent the only FIN, and its time (ns), while the capture continues."""
    gaps: int = 0
    is_misordered: bool = False
    """Whether the capture has data after its acknowledgment, so that the order of the two directions is unknown."""
    is_unbroken: bool = True
    """Whether both directions were captured from some point on, without gaps and not misordered."""
    is_waiting: bool = False
    """Live only: whether segments wait for missing octets before them."""
    findings: dict[tuple[str, int | None], ObservedFinding] = field(default_factory=dict)
    requests: ObservedRequests | None = None
    """Set if socket types or envelopes show which messages are requests."""
    in_order: ObservedOrder | None = None
    """Set if the listener, of ROUTER and DEALER, never sent more than the client."""
    remembered: int = 0
    """Octets that observers use for it (`Room`)."""
    answers: dict[str, Any] = field(default_factory=dict)
    """Results of `found_once`; a new record clears them."""
    listener: int = field(init=False)
    """The side that accepted the connection, as far as known."""
    client: ObservedSide = field(init=False)
    server: ObservedSide = field(init=False)
    ends: Ends = field(init=False)
    endpoint: Endpoint = field(init=False)

    @classmethod
    def of(cls, stream: Stream, moment: Moment) -> ObservedConnection:
        """Return the observations of a new connection, whose first record is at `moment`."""
        if stream.side != 0:
            stream = stream.turned() if stream.side else stream._replace(side=0)
        sides = ObservedSide(stream.src_ip, stream.src_port), ObservedSide(stream.dst_ip, stream.dst_port)
        found = cls(stream, sides, moment, moment.ns, moment.ns)
        found.listen(listening_side((sides[0].port, sides[1].port)))
        return found

    def listen(self, listener: int) -> None:
        """Set which side listens: it accepted the connection."""
        self.listener, self.client, self.server = listener, self.sides[1 - listener], self.sides[listener]
        self.endpoint = self.server.ip, self.server.port
        self.ends = Ends(self.client.ip, self.endpoint)

    @property
    def conn_id(self) -> str:
        """Return an id that is the same in every run and file."""
        return self.stream.conn_id

    def stream_of(self, side: int) -> Stream:
        return self.stream.turned() if side else self.stream

    @property
    def is_open(self) -> bool:
        return self.values is None or self.values["close"] == "open"

    @property
    def is_doubtful(self) -> bool:
        """Whether the connection may not be ZMTP: it has only frames of ZMTP 1.0, which other protocols can
        resemble."""
        return self.values is not None and self.values["version"] == "1.0" and self.values["confidence"] != "proven"

    @property
    def is_whole(self) -> bool:
        """Whether the capture contains all data of the connection: both directions from the start, without gaps, in
        order."""
        if self.values is None:
            return self.is_unbroken and not self.is_waiting and all(side.greeting is not None for side in self.sides)
        return self.is_unbroken and self.values["opened_by"] is not None

    @property
    def ref(self) -> str:
        """Id of the connection's record, as in `refs` of findings."""
        return f"{self.conn_id}///connection"

    def spoke(self, side: int, ns: int) -> None:
        """Store the time (ns) at which a message of a side was complete."""
        self.sides[side].note_time(ns)
        if ns > self.last_ns:
            self.last_ns = ns
        if ns > self.spoke_ns:
            self.spoke_ns = ns

    def socket_types(self) -> tuple[str | None, str | None]:
        return self.sides[0].socket_type, self.sides[1].socket_type

    def side_of(self, *socket_types: str) -> int | None:
        found = [side for side in (0, 1) if self.sides[side].socket_type in socket_types]
        return found[0] if len(found) == 1 else None

    def finding(self, *ids: str) -> ObservedFinding | None:
        found: ObservedFinding | None = None
        for (id_, _), each in self.findings.items():
            if id_ in ids and (found is None or each.moment.ns < found.moment.ns):
                found = each
        return found


def began(connection: ObservedConnection) -> int:
    return connection.start.ns


def found_once(find: Callable[[ObservedConnection], Answer]) -> Callable[[ObservedConnection], Answer]:
    """Decorate a function of a connection: its result is cached for each ended connection, because several rules use
    it."""
    name = find.__name__

    @wraps(find)
    def ask(connection: ObservedConnection) -> Answer:
        answers = connection.answers
        if name in answers:
            known: Answer = answers[name]
            return known
        answer = find(connection)
        if connection.values is not None:
            answers[name] = answer
        return answer

    return ask


def ref_of(record: Record) -> str:
    """Return the id of a record, as in `refs` of findings. Fields that the record lacks are empty in it."""
    own, stream = record.own, record.stream
    conn_id, side = (None, None) if stream is None else (stream.conn_id, stream.side)
    places = conn_id, side, own.get("source"), own.get("offset"), record.type
    return "/".join(["" if place is None else str(place) for place in places])


def observe_record(connection: ObservedConnection, record: Record) -> None:
    if connection.answers:
        connection.answers.clear()
    if record.ts_ns > connection.last_ns:
        connection.last_ns = record.ts_ns
    if record.type in LEARN:
        LEARN[record.type](connection, record)


def _sender(connection: ObservedConnection, record: Record) -> ObservedSide:
    assert record.stream is not None
    assert record.stream.side is not None
    return connection.sides[record.stream.side]


def _speaker(connection: ObservedConnection, record: Record) -> ObservedSide:
    """Return the side that sent a record, and store the time as that of its last data."""
    side = _sender(connection, record)
    side.note_time(record.ts_ns)
    if record.ts_ns > connection.spoke_ns:
        connection.spoke_ns = record.ts_ns
    return side


def _greeting(connection: ObservedConnection, record: Record) -> None:
    side, values = _speaker(connection, record), record.own
    side.greeting = side.greeting or Moment.of_record(record)
    side.version = values["version_announced"] or side.version
    side.mechanism = values["mechanism"] or side.mechanism
    side.is_fallback = values["form"] == FALLBACK
    side.refuses_websocket = values["form"] == ZWS_RESPONSE and values["version_announced"] is None
    _name(side, values)
    if values["socket_type"] is not None:
        side.ready = side.greeting


def _command(connection: ObservedConnection, record: Record) -> None:
    values, moment = record.own, Moment.of_record(record)
    side, name = _speaker(connection, record), values["name"]
    side.last_command = moment, name or ""
    _name(side, values)
    side.username = values["username"] if values["username"] is not None else side.username
    if name in ("READY", "INITIATE"):  # clients of CURVE and PLAIN send their metadata in INITIATE
        side.ready = side.ready or moment
    elif name == "ERROR" and side.error is None:
        side.error = moment, values["reason"]


def _name(side: ObservedSide, values: dict[str, Any]) -> None:
    side.socket_type = values["socket_type"] or side.socket_type
    side.identity = values["identity"] or side.identity


def _finding(connection: ObservedConnection, record: Record) -> None:
    """Store or count a finding. Of several with the same id, the first one of the worst severity is kept."""
    values, side = record.own, None if record.stream is None else record.stream.side
    if values["id"] == MISORDERED:
        connection.is_misordered, connection.is_unbroken = True, False
    key, count = (values["id"], side), values["count"] or 1
    known = connection.findings.get(key)
    if known is not None:
        known.count += count
        known.last_ns = max(known.last_ns, record.ts_ns)
        if SEVERITIES.index(known.severity) <= SEVERITIES.index(values["severity"]):
            return
        count = known.count
    if known is not None or len(connection.findings) < MAX_FINDINGS:
        texts = values["id"], values["severity"], side, values["text"], values["hint"]
        moment = Moment.of_record(record)
        attempt = values["duration_ns"] or 0, values["answer"]
        connection.findings[key] = ObservedFinding(*texts, moment, ref_of(record), moment.ns, count, *attempt)


def _gap(connection: ObservedConnection, record: Record) -> None:
    connection.gaps += 1
    connection.is_unbroken = False


def _stall(connection: ObservedConnection, record: Record) -> None:
    side = _sender(connection, record)
    side.running_stall = None
    if len(side.ended_stalls) < MAX_STALLS:
        side.ended_stalls.append(ObservedStall.of(record))


def _retransmission(connection: ObservedConnection, record: Record) -> None:
    side, outage = _sender(connection, record), ObservedOutage.of(record)
    side.running_outage = None
    if outage.is_loss:
        side.losses = outage
        return
    if len(side.ended_outages) == MAX_STALLS:
        del side.ended_outages[-1]  # the last one may continue
    side.ended_outages.append(outage)


def _connection(connection: ObservedConnection, record: Record) -> None:
    values = record.own
    connection.values = ConnectionValues(values)
    is_missing = values["gap_bytes"] or values["unseen_bytes"] or values["undissected_bytes"]
    is_followed = values["only_side"] is None and values["close"] not in ("reused", "evicted")
    connection.is_unbroken = is_followed and not (is_missing or connection.is_misordered)
    if values["opened_by"] not in (None, 1 - connection.listener):
        connection.listen(1 - values["opened_by"])
    connection.start = Moment(values["start_ns"], record.file, record.packet)
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
