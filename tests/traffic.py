"""Scripted TCP traffic for tests: octets of two sides become packets, which a test may drop, swap, repeat or cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.rows_by_hand import frame_values, message_values
from tests.runs import assert_runs_agree
from zmtpscope.capture import CaptureProblem, CaptureStatistics, Follow, segments
from zmtpscope.capture.segments import ACK, CLOSED_WINDOW, CUT, FIN, ORDINALS, PSH, RST, SYN, SegmentBlock
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.batch import Record
from zmtpscope.dissect.records.tables import FrameTable, MessageTable

CLIENT = bytes([10, 0, 0, 2])
SERVER = bytes([10, 0, 0, 1])


@dataclass(frozen=True)
class Packet:
    """One TCP segment of a scripted connection; `cut` payload octets were not captured."""

    side: int
    sequence: int
    acknowledgment: int
    flags: int
    payload: bytes = b""
    time: int = 0
    cut: int = 0
    number: int = 0
    ports: tuple[int, int] = (50_000, 5555)
    hosts: tuple[bytes, bytes] = (CLIENT, SERVER)
    is_closed: bool = False

    @property
    def marked(self) -> int:
        """Return its flags, with the marks that blocks add."""
        says_closed = self.is_closed and self.flags & (SYN | RST | ACK) == ACK
        return self.flags | (CUT if self.cut else 0) | (CLOSED_WINDOW if says_closed else 0)

    @property
    def key(self) -> bytes:
        addresses, ports = self.hosts, self.ports
        if self.side:
            addresses, ports = (addresses[1], addresses[0]), (ports[1], ports[0])
        return b"".join(addresses) + ports[0].to_bytes(2, "big") + ports[1].to_bytes(2, "big")


@dataclass(frozen=True)
class Datagram:
    """One UDP datagram among the packets; `cut` octets of it were not captured."""

    payload: bytes
    time: int
    source: tuple[bytes, int] = (CLIENT, 40_000)
    target: tuple[bytes, int] = (SERVER, 5556)
    cut: int = 0
    number: int = 0

    @property
    def key(self) -> bytes:
        ports = self.source[1].to_bytes(2, "big") + self.target[1].to_bytes(2, "big")
        return self.source[0] + self.target[0] + ports


class Conversation:
    """Writes packets as two hosts would; `packets` may be edited before `capture` numbers them."""

    def __init__(
        self,
        initial: tuple[int, int] = (1000, 9000),
        ports: tuple[int, int] = (50_000, 5555),
        syn: bool = True,
        start: int = 1_700_000_000_000_000_000,
        hosts: tuple[bytes, bytes] = (CLIENT, SERVER),
    ) -> None:
        self.hosts = hosts
        self.next = [initial[0], initial[1]]
        self.ports = ports
        self.time = start
        self.packets: list[Packet] = []
        self.closed = [False, False]
        if syn:
            self.add(0, SYN)
            self.add(1, SYN | ACK)
            self.add(0, ACK)

    def add(self, side: int, flags: int, payload: bytes = b"") -> None:
        self.time += 1_000_000
        acknowledgment = self.next[1 - side] if flags & ACK else 0
        self.packets.append(
            Packet(
                side,
                self.next[side],
                acknowledgment,
                flags,
                payload,
                self.time,
                ports=self.ports,
                hosts=self.hosts,
                is_closed=self.closed[side],
            )
        )
        self.next[side] = (self.next[side] + len(payload) + bool(flags & (SYN | FIN))) % (1 << 32)

    def send(self, side: int, octets: bytes, cuts: Sequence[int] = ()) -> None:
        """Send `octets` from `side`, one packet for each part between `cuts` (offsets into the octets)."""
        edges = [0, *sorted(cut for cut in cuts if 0 < cut < len(octets)), len(octets)]
        for start, stop in pairwise(edges):
            if stop > start:
                self.add(side, ACK | PSH, octets[start:stop])

    def acknowledge(self, side: int) -> None:
        """Add a packet of `side` without payload."""
        self.add(side, ACK)

    def close_window(self, side: int) -> None:
        self.closed[side] = True
        self.acknowledge(side)

    def open_window(self, side: int) -> None:
        self.closed[side] = False
        self.acknowledge(side)

    def wait(self, nanoseconds: int) -> None:
        """Let time pass without packets."""
        self.time += nanoseconds

    def close(self) -> None:
        """Send FIN from both sides."""
        self.add(0, FIN | ACK)
        self.add(1, FIN | ACK)
        self.add(0, ACK)

    def reset(self, side: int, *, knows: bool = True) -> None:
        """Send RST from `side`, as a program that is killed does, or as a system that does not know the connection."""
        self.add(side, RST | ACK if knows else RST)


def together(*parts: Conversation | Datagram) -> list[Any]:
    """Return the packets of conversations, and datagrams, in the order of time."""
    packets: list[Any] = []
    for part in parts:
        packets += part.packets if isinstance(part, Conversation) else [part]
    return sorted(packets, key=lambda packet: packet.time)


def column(values: Iterable[int]) -> NDArray[np.int64]:
    return np.array(list(values), np.int64)


def datagram_columns(datagrams: list[segments.Datagram]) -> segments.DatagramColumns:
    numbers: dict[bytes, int] = {}
    flows = column(numbers.setdefault(datagram.key, len(numbers)) for datagram in datagrams)
    names = ("start", "stop", "cut", "packet", "time", "row", "ordinal")
    columns = (column(getattr(datagram, name) for datagram in datagrams) for name in names)
    return segments.DatagramColumns(list(numbers), flows, *columns)


class Capture:
    """Packets in the form of the analyser's input: blocks of `size` packets each."""

    def __init__(self, packets: Iterable[Packet | Datagram], size: int = 1 << 30) -> None:
        self.packets = [replace(packet, number=number) for number, packet in enumerate(packets, 1)]
        self.size = size
        self.files: list[str | None] = ["test.pcap"]
        self.statistics = CaptureStatistics()
        self.problems: list[CaptureProblem] = []
        self.follow: Follow | None = None

    def __iter__(self) -> Iterator[SegmentBlock]:
        before = 0
        for begin in range(0, len(self.packets), self.size):
            taken = self.packets[begin : begin + self.size]
            packets = [packet for packet in taken if isinstance(packet, Packet)]
            datagrams = [packet for packet in taken if isinstance(packet, Datagram)]
            octets = b"".join(packet.payload for packet in packets)
            block = SegmentBlock(octets + b"".join(datagram.payload for datagram in datagrams), ORDINALS * before)
            at = len(octets)
            found = []
            for row, datagram in enumerate(taken):
                if isinstance(datagram, Datagram):
                    ordinal = ORDINALS * (before + sum(isinstance(packet, Packet) for packet in taken[:row]) - 1)
                    stop = at + len(datagram.payload)
                    where = datagram.key, at, stop, datagram.number, datagram.time, datagram.cut, row, ordinal
                    found.append(segments.Datagram(*where))
                    at = stop
            block.datagrams = datagram_columns(found)
            before += len(packets)
            numbers: dict[bytes, int] = {}
            block.flows = column(numbers.setdefault(packet.key, len(numbers)) for packet in packets)
            block.keys = list(numbers)
            block.sequences = column(packet.sequence for packet in packets)
            block.acknowledgments = column(packet.acknowledgment for packet in packets)
            block.flags = column(packet.marked for packet in packets)
            block.stops = column(len(packet.payload) for packet in packets).cumsum()
            block.starts = block.stops - column(len(packet.payload) for packet in packets)
            block.packets = column(packet.number for packet in packets)
            block.times = column(packet.time for packet in packets)
            block.cut = {index: packet.cut for index, packet in enumerate(packets) if packet.cut}
            block.latest = max(packet.time for packet in taken)
            yield block


