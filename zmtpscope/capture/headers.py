"""The headers of all packets of a block at once: its octets become columns, and its packets TCP segments.

Plain is IPv4 without options or fragment, or IPv6 without extension headers, then TCP, directly on one of the link
layers of `LAYOUTS`, with or without VLAN tags. Plain packets are told apart and read by numpy, without a step of ours
for each; any other packet costs one call of the decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.decoder import TCP, Decoder, Segment
from zmtpscope.capture.flow_keys import distinct
from zmtpscope.capture.link import LAYOUTS, Layout
from zmtpscope.capture.packets import PacketBlock, gather
from zmtpscope.capture.segments import CUT, SegmentBlock

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

SHORTEST_TCP = 20
SHORTEST = 20 + SHORTEST_TCP
"""Octets of the shortest headers of IPv4 and TCP."""
TAG, MOST_TAGS = 4, 2
"""Octets of a VLAN tag, and how many of them a plain packet has at most."""
TCP_FIELDS = [("sequence", ">u4"), ("acknowledgment", ">u4"), ("offset", "u1"), ("flags", "u1")]


class Family(NamedTuple):
    """IPv4 or IPv6, and TCP directly behind: `fields` from the first octet of the IP header to the flags of TCP.

    `header` is the length of the IP header, of which the field `length` does not count `uncounted` octets. Addresses
    and ports stand together: they are the key, from octet `key_at` on.
    """

    fields: np.dtype[Any]
    plain: Callable[[NDArray[Any]], Mask]
    header: int
    uncounted: int
    key_at: int
    key: np.dtype[Any]


def _plain4(fields: NDArray[Any]) -> Mask:
    plain: Mask = (fields["version"] == 0x45) & (fields["protocol"] == TCP) & (fields["fragment"] & 0x3FFF == 0)
    return plain


def _plain6(fields: NDArray[Any]) -> Mask:
    plain: Mask = (fields["version"] & 0xF0 == 0x60) & (fields["protocol"] == TCP)
    return plain


_IPV4 = [("version", "u1"), ("", "V1"), ("length", ">u2"), ("", "V2"), ("fragment", ">u2"), ("", "V1")]
_IPV4 += [("protocol", "u1"), ("", "V14")]
_IPV6 = [("version", "u1"), ("", "V3"), ("length", ">u2"), ("protocol", "u1"), ("", "V37")]
FAMILY4 = Family(np.dtype(_IPV4 + TCP_FIELDS), _plain4, 20, 0, 12, np.dtype("V12"))
FAMILY6 = Family(np.dtype(_IPV6 + TCP_FIELDS), _plain6, 40, 40, 8, np.dtype("V36"))


class Columns(NamedTuple):
    """Some segments: those of the packets `rows`. All but `keys` have an entry for each, as in `SegmentBlock`."""

    rows: Column
    keys: list[bytes]
    flows: Column
    sequences: Column
    acknowledgments: Column
    flags: Column
    starts: Column
    stops: Column
    cut: Column


OTHER_COLUMNS = tuple(name for name in Columns._fields if name not in ("keys", "flows"))


def read_headers(packets: PacketBlock, decoder: Decoder, ordinal: int) -> SegmentBlock:
    """The segments and datagrams of `packets`, in their order; `ordinal` is that of the first segment."""
    decoder.begin(packets.data)
    parts: list[Columns] = []
    odd = np.ones(len(packets), np.bool_)
    for layout, rows in by_layout(packets.links):
        for family, chosen, at in ip_headers(packets, layout, rows):
            part = plain_segments(packets, family, chosen, at)
            if len(part.rows):
                odd[part.rows] = False
                parts.append(part)
    rows = np.flatnonzero(odd)
    if len(rows):
        columns = (packets.links, packets.starts, packets.stops, packets.missing, packets.references, packets.times)
        for packet in zip(rows.tolist(), *(column[rows].tolist() for column in columns), strict=True):
            decoder.packet(*packet)
        if decoder.segments:
            parts.append(columns_of(decoder.segments))
    block = SegmentBlock(decoder.whole_data(), ordinal)
    segments = parts[0] if len(parts) == 1 else in_order(parts) if parts else None
    if segments is not None:
        fill(block, segments, packets)
    if decoder.datagrams:
        places = [datagram.row for datagram in decoder.datagrams]
        before = np.searchsorted(rows[:0] if segments is None else segments.rows, places)
        block.datagrams = [
            datagram._replace(ordinal=ordinal + count - 1)
            for datagram, count in zip(decoder.datagrams, before.tolist(), strict=True)
        ]
    return block


def by_layout(links: Column) -> Iterator[tuple[Layout, Column]]:
    """The packets of each link layer that plain ones may stand on. Usually all are on the same."""
    if len(links) and (links == links[0]).all():
        layout = LAYOUTS.get(int(links[0]))
        if layout is not None:
            yield layout, np.arange(len(links))
        return
    for link, layout in LAYOUTS.items():
        rows = np.flatnonzero(links == link)
        if len(rows):
            yield layout, rows


def ip_headers(packets: PacketBlock, layout: Layout, rows: Column) -> Iterator[tuple[Family, Column, Column]]:
    """Of the packets `rows`, which are on one link layer, those with IPv4 or IPv6, and where its header begins.

    What is yielded has room for the shortest headers of IP and TCP.
    """
    at = packets.starts[rows] + layout.header
    for _ in range(1 + MOST_TAGS):
        room = packets.stops[rows] - at
        fits = room >= SHORTEST
        if not fits.all():
            rows, at, room = rows[fits], at[fits], room[fits]
        protocol = gather(packets.data, at - layout.back, layout.form) >> layout.shift
        for family, number in ((FAMILY4, layout.ipv4), (FAMILY6, layout.ipv6)):
            chosen = np.flatnonzero((protocol == number) & (room >= family.header + SHORTEST_TCP))
            if len(chosen):
                yield family, rows[chosen], at[chosen]
            if len(chosen) == len(rows):
                return
        tagged = np.isin(protocol, layout.tags)
        if not tagged.any():
            return
        rows, at = rows[tagged], at[tagged] + TAG


def plain_segments(packets: PacketBlock, family: Family, rows: Column, at: Column) -> Columns:
    """The segments of those packets `rows`, with IP headers from `at` on, that are plain."""
    fields = gather(packets.data, at, family.fields)
    starts = at + family.header + (fields["offset"] >> 4 << 2)
    ends = at + family.uncounted + fields["length"]
    plain = family.plain(fields) & (fields["offset"] >= 0x50) & (starts <= ends)
    if not plain.all():
        rows, at, fields, starts, ends = rows[plain], at[plain], fields[plain], starts[plain], ends[plain]
    captured = packets.stops[rows]
    cut = np.maximum(ends - np.maximum(starts, captured), 0)
    keys, flows = distinct(gather(packets.data, at + family.key_at, family.key))
    return Columns(
        rows,
        keys,
        flows,
        sequences=fields["sequence"].astype(np.int64),
        acknowledgments=fields["acknowledgment"].astype(np.int64),
        flags=np.where(cut, fields["flags"] | np.int64(CUT), fields["flags"]),
        starts=np.minimum(starts, captured),
        stops=np.minimum(ends, captured),
        cut=cut,
    )


def columns_of(segments: list[Segment]) -> Columns:
    """Segments that were read one by one."""
    numbers: dict[bytes, int] = {}
    flows = [numbers.setdefault(segment.key, len(numbers)) for segment in segments]
    rows, _, sequences, acknowledgments, flags, starts, stops, cut = zip(*segments, strict=True)
    columns = np.array((rows, flows, sequences, acknowledgments, flags, starts, stops, cut), np.int64)
    columns[4] |= np.where(columns[7], CUT, 0)
    return Columns(columns[0], list(numbers), *columns[1:])


def in_order(parts: list[Columns]) -> Columns:
    """All segments of `parts` in the order of their packets, and their keys in the order of these."""
    order = np.argsort(np.concatenate([part.rows for part in parts]))
    before = np.cumsum([0, *(len(part.keys) for part in parts)])
    keys = [key for part in parts for key in part.keys]
    flows = np.concatenate([part.flows + shift for part, shift in zip(parts, before, strict=False)])[order]
    found, first = np.unique(flows, return_index=True)
    numbers: dict[bytes, int] = {}
    renumbered = np.empty(len(keys), np.int64)
    for flow in found[np.argsort(first)].tolist():
        renumbered[flow] = numbers.setdefault(keys[flow], len(numbers))
    joined = {name: np.concatenate([getattr(part, name) for part in parts])[order] for name in OTHER_COLUMNS}
    return Columns(keys=list(numbers), flows=renumbered[flows], **joined)


def fill(block: SegmentBlock, columns: Columns, packets: PacketBlock) -> None:
    """Put segments into a block; times and references are those of their packets."""
    block.keys, block.flows = columns.keys, columns.flows
    block.sequences, block.acknowledgments, block.flags = columns.sequences, columns.acknowledgments, columns.flags
    block.starts, block.stops = columns.starts, columns.stops
    block.packets, block.times = packets.references[columns.rows], packets.times[columns.rows]
    rows = np.flatnonzero(columns.cut)
    block.cut = dict(zip(rows.tolist(), columns.cut[rows].tolist(), strict=True))
