"""The header loop: packets of one run become segments. No object and no call of ours per packet on the plain way.

Plain is IPv4 without options or fragment, or IPv6 without extension headers, then TCP, directly on one of the link
layers of `LAYOUTS`. Any other packet goes through `PacketDecoder`, one call each.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from zmtpscope.capture.packets import PacketRun
from zmtpscope.capture.segments import CUT, SegmentBlock

IPV4_TCP = "BxHxxHxBxx12sIIBB"
"""Version and header length, total length, fragment field, protocol, addresses and ports (an IPv4 header of 20 octets
lies directly in front of the ports, so one slice is the key), sequence, acknowledgment, data offset, flags."""


class Layout(NamedTuple):
    """Where a link layer's protocol field and IP header stand. `protocol` is a struct format that yields the field."""

    protocol: str
    header: int
    ipv4: object
    ipv6: object


LAYOUTS: dict[int, Layout] = {
    1: Layout("12xH", 14, 0x0800, 0x86DD),
}


def read_headers(run: PacketRun, block: SegmentBlock, first: int) -> int:
    """Append the segments of `run` to `block`; `first` is the reference of its first packet. Returns packets not TCP."""
    layout = LAYOUTS[run.link]
    ipv4 = layout.ipv4
    plain = Struct(">" + layout.protocol + IPV4_TCP)
    unpack, least = plain.unpack_from, plain.size
    header = layout.header
    data = run.data
    add_key, add_sequence = block.keys.append, block.sequences.append
    add_acknowledgment, add_flags = block.acknowledgments.append, block.flags.append
    add_start, add_stop = block.starts.append, block.stops.append
    add_packet, add_time = block.packets.append, block.times.append
    packet = first - 1
    other = 0
    for start, stop, time in zip(run.starts, run.stops, run.times):
        packet += 1
        if stop - start >= least:
            mark, version, total, fragment, protocol, key, sequence, acknowledgment, offset, flags = unpack(data, start)
            if mark == ipv4 and version == 0x45 and protocol == 6 and not fragment & 0x3FFF:
                start += header
                end = start + total
                start += 20 + (offset >> 4) * 4
                if offset >= 0x50 and start <= end <= stop:
                    add_key(key)
                    add_sequence(sequence)
                    add_acknowledgment(acknowledgment)
                    add_flags(flags)
                    add_start(start)
                    add_stop(end)
                    add_packet(packet)
                    add_time(time)
                    continue
        other += 1
    return other
