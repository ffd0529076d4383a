"""Findings that compare connections, and records that relate them.

If several workers analyse connections, one comparison evaluates the facts of all workers. Facts are sorted first, so
the results are equal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from zmtpscope.capture import CaptureProblem
from zmtpscope.capture.clock import SetBack, folded
from zmtpscope.capture.segments import FILE_SHIFT
from zmtpscope.dissect.arrivals import Arrival, Stamp, stamp
from zmtpscope.dissect.findings.attempts import Attempts
from zmtpscope.dissect.findings.drops import put_drops, put_problems, put_set_back
from zmtpscope.dissect.findings.endpoints import Endpoints
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.batch import Record
from zmtpscope.dissect.records.facts import (
    Attempt,
    ClockWentBack,
    Connected,
    ConnectionFact,
    Endpoint,
    Fact,
    GaveWay,
    Relayed,
    Spoke,
    WithoutZmtp,
    ZreBeacon,
    ZreClose,
    ZreCommand,
)
from zmtpscope.dissect.records.notes import Note, ZrePair
from zmtpscope.dissect.records.record_writer import AT_THE_END, MAX_WRITTEN, RecordWriter
from zmtpscope.dissect.records.sink import Sink, Summary
from zmtpscope.dissect.records.tables import DATAGRAMS
from zmtpscope.zmtp.reader import Finding

if TYPE_CHECKING:
    from zmtpscope.dissect.findings.relayed import OthersAtEndpoints, Refusals
    from zmtpscope.dissect.findings.zre import Network

GAVE_WAY = Finding("ZMTP-CONN-12")

MAX_ENDPOINTS = 65_536

MAX_WRITERS = 16_384
"""Connections and flows whose findings are counted by kind. When full, the counts of the one unused for longest are
written."""


class Comparison:
    """All comparisons between the connections of one run.

    `files` are indexed by packet references, as `Captures.files`; `summary` counts findings and attempts.
    """

    def __init__(self, options: Options, files: list[str | None] | None = None, summary: Summary | None = None) -> None:
        self.sink = Sink(files or [], options, summary)
        self.summary = self.sink.summary
        self.attempts = Attempts(self.summary)
        self.endpoints = Endpoints()
        self.spoken_with: set[Endpoint] = set()
        """Server endpoints of ZMTP connections; the sink of each run reports a bounded number."""
        self.gave_way = 0
        self.last_to_give_way: GaveWay | None = None
        self.set_back: SetBack | None = None
        """Packets with an earlier timestamp than the preceding packet of their connection."""
        self.writers: OrderedDict[str, RecordWriter] = OrderedDict()

    @cached_property
    def refusals(self) -> Refusals:
        """Connections that a proxy refused."""
        from zmtpscope.dissect.findings.relayed import Refusals

        return Refusals()

    @cached_property
    def others(self) -> OthersAtEndpoints:
        """Connections without ZMTP to endpoints that speak ZMTP on other connections."""
        from zmtpscope.dissect.findings.relayed import OthersAtEndpoints

        return OthersAtEndpoints(self.spoken_with)

    @cached_property
    def network(self) -> Network:
        from zmtpscope.dissect.findings.zre import Network

        return Network(self.spoken_with)

    def evaluate(self, facts: Iterable[Fact]) -> list[Record]:
        """Return the records that result from these facts.

        Facts must be sorted by ordinal, and larger than those of earlier calls.
        """
        for fact in sorted(facts, key=_order):
            self.sink.decided_by = DATAGRAMS + fact.arrival.packet if isinstance(fact, ZreBeacon) else None
            if isinstance(fact, Connected):
                self.attempts.connect(fact.pair, fact.start)
            elif isinstance(fact, Attempt):
                self.attempts.evaluate(fact)
            elif isinstance(fact, Relayed):
                self.refusals.evaluate(fact)
            elif isinstance(fact, WithoutZmtp):
                self.others.evaluate(fact)
            elif isinstance(fact, GaveWay):
                self._give_way(fact)
            elif isinstance(fact, ClockWentBack):
                self._note_clock(fact)
            elif isinstance(fact, ConnectionFact):
                self._write(self.endpoints.evaluate(fact))
            elif isinstance(fact, Spoke):
                if len(self.spoken_with) < MAX_ENDPOINTS:
                    self.spoken_with.add(fact.endpoint)
            else:
                self._write(self.network.evaluate(fact))
        self.sink.decided_by = None
        return self._drain()

    def report(self, problems: Iterable[CaptureProblem], now: Arrival) -> list[Record]:
        """Return records about unreadable files, before the end of the run; `now` is the last packet."""
        put_problems(self.sink, problems, now)
        return self._drain()

    def finish(
        self,
        end: Arrival,
        drops: Mapping[str, int] = MappingProxyType({}),
        problems: Iterable[CaptureProblem] = (),
        set_back: SetBack | None = None,
    ) -> list[Record]:
        """Return the records at the end of the run.

        `drops`: packets lost during capture, by interface. `problems`: files that could not be read to their end.
        `set_back`: where their clock was set back.
        """
        if self.gave_way > MAX_WRITTEN and self.last_to_give_way is not None:
            last = self.last_to_give_way
            writer = self._writer(last.connection.stream, end.ordinal)
            writer.note_repeats(Note(None, GAVE_WAY, stamp(last.arrival), end.ordinal), self.gave_way - MAX_WRITTEN)
        put_drops(self.sink, drops, end)
        put_problems(self.sink, problems, end)
        put_set_back(self.sink, folded([each for each in (set_back, self.set_back) if each is not None]), end)
        self._write(self.attempts.finish(end))
        for name in ("refusals", "others", "network"):
            if name in self.__dict__:
                self._write(getattr(self, name).finish(end))
        for writer in self.writers.values():
            writer.counted_findings(end.ordinal)
        self.writers.clear()
        return self._drain()

    def _note_clock(self, fact: ClockWentBack) -> None:
        index, packet = divmod(fact.most.packet, 1 << FILE_SHIFT)
        now = SetBack(fact.ns, fact.most.time, self.sink.files[index], packet, fact.times)
        self.set_back = now if self.set_back is None else folded((self.set_back, now))

    def _give_way(self, fact: GaveWay) -> None:
        self.gave_way += 1
        self.last_to_give_way = fact
        if self.gave_way <= MAX_WRITTEN:
            at = stamp(fact.arrival)
            self._write([Note(None, GAVE_WAY, at, fact.arrival.ordinal, stream=fact.connection.stream)])

    def _write(self, notes: Iterable[Note | ZrePair]) -> None:
        for note in notes:
            assert note.stream is not None
            writer = self._writer(note.stream, note.decided)
            if isinstance(note, ZrePair):
                writer.pair(note.at, note.decided, note.unit, note.values)
            elif note.last is not None:
                writer.note_many(note)
            else:
                writer.note(note)

    def _writer(self, stream: Stream, ordinal: int) -> RecordWriter:
        """Return the record writer of a connection or flow, given the stream of either side.

        If another writer is evicted, its findings are written with the segment `ordinal`.
        """
        writer = self.writers.get(stream.conn_id)
        if writer is None:
            peer = stream.turned()
            writer = RecordWriter(self.sink, (peer, stream) if stream.side else (stream, peer))
            self.writers[stream.conn_id] = writer
            if len(self.writers) > MAX_WRITERS:
                self.writers.popitem(last=False)[1].counted_findings(ordinal)
        self.writers.move_to_end(stream.conn_id)
        return writer

    def _drain(self) -> list[Record]:
        records, self.sink.batch.records = self.sink.batch.records, []
        return records


def _order(fact: Fact) -> tuple[int, bool, Stamp, int]:
    """Return a sort key: ordinal of the segment that showed the fact, then first packet of the connection; datagrams
    last.

    Facts of one connection are in order already, except ZRE commands.
    """
    ordinal = fact.arrival.ordinal
    if isinstance(fact, Connected):  # the most frequent fact
        return ordinal, False, fact.start, 0
    if isinstance(fact, ZreBeacon):
        return ordinal, True, Stamp(0, fact.arrival.packet), 0
    if isinstance(fact, ZreCommand | ZreClose):
        return ordinal, False, fact.sender.start, fact.unit if isinstance(fact, ZreCommand) else AT_THE_END
    if isinstance(fact, Spoke | ClockWentBack):
        return ordinal, False, stamp(fact.arrival), 0
    start = fact.origin.start if isinstance(fact, ConnectionFact) else fact.connection.start
    return ordinal, False, start, 0
