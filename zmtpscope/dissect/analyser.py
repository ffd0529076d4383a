"""The one entry: blocks of segments in, batches of records out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from zmtpscope.capture import Captures
from zmtpscope.capture.segments import SegmentBlock
from zmtpscope.dissect.arrivals import Arrival, BlockView
from zmtpscope.dissect.attempts import Attempts
from zmtpscope.dissect.batch import Batch
from zmtpscope.dissect.connection import Connection
from zmtpscope.dissect.datagrams import Datagrams
from zmtpscope.dissect.drops import put_drops
from zmtpscope.dissect.endpoints import Endpoints
from zmtpscope.dissect.flows import Flows
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.sink import Sink, Summary
from zmtpscope.dissect.tell import TOLD, Teller
from zmtpscope.dissect.zre import Network
from zmtpscope.zmtp.reader import Finding

GAVE_WAY = Finding("ZMTP-CONN-12")


class Analyser:
    """One run over captures. `summary` is whole when `run` has ended."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.connections = 0
        self.gave_way = 0
        self.last_to_give_way: Connection | None = None
        self.sink = Sink([])
        self.flows = Flows(self._open)
        self.attempts = Attempts(self.sink, self.options.records)
        self.endpoints = Endpoints()
        self.network = Network(self.sink)
        self.datagrams = Datagrams(self.sink, self.options)
        self.undecided: dict[Connection, None] = {}
        """Open connections whose version is settled when enough time has gone by."""
        self.latest = 0
        """The largest time of all packets."""

    @property
    def summary(self) -> Summary:
        """What the run saw so far."""
        return self.sink.summary

    @property
    def next_ordinal(self) -> int:
        """The ordinal that the first segment of the next block has."""
        return self.flows.reassembler.next_ordinal

    def _open(self, key: bytes, start: Arrival, incarnation: int) -> Connection:
        self.connections += 1
        return Connection(self.connections, key, start, incarnation, self.sink, self.options)

    def _teller(self, connection: Connection) -> Teller:
        return Teller(self.sink, connection.ends(), self.options.records)

    def run(self, captures: Captures) -> Iterator[Batch]:
        """A batch for every block that made something decidable, in order, and one for what is left at the end."""
        self.begin(captures.files)
        for block in captures:
            yield from self.take(block)
        yield from self.finish(captures.statistics.dropped())

    def begin(self, files: list[str | None]) -> None:
        """Blocks will come whose packet references index these files."""
        self.sink.files = files
        self.sink.batch = Batch(files)

    def take(self, block: SegmentBlock) -> Iterator[Batch]:
        """What one block made decidable: a batch, or nothing."""
        self.latest = max(self.latest, block.latest)
        self.summary.datagrams += len(block.datagrams)
        if block.datagrams:
            self.datagrams.take(block)
        if self.options.keys is not None:
            self.options.keys.refresh()
        touched = self.flows.take(block)
        if touched or self.sink.batch.records or self.sink.zre_facts:
            yield from self._advance(touched)

    def tick(self, now: int) -> Iterator[Batch]:
        """What time alone decides: all packets up to `now` (nanoseconds since the epoch) have been taken, and on some
        connections none came for long enough. What is decided, and what is told of it, is what the next packet, or the
        end of the capture, would decide; it only comes earlier. Reading files needs no ticks."""
        if self.flows.reassembler.waiting.sides:
            yield from self._advance(self.flows.tick(now))
        if self.undecided:
            ordinal = self.flows.reassembler.begin_tick()
            due = [each for each in self.undecided if each.pass_time(now, ordinal)]
            if due:
                yield from self._advance(due)

    def messages_so_far(self) -> tuple[int, int]:
        """Messages of all connections, those included that are open; and how many of these speak ZMTP."""
        messages, connections = self.summary.messages, 0
        for side in self.flows.sides.values():
            dialogue = side.connection.dialogue
            if side.number == 0 and dialogue is not None and dialogue.is_zmtp:
                connections += 1
                messages += sum(stream.message_count for stream in dialogue.streams)
        return messages, connections

    def finish(self, drops: Mapping[str, int] = MappingProxyType({})) -> Iterator[Batch]:
        """What is left when no more blocks will come. `drops`: packets lost while they were captured, by interface."""
        still_open = self.flows.end_of_capture(self.latest)
        if self.gave_way > TOLD and self.last_to_give_way is not None:
            last = self.last_to_give_way
            teller = self._teller(last)
            teller.repeated(None, GAVE_WAY, last.end, self.gave_way - TOLD)
            teller.counted_findings(self.flows.reassembler.first_ordinal)
        end = Arrival(self.flows.reassembler.first_ordinal, 0, self.latest)
        put_drops(self.sink, drops, end, self.options.records)
        yield from self._advance(still_open, end)
        self.summary.sums.captured += self.flows.late
        self.summary.sums.late += self.flows.late

    def _advance(self, connections: list[Connection], end: Arrival | None = None) -> Iterator[Batch]:
        """Let connections read what a block brought; `end`: the end of the capture, if that was the last one."""
        view = BlockView(self.flows.reassembler)
        undecided = self.undecided
        for connection in connections:
            connection.advance(view)
            if connection.awaits_time:
                undecided[connection] = None
            elif undecided:
                undecided.pop(connection, None)
        for connection in self.flows.gave_way:
            if connection.has_ended:
                continue
            self.gave_way += 1
            self.last_to_give_way = connection
            if self.gave_way <= TOLD:
                self._teller(connection).finding(None, GAVE_WAY, connection.end, connection.end.ordinal)
        attempts, self.sink.attempts = self.sink.attempts, []
        self.attempts.take(attempts)
        facts, self.sink.facts = self.sink.facts, []
        self.endpoints.weigh(facts)
        said, self.sink.zre_facts = self.sink.zre_facts, []
        self.network.weigh(said)
        if end is not None:
            self.attempts.finish(end)
            self.network.finish(end)
            self.datagrams.finish(end.ordinal)
        batch = self.sink.flush()
        if batch.records or batch.runs or batch.frame_runs:
            yield batch
