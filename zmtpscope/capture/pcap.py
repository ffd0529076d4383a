"""Read pcap files (draft-ietf-opsawg-pcap): both byte orders, micro- and nanoseconds, and the "modified" format."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zmtpscope import compiled
from zmtpscope.capture.errors import TOO_MANY_RECORDS, CutShort, Damage
from zmtpscope.capture.packets import LARGEST_PACKET, PacketBlock, gather, no_packets
from zmtpscope.capture.source import Source

MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000, 16),
    b"\xa1\xb2\xc3\xd4": (">", 1000, 16),
    b"\x4d\x3c\xb2\xa1": ("<", 1, 16),
    b"\xa1\xb2\x3c\x4d": (">", 1, 16),
    b"\x34\xcd\xb2\xa1": ("<", 1000, 24),
    b"\xa1\xb2\xcd\x34": (">", 1000, 24),
}
"""First four octets: byte order, nanoseconds of a fraction unit, octets of a record header.

The last two are the "modified" format of Alexey Kuznetsov's patches to libpcap: eight more octets (interface index,
protocol, packet type, padding) in every record header.
"""

FILE_HEADER = 24
CAPTURED = 8
"""Offset of the captured length in a record header, after seconds and fraction; the original length follows."""


class Header(NamedTuple):
    """The file header: byte order, nanoseconds of a fraction unit, octets of a record header, link type."""

    order: str
    unit: int
    record: int
    link: int

    @classmethod
    def read(cls, octets: bytes) -> Self:
        """Parse the header of a file that starts with one of `MAGICS`."""
        order, unit, record = MAGICS[octets[:4]]
        # the upper half is the length of frame check sequences (draft, section 4), which IP's length removes
        link: int = Struct(order + "I").unpack_from(octets, 20)[0] & 0xFFFF
        return cls(order, unit, record, link)


def read_pcap(source: Source, block_size: int) -> Iterator[PacketBlock]:
    """Yield the packets of `source` (at its first octet), in blocks of about `block_size` octets.

    Blocks are empty only if the source is growing and has no new octets. Raises `Damage` after the last readable
    packet.
    """
    data = source.read_at_least(FILE_HEADER, block_size)
    if len(data) < FILE_HEADER:
        raise CutShort(0, 0, f"the file ends inside its header, after {len(data)} of {FILE_HEADER} octets")
    order, unit, header, link = Header.read(data)
    form = np.dtype([(name, order + "u4") for name in ("seconds", "fraction", "captured", "original")])
    position, origin, number = FILE_HEADER, 0, 1
    while True:
        records, position = walk(data, position, order, header)
        fields = gather(data, records, form)
        starts = records + header
        captured = fields["captured"].astype(np.int64)
        stops = starts + captured
        good = (stops <= len(data)) & (captured <= LARGEST_PACKET)
        count, lie = len(records), 0
        room = source.most_records - number + 1
        if not good.all():
            count = int(good.argmin())
            position = int(records[count])
            lie = int(captured[count]) if captured[count] > LARGEST_PACKET else 0
        if count > room:
            count, position, lie = room, int(records[room]), 0
        if count:
            block = PacketBlock(
                data,
                links=np.full(len(records), link),
                starts=starts,
                stops=stops,
                missing=np.maximum(fields["original"] - captured, 0),
                times=fields["seconds"].astype(np.int64) * 1_000_000_000 + fields["fraction"].astype(np.int64) * unit,
                references=np.arange(number, number + len(records)),
                offsets=source.offsets(starts, origin),
            )
            yield block[:count]
            number += count
        if count == room and room < len(records):
            raise Damage(number - 1, origin + position, TOO_MANY_RECORDS)
        if lie:
            raise Damage(number - 1, origin + position, f"the next packet claims a length of {lie} octets")
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
def walk(data: bytes, position: int, order: str, header: int) -> tuple[NDArray[np.int64], int]:
    """Return the offsets of the records from `position` on, and the offset of the next one.

    This loop runs for every packet, so it only follows the lengths: the last record may extend beyond `data`, and
    lengths may be invalid.
    """
    last = len(data) - header
    if position > last:
        return np.empty(0, np.int64), position
    captured_at = np.ndarray((last + 1,), order + "u4", data, CAPTURED, (1,)).item
    records: list[int] = []
    add = records.append
    while position <= last:
        add(position)
        position += header + captured_at(position)
    return np.array(records, np.int64), position
