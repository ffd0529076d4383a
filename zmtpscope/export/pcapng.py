"""pcapng out (draft-ietf-opsawg-pcapng): IP packets with nanoseconds, in one section with one interface."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import BinaryIO

from zmtpscope import __version__
from zmtpscope.capture.link import RAW_IP
from zmtpscope.capture.pcapng import END_OF_OPTIONS, INTERFACE, PACKET, SECTION, TIME_RESOLUTION

COMMENT, APPLICATION = 1, 4
"""Options of a section header: what there is to say about it, and who wrote it."""
MAGIC, MAJOR, MINOR = 0x1A2B3C4D, 1, 0
UNKNOWN_LENGTH = -1
NANOSECONDS = 9
NO_SNAP_LENGTH = 0

_ends = Struct("<II").pack
_length = Struct("<I").pack
_option = Struct("<HH").pack
_section = Struct("<IHHq").pack
_interface = Struct("<HHI").pack
_packet = Struct("<7I").pack


class PcapngWriter:
    """Writes a capture to `file`, its headers at once. `comment` is for those who look at its properties."""

    def __init__(self, file: BinaryIO, comment: str) -> None:
        self._file = file
        about = _options((COMMENT, comment.encode()), (APPLICATION, f"zmtpscope {__version__}".encode()))
        clock = _options((TIME_RESOLUTION, bytes([NANOSECONDS])))
        file.write(
            _block(SECTION, _section(MAGIC, MAJOR, MINOR, UNKNOWN_LENGTH) + about)
            + _block(INTERFACE, _interface(RAW_IP, 0, NO_SNAP_LENGTH) + clock)
        )
        file.flush()

    def write(self, time: int, packets: Sequence[bytes]) -> None:
        """Add IP packets, all of one time (nanoseconds since the epoch). Then the file can be read up to here."""
        high, low = time >> 32, time & 0xFFFFFFFF
        parts: list[bytes] = []
        for packet in packets:
            size = len(packet)
            padding = -size % 4
            length = 32 + size + padding
            trailer = bytes(padding) + _length(length)
            parts += (_packet(PACKET, length, 0, high, low, size, size), packet, trailer)
        self._file.write(b"".join(parts))
        self._file.flush()


def _block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return _ends(kind, length) + body + _length(length)


def _options(*options: tuple[int, bytes]) -> bytes:
    parts = [_option(code, len(value)) + value + bytes(-len(value) % 4) for code, value in options]
    return b"".join([*parts, _option(END_OF_OPTIONS, 0)])
