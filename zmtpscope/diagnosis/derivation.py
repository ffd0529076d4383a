"""Derive records (`request`, `subscription`, `peer` ...) from batches, and return the observations of all
connections."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from zmtpscope.diagnosis.across.knowledge import Knowledge, RunFinding
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.calls import CallObserver
from zmtpscope.diagnosis.observers.heartbeats import HeartbeatObserver
from zmtpscope.diagnosis.observers.in_order import OrderObserver
from zmtpscope.diagnosis.observers.jupyter import JupyterObserver
from zmtpscope.diagnosis.observers.observed import (
    ObservedConnection,
    ObservedOutage,
    ObservedStall,
    began,
    observe_record,
)
from zmtpscope.diagnosis.observers.observer import DerivedTable, Observer, Rows, Run, SocketTypes
from zmtpscope.diagnosis.observers.requests import RequestObserver
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.diagnosis.observers.rounds import RoundObserver
from zmtpscope.diagnosis.observers.run_summaries import summaries_of
from zmtpscope.diagnosis.observers.sending import SendingObserver
from zmtpscope.diagnosis.observers.subscriptions import PublishingObserver
from zmtpscope.dissect import Batch, Record
from zmtpscope.dissect.analyser import Ongoing
from zmtpscope.dissect.identity import Stream
from zmtpscope.grouping import grouped

MAX_CONNECTIONS = 16_384
"""Ended connections (some 7 kB each), and open ones. Older ones are forgotten and counted."""

MAX_FINDINGS = 4096

OBSERVERS: tuple[type[Observer], ...] = (
    PublishingObserver,
    RequestObserver,
    HeartbeatObserver,
    SendingObserver,
    JupyterObserver,
    CallObserver,
    OrderObserver,
    RoundObserver,
)

RECORDS_AT_ONCE = 16
"""Records to process before callers may pause."""

KNOWN = frozenset({"greeting", "command", "gap", "leftover", "stall", "retransmission"})
"""Types of records of connections."""

BEGUN_BY = grouped(
    ((type_, name), number)
    for number, each in enumerate(OBSERVERS)
    for type_ in each.types
    for name in each.begins_with
)
"""Indexes of the observers that begin with a record, by its type and the name of its command, or its type again."""


@lru_cache
def followers(types: SocketTypes) -> list[int]:
    """Return the indexes of the observers that follow messages between sockets of these two types."""
    return [number for number, each in enumerate(OBSERVERS) if each.follows(types)]


class OpenConnection:
    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        self.observed = observed
        self.observers: dict[int, Observer] = {}
        """The observers created so far, by their indexes in `OBSERVERS`, in ascending order."""
        self.deriving: list[Observer] = []
        """Those that derive records before the end."""
        self._followed: SocketTypes | None = None
        """Socket types for which observers were created."""
        self._room = room

    def record(self, record: Record) -> None:
        observe_record(self.observed, record)
        type_ = record.type
        begun = BEGUN_BY.get((type_, record.own["name"] if type_ == "command" else type_))
        if begun is not None:
            self._create(begun)
        for observer in self.observers.values():
            if type_ in observer.types:
                observer.record(record)

    def rows(self, rows: Rows) -> None:
        types = self.observed.socket_types()
        if types != self._followed:
            self._followed = types
            self._create(followers(types))
        for observer in self.observers.values():
            observer.rows(rows)

    def finish(self, ordinal: int) -> list[DerivedTable]:
        return [table for each in self.observers.values() for table in each.finish(ordinal)]

    def _create(self, numbers: Sequence[int]) -> None:
        before = self.observers
        new = {number: OBSERVERS[number](self.observed, self._room) for number in numbers if number not in before}
        if new:
            self.observers = dict(sorted((before | new).items())) if before else new
            self.deriving = [each for each in self.observers.values() if type(each).derive is not Observer.derive]


class Derivation:
    """Passes all batches of a run to observers, and returns the derived records that they find.

    `knowledge` contains the observations so far, and can be read at any time.
    """

    def __init__(self, most_ended: int | None = None) -> None:
        self._most_ended = MAX_CONNECTIONS if most_ended is None else most_ended
        self.open: OrderedDict[str, OpenConnection] = OrderedDict()
        """Open connections by conn_id, in order of start."""
        self.ended: OrderedDict[str, ObservedConnection] = OrderedDict()
        """Ended connections by conn_id, in order of end."""
        self.findings: list[RunFinding] = []
        """Findings without a ZMTP connection."""
        self.forgotten = 0
        """Number of connections forgotten, or not followed for lack of room."""
        self.room = Room()
        self.left_out = 0
        """Number of facts left out in knowledge added by `adopt`."""
        self._ordinal = 0
        self._first_ns: int | None = None
        self._last_ns = 0

    def feed(self, batch: Batch) -> list[DerivedTable]:
        """Pass a batch to the observers of its connections. Return the new derived records that concern single
        connections."""
        return [table for table in self.parts(batch) if table is not None]

    def parts(self, batch: Batch) -> Iterator[DerivedTable | None]:
        """Process a batch like `feed`, in steps. Yield the tables, and None between steps, so that callers can do other
        work."""
        touched: dict[str, OpenConnection] = {}
        ends: list[Record] = []
        for number, record in enumerate(batch.records):
            self._see(record.ts_ns)
            if record.order[0] > self._ordinal:
                self._ordinal = record.order[0]
            stream = record.stream
            if record.type == "connection":
                self._see(record.own["end_ns"] + (record.own["idle_ns"] or 0))
                ends.append(record)
            elif record.type == "finding":
                self._finding(record)
            elif record.type in KNOWN and stream is not None and stream.conn is not None:
                connection = touched[stream.conn_id] = self._connection_of(record)
                connection.record(record)
            if not number % RECORDS_AT_ONCE:
                yield None
        by_connection: dict[str, Rows] = {}
        for table in filter(len, batch.messages):
            low = 0
            for summary in summaries_of(table):
                sender = table.sender_at(low)
                stream = sender.stream
                if stream.conn is not None:
                    rows = by_connection.get(stream.conn_id)
                    if rows is None:
                        rows = by_connection[stream.conn_id] = Rows(batch.files)
                    rows.runs[stream.side or 0].append(Run(table, low, sender, summary))
                low += summary.messages
            yield None
        for conn_id, rows in by_connection.items():
            connection = touched[conn_id] = self._connection(conn_id, rows)
            connection.rows(rows)
            yield None
        if self._first_ns is not None and batch.until:
            self._see(batch.until)
        for connection in touched.values():
            for observer in connection.deriving:
                yield from observer.derive()
                yield None
        for record in ends:
            yield from self._end(record)
            yield None

    @property
    def end_ordinal(self) -> int:
        """Return a position (ordinal) after all input, for records at the end of the capture."""
        return self._ordinal + 1

    def knowledge(self) -> Knowledge:
        connections = [*self.ended.values(), *(each.observed for each in self.open.values())]
        connections.sort(key=began)
        left_out = self.left_out + self.room.left_out
        return Knowledge(connections, self.findings, self._first_ns, self._last_ns, self.forgotten, left_out)

    def note_ongoing(self, ongoing: Ongoing) -> None:
        """Note the current time of a live capture, and the state that no record reports yet.

        `ongoing` are stalls, outages, incomplete messages, half-closed connections and segments that wait.
        """
        if self._first_ns is not None and ongoing.now:
            self._see(ongoing.now)
        for connection in self.open.values():
            for side in connection.observed.sides:
                side.running_stall = side.running_outage = None
                side.is_sending = False
            connection.observed.half_closed, connection.observed.is_waiting = None, False
        for record in (*ongoing.stalls, *ongoing.outages):
            values = record.values
            open_one = self.open.get(values["conn_id"])
            if open_one is not None:
                self._see(values["until_ns"])
                side = open_one.observed.sides[values["side"]]
                if record.type == "stall":
                    side.running_stall = ObservedStall.of(record)
                    continue
                outage = ObservedOutage.of(record)
                if outage.is_loss:
                    side.losses = outage
                else:
                    side.running_outage = outage
        for conn_id, number in ongoing.sending:
            if conn_id in self.open:
                self.open[conn_id].observed.sides[number].is_sending = True
        for conn_id, number, ns in ongoing.half_closed:
            if conn_id in self.open:
                self.open[conn_id].observed.half_closed = number, ns
        for conn_id in ongoing.waiting:
            if conn_id in self.open:
                self.open[conn_id].observed.is_waiting = True

    def adopt(self, knowledge: Knowledge) -> None:
        """Add the observations of another derivation, for example of another worker."""
        self.findings = [*self.findings, *knowledge.findings][:MAX_FINDINGS]
        self.forgotten += knowledge.forgotten
        self.left_out += knowledge.left_out
        if knowledge.first_ns is not None:
            self._see(knowledge.first_ns)
            self._see(knowledge.last_ns)
        for connection in knowledge.connections:
            self._keep(connection)

    # -- connections -------------------------------------------------------------------------------------------------

    def _connection_of(self, record: Record) -> OpenConnection:
        stream = record.stream
        assert stream is not None
        found = self.open.get(stream.conn_id)
        return self._begin(stream, Moment.of_record(record)) if found is None else found

    def _connection(self, conn_id: str, rows: Rows) -> OpenConnection:
        found = self.open.get(conn_id)
        if found is None:
            run = (rows.runs[0] or rows.runs[1])[0]
            moment = Moment.of_packet(run.summary.first_ns, run.summary.first_packet, rows.files)
            found = self._begin(run.sender.stream, moment)
        observed = found.observed
        for number, runs in enumerate(rows.runs):
            own, other = observed.sides[number], observed.sides[1 - number]
            for run in runs:
                last = run.summary.last_end_ns
                self._see(last)
                if run.summary.last_order > self._ordinal:
                    self._ordinal = run.summary.last_order
                observed.spoke(number, last)
                own.socket_type = own.socket_type or run.sender.socket_type
                other.socket_type = other.socket_type or run.sender.peer_socket_type
        return found

    def _begin(self, stream: Stream, moment: Moment) -> OpenConnection:
        found = self.open[stream.conn_id] = OpenConnection(ObservedConnection.of(stream, moment), self.room)
        if len(self.open) > MAX_CONNECTIONS:
            self._forget(self.open.popitem(last=False)[1].observed)
        return found

    def _end(self, record: Record) -> list[DerivedTable]:
        connection = self._connection_of(record)
        observe_record(connection.observed, record)
        tables = connection.finish(record.order[0])
        del self.open[connection.observed.conn_id]
        self._keep(connection.observed)
        return tables

    def _keep(self, connection: ObservedConnection) -> None:
        self.ended[connection.conn_id] = connection
        if len(self.ended) > self._most_ended:
            self._forget(self.ended.popitem(last=False)[1])

    def _forget(self, connection: ObservedConnection) -> None:
        self.forgotten += 1
        self.room.forget(connection)

    def _finding(self, record: Record) -> None:
        observed, stream = None, record.stream
        if stream is not None:
            open_one = self.open.get(stream.conn_id)
            observed = self.ended.get(stream.conn_id) if open_one is None else open_one.observed
            if observed is None and stream.side is not None and stream.conn is not None:
                observed = self._connection_of(record).observed
        if observed is not None:
            observe_record(observed, record)
        elif len(self.findings) < MAX_FINDINGS:
            self.findings.append(RunFinding.of(record))

    def _see(self, time: int) -> None:
        if self._first_ns is None or time < self._first_ns:
            self._first_ns = time
        if time > self._last_ns:
            self._last_ns = time


def derived_records(tables: Iterable[DerivedTable]) -> list[Record]:
    return [record for table in tables for record in table.records()]
