"""Write the records of one connection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.dissect.arrivals import Arrival, Stamp, stamp
from zmtpscope.dissect.identity import Stream, listening_side
from zmtpscope.dissect.records.batch import RANKS, Record, Unit
from zmtpscope.dissect.records.facts import Endpoint, reference
from zmtpscope.dissect.records.finding_endpoints import FindingEndpoints
from zmtpscope.dissect.records.leftovers import Gap, Leftover
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.sink import Sink, Summary, count_word
from zmtpscope.dissect.records.tables import place_of
from zmtpscope.dissect.tcp.connection import UNREACHED
from zmtpscope.dissect.tcp.outages import ACKNOWLEDGED, Outage
from zmtpscope.dissect.tcp.stalls import UNSEEN, Stall
from zmtpscope.findings import FINDINGS
from zmtpscope.records import empty_own
from zmtpscope.zmtp.events import Command, Greeting
from zmtpscope.zmtp.reader import Finding

NEITHER = 2
"""A side that sorts records about both sides after the records of either."""

AT_THE_END = 1 << 62
"""An offset that sorts a record about a whole stream after all others."""

MAX_WRITTEN = 10
"""Records of one finding on one side. Further ones are counted, and written once at the end."""


class RecordWriter:
    """Writes the records of one connection, or only counts them.

    `whole` and `streams` are the fields that all records of the connection, and of each side, have. `listener` is the
    side that accepted it.
    """

    def __init__(self, sink: Sink, streams: tuple[Stream, Stream], listener: int | None = None) -> None:
        self.sink = sink
        self.is_writing = sink.options.records
        self.streams = streams
        self.whole = streams[0]._replace(side=None)
        ends = self.whole.ends
        listens = listening_side((ends[0][1], ends[1][1]), listener)
        self._endpoint, self._client = ends[listens], ends[1 - listens][0]
        self._counts: dict[tuple[int | None, str], int] = {}
        """Number of findings by side and id."""
        self._last: dict[tuple[int | None, str], Note] = {}
        """The last of each kind that is only counted."""

    def _record(
        self,
        type_: str,
        stream: Stream,
        at: Arrival | Stamp,
        ordinal: int,
        offset: int,
        own: dict[str, Any],
        unit: Unit | None = None,
    ) -> Record:
        """Make a record about the packet `at`.

        It is sorted by the segment `ordinal`, which completed it, and by `offset`; `own` are the fields that only its
        type has.
        """
        side = NEITHER if stream.side is None else stream.side
        place = place_of(stream) if self.sink.decided_by is None else self.sink.decided_by
        order = ordinal, place, side, own.get("source") or 0, offset, RANKS[type_]
        packet = at.packet
        return Record(type_, order, stream, at.time, self.sink.file(packet), packet & PACKET_MASK, own, unit)

    def reference(self, side: int, source: int, start: int, record: str) -> str:
        """Return the identity of a record of this connection, as the field `refs` of findings has it.

        `record` is its type; it starts at offset `start` of `source`.
        """
        return reference(self.whole, side, source, start, record)

    def event(
        self,
        side: int,
        event: Greeting | Command,
        octets: int,
        whole: bool,
        first: Arrival,
        ordinal: int,
        unit: Unit | None,
    ) -> None:
        """Write a greeting or command of `side`.

        Its first octet arrived with `first`, the segment `ordinal` completed it, and `octets` of it were captured (all
        if `whole`).
        """
        count_event(self.sink.summary, event)
        if self.is_writing:
            own = fields_of(event, octets, whole=whole)
            self.sink.put(self._record(type_of(event), self.streams[side], first, ordinal, event.start, own, unit))

    def note(self, note: Note) -> None:
        """Write a finding. From the eleventh of its kind on, findings are only counted."""
        self._count(note, 1)
        if self.count_written(note.side, note.finding.id) > MAX_WRITTEN:
            self._keep_last((note.side, note.finding.id), note)
        elif self.is_writing:
            self._put_finding(note, note.unit, 1)

    def count_written(self, side: int | None, id_: str) -> int:
        """Count a finding; return how many findings with this id the side has had."""
        count = self._counts[side, id_] = self._counts.get((side, id_), 0) + 1
        return count

    def note_repeats(self, note: Note, count: int) -> None:
        """Add `count` to the number of findings of a kind already written; `note` is the last."""
        self._count(note, count)
        key = (note.side, note.finding.id)
        self._counts[key] = max(self._counts.get(key, 0), MAX_WRITTEN) + count
        self._keep_last(key, note)

    def _keep_last(self, key: tuple[int | None, str], note: Note) -> None:
        """Keep the finding that is last by position, for each side and id (`key`).

        The order of calls depends on where blocks end.
        """
        known = self._last.get(key)
        if known is None or _place(note) >= _place(known):
            self._last[key] = note

    def note_many(self, note: Note) -> None:
        """Write one finding that stands for several events."""
        self._count(note, 1)
        if self.is_writing:
            self._put_finding(note, AT_THE_END, note.events)

    def left_to_write(self, side: int | None, id_: str) -> int:
        return max(0, MAX_WRITTEN - self._counts.get((side, id_), 0))

    def _put_finding(self, note: Note, offset: int, count: int) -> None:
        """Write a finding that stands for `count` findings. It is sorted to `offset` if it has no stream offset."""
        stream = self.whole if note.side is None else self.streams[note.side]
        offset = offset if note.finding.start is None else note.finding.start
        own = fields_of_finding(note, count)
        self.sink.put(self._record("finding", stream, note.at, note.decided, offset, own))

    def _count(self, note: Note, count: int) -> None:
        count_finding(self.sink.summary, note.finding, count, self._endpoint, self._client, note.at)

    def counted_findings(self, ordinal: int) -> None:
        """Write the last one of each kind of finding that was only counted.

        `ordinal` is the end of the connection, by which records are sorted.
        """
        for key, note in self._last.items() if self.is_writing else ():
            last = note._replace(decided=ordinal, refs=())
            self._put_finding(last, AT_THE_END, self._counts[key] - MAX_WRITTEN)

    def gap(self, side: int, gap: Gap) -> None:
        self.sink.summary.gaps += 1
        if not self.is_writing:
            return
        own: dict[str, Any] = {"source": 0, "offset": gap.start, "length": gap.stop - gap.start}
        own |= {"bytes": gap.octets, "reason": gap.reason, "resumed_at": gap.resumed_at}
        self.sink.put(self._record("gap", self.streams[side], gap.decided, gap.decided.ordinal, gap.start, own))

    def stall(self, side: int, stall: Stall, ordinal: int) -> None:
        """Write a stall of a side, which the segment `ordinal` ended."""
        self.sink.summary.stalls += stall.intervals
        self.sink.summary.stalled += stall.duration
        if self.is_writing:
            self.sink.put(self.stall_record(side, stall, ordinal))

    def stall_record(self, side: int, stall: Stall, ordinal: int) -> Record:
        own = empty_own("stall") | {"source": 0, "offset": stall.position, "length": 0}
        own.update(duration_ns=stall.duration, until=stall.until, until_ns=stall.end, window_probes=stall.probes)
        own.update(count=stall.intervals, longest_ns=stall.longest)
        return self._record("stall", self.streams[side], stall.begin, ordinal, stall.position, own)

    def outage(self, side: int, outage: Outage, ordinal: int) -> None:
        """Write an outage of a side, which the segment `ordinal` ended."""
        self.sink.summary.outages += outage.intervals
        self.sink.summary.unacknowledged += outage.duration
        if self.is_writing:
            self.sink.put(self.outage_record(side, outage, ordinal))

    def losses(self, side: int, losses: Outage, ordinal: int) -> None:
        """Write the lost segments of a side that were soon sent again and acknowledged, as one record.

        `ordinal` is the end of the connection, by which records are sorted.
        """
        if self.is_writing:
            self.sink.put(self.outage_record(side, losses, ordinal))

    def outage_record(self, side: int, outage: Outage, ordinal: int) -> Record:
        own = empty_own("retransmission") | {"source": 0, "offset": outage.position, "length": 0}
        own.update(duration_ns=outage.duration, until=outage.until, until_ns=outage.end)
        own["acknowledged"] = None if outage.until == UNSEEN else outage.until == ACKNOWLEDGED
        own.update(retransmissions=outage.retransmissions, keepalive_probes=outage.probes)
        own.update(smallest=outage.smallest, largest=outage.largest, answers=outage.answers)
        own["acknowledged_before"] = outage.acknowledged_before
        own.update(count=outage.intervals, longest_ns=outage.longest)
        own["icmp"] = None if outage.unreachable is None else UNREACHED[outage.unreachable]
        return self._record("retransmission", self.streams[side], outage.begin, ordinal, outage.position, own)

    def leftover(self, side: int, leftover: Leftover) -> None:
        if not self.is_writing:
            return
        own: dict[str, Any] = {"source": 0, "offset": leftover.start, "length": leftover.stop - leftover.start}
        own |= {"bytes": leftover.octets, "kind": leftover.kind, "reason": leftover.reason, "data": leftover.data}
        at = leftover.decided
        self.sink.put(self._record("leftover", self.streams[side], at, at.ordinal, leftover.start, own))

    def datagram(self, first: Arrival, ordinal: int, offset: int, own: dict[str, Any], unit: Unit | None) -> None:
        """Write a datagram.

        `own` are the fields that only this record type has; `ordinal` and `offset` are those by which the record is
        sorted.
        """
        own = empty_own("datagram") | {"source": 0, "offset": offset} | own
        self.sink.put(self._record("datagram", self.streams[0], first, ordinal, offset, own, unit))

    def pair(self, first: Stamp, ordinal: int, unit: int, own: dict[str, Any]) -> None:
        """Write a pair of ZRE nodes.

        The message at offset `unit`, in the segment `ordinal`, completed the pair; `own` are the fields that only this
        record type has.
        """
        if self.is_writing:
            self.sink.put(self._record("zre_pair", self.whole, first, ordinal, unit, empty_own("zre_pair") | own))

    def connection(self, start: Arrival | Stamp, own: dict[str, Any], ordinal: int) -> None:
        """Write an ended connection.

        `start` is its first segment, `ordinal` its end, by which the record is sorted; `own` are the fields that only
        this record type has.
        """
        self.sink.put(self._record("connection", self.whole, start, ordinal, AT_THE_END, own))


def type_of(event: Greeting | Command) -> str:
    return "greeting" if isinstance(event, Greeting) else "command"


def fields_of(event: Greeting | Command, octets: int, *, whole: bool) -> dict[str, Any]:
    """Return the fields that only greetings or commands have.

    `octets` of the event were captured; `whole`: all of them.
    """
    own = empty_own(type_of(event))
    own.update(source=event.regime.source, offset=event.start, length=octets, complete=whole)
    own.update(event.fields)
    if isinstance(event, Command):
        own["decrypted"] = event.regime.opened
    if isinstance(event, Greeting) and event.regime.form is not None:
        own["form"] = event.regime.form.value
    return own


def put_events(
    sink: Sink,
    event: Greeting | Command,
    fields: Sequence[dict[str, Any]],
    streams: Sequence[Stream],
    firsts: Iterable[Arrival],
) -> None:
    """Write an event that several streams have in common, once for each of them.

    `fields` are the fields that only its type has. `firsts` are the packets of the first octets, with the ordinals of
    the segments that completed the events.
    """
    count_event(sink.summary, event, len(streams))
    if sink.options.records:
        put_records(sink, type_of(event), event.regime.source, event.start, fields, streams, firsts)


def put_findings(sink: Sink, note: Note, streams: Sequence[Stream], firsts: Sequence[Arrival]) -> None:
    """Write a finding once for each of several streams, with its packet. It is not counted."""
    shared = fields_of_finding(note, 1)
    own = [{**shared, "last_packet": packet & PACKET_MASK} for _, packet, _ in firsts]
    offset = note.unit if note.finding.start is None else note.finding.start
    put_records(sink, "finding", shared["source"] or 0, offset, own, streams, firsts)


def put_records(
    sink: Sink,
    type_: str,
    source: int,
    offset: int,
    fields: Iterable[dict[str, Any]],
    streams: Sequence[Stream],
    firsts: Iterable[Arrival],
) -> None:
    """Write several records that differ only in these `fields`, in their connections and packets.

    `source` and `offset` are those by which the records are sorted; `firsts` are the packets, with the ordinals of the
    segments that completed the records.
    """
    rank, file = RANKS[type_], sink.file
    side = NEITHER if streams[0].side is None else streams[0].side
    sink.batch.records += [
        Record(
            type_,
            (ordinal, place_of(stream), side, source, offset, rank),
            stream,
            time,
            file(packet),
            packet & PACKET_MASK,
            own,
        )
        for own, stream, (ordinal, packet, time) in zip(fields, streams, firsts, strict=True)
    ]


OF_NO_ATTEMPT = dict.fromkeys(("duration_ns", "syns", "answer", "answered_by", "was_connected"))


def fields_of_finding(note: Note, count: int) -> dict[str, Any]:
    """Return the fields that only finding records have, for a record that stands for `count` findings."""
    finding = note.finding
    kind = FINDINGS[finding.id]
    located = finding.start is not None
    return {
        "source": note.source if located else None,
        "offset": finding.start,
        "length": finding.length if located else None,
        "id": finding.id,
        "severity": _severity(finding),
        "text": f"{kind.text}: {finding.detail}" if finding.detail else kind.text,
        "section": kind.section,
        "hint": _hint(finding),
        "refs": list(note.refs),
        "count": count,
        "last_packet": (note.last or note.at).packet & PACKET_MASK,
        **OF_NO_ATTEMPT,
        **(note.values or {}),
    }


def count_event(summary: Summary, event: Greeting | Command, count: int = 1) -> None:
    """Add a command to the totals of the run. Greetings are not counted."""
    if isinstance(event, Command):
        count_word(summary.commands, event.fields.get("name") or "", count)


def count_finding(
    summary: Summary, finding: Finding, count: int, endpoint: Endpoint, client: str, at: Arrival | Stamp
) -> None:
    """Add findings about `client` and `endpoint` to the totals of the run; `at` is the first packet."""
    kind, hint = (_severity(finding), finding.id), _hint(finding)
    summary.count_finding(kind, count, hint)
    found = summary.finding_endpoints.get(kind)
    if found is None:
        found = summary.finding_endpoints[kind] = FindingEndpoints()
    found.add(count, endpoint, client, Stamp(at.time, at.packet), hint)


def _severity(finding: Finding) -> str:
    return finding.severity or FINDINGS[finding.id].severity


def _hint(finding: Finding) -> str | None:
    return finding.hint or FINDINGS[finding.id].hint


def _place(note: Note) -> tuple[Stamp, int, int]:
    at = note.last or note.at
    start = -1 if note.finding.start is None else note.finding.start
    return stamp(at) if isinstance(at, Arrival) else at, note.source, start
