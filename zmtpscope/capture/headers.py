"""The header loop: packets of one run become segments. No object and no call of ours per packet on the plain way.

Plain is IPv4 without options or fragment, or IPv6 without extension headers, then TCP, directly on one of the link
layers of `LAYOUTS`, with or without VLAN tags. Any other packet costs one call of the decoder.
"""

from __future__ import annotations

from array import array

from zmtpscope.capture.decoder import TCP, Decoder
from zmtpscope.capture.link import LAYOUTS
from zmtpscope.capture.packets import PacketRun
from zmtpscope.capture.segments import CUT


def read_headers(run: PacketRun, decoder: Decoder, references: array[int]) -> None:
    """Append the segments and datagrams of `run` to the decoder's block; `references` are those of its packets.

    Times and packet references of a stretch of plain packets are appended at once, in front of the packet that ends it.
    """
    block = decoder.block
    times = run.times
    layout = LAYOUTS.get(run.link)
    if layout is None:
        for index, time in enumerate(times):
            start, stop, missing = run.starts[index], run.stops[index], run.missing.get(index, 0)
            decoder.packet(run.link, start, stop, missing, references[index], time)
        return
    header, mark4, mark6, tags = layout.header, layout.mark4, layout.mark6, layout.tags
    unpack4, least4 = layout.ipv4.unpack_from, layout.ipv4.size
    unpack6, least6 = layout.ipv6.unpack_from, layout.ipv6.size
    data = run.data
    keys, cut = block.keys, block.cut
    add_key, add_sequence = keys.append, block.sequences.append
    add_acknowledgment, add_flags = block.acknowledgments.append, block.flags.append
    add_start, add_stop = block.starts.append, block.stops.append
    first = 0
    before = len(keys)
    for begin, stop in zip(run.starts, run.stops, strict=True):
        if stop - begin >= least4:
            at = begin
            mark, version, total, fragment, protocol, key, sequence, acknowledged, offset, flags = unpack4(data, at)
            if mark != mark4:
                while mark in tags and stop - at >= least4 + 4:
                    at += 4
                    mark, version, total, fragment, protocol, key, sequence, acknowledged, offset, flags = unpack4(
                        data, at
                    )
            if mark == mark4 and version == 0x45 and protocol == TCP and not fragment & 0x3FFF:
                start = at + header
                end = start + total
                start += 20 + (offset >> 4) * 4
            elif mark == mark6 and stop - at >= least6:
                version, total, protocol, key, sequence, acknowledged, offset, flags = unpack6(data, at)[1:]
                end = at + header + 40 + total
                start = at + header + 40 + (offset >> 4) * 4
                if version & 0xF0 != 0x60 or protocol != TCP:
                    offset = 0
            else:
                offset = 0
            if offset >= 0x50 and start <= end:
                if end > stop:
                    if start < end:
                        flags |= CUT
                        cut[len(keys)] = end - max(start, stop)
                    start, end = min(start, stop), stop
                add_key(key)
                add_sequence(sequence)
                add_acknowledgment(acknowledged)
                add_flags(flags)
                add_start(start)
                add_stop(end)
                continue
        index = first + len(keys) - before
        block.times.extend(times[first:index])
        block.packets.extend(references[first:index])
        decoder.packet(run.link, begin, stop, run.missing.get(index, 0), references[index], times[index])
        first = index + 1
        before = len(keys)
    block.times.extend(times[first:])
    block.packets.extend(references[first:])
