"""Collect the packets of selected records.

They are the packets that carry the octets of a record, packets and records that a finding names, and all packets of a
selected connection.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from ipaddress import ip_address
from typing import NamedTuple

import numpy as np

from zmtpscope.capture.segments import FILE_SHIFT
from zmtpscope.dissect import Batch, FrameTable, MessageTable, Options, Record
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.message_columns import columns_of_table
from zmtpscope.export.describe import DESCRIBE
from zmtpscope.export.rows import RowWords, doubt, noun
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.values import record_values
from zmtpscope.words import counted

MAX_LINES = 50
MAX_OCTETS = 64 << 20
"""Octets of all comments. Later packets have none."""
LINE_WEIGHT = 100
"""Memory of a line in addition to its text (an estimate)."""


class Comments:
    """Collects the comments of packets, by packet reference (`segments.FILE_SHIFT`)."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.is_full = False
        """Whether comments were dropped because of `MAX_OCTETS`."""
        self._octets = 0
        self._lines: dict[int, list[str]] = {}
        self._left_out: dict[int, int] = {}

    def add(self, reference: int, item: Record | MessageTable | FrameTable, index: int, words: RowWords | None) -> None:
        """Add a line that describes `item` to the comment of the packet `reference`.

        If `item` is a table, `index` is the row to describe, and `words` formats it.
        """
        lines = self._lines.get(reference)
        if self.is_full:
            return
        if lines is not None and len(lines) >= MAX_LINES:
            self._left_out[reference] = self._left_out.get(reference, 0) + 1
            return
        line = self._line(item, index, words)
        self._octets += len(line) + LINE_WEIGHT
        self.is_full = self._octets > MAX_OCTETS
        if lines is None:
            self._lines[reference] = [line]
        else:
            lines.append(line)

    def of(self, reference: int) -> str:
        """Return the comment of a packet, or ""."""
        lines = self._lines.get(reference, [])
        more = self._left_out.get(reference)
        return "\n".join([*lines, f"and {counted(more, 'more record')}"] if more else lines)

    def _line(self, item: Record | MessageTable | FrameTable, index: int, words: RowWords | None) -> str:
        if words is None:
            assert isinstance(item, Record)
            values = record_values(item, self.options)
            number = "" if values["conn"] is None else f"c{values['conn']} "
            if values.get("decrypted") and not self.options.show_secrets:
                return f"{number}decrypted {safe_text(values['name'] or 'command')}"
            hint = values.get("hint")
            return f"{number}{DESCRIBE[values['record']](values)}" + (f" -> {hint}" if hint else "")
        sender = words.sender(index)
        number = f"c{sender.stream.conn} "
        if sender.regime.opened and not self.options.show_secrets:
            return f"{number}{noun(sender)}{doubt(sender)} {counted(words.octets(index), 'octet')}"
        return number + words.describe(index, 0)


MIN_PACKETS = 1 << 20


class PacketRange(NamedTuple):
    """Packets in one direction that carry octets: first and last packet reference, both included."""

    first: int
    last: int


class Lifetime(NamedTuple):
    """The time range (ns since 1970) of a connection, all of whose packets are copied."""

    start: int
    end: int


