from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zmtpscope.capture import CaptureProblem, Captures, Follow
from zmtpscope.capture.clock import SetBack
from zmtpscope.capture.segments import ORDINALS, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival, Stamp
from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.fast_path.fast_path import FastPath
from zmtpscope.dissect.findings.comparison import Comparison
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.batch import Batch, Record, order_of_record
from zmtpscope.dissect.records.facts import ClockWentBack, end_facts
from zmtpscope.dissect.records.sink import Sink, Summary
from zmtpscope.dissect.records.topics import has_topic_in_front
from zmtpscope.dissect.stream.arrivals import BlockView
from zmtpscope.dissect.tcp.acknowledgment_times import AcknowledgmentTimes, Change
from zmtpscope.dissect.tcp.connection import CONNECTED, Connection, LastSeen
from zmtpscope.dissect.tcp.directions import Directions
from zmtpscope.dissect.tcp.flows import Flows
from zmtpscope.dissect.tcp.misordered import put_in_order
from zmtpscope.grouping import grouped
from zmtpscope.option_texts import DecodeAs

if TYPE_CHECKING:
    from zmtpscope.dissect.datagrams import Datagrams
    from zmtpscope.dissect.records.behind_topics import BehindTopics

NO_DIRECTIONS = np.empty(0, np.bool_)


class Ongoing(NamedTuple):
    """The state of a capture that has not ended, after all packets up to `now` (ns, 0 if unknown).

    - `stalls`, `outages`: records of those that still last
    - `sending`: (conn_id, side) of the sides that have sent part of a message
    - `half_closed`: (conn_id, side, time in ns) of each FIN that was acknowledged while the other side sent none
    - `waiting`: conn_ids with segments that wait for missing octets before them
    """

    now: int = 0
    stalls: Sequence[Record] = ()
    sending: Sequence[tuple[str, int]] = ()
    outages: Sequence[Record] = ()
    half_closed: Sequence[tuple[str, int, int]] = ()
    waiting: Sequence[str] = ()


ENDED = Ongoing()


