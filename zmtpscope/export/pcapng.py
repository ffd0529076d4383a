"""pcapng out (draft-ietf-opsawg-pcapng): blocks as octets, and a writer of IP packets of one interface.

Every capture is one section, little-endian, its times nanoseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import BinaryIO

from zmtpscope.capture.link import RAW_IP
from zmtpscope.capture.pcapng import END_OF_OPTIONS, INTERFACE, PACKET, SECTION, TIME_RESOLUTION
from zmtpscope.version import __version__

STATISTICS = 5
"""The type of an Interface Statistics Block (section 4.6)."""

COMMENT = 1
"""An option of every block: what there is to say about it."""
APPLICATION = 4
"""An option of a section header: who wrote it."""
NAME, FILTER = 2, 11
"""Options of an interface: its name, and the filter that its packets passed (0, then as libpcap writes it)."""
START_TIME, END_TIME, RECEIVED, DROPPED, DELIVERED = 2, 3, 4, 5, 8
"""Options of statistics: isb_starttime, isb_endtime, isb_ifrecv, isb_ifdrop, isb_usrdeliv."""
MAGIC, MAJOR, MINOR = 0x1A2B3C4D, 1, 0
UNKNOWN_LENGTH = -1
NANOSECONDS = 9
NO_SNAP_LENGTH = 0
LONGEST_OPTION = 65_535

PACKET_OVERHEAD = 32
"""Octets of a packet block without its packet and the padding behind it: a header of 28, and the length again."""

_ends = Struct("<II").pack
_length = Struct("<I").pack
_option = Struct("<HH").pack
_section = Struct("<IHHq").pack
_interface = Struct("<HHI").pack
_packet = Struct("<7I").pack
_statistics = Struct("<III").pack
_count = Struct("<Q").pack


def section_header(comment: str = "") -> bytes:
    """A Section Header Block. `comment` is for those who look at the properties of the capture."""
    about = _options((COMMENT, comment.encode()), (APPLICATION, f"zmtpscope {__version__}".encode()))
    return _block(SECTION, _section(MAGIC, MAJOR, MINOR, UNKNOWN_LENGTH) + about)


def interface_description(link_type: int, name: str = "", snap_length: int = NO_SNAP_LENGTH, filter: str = "") -> bytes:
    """An Interface Description Block; the first of a section is interface 0, and so on."""
    options = _options(
        (NAME, name.encode(errors="surrogateescape")),
        (TIME_RESOLUTION, bytes([NANOSECONDS])),
        (FILTER, b"\0" + filter.encode(errors="replace") if filter else b""),
    )
    return _block(INTERFACE, _interface(link_type, 0, snap_length) + options)


def packet_block(interface: int, time: int, packet: bytes, original: int, comment: str = "") -> bytes:
    """An Enhanced Packet Block. `original`: octets of the packet on the wire, of which `packet` is the beginning."""
    size = len(packet)
    padding = -size % 4
    options = _options((COMMENT, comment.encode(errors="replace"))) if comment else b""
    length = PACKET_OVERHEAD + size + padding + len(options)
    header = _packet(PACKET, length, interface, time >> 32, time & 0xFFFFFFFF, size, original)
    return b"".join((header, packet, bytes(padding), options, _length(length)))


@dataclass(frozen=True)
class InterfaceStatistics:
    """What became of the packets of an interface between two times (nanoseconds since the epoch): `received` of those
    that the filter let through, of these `dropped` before they were written, and `delivered` to the file."""

    start: int
    end: int
    received: int
    dropped: int
    delivered: int
    comment: str = ""


def interface_statistics(interface: int, statistics: InterfaceStatistics) -> bytes:
    """An Interface Statistics Block. What it counts began at `start`: of several of an interface the last one holds."""
    high, low = statistics.end >> 32, statistics.end & 0xFFFFFFFF
    options = _options(
        (COMMENT, statistics.comment.encode()),
        (START_TIME, _ends(statistics.start >> 32, statistics.start & 0xFFFFFFFF)),
        (END_TIME, _ends(high, low)),
        (RECEIVED, _count(statistics.received)),
        (DROPPED, _count(statistics.dropped)),
        (DELIVERED, _count(statistics.delivered)),
    )
    return _block(STATISTICS, _statistics(interface, high, low) + options)


class PcapngWriter:
    """Writes a capture of one interface of IP packets to `file`, its headers at once. `comment` is for those who look
    at its properties."""

    def __init__(self, file: BinaryIO, comment: str) -> None:
        self._file = file
        file.write(section_header(comment) + interface_description(RAW_IP))
        file.flush()

    def write(self, time: int, packets: Sequence[bytes]) -> None:
        """Add IP packets, all of one time (nanoseconds since the epoch). Then the file can be read up to here."""
        self._file.write(b"".join([packet_block(0, time, packet, len(packet)) for packet in packets]))
        self._file.flush()


def _block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return _ends(kind, length) + body + _length(length)


def _options(*options: tuple[int, bytes]) -> bytes:
    """Those that are not empty, and the end of options."""
    parts = [
        _option(code, len(value)) + value + bytes(-len(value) % 4)
        for code, value in ((code, _cut(whole)) for code, whole in options)
        if value
    ]
    return b"".join([*parts, _option(END_OF_OPTIONS, 0)])


def _cut(value: bytes) -> bytes:
    """As much as an option holds, not within a character."""
    if len(value) <= LONGEST_OPTION:
        return value
    return value[:LONGEST_OPTION].decode(errors="ignore").encode()
