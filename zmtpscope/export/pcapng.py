"""Encode pcapng blocks (draft-ietf-opsawg-pcapng): one little-endian section, times in nanoseconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from zmtpscope.capture.pcapng import END_OF_OPTIONS, INTERFACE, PACKET, SECTION, TIME_RESOLUTION
from zmtpscope.version import __version__

STATISTICS = 5
"""Interface Statistics Block (section 4.6)."""

COMMENT = 1
"""Option of every block."""
APPLICATION = 4
"""Option of a section header: the writing application."""
NAME, FILTER = 2, 11
"""Options of an interface; the filter is 0, then the text as libpcap prints it."""
START_TIME, END_TIME, RECEIVED, DROPPED, DELIVERED = 2, 3, 4, 5, 8
"""isb_starttime, isb_endtime, isb_ifrecv, isb_ifdrop, isb_usrdeliv."""
MAGIC, MAJOR, MINOR = 0x1A2B3C4D, 1, 0
UNKNOWN_LENGTH = -1
NANOSECONDS = 9
NO_SNAP_LENGTH = 0
LONGEST_OPTION = 65_535

PACKET_OVERHEAD = 32
"""Octets of a packet block without packet and padding."""

_ends = Struct("<II").pack
_length = Struct("<I").pack
_option = Struct("<HH").pack
_section = Struct("<IHHq").pack
_interface = Struct("<HHI").pack
_packet = Struct("<7I").pack
_statistics = Struct("<III").pack
_count = Struct("<Q").pack


def section_header(comment: str = "") -> bytes:
    """Encode a section header; tools show `comment` as a property of the capture."""
    about = _options((COMMENT, comment.encode()), (APPLICATION, f"zmtpscope {__version__}".encode()))
    return _block(SECTION, _section(MAGIC, MAJOR, MINOR, UNKNOWN_LENGTH) + about)


def interface_description(link_type: int, name: str = "", snap_length: int = NO_SNAP_LENGTH, filter: str = "") -> bytes:
    """Encode the description of an interface. The first one in a section is interface 0.

    `filter` is the capture filter, `snap_length` the maximum number of octets of a packet.
    """
    options = _options(
        (NAME, name.encode(errors="surrogateescape")),
        (TIME_RESOLUTION, bytes([NANOSECONDS])),
        (FILTER, b"\0" + filter.encode(errors="replace") if filter else b""),
    )
    return _block(INTERFACE, _interface(link_type, 0, snap_length) + options)


def packet_block(interface: int, time: int, packet: bytes, original: int, comment: str = "") -> bytes:
    """Encode a packet that was captured at `time` (ns) on the interface with this number.

    `original` is the number of octets on the wire; `packet` may be their beginning.
    """
    size = len(packet)
    padding = -size % 4
    options = _options((COMMENT, comment.encode(errors="replace"))) if comment else b""
    length = PACKET_OVERHEAD + size + padding + len(options)
    header = _packet(PACKET, length, interface, time >> 32, time & 0xFFFFFFFF, size, original)
    return b"".join((header, packet, bytes(padding), options, _length(length)))


@dataclass(frozen=True)
class InterfaceStatistics:
    """Packet counts of an interface between two times (ns).

    Of `received` packets that passed the filter, `dropped` were not written and `delivered` are in the file.
    """

    start: int
    end: int
    received: int
    dropped: int
    delivered: int
    comment: str = ""


def interface_statistics(interface: int, statistics: InterfaceStatistics) -> bytes:
    """Encode the packet counts of an interface. If it has several such blocks, the last one is valid."""
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


def _block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return _ends(kind, length) + body + _length(length)


def _options(*options: tuple[int, bytes]) -> bytes:
    """Encode (code, value) options without empty ones, and the end of options."""
    parts = [
        _option(code, len(value)) + value + bytes(-len(value) % 4)
        for code, value in ((code, _cut(whole)) for code, whole in options)
        if value
    ]
    return b"".join([*parts, _option(END_OF_OPTIONS, 0)])


def _cut(value: bytes) -> bytes:
    """Truncate UTF-8 text to the maximum length of an option, but not within a character."""
    if len(value) <= LONGEST_OPTION:
        return value
    return value[:LONGEST_OPTION].decode(errors="ignore").encode()
