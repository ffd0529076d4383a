"""Decode the headers of a block of packets into columns of TCP segments and UDP datagrams."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zmtpscope import compiled
from zmtpscope.capture.decoder import Decoder, Segment
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.capture.segments import ORDINALS, DatagramColumns, SegmentBlock

SEGMENT_COLUMNS = 8
"""Number of columns of segments: flows, sequence and acknowledgment numbers, flags, starts, stops, packets, times."""
DATAGRAM_COLUMNS = 8
"""Number of columns of datagrams: flows, starts, stops, cut, packets, times, rows, ordinals."""


Columns = NDArray[np.int64]
Decoded = tuple[list[bytes], Columns, dict[int, int], dict[int, int], list[bytes], Columns]
"""Keys, columns, `cut` and `hops` of segments; keys and columns of datagrams."""


def read_headers(packets: PacketBlock, decoder: Decoder, ordinal: int) -> SegmentBlock:
    """Return the TCP segments and UDP datagrams of a block of packets; `ordinal` is that of the first segment."""
    decoder.begin(packets.data)
    keys, segments, cut, hops, datagram_keys, datagrams = decode(packets, decoder, ordinal)
    block = SegmentBlock(decoder.whole_data(), ordinal)
    block.keys, block.cut, block.hops = keys, cut, hops
    block.flows, block.sequences, block.acknowledgments, block.flags = segments[:4]
    block.starts, block.stops, block.packets, block.times = segments[4:]
    if datagram_keys:
        block.datagrams = DatagramColumns(datagram_keys, *datagrams)
    return block


@compiled.where_possible
def decode(packets: PacketBlock, decoder: Decoder, ordinal: int) -> Decoded:
    """Decode a block of packets into columns.

    `ordinal` is that of the first segment. The compiled twin decodes plain packets itself, and calls `decoder` for all
    others.
    """
    segments: list[tuple[int, ...]] = []
    datagrams: list[tuple[int, ...]] = []
    flows: dict[bytes, int] = {}
    datagram_flows: dict[bytes, int] = {}
    cut: dict[int, int] = {}
    hops: dict[int, int] = {}
    columns = (packets.links, packets.starts, packets.stops, packets.missing, packets.references, packets.times)
    for row, packet in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        found = decoder.packet(row, *packet)
        if isinstance(found, Segment):
            if found.cut:
                cut[len(segments)] = found.cut
            if found.hops:
                hops[len(segments)] = found.hops
            segments.append((flows.setdefault(found.key, len(flows)), *found[1:6], *packet[4:]))
        elif found is not None:
            flow, before = datagram_flows.setdefault(found.key, len(datagram_flows)), ORDINALS * (len(segments) - 1)
            datagrams.append((flow, found.start, found.stop, found.cut, *packet[4:], row, ordinal + before))
    of_segments = np.array(segments, np.int64).reshape(-1, SEGMENT_COLUMNS).T.copy()
    of_datagrams = np.array(datagrams, np.int64).reshape(-1, DATAGRAM_COLUMNS).T.copy()
    return list(flows), of_segments, cut, hops, list(datagram_flows), of_datagrams
