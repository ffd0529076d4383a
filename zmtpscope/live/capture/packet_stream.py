"""Read packets from a pcap or pcapng stream that another program writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture import pcap, pcapng
from zmtpscope.capture.errors import Damage
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.capture.source import Source
from zmtpscope.capture.statistics import FileStatistics
from zmtpscope.export.pcapng import packet_block
from zmtpscope.live.capture.packet_socket import Batch, CannotCapture, CapturedInterface

ALL = sys.maxsize


class FedSource(Source):
    """A `Source` for readers of captures: octets that `feed` adds, to which more may be added later."""

    def __init__(self) -> None:
        super().__init__("-", None, pipe=False)
        self.at_hand = b""

    @property
    def is_growing(self) -> bool:
        return True

    def feed(self, octets: bytes) -> None:
        self.at_hand += octets

    def _read_now(self, size: int) -> bytes:
        octets, self.at_hand = self.at_hand[:size], self.at_hand[size:]
        return octets


class PacketStream:
    """Parses a pcap or pcapng stream. `interfaces` and `counts` are as in `PacketSource`.

    A pcap stream has one interface, with the name `name`.
    """

    def __init__(self, name: str) -> None:
        self.interfaces: list[CapturedInterface] = []
        self.counts: list[int] = []
        self._name = name
        self._source = FedSource()
        self._statistics = FileStatistics(None)
        self._pcap: Iterator[PacketBlock] | None = None
        self._pcapng: pcapng.Reader | None = None

    @property
    def has_header(self) -> bool:
        """Whether the header of the stream was read, so that the interfaces are known."""
        return bool(self.interfaces)

    @property
    def dropped(self) -> int:
        return sum(interface.dropped for interface in self._statistics.interfaces.values())

    def feed(self, octets: bytes) -> Batch | None:
        """Add octets; return the packets that are now complete. Raises `CannotCapture`."""
        self._source.feed(octets)
        if self._pcap is None and self._pcapng is None and not self._begin():
            return None
        try:
            packets, interfaces = self._read_pcap() if self._pcapng is None else self._read_pcapng(self._pcapng)
        except Damage as damage:
            raise CannotCapture(f"the input is damaged: {damage.text}") from None
        if packets is None or not len(packets):
            return None
        for number, count in enumerate(np.bincount(interfaces).tolist()):
            self.counts[number] += count
        return Batch(_blocks(packets, interfaces), packets.stops - packets.starts)

    def _begin(self) -> bool:
        """Detect the format; return False if the header is incomplete."""
        head = self._source.at_hand
        if len(head) < pcap.FILE_HEADER:
            return False
        if head.startswith(pcapng.MAGIC):
            self._pcapng = pcapng.Reader(self._source, self._statistics)
        elif head[:4] in pcap.MAGICS:
            self._add(self._name, pcap.Header.read(head).link)
            self._pcap = pcap.read_pcap(self._source, ALL)
        else:
            raise CannotCapture("the input is neither pcap nor pcapng")
        return True

    def _add(self, name: str, link_type: int) -> None:
        self.interfaces.append(CapturedInterface(name, link_type))
        self.counts.append(0)

    def _read_pcap(self) -> tuple[PacketBlock, NDArray[np.int64]]:
        assert self._pcap is not None
        packets = next(self._pcap)
        return packets, np.zeros(len(packets), np.int64)

    def _read_pcapng(self, reader: pcapng.Reader) -> tuple[PacketBlock | None, NDArray[np.int64]]:
        reader.fill(ALL)
        packets = reader.packets()
        if reader.broken is not None:
            raise reader.broken
        if reader.sections > 1:
            raise CannotCapture("the input is damaged: a second section begins")
        for interface in reader.section.interfaces[len(self.interfaces) :]:
            self._add(interface.name or self._name, interface.link)
        return packets, np.empty(0, np.int64) if packets is None or packets.interfaces is None else packets.interfaces


def _blocks(packets: PacketBlock, interfaces: NDArray[np.int64]) -> list[bytes]:
    columns = packets.starts, packets.stops, packets.missing, packets.times, interfaces
    return [
        packet_block(interface, time, packets.data[start:stop], stop - start + missing)
        for start, stop, missing, time, interface in zip(*(column.tolist() for column in columns), strict=True)
    ]
