"""The pcap container (draft-ietf-opsawg-pcap): both byte orders, micro- and nanoseconds, and the "modified" format."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from zmtpscope.capture.errors import Damage
from zmtpscope.capture.packets import LARGEST_PACKET, PacketRun
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


def read_pcap(source: Source, block_size: int) -> Iterator[list[PacketRun]]:
    """The packets of `source` (at its first octet), one run for each block of about `block_size` octets.

    Raises `Damage` behind the last packet that can be read.
    """
    data = source.read_at_least(FILE_HEADER, block_size)
    if len(data) < FILE_HEADER:
        raise Damage(0, 0, f"the file ends inside its header, {len(data)} of {FILE_HEADER} octets are there")
    order, unit, record_header = MAGICS[data[:4]]
    # The upper half of the link type field tells of frame check sequences (draft, section 4), which IP's length cuts.
    link: int = Struct(order + "I").unpack_from(data, 20)[0] & 0xFFFF
    unpack, largest = Struct(order + "IIII").unpack_from, LARGEST_PACKET
    position, origin, number = FILE_HEADER, 0, 1
    while True:
        run = PacketRun(data, link, number)
        add_start, add_stop, add_time = run.starts.append, run.stops.append, run.times.append
        end = len(data)
        last = end - record_header
        lie = 0
        second = whole = -1  # the second of the packet before, and its nanoseconds: it seldom changes
        while position <= last:
            seconds, fraction, captured, original = unpack(data, position)
            start = position + record_header
            stop = start + captured
            if stop > end or captured > largest:
                if captured > largest:
                    lie = captured
                break
            if original > captured:
                run.missing[len(run.times)] = original - captured
            if seconds != second:
                second, whole = seconds, seconds * 1_000_000_000
            add_start(start)
            add_stop(stop)
            add_time(whole + fraction * unit)
            position = stop
        if run.times:
            number += len(run.times)
            yield [run]
        if lie:
            raise Damage(number - 1, origin + position, f"the next packet claims a length of {lie} octets")
        more = source.read(block_size)
        if not more:
            break
        data = data[position:] + more
        origin += position
        position = 0
    rest = len(data) - position
    if rest:
        raise Damage(number - 1, origin + position, f"the file ends inside a packet, {rest} octets of it are there")
