"""The one entry: blocks of segments in, batches of records out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zmtpscope.capture import CaptureProblem, Captures
from zmtpscope.capture.clock import SetBack
from zmtpscope.capture.segments import ORDINALS, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival, Stamp
from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.findings.comparison import Comparison
from zmtpscope.dissect.lane.lane import Lane
from zmtpscope.dissect.options import DecodeAs, Options
from zmtpscope.dissect.records.batch import Batch, Record, order_of_record
from zmtpscope.dissect.records.facts import ClockWentBack, end_facts
from zmtpscope.dissect.records.sink import Sink, Summary
from zmtpscope.dissect.records.topics import has_topic_in_front
from zmtpscope.dissect.stream.arrivals import BlockView
from zmtpscope.dissect.tcp.connection import CONNECTED, Connection, LastSeen
from zmtpscope.dissect.tcp.directions import Directions
from zmtpscope.dissect.tcp.flows import Flows
from zmtpscope.dissect.tcp.misordered import Misordered, put_in_order

if TYPE_CHECKING:
    from zmtpscope.dissect.datagrams import Datagrams
    from zmtpscope.dissect.records.behind_topics import BehindTopics

NO_DIRECTIONS = np.empty(0, np.bool_)


class Ongoing(NamedTuple):
    """What goes on in a capture that has not ended: up to `now` (ns, 0 if nobody knows) all packets were taken,
    `stalls` are stretches in which a side cannot send, and `outages` those in which it is not acknowledged, with what
    they have lasted so far, and the sides `sending` (conn_id and number) have sent a part of a message."""

    now: int = 0
    stalls: Sequence[Record] = ()
    sending: Sequence[tuple[str, int]] = ()
    outages: Sequence[Record] = ()


ENDED = Ongoing()
"""Nothing goes on any more."""


class Analyser:
    """One run over captures. `summary` is whole when `run` has ended.

    Without `comparing` connections are not compared with each other: batches carry the facts for that, and somebody
    else evaluates them, with a `Comparison` of the same options.
    """

    def __init__(self, options: Options | None = None, *, comparing: bool = True) -> None:
        self.options = options or Options()
        self.sink = Sink([], self.options)
        self.flows = Flows()
        self.lane = Lane(self.sink, self.flows)
        self.comparison = Comparison(self.options, summary=self.sink.summary) if comparing else None
        self.behind_topics: BehindTopics | None = None
        """Once a message of one frame had a topic, where somebody wants to know what rides inside."""
        self.connections: dict[Connection, ZmtpConnection] = {}
        """Open connections of TCP as such of ZMTP, from when that is first needed: a port scan has many without."""
        self.undecided: dict[ZmtpConnection, None] = {}
        """Those whose version is settled when enough time has gone by."""
        self.latest = 0
        """The largest time of all packets."""
        self.now = 0
        """Up to which time all packets have been taken: that of the newest, or what `tick` said since."""

    @cached_property
    def datagrams(self) -> Datagrams:
        """UDP, of which most captures have none."""
        from zmtpscope.dissect.datagrams import Datagrams  # what nobody sends is not loaded

        return Datagrams(self.sink)

    @property
    def summary(self) -> Summary:
        """What the run saw so far."""
        return self.sink.summary

    @property
    def next_ordinal(self) -> int:
        """The ordinal that the first segment of the next block has."""
        return self.flows.reassembler.next_ordinal

    def run(self, captures: Captures) -> Iterator[Batch]:
        """A batch for every block that made something decidable, in order, and one for what is left at the end."""
        self.begin(captures.files)
        for block in captures:
            yield from self.feed(block)
        statistics = captures.statistics
        yield from self.finish(
            statistics.dropped(),
            captures.problems,
            set_back=statistics.set_back(),
            last=statistics.end_time(),
        )

    def begin(self, files: list[str | None]) -> None:
        """Blocks will come whose packet references index these files."""
        self.sink.files = files
        self.sink.batch = Batch(files)
        if self.comparison is not None:
            self.comparison.sink.files = files

    def feed(self, block: SegmentBlock) -> Iterator[Batch]:
        """What one block made decidable: a batch, or nothing."""
        before, self.latest = self.latest, max(self.latest, block.latest)
        self.now = max(self.now, self.latest)
        if block.datagrams:
            self.datagrams.feed(block)
        if self.options.keys is not None:
            self.options.keys.refresh()
        touched = self._take(block, before)
        if touched or self.sink.batch.records or self.sink.batch.facts or self.sink.batch.runs:
            self._advance(touched, block if self.options.index else None)
            yield from self._flush()

    def _take(self, block: SegmentBlock, before: int) -> list[Connection]:
        """Read what a block has of the connections in the lane, and hand the rest to the others: those that it
        touched. `before` is the largest time of all packets in front of it."""
        if not len(block):
            return self.flows.feed(block, None, NO_DIRECTIONS, [])
        self._put_in_order(block, before)
        directions = Directions(block)
        is_full = self.flows.is_full(block)
        if is_full:
            self.release_all()
        done, deferred = self.lane.take(block, directions, takes_new=not (is_full or self.flows.is_crowded))
        touched = self.flows.feed(block, directions, done, deferred)
        self.lane.give()
        self._take_over()
        return touched

    def _put_in_order(self, block: SegmentBlock, before: int) -> None:
        """Let the order of packets decide where times within a connection go back."""
        found = put_in_order(block, before, self._last_seen)
        if found:
            most, (last, _) = max(found, key=_by), found[-1]
            arrival = Arrival(block.ordinal + ORDINALS * last, int(block.packets[last]), int(block.times[last]))
            first = Stamp(int(block.times[most.row]), int(block.packets[most.row]))
            self.sink.batch.facts.append(ClockWentBack(arrival, first, most.ns, len(found)))

    def _last_seen(self, key: bytes) -> LastSeen | None:
        """Return the last packet of the connection of a direction, which leaves the lane for that."""
        self.lane.release_one(key)
        self._take_over()
        return self.flows.last_seen(key)

    def release_all(self) -> None:
        """Let all connections that are in the lane read on themselves."""
        self.lane.release_all()
        self._take_over()

    def _take_over(self) -> None:
        """Connections that were in the lane from their SYN on read on themselves."""
        for connection in self.lane.drain():
            self.connections[connection.tcp] = connection
            if connection.negotiation.awaits_time:
                self.undecided[connection] = None

    def tick(self, now: int) -> Iterator[Batch]:
        """What time alone decides: all packets up to `now` (nanoseconds since the epoch) have been taken, and on some
        connections none came for long enough. What is decided, and what is written of it, is what the next packet, or
        the end of the capture, would decide; it only comes earlier. Reading files needs no ticks."""
        self.now = max(self.now, now)
        self.lane.release_late(now)
        self._take_over()
        if self.flows.reassembler.waiting.sides:
            self._advance(self.flows.tick(now))
            yield from self._flush()
        if self.undecided:
            ordinal = self.flows.reassembler.begin_tick()
            due = [each.tcp for each in self.undecided if each.negotiation.advance_clock(now, ordinal)]
            if due:
                self._advance(due)
                yield from self._flush()

    def messages_so_far(self) -> tuple[int, int]:
        """Messages of all connections, those included that are open; and how many of these speak ZMTP."""
        messages, connections = self.summary.messages + self.lane.messages, self.lane.known_connections
        for connection in self.connections.values():
            if connection.view.is_zmtp:
                connections += 1
                messages += sum(stream.messages.message_count for stream in connection.streams)
        return messages, connections

    def ongoing(self) -> Ongoing:
        """What is no part of batches yet, since it goes on."""
        now, ordinal = self.now, self.next_ordinal
        connections = self.connections.values()
        stalls = [record for each in connections for record in each.running_stalls(now, ordinal)]
        sending = [side for each in connections for side in each.sending()]
        outages = [record for each in connections for record in each.running_outages(now, ordinal)]
        return Ongoing(now, stalls, sending, outages)

    def report(self, problems: Sequence[CaptureProblem]) -> Iterator[Batch]:
        """Files that could not be read to their end, where the run goes on with others."""
        if problems and self.comparison is not None:
            now = Arrival(self.flows.reassembler.begin_tick(), 0, self.latest)
            self.sink.batch.records += self.comparison.report(problems, now)
            yield from self._flush()

    def finish(
        self,
        drops: Mapping[str, int] = MappingProxyType({}),
        problems: Iterable[CaptureProblem] = (),
        *,
        set_back: SetBack | None = None,
        last: int = 0,
    ) -> Iterator[Batch]:
        """What is left when no more blocks will come. `drops`: packets lost while they were captured, by interface.
        `problems`: files that could not be read to their end. `set_back`: where the clock of one was. `last`: when the
        capture ended, as far as files tell, or the largest time of all packets, where some of the last were not for
        this analyser."""
        self.latest = max(self.latest, last)
        self.release_all()
        self._advance(self.flows.end_of_capture(self.latest))
        end = Arrival(self.flows.reassembler.first_ordinal, 0, self.latest)
        if self.comparison is not None:
            self.sink.batch.records += self.comparison.finish(end, drops, problems, set_back)
        if "datagrams" in self.__dict__:
            self.datagrams.finish(end.ordinal)
        self.sink.batch.until = self.latest
        yield from self._flush()
        self.summary.sums.captured += self.flows.late
        self.summary.sums.late += self.flows.late

    def _advance(self, touched: list[Connection], captured: SegmentBlock | None = None) -> None:
        """Let connections read what a block brought, which is `captured` where somebody asks where it stands."""
        if touched:
            block = BlockView.of(self.flows.reassembler, captured)
            for tcp in touched:
                self._read(tcp, block)
        if self.comparison is not None:
            batch = self.sink.batch
            facts, batch.facts = batch.facts, []
            batch.records += self.comparison.evaluate(facts)

    def _read(self, tcp: Connection, block: BlockView) -> None:
        """Let a connection read what the block brought; close the books where it ended."""
        connection, undecided = self.connections.get(tcp), self.undecided
        if tcp.closed:
            self.sink.batch.facts += end_facts(tcp)
        if connection is None:
            forced = self._forced(tcp)
            if tcp.closed and forced is None and not tcp.has_octets:
                if tcp.attempt_outcome() in (None, CONNECTED):
                    self.summary.count_other(tcp)
                return
            connection = self.connections[tcp] = ZmtpConnection(tcp, self.sink, forced)
        connection.advance(block)
        if tcp.closed:
            connection.finish()
            del self.connections[tcp]
        if connection.negotiation.awaits_time and not tcp.closed:
            undecided[connection] = None
        elif undecided:
            undecided.pop(connection, None)
        if not (tcp.closed or self.flows.is_crowded):
            self.lane.adopt(connection)

    def _forced(self, tcp: Connection) -> DecodeAs | None:
        """What the user said of a connection, if anything."""
        rules = self.options.decode_as
        return next((rule for rule in rules if rule.matches(tcp.number, tcp.ports)), None)

    def _read_behind_topics(self) -> None:
        """Read the content of the messages of the batch that stands in one frame with a topic."""
        runs, payloads = [run for run in self.sink.batch.runs if has_topic_in_front(run)], self.options.payloads
        if not runs or payloads is None:
            return
        if self.behind_topics is None:
            from zmtpscope.dissect.records.behind_topics import BehindTopics  # most captures need none

            self.behind_topics = BehindTopics(payloads)
        self.behind_topics.read(runs)

    def _flush(self) -> Iterator[Batch]:
        """The batch under way, unless there is nothing in it."""
        self._read_behind_topics()
        batch = self.sink.flush()
        batch.records.sort(key=order_of_record)
        if batch.records or batch.runs or batch.frame_runs or batch.facts or batch.segments or batch.until:
            yield batch


def _by(misordered: Misordered) -> int:
    return misordered.ns