def records(capture: Any, options: Options | None = None) -> tuple[list[dict[str, Any]], Analyser]:
    """Return every record as one dict, in order, and the analyser that made them; all runs are checked on the way."""
    options = options or Options()
    analyser = Analyser(options)
    found: list[dict[str, Any]] = []
    for batch in analyser.run(capture):
        assert_runs_agree(batch)
        for item, index in batch.in_order():
            found.append(record_of(item, index, options))
    return found, analyser


def steady_records(
    packets: Sequence[Any], options: Options | None = None, sizes: Sequence[int] = (1, 2, 7)
) -> list[dict[str, Any]]:
    """Return every record; they are the same in blocks of these sizes, and findings are counted without records."""
    options = options or Options()
    whole, analyser = records(Capture(packets), options)
    for size in sizes:
        assert records(Capture(packets, size), options)[0] == whole
    _, counting = records(Capture(packets, 3), replace(options, records=False))
    assert counting.summary.findings == analyser.summary.findings
    return whole


def record_of(item: Record | MessageTable | FrameTable, index: int, options: Options) -> dict[str, Any]:
    """Return one record as a dict: its own fields, and its place."""
    if isinstance(item, Record):
        return item.values
    if isinstance(item, MessageTable):
        item, index = item.part(index, index + 1), 0
    where: dict[str, Any] = {"conn": item.stream.conn, "side": item.stream.side, "source": item.source}
    where["packet"], where["ts_ns"] = int(item.packets[index]), int(item.times[index])
    if isinstance(item, MessageTable):
        where["record"] = "message"
        where["offset"] = int(item.offsets[item.first[index]])
        return where | message_values(item, index, options)
    where["record"], where["offset"] = "frame", int(item.offsets[index])
    return where | frame_values(item, index)
