"""Decode the headers of all packets of a block at once into columns of TCP segments and UDP datagrams.

Plain packets are IPv4 without options or fragments, or IPv6 without extension headers, then TCP, or UDP to a port of no
tunnel, directly on one of the link layers of `LAYOUTS`, with or without VLAN tags. numpy selects and decodes plain
packets without a step per packet; any other packet costs one call of the decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.decoder import SAYING_WINDOW, TCP, UDP, Decoder, Segment
from zmtpscope.capture.flow_keys import distinct
from zmtpscope.capture.link import LAYOUTS, Layout
from zmtpscope.capture.packets import PacketBlock, gather
from zmtpscope.capture.segments import (
    ACK,
    CLOSED_WINDOW,
    CUT,
    ORDINALS,
    RST,
    SYN,
    Column,
    Datagram,
    DatagramColumns,
    Mask,
    SegmentBlock,
    by_entry,
)
from zmtpscope.capture.tunnels import ON_UDP

SHORTEST_TCP, UDP_HEADER = 20, 8
SHORTEST = 20 + UDP_HEADER
"""Octets of the shortest IPv4 and UDP headers."""
TAG, MAX_TAGS = 4, 2
"""Octets of a VLAN tag, and the maximum number of tags of a plain packet."""
TCP_FIELDS = [("sequence", ">u4"), ("acknowledgment", ">u4"), ("offset", "u1"), ("flags", "u1")]
TCP_FIELDS += [("window", "u2")]
UDP_FIELDS = np.dtype([("", "V2"), ("port", ">u2"), ("length", ">u2")])
TUNNELS = list(ON_UDP)
"""Ports whose datagrams may contain packets."""


class Family(NamedTuple):
    """IPv4 or IPv6 followed directly by TCP or UDP.

    `fields` extends from the first octet of the IP header to the TCP window, whose byte order is irrelevant because it
    is only compared with 0. `header` is the length of the IP header, of which the field `length` does not count
    `uncounted` octets. Addresses and ports are adjacent: they are the key, from octet `key_at` on.
    """

    fields: np.dtype[Any]
    plain: Callable[[NDArray[Any]], Mask]
    header: int
    uncounted: int
    key_at: int
    key: np.dtype[Any]


def _plain4(fields: NDArray[Any]) -> Mask:
    plain: Mask = (fields["version"] == 0x45) & (fields["fragment"] & 0x3FFF == 0)
    return plain


def _plain6(fields: NDArray[Any]) -> Mask:
    plain: Mask = fields["version"] & 0xF0 == 0x60
    return plain


_IPV4 = [("version", "u1"), ("", "V1"), ("length", ">u2"), ("", "V2"), ("fragment", ">u2"), ("hops", "u1")]
_IPV4 += [("protocol", "u1"), ("", "V14")]
_IPV6 = [("version", "u1"), ("", "V3"), ("length", ">u2"), ("protocol", "u1"), ("hops", "u1"), ("", "V36")]
FAMILY4 = Family(np.dtype(_IPV4 + TCP_FIELDS), _plain4, 20, 0, 12, np.dtype("V12"))
FAMILY6 = Family(np.dtype(_IPV6 + TCP_FIELDS), _plain6, 40, 40, 8, np.dtype("V36"))


class Columns(NamedTuple):
    """Segments of the packets `rows`. All but `keys` have an entry for each, as in `SegmentBlock`."""

    rows: Column
    keys: list[bytes]
    flows: Column
    sequences: Column
    acknowledgments: Column
    flags: Column
    starts: Column
    stops: Column
    cut: Column
    hops: Column


class UdpColumns(NamedTuple):
    """Datagrams of the packets `rows`, as in `DatagramColumns`."""

    rows: Column
    keys: list[bytes]
    flows: Column
    starts: Column
    stops: Column
    cut: Column


Part = TypeVar("Part", Columns, UdpColumns)


def read_headers(packets: PacketBlock, decoder: Decoder, ordinal: int) -> SegmentBlock:
    """Return the segments and datagrams of `packets` in order; `ordinal` is the ordinal of the first segment."""
    decoder.begin(packets.data)
    segments: list[Columns] = []
    datagrams: list[UdpColumns] = []
    left = np.ones(len(packets), np.bool_)
    for layout, rows in by_layout(packets.links):
        for family, chosen, at in ip_headers(packets, layout, rows):
            of_tcp, of_udp = plain_packets(packets, family, chosen, at)
            for segment_part in of_tcp:
                left[segment_part.rows] = False
            for datagram_part in of_udp:
                left[datagram_part.rows] = False
            segments += of_tcp
            datagrams += of_udp
    rows = np.flatnonzero(left)
    if len(rows):
        columns = (packets.links, packets.starts, packets.stops, packets.missing, packets.references, packets.times)
        for packet in zip(rows.tolist(), *(column[rows].tolist() for column in columns), strict=True):
            decoder.packet(*packet)
        if decoder.segments:
            segments.append(columns_of(decoder.segments))
        if decoder.datagrams:
            datagrams.append(udp_columns_of(decoder.datagrams))
    block = SegmentBlock(decoder.whole_data(), ordinal)
    rows = rows[:0]
    if segments:
        together = in_order(segments)
        rows = together.rows
        fill(block, together, packets)
    if datagrams:
        block.datagrams = datagram_columns(in_order(datagrams), packets, rows, ordinal)
    return block


def by_layout(links: Column) -> Iterator[tuple[Layout, Column]]:
    """Yield each link layer of `LAYOUTS` with the indexes of its packets. Usually all packets share one."""
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
    """Yield the packets of `rows`, all on one link layer, with an IPv4 or IPv6 header, and the start of that header.

    Yielded packets have room for IP and UDP headers, and for the family's fields within the block.
    """
    at = packets.starts[rows] + layout.header
    for _ in range(1 + MAX_TAGS):
        room = packets.stops[rows] - at
        fits = room >= SHORTEST
        if not fits.all():
            rows, at, room = rows[fits], at[fits], room[fits]
        protocol = gather(packets.data, at - layout.back, layout.form) >> layout.shift
        for family, number in ((FAMILY4, layout.ipv4), (FAMILY6, layout.ipv6)):
            fits = (room >= family.header + UDP_HEADER) & (at <= len(packets.data) - family.fields.itemsize)
            chosen = np.flatnonzero((protocol == number) & fits)
            if len(chosen):
                yield family, rows[chosen], at[chosen]
            if len(chosen) == len(rows):
                return
        tagged = np.isin(protocol, layout.tags)
        if not tagged.any():
            return
        rows, at = rows[tagged], at[tagged] + TAG


def plain_packets(
    packets: PacketBlock, family: Family, rows: Column, at: Column
) -> tuple[list[Columns], list[UdpColumns]]:
    """Return the segments and datagrams of the plain packets of `rows`, with IP headers at `at`."""
    fields = gather(packets.data, at, family.fields)
    plain = family.plain(fields)
    tcp, udp = plain & (fields["protocol"] == TCP), plain & (fields["protocol"] == UDP)
    if tcp.all():
        return [plain_segments(packets, family, rows, at, fields)], []
    of_tcp = [plain_segments(packets, family, rows[tcp], at[tcp], fields[tcp])] if tcp.any() else []
    of_udp = [plain_datagrams(packets, family, rows[udp], at[udp], fields[udp])] if udp.any() else []
    return of_tcp, of_udp


def plain_datagrams(packets: PacketBlock, family: Family, rows: Column, at: Column, fields: NDArray[Any]) -> UdpColumns:
    """Return the datagrams of packets with a valid UDP header and no tunnel port."""
    header = gather(packets.data, at + family.header, UDP_FIELDS)
    starts = at + family.header + UDP_HEADER
    ends = at + family.uncounted + fields["length"]
    lengths = header["length"].astype(np.int64)
    plain = (starts <= ends) & ((lengths == 0) | (lengths >= UDP_HEADER)) & ~np.isin(header["port"], (0, *TUNNELS))
    ends = np.where(lengths == 0, ends, np.minimum(ends, starts + lengths - UDP_HEADER))
    if not plain.all():
        rows, at, starts, ends = rows[plain], at[plain], starts[plain], ends[plain]
    stops = np.minimum(ends, packets.stops[rows])
    keys, flows = distinct(gather(packets.data, at + family.key_at, family.key))
    return UdpColumns(rows, keys, flows, starts, stops, ends - stops)


def plain_segments(packets: PacketBlock, family: Family, rows: Column, at: Column, fields: NDArray[Any]) -> Columns:
    """Return the segments of packets with a valid TCP header."""
    starts = at + family.header + (fields["offset"] >> 4 << 2)
    ends = at + family.uncounted + fields["length"]
    captured = packets.stops[rows]
    plain = (fields["offset"] >= 0x50) & (starts <= ends) & (captured - at >= family.header + SHORTEST_TCP)
    if not plain.all():
        rows, at, fields, starts, ends = rows[plain], at[plain], fields[plain], starts[plain], ends[plain]
        captured = captured[plain]
    cut = np.maximum(ends - np.maximum(starts, captured), 0)
    keys, flows = distinct(gather(packets.data, at + family.key_at, family.key))
    return Columns(
        rows,
        keys,
        flows,
        sequences=fields["sequence"].astype(np.int64),
        acknowledgments=fields["acknowledgment"].astype(np.int64),
        flags=_marked(fields["flags"], cut, fields["window"]),
        starts=np.minimum(starts, captured),
        stops=np.minimum(ends, captured),
        cut=cut,
        hops=np.where(fields["flags"] & (SYN | RST), fields["hops"], np.int64(0)),
    )


def _marked(flags: NDArray[Any], cut: Column, windows: NDArray[Any]) -> Column:
    """Add the marks of `SegmentBlock.flags` to TCP flags."""
    marked = np.where(cut, flags | np.int64(CUT), flags)
    closed = windows == 0
    if closed.any():
        closed &= flags & SAYING_WINDOW == ACK
        marked[closed] |= CLOSED_WINDOW
    return marked


def columns_of(segments: list[Segment]) -> Columns:
    """Convert segments of the decoder into columns."""
    numbers: dict[bytes, int] = {}
    flows = [numbers.setdefault(segment.key, len(numbers)) for segment in segments]
    rows, _, sequences, acknowledgments, flags, starts, stops, cut = zip(*segments, strict=True)
    hops = [0] * len(segments)
    columns = np.array((rows, flows, sequences, acknowledgments, flags, starts, stops, cut, hops), np.int64)
    columns[4] |= np.where(columns[7], CUT, 0)
    return Columns(columns[0], list(numbers), *columns[1:])


def udp_columns_of(datagrams: list[Datagram]) -> UdpColumns:
    """Convert datagrams of the decoder into columns."""
    numbers: dict[bytes, int] = {}
    flows = [numbers.setdefault(datagram.key, len(numbers)) for datagram in datagrams]
    columns = [(datagram.row, datagram.start, datagram.stop, datagram.cut) for datagram in datagrams]
    rows, starts, stops, cut = np.array(columns, np.int64).T
    return UdpColumns(rows, list(numbers), np.array(flows), starts, stops, cut)


def in_order(parts: list[Part]) -> Part:
    """Join segments, or datagrams, of `parts` in packet order, with keys in order of first appearance."""
    if len(parts) == 1:
        return parts[0]
    kind = type(parts[0])
    order = np.argsort(np.concatenate([part.rows for part in parts]))
    before = np.cumsum([0, *(len(part.keys) for part in parts)])
    keys = [key for part in parts for key in part.keys]
    flows = np.concatenate([part.flows + shift for part, shift in zip(parts, before, strict=False)])[order]
    found, first = np.unique(flows, return_index=True)
    numbers: dict[bytes, int] = {}
    renumbered = np.empty(len(keys), np.int64)
    for flow in found[np.argsort(first)].tolist():
        renumbered[flow] = numbers.setdefault(keys[flow], len(numbers))
    others = [name for name in kind._fields if name not in ("keys", "flows")]
    joined = {name: np.concatenate([getattr(part, name) for part in parts])[order] for name in others}
    return kind(keys=list(numbers), flows=renumbered[flows], **joined)


def datagram_columns(found: UdpColumns, packets: PacketBlock, segments: Column, ordinal: int) -> DatagramColumns:
    """Return the datagrams of a block, with the ordinals of the segments before them.

    `segments` are the packets of the block's segments, the first of which has `ordinal`.
    """
    return DatagramColumns(
        found.keys,
        found.flows,
        found.starts,
        found.stops,
        found.cut,
        packets.references[found.rows],
        packets.times[found.rows],
        found.rows,
        ordinal + ORDINALS * (np.searchsorted(segments, found.rows) - 1),
    )


def fill(block: SegmentBlock, columns: Columns, packets: PacketBlock) -> None:
    """Set the segments of a block, with the times and references of their packets."""
    block.keys, block.flows = columns.keys, columns.flows
    block.sequences, block.acknowledgments, block.flags = columns.sequences, columns.acknowledgments, columns.flags
    block.starts, block.stops = columns.starts, columns.stops
    block.packets, block.times = packets.references[columns.rows], packets.times[columns.rows]
    block.cut, block.hops = by_entry(columns.cut), by_entry(columns.hops)