class WantedPackets:
    """Collects the packets to copy, from the batches of an analyser with `Options.details`."""

    def __init__(self, options: Options) -> None:
        self.comments = Comments(options)
        self.options = options
        self.ranges: dict[bytes, list[PacketRange]] = defaultdict(list)
        """Wanted ranges by the flow key of their direction, for records whose single packets are not known."""
        self.lifetimes: dict[bytes, list[Lifetime]] = defaultdict(list)
        """Lifetimes of connections by the flow key of the side that opened the connection or sent first."""
        self.references: set[str] = set()
        """Ids of records that findings name, until `find` has their packets."""
        self._greeted: set[int] = set()
        """Connections that are copied with their greetings."""
        self._recorded: set[int] = set()
        """Connections with other wanted records."""
        self._packets = array("q")
        self._most = MIN_PACKETS
        """Number of references at which duplicates are removed: one packet can carry many messages."""
        self._files: dict[str | None, int] = {}

    def feed(self, batch: Batch) -> None:
        """Add the packets of the records in a batch, and remember the records to which findings refer."""
        self._learn_files(batch.files)
        for record in batch.records:
            self._add_record(record)
            if record.type in ("greeting", "connection"):
                self._greeted.add(record.values["conn"])
            elif None not in (record.values["conn"], record.values.get("source")):  # about octets of a stream
                self._recorded.add(record.values["conn"])
        for run in _runs(batch):
            if run.stream.conn is not None:
                self._recorded.add(run.stream.conn)
            words = RowWords(columns_of_table(run), self.options, None)
            self._add_run(run, np.arange(len(run.orders)))
            for row, packet in enumerate(run.packets.tolist()):
                self.comments.add(packet, run, row, words)

    def find(self, batch: Batch) -> None:
        """Add the packets of records to which findings refer. Call it for all batches again, after `feed`."""
        self._learn_files(batch.files)
        for record in batch.records:
            values = record.values
            if "offset" in values and self._name(values["conn_id"], values, record.type) in self.references:
                self._add_record(record)
        wanted = {each.split("/", 1)[0] for each in self.references}
        for run in _runs(batch):
            if run.stream.conn_id in wanted:
                front = f"{run.stream.conn_id}/{run.stream.side}/{run.source}"
                frames = np.flatnonzero([f"{front}/{at}/frame" in self.references for at in run.offsets.tolist()])
                if isinstance(run, MessageTable):
                    begins = run.offsets[run.first].tolist()
                    messages = np.flatnonzero([f"{front}/{at}/message" in self.references for at in begins])
                    frames = np.union1d(np.searchsorted(run.last, frames), messages)
                if len(frames):
                    self._add_run(run, frames)

    @property
    def connection_without_greeting(self) -> int | None:
        """The number of a connection with copied records but without its greeting, or None.

        zmtpscope could not recognise this connection as ZMTP in the excerpt.
        """
        return min(self._recorded - self._greeted, default=None)

    @property
    def packets(self) -> Int64:
        """Return the sorted references of packets that were added one by one, not as a `PacketRange`."""
        return np.unique(np.frombuffer(self._packets, np.int64)) if self._packets else np.empty(0, np.int64)

    # -- records -----------------------------------------------------------------------------------------------------

    def _learn_files(self, files: Sequence[str | None]) -> None:
        for number, file in enumerate(files[len(self._files) :], len(self._files)):
            self._files.setdefault(file, number)

    def _name(self, conn_id: str, values: dict[str, object], kind: str) -> str:
        return f"{conn_id}/{values['side']}/{values['source']}/{values['offset']}/{kind}"

    def _add_record(self, record: Record) -> None:
        values = record.values
        if record.unit is not None:
            self._packets.extend(each.packet for each in record.unit.slices)
        if values["packet"] is not None:
            front = self._files.get(values["file"], 0) << FILE_SHIFT
            self._packets.append(front | values["packet"])
            self.comments.add(front | values["packet"], record, -1, None)
            if values.get("last_packet") is not None:
                self._packets.append(front | values["last_packet"])
        if record.type == "finding":
            self.references.update(values["refs"] or ())
        if record.type == "connection":
            key = _key(values["ip_0"], values["port_0"], values["ip_1"], values["port_1"])
            self.lifetimes[key].append(Lifetime(values["start_ns"], values["end_ns"]))

    def _add_run(self, run: MessageTable | FrameTable, rows: Int64) -> None:
        if len(self._packets) > self._most:
            self._packets = array("q", self.packets.tobytes())
            self._most = max(MIN_PACKETS, 2 * len(self._packets))
        self._packets.frombytes(run.packets[rows].tobytes())
        if isinstance(run, MessageTable):
            first, last = run.first, run.last
            rows = rows[run.packets[rows] != run.packet_ends[rows]]
        else:
            first = last = np.arange(len(run.offsets))
        pieces = run.sender.pieces
        for row in rows.tolist():
            start = int(run.offsets[first[row]])
            stop = start + run.length(int(first[row]), int(last[row]))
            slices = [] if pieces is None else pieces.slices(start, stop)
            self._packets.extend(each.packet for each in slices)
            covered = sum(each.stop - each.start for each in slices)
            if isinstance(run, MessageTable):
                self._packets.append(int(run.packet_ends[row]))
                if covered < stop - start:
                    stream = run.stream
                    key = _key(stream.src_ip, stream.src_port, stream.dst_ip, stream.dst_port)
                    self.ranges[key].append(PacketRange(int(run.packets[row]), int(run.packet_ends[row])))


def _runs(batch: Batch) -> list[MessageTable | FrameTable]:
    return [*batch.by_sender(), *batch.frames]


def _key(ip: str, port: int, other_ip: str, other_port: int) -> bytes:
    addresses = ip_address(ip).packed + ip_address(other_ip).packed
    return addresses + port.to_bytes(2, "big") + other_port.to_bytes(2, "big")
