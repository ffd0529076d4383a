"""Read pcap files (draft-ietf-opsawg-pcap): both byte orders, micro- and nanoseconds, the "modified" format."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zmtpscope import compiled
from zmtpscope.capture.errors import TOO_MANY_RECORDS, CutShort, Damage
from zmtpscope.capture.packets import LARGEST_PACKET, PacketBlock, no_packets
from zmtpscope.capture.source import Source

MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000, 16),
    b"\xa1\xb2\xc3\xd4": (">", 1000, 16),
    b"\x4d\x3c\xb2\xa1": ("<", 1, 16),
    b"\xa1\xb2\x3c\x4d": (">", 1, 16),
    b"\x34\xcd\xb2\xa1": ("<", 1000, 24),
    b"\xa1\xb2\xcd\x34": (">", 1000, 24),
}
"""First four octets of each variant: byte order, nanoseconds per fraction unit, octets of a record header."""

FILE_HEADER = 24
CAPTURED = 8
"""Offset of the captured length, after seconds and fraction; the original length follows."""
COLUMNS = 4


class Header(NamedTuple):
    """Values from a pcap file header: byte order, nanoseconds per fraction unit, size of a record header, link type."""

    order: str
    unit: int
    record: int
    link: int

    @classmethod
    def read(cls, octets: bytes) -> Self:
        order, unit, record = MAGICS[octets[:4]]
        # the upper half is the length of frame check sequences (draft, section 4), which IP's length removes
        link: int = Struct(order + "I").unpack_from(octets, 20)[0] & 0xFFFF
        return cls(order, unit, record, link)


def read_pcap(source: Source, block_size: int) -> Iterator[PacketBlock]:
    """Yield the packets of `source`, in blocks of about `block_size` octets.

    Blocks are empty only if the source is growing and has no new octets. Raises `Damage` after the last readable
    packet.
    """
    data = source.read_at_least(FILE_HEADER, block_size)
    if len(data) < FILE_HEADER:
        raise CutShort(0, 0, f"the file ends inside its header, after {len(data)} of {FILE_HEADER} octets")
    header = Header.read(data)
    position, origin, number = FILE_HEADER, 0, 1
    while True:
        columns, position = records(data, position, *header[:3], source.most_records - number + 1)
        starts, stops, missing, times = columns
        count = len(starts)
        if count:
            links, numbers = np.full(count, header.link), np.arange(number, number + count)
            yield PacketBlock(data, links, starts, stops, missing, times, numbers, source.offsets(starts, origin))
            number += count
        if position + header.record <= len(data):
            if number > source.most_records:
                raise Damage(number - 1, origin + position, TOO_MANY_RECORDS)
            captured = Struct(header.order + "I").unpack_from(data, position + CAPTURED)[0]
            if captured > LARGEST_PACKET:
                raise Damage(number - 1, origin + position, f"the next packet claims a length of {captured} octets")
        while not (more := source.read(block_size)) and source.is_growing:
            yield no_packets()
        if not more:
            break
        data = data[position:] + more
        origin += position
        position = 0
    rest = len(data) - position
    if rest:
        raise CutShort(number - 1, origin + position, f"the file ends inside a packet, after {rest} octets of it")


@compiled.where_possible
def records(data: bytes, position: int, order: str, unit: int, header: int, room: int) -> tuple[NDArray[np.int64], int]:
    """Return starts, stops, missing octets and times of at most `room` records, and the index of the next record.

    Reads from index `position` on, and stops before a record that is incomplete or larger than `LARGEST_PACKET`.
    `order`: byte order; `unit`: nanoseconds per fraction unit; `header`: size of a record header.
    """
    read = Struct(order + "4I").unpack_from
    found: list[tuple[int, ...]] = []
    while len(found) < room and position + header <= len(data):
        seconds, fraction, captured, original = read(data, position)
        start, stop = position + header, position + header + captured
        if captured > LARGEST_PACKET or stop > len(data):
            break
        found.append((start, stop, max(original - captured, 0), seconds * 1_000_000_000 + fraction * unit))
        position = stop
    return np.array(found, np.int64).reshape(-1, COLUMNS).T.copy(), position
