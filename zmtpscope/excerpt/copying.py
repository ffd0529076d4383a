"""Copy packets into a pcapng file: each once, unchanged, in the order of the capture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zmtpscope.capture.captures import Segmenter, read_packets
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.capture.segments import SegmentBlock
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.excerpt.wanted import WantedPackets
from zmtpscope.export.files import OutputFile
from zmtpscope.export.pcapng import interface_description, packet_block, section_header
from zmtpscope.words import counted


def copy_packets(paths: Sequence[str], wanted: WantedPackets, file: OutputFile) -> Iterator[int]:
    """Write the wanted packets, with their comments, to `file`. Yield the number written so far, from time to time.

    Raises `CaptureError`.
    """
    file.write(section_header("packets selected by zmtpscope; its findings are packet comments"))
    known, interfaces, count = wanted.packets, dict[int, int](), 0
    segmenter = Segmenter() if wanted.lifetimes or wanted.ranges else None
    for packets in read_packets(paths):
        chosen = _among(packets.references, known)
        if segmenter is not None:
            chosen |= _among(packets.references, np.unique(_of_connections(segmenter.feed(packets), wanted)))
        rows = np.flatnonzero(chosen)
        count += len(rows)
        for block in _blocks(packets, rows, wanted, interfaces):
            file.write(block)
        yield count
    yield count


def shortcomings(wanted: WantedPackets, copied: int) -> Iterator[str]:
    """Yield warnings about an excerpt of `copied` packets, worded to follow the file name: `lacks
    handshakes -> ...`."""
    if wanted.connection_without_greeting is not None:
        how = f"take connections whole, as with -Y 'conn == {wanted.connection_without_greeting}'"
        yield f"lacks handshakes -> to read it again with zmtpscope, {how}"
    if copied < len(wanted.packets):
        missing = len(wanted.packets) - copied
        yield f"lacks {counted(missing, 'packet')} that were not found again: the captures changed"
    if wanted.comments.is_full:
        yield "has no comments near its end: the limit was reached"


def _among(references: Int64, known: Int64) -> Bool:
    if not len(known):
        return np.zeros(len(references), np.bool_)
    found: Bool = known[np.minimum(np.searchsorted(known, references), len(known) - 1)] == references
    return found


def _of_connections(block: SegmentBlock, wanted: WantedPackets) -> Int64:
    found = [np.empty(0, np.int64)]
    for number, key in enumerate(block.keys):
        size = (len(key) - 4) // 2
        back = key[size : 2 * size] + key[:size] + key[-2:] + key[-4:-2]
        lifetimes = [*wanted.lifetimes.get(key, ()), *wanted.lifetimes.get(back, ())]
        ranges = wanted.ranges.get(key, ())
        if not lifetimes and not ranges:
            continue
        rows = np.flatnonzero(block.flows == number)
        times, packets = block.times[rows], block.packets[rows]
        carries = block.stops[rows] > block.starts[rows]
        found += [packets[(times >= each.start) & (times <= each.end)] for each in lifetimes]
        found += [packets[carries & (packets >= each.first) & (packets <= each.last)] for each in ranges]
    return np.concatenate(found)


def _blocks(packets: PacketBlock, rows: Int64, wanted: WantedPackets, interfaces: dict[int, int]) -> Iterator[bytes]:
    """Yield the pcapng blocks of the wanted `rows`. Before the first packet of a link type comes an interface block."""
    columns = (packets.links, packets.starts, packets.stops, packets.missing, packets.times, packets.references)
    for link, start, stop, missing, time, reference in zip(*(each[rows].tolist() for each in columns), strict=True):
        if link not in interfaces:
            interfaces[link] = len(interfaces)
            yield interface_description(link)
        octets, comment = packets.data[start:stop], wanted.comments.of(reference)
        yield packet_block(interfaces[link], time, octets, stop - start + missing, comment)