class Analyser:
    """One run over captures. `summary` is complete when `run` has ended.

    Without `comparing`, findings about several connections are left to the caller: batches contain the facts about
    connections, to evaluate with a `Comparison` of the same options.
    """

    def __init__(self, options: Options | None = None, *, comparing: bool = True) -> None:
        self.options = options or Options()
        self.sink = Sink([], self.options)
        self.flows = Flows()
        self.fast_path = FastPath(self.sink, self.flows)
        self.acknowledgment_times = AcknowledgmentTimes()
        self.comparison = Comparison(self.options, summary=self.sink.summary) if comparing else None
        self.behind_topics: BehindTopics | None = None
        """Dissects content after topics in single-frame messages; created for the first one."""
        self.connections: dict[Connection, ZmtpConnection] = {}
        """ZMTP connections, created on demand: a port scan opens many TCP connections without octets."""
        self.undecided: dict[ZmtpConnection, None] = {}
        """Connections with a version that only a timeout can settle."""
        self.latest = 0
        self.now = 0
        """Time up to which all packets have been read: that of the newest packet, or of a later `tick`."""

    @cached_property
    def datagrams(self) -> Datagrams:
        from zmtpscope.dissect.datagrams import Datagrams  # most captures have no UDP

        return Datagrams(self.sink)

    @property
    def summary(self) -> Summary:
        return self.sink.summary

    @property
    def next_ordinal(self) -> int:
        return self.flows.reassembler.next_ordinal

    def run(self, captures: Captures) -> Iterator[Batch]:
        """Yield the records of captures in batches, in order: one for each block that completed records, and one at the
        end."""
        for step in self.steps(captures):
            yield from step
        yield from self.finish_captures(captures)

    def steps(self, captures: Captures) -> Iterator[Iterator[Batch]]:
        """Yield the batches of each block as one iterator.

        If `captures` grow, the batches that result from the passing of time are included. Read each iterator before
        requesting the next one, and call `finish_captures` after the last one.
        """
        self.begin(captures.files)
        for block in captures:
            yield self.feed(block, captures.follow)

    def finish_captures(self, captures: Captures) -> Iterator[Batch]:
        """Yield the remaining batches. Call it too if the caller stops before the end of the captures."""
        statistics = captures.statistics
        yield from self.finish(
            statistics.dropped(),
            captures.problems,
            set_back=statistics.set_back(),
            last=statistics.end_time(),
        )

    def begin(self, files: list[str | None]) -> None:
        """Set the files that packet references index."""
        self.sink.files = files
        self.sink.batch = Batch(files)
        if self.comparison is not None:
            self.comparison.sink.files = files

    def feed(self, block: SegmentBlock, follow: Follow | None = None) -> Iterator[Batch]:
        """Yield the records that a block of packets completed as a batch, if there are any.

        With `follow`, also yields the batches that result from the passing of time.
        """
        return (batch for batch in self.parts(block, follow) if batch is not None)

    def parts(self, block: SegmentBlock, follow: Follow | None) -> Iterator[Batch | None]:
        """Yield the batches of a block of packets, and None after each connection, so that callers can pause.

        With `follow`, also yields the batches that result from the passing of time.
        """
        before, self.latest = self.latest, max(self.latest, block.latest)
        self.now = max(self.now, self.latest)
        if block.datagrams:
            self.datagrams.feed(block)
        if self.options.keys is not None:
            self.options.keys.refresh()
        touched = self._take(block, before)
        if touched or self.sink.batch.records or self.sink.batch.facts or self.sink.batch.messages:
            yield from self._advancing(touched, block if self.options.index else None)
            yield from self._flush()
        if follow is not None:
            is_idle = not block.latest
            yield from self.tick(max(self.latest, follow.known_until) if is_idle else self.latest)

    def _take(self, block: SegmentBlock, before: int) -> list[Connection]:
        """Read a block on the fast path and pass the other segments to the flow table.

        Returns the connections with segments in the flow table. `before` is the largest time of earlier packets.
        """
        if not len(block):
            return self.flows.feed(block, None, NO_DIRECTIONS)
        self._put_in_order(block, before)
        directions = Directions(block)
        changes = self.acknowledgment_times.feed(block, directions)
        for each in changes:
            self.fast_path.sessions.release_one(block.keys[each.direction])
            directions.leave_to_slow_path(each.direction)
        is_full = self.flows.is_full(block)
        if is_full:
            self.release_all()
        taken = self.fast_path.take(block, directions, takes_new=not (is_full or self.flows.is_crowded))
        touched = self.flows.feed(block, directions, *taken)
        self.fast_path.give()
        self._take_over()
        if changes:
            self._mark(changes, block, touched)
        return touched

    def _mark(self, changes: list[Change], block: SegmentBlock, touched: list[Connection]) -> None:
        """Mark the sides whose acknowledgments changed, so that their connections report it.

        These connections are added to `touched`.
        """
        current = [self.flows.sides.get(block.keys[each.direction]) for each in changes]
        still_open = [self.flows.connections[side] for side in current if side is not None]
        sides = grouped((side.key, (each, side)) for each in dict.fromkeys(touched + still_open) for side in each.tcp)
        marked: dict[Connection, None] = {}
        for change in changes:
            key, at = block.keys[change.direction], _arrival(block, change.row)
            begun = [each for each in sides.get(key, ()) if each[0].start.ordinal <= at.ordinal]
            if begun:  # several connections may have had these ports
                connection, side = max(begun, key=lambda each: each[0].start)
                side.acknowledgment_changes += ((at, change.packet, change.kind),)
                marked[connection] = None
        before = set(touched)
        touched += [each for each in marked if each not in before]

    def _put_in_order(self, block: SegmentBlock, before: int) -> None:
        """Correct times that run backwards within a connection, since packets are in the right order.

        `before` is the largest time of earlier packets.
        """
        found = put_in_order(block, before, self._last_seen)
        if found:
            most, (last, _) = max(found, key=attrgetter("ns")), found[-1]
            arrival = _arrival(block, last)
            first = Stamp(int(block.times[most.row]), int(block.packets[most.row]))
            self.sink.batch.facts.append(ClockWentBack(arrival, first, most.ns, len(found)))

    def _last_seen(self, key: bytes) -> LastSeen | None:
        self.fast_path.sessions.release_one(key)
        self._take_over()
        return self.flows.last_seen(key)

    def release_all(self) -> None:
        self.fast_path.sessions.release_all()
        self._take_over()

    def _take_over(self) -> None:
        """Register released connections in the flow table: the fast path has read them from their SYN on."""
        for connection in self.fast_path.sessions.drain():
            self.connections[connection.tcp] = connection
            if connection.negotiation.awaits_time:
                self.undecided[connection] = None

    def tick(self, now: int) -> Iterator[Batch]:
        """Yield the batches that result from the passing of time alone.

        All packets up to `now` (ns since the epoch) must have been read. Without this call, the next packet or the end
        of the capture has the same effect.
        """
        self.now = max(self.now, now)
        self.fast_path.sessions.release_late(now)
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
        """Return (number of messages, number of ZMTP connections) so far, including open connections."""
        messages, connections = self.summary.messages + self.fast_path.messages, self.fast_path.known_connections
        for connection in self.connections.values():
            if connection.view.is_zmtp:
                connections += 1
                messages += sum(stream.messages.message_count for stream in connection.streams)
        return messages, connections

    def ongoing(self) -> Ongoing:
        """Return the stalls, outages and incomplete messages that no batch contains yet."""
        now, ordinal = self.now, self.next_ordinal
        connections = self.connections.values()
        stalls = [record for each in connections for record in each.running_stalls(now, ordinal)]
        sending = [side for each in connections for side in each.sending()]
        outages = [record for each in connections for record in each.running_outages(now, ordinal)]
        half_closed = [fin for each in connections for fin in each.half_closed()]
        waiting = [each.tcp.ends()[0].conn_id for each in connections if any(side.waits for side in each.tcp.tcp)]
        return Ongoing(now, stalls, sending, outages, half_closed, waiting)

    def report(self, problems: Sequence[CaptureProblem]) -> Iterator[Batch]:
        """Yield records about unreadable files, before the end of the run."""
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
        """Yield the last batches, after the last block.

        - `drops`: packets lost during capture, by interface
        - `problems`: files that could not be read to their end
        - `set_back`: where a file's clock was set back
        - `last`: the end of the capture according to the files; or the largest packet time, if some of the last packets
          were not for this analyser
        """
        self.latest = max(self.latest, last)
        complete = self.fast_path.sessions.end_of_capture()
        self._take_over()
        touched = self.flows.end_of_capture(self.latest)
        for known, counts in complete.values():
            known.finish(self.sink, counts)
        self._advance([tcp for tcp in touched if tcp not in complete])
        end = Arrival(self.flows.reassembler.first_ordinal, 0, self.latest)
        if self.comparison is not None:
            self.sink.batch.records += self.comparison.finish(end, drops, problems, set_back)
        if "datagrams" in self.__dict__:
            self.datagrams.finish(end.ordinal)
        self.sink.batch.until = self.latest
        yield from self._flush()
        self.summary.sums.captured += self.flows.late
        self.summary.sums.late += self.flows.late

    def _advance(self, touched: list[Connection]) -> None:
        for _ in self._advancing(touched, None):
            pass

    def _advancing(self, touched: list[Connection], captured: SegmentBlock | None) -> Iterator[None]:
        """Read the segments of the touched connections in the current block, and yield after each connection.

        `captured` is the block if records need file positions, otherwise None.
        """
        if touched:
            block = BlockView.of(self.flows.reassembler, captured)
            for tcp in touched:
                self._read(tcp, block)
                yield
        if self.comparison is not None:
            batch = self.sink.batch
            facts, batch.facts = batch.facts, []
            batch.records += self.comparison.evaluate(facts)

    def _read(self, tcp: Connection, block: BlockView) -> None:
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
            self.fast_path.adopt(connection)

    def _forced(self, tcp: Connection) -> DecodeAs | None:
        rules = self.options.decode_as
        return next((rule for rule in rules if rule.matches(tcp.number, tcp.ports)), None)

    def _read_behind_topics(self) -> None:
        tables, payloads = (
            [table for table in self.sink.batch.messages if has_topic_in_front(table)],
            self.options.payloads,
        )
        if not tables or payloads is None:
            return
        if self.behind_topics is None:
            from zmtpscope.dissect.records.behind_topics import BehindTopics  # most captures need none

            self.behind_topics = BehindTopics(payloads)
        for table in tables:
            self.behind_topics.read(table)

    def _flush(self) -> Iterator[Batch]:
        self._read_behind_topics()
        batch = self.sink.flush()
        batch.records.sort(key=order_of_record)
        if batch.records or batch.messages or batch.frames or batch.facts or batch.segments or batch.until:
            yield batch


def _arrival(block: SegmentBlock, row: int) -> Arrival:
    return Arrival(block.ordinal + ORDINALS * row, int(block.packets[row]), int(block.times[row]))
