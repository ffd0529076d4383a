"""Packets out of a pcap or pcapng stream that another program on this machine writes, as they come.

Formats: pcap-savefile(5), draft-ietf-opsawg-pcapng. What such a program writes is in the machine's byte order, and each
block of pcapng that is of use here stands in the one section that it begins with.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError

import numpy as np

from zmtpscope.capture.pcapng import END_OF_OPTIONS, INTERFACE, PACKET, SECTION, TIME_RESOLUTION
from zmtpscope.export.pcapng import DROPPED, NAME, STATISTICS, packet_block
from zmtpscope.live.capture.packet_socket import Batch, CannotCapture, CapturedInterface

NANOSECONDS = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
"""By the magic number of pcap: of how many its fractions of a second are."""
LINK_TYPE_BITS = 0xFFFF
"""The bits above may say how long the frame check sequence is."""
DEFAULT_RESOLUTION = 6  # digits behind the second
HEADER, RECORD_HEADER, SMALLEST_BLOCK = 24, 16, 12
"""Octets of a pcap file's header, of a record's, and of a block of pcapng with nothing in it."""

_file = Struct("=I16xI").unpack_from
_record = Struct("=IIII").unpack_from
_block = Struct("=II").unpack_from
_interface = Struct("=H6x").unpack_from
_packet = Struct("=IIIII").unpack_from
_number = Struct("=I").unpack_from
_option = Struct("=HH").unpack_from
_count = Struct("=Q").unpack


class PacketStream:
    """Feed it octets; it hands out the packets that are whole.

    `interfaces` and `counts` are as in `PacketSocket`; pcap has one interface, which has `name`. `drops` are what the
    statistics in the stream say that was lost, by interface. Nothing larger than a packet of `snap_length` is waited
    for.
    """

    def __init__(self, name: str, snap_length: int) -> None:
        self.interfaces: list[CapturedInterface] = []
        self.counts: list[int] = []
        self.drops: dict[int, int] = {}
        self._name = name
        self._largest = max(snap_length, 1 << 18) + (1 << 16)
        self._waiting = b""
        self._nanoseconds: list[int] = []
        """Of each interface: how many a unit of its times has."""
        self._is_pcapng = False

    @property
    def has_begun(self) -> bool:
        """Whether its header has come: whoever writes it has opened its interfaces."""
        return bool(self.interfaces)

    def feed(self, octets: bytes) -> Batch | None:
        """The packets that are whole with these octets; None if there is none. Raises `CannotCapture`."""
        self._waiting += octets
        if not self.interfaces and not self._is_pcapng and not self._begin():
            return None
        try:
            packets = [*(self._blocks() if self._is_pcapng else self._records())]
        except (IndexError, StructError):
            raise CannotCapture("what comes is damaged") from None
        if not packets:
            return None
        for number, _, _, _ in packets:
            self.counts[number] += 1
        captured = np.array([len(packet) for _, _, packet, _ in packets], np.int64)
        return Batch([packet_block(*each) for each in packets], captured)

    def _begin(self) -> bool:
        """Read the header of the stream, if it is there."""
        if len(self._waiting) < HEADER:
            return False
        magic, link_type = _file(self._waiting)
        if magic == SECTION:
            self._is_pcapng = True
        elif magic in NANOSECONDS:
            self._add(self._name, link_type & LINK_TYPE_BITS, NANOSECONDS[magic])
            self._waiting = self._waiting[HEADER:]
        else:
            raise CannotCapture("what comes is neither pcap nor pcapng")
        return True

    def _add(self, name: str, link_type: int, nanoseconds: int) -> None:
        self.interfaces.append(CapturedInterface(name, link_type))
        self.counts.append(0)
        self._nanoseconds.append(nanoseconds)

    def _records(self) -> Iterator[tuple[int, int, bytes, int]]:
        """Packets of pcap: interface, time in nanoseconds, octets, length on the wire."""
        octets, at = self._waiting, 0
        while at + RECORD_HEADER <= len(octets):
            seconds, fraction, captured, original = _record(octets, at)
            self._refuse(captured)
            begin = at + RECORD_HEADER
            if begin + captured > len(octets):
                break
            time = seconds * 1_000_000_000 + fraction * self._nanoseconds[0]
            yield 0, time, octets[begin : begin + captured], original
            at = begin + captured
        self._waiting = octets[at:]

    def _blocks(self) -> Iterator[tuple[int, int, bytes, int]]:
        """The same of pcapng."""
        octets, at = self._waiting, 0
        while at + SMALLEST_BLOCK <= len(octets):
            kind, length = _block(octets, at)
            self._refuse(length - SMALLEST_BLOCK)
            if at + length > len(octets):
                break
            body = octets[at + 8 : at + length - 4]
            if kind == PACKET:
                number, high, low, captured, original = _packet(body)
                yield number, (high << 32 | low) * self._nanoseconds[number], body[20 : 20 + captured], original
            elif kind == INTERFACE:
                options = _options(body[8:])
                digits = options.get(TIME_RESOLUTION, bytes([DEFAULT_RESOLUTION]))[0]
                name = options.get(NAME, self._name.encode()).decode(errors="replace")
                self._add(name, _interface(body)[0], 10 ** (9 - digits))
            elif kind == STATISTICS:
                (self.drops[_number(body)[0]],) = _count(_options(body[12:]).get(DROPPED, bytes(8)))
            at += length
        self._waiting = octets[at:]

    def _refuse(self, size: int) -> None:
        if not 0 <= size <= self._largest:
            raise CannotCapture("what comes is damaged: it announces more octets than a packet has")


def _options(octets: bytes) -> dict[int, bytes]:
    """By code."""
    found = {}
    at = 0
    while at + 4 <= len(octets):
        code, length = _option(octets, at)
        if code == END_OF_OPTIONS:
            break
        found[code] = octets[at + 4 : at + 4 + length]
        at += 4 + length + (-length & 3)
    return found
