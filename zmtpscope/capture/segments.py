"""What the capture layer hands up: the TCP segments and UDP datagrams of one block, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.packets import NOWHERE

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

CUT = 0x100
"""Set in `SegmentBlock.flags` beside the TCP flags where fewer payload octets were captured than IP announces."""

CLOSED_WINDOW = 0x400
"""Likewise, where a segment says that its sender takes no more octets now: a receive window of 0, beside an
acknowledgment. SYN and RST say nothing of windows that are in force."""

UNREACHABLE = 0x800
"""All flags of a row that is no segment: an ICMP message says that a segment of the other direction did not get there
(RFC 792, RFC 4443). `sequences` has the number of that segment, `acknowledgments` is `PROHIBITED` or `NO_HOST`."""

PROHIBITED, NO_HOST = 1, 2
"""What such a message says: a firewall rejects, or there is no way to the host, or no such host."""

NO_PORTS = bytes(4)
"""The ports of a datagram that is not UDP: a host joins or leaves multicast groups with it (IGMP, MLD). No datagram of
UDP has the destination port 0 (RFC 768)."""

DATAGRAM = 0x200
"""Stands in `SegmentRows.flags` where the row is a UDP datagram."""

FILE_SHIFT = 40
"""A packet reference is `file index << FILE_SHIFT | packet number`; packet numbers count from 1 within their file."""

ORDINALS = 2
"""How far the ordinals of segments are apart: the odd one in front of each is that of what time alone has decided
before the segment came."""

PACKET_MASK = (1 << FILE_SHIFT) - 1

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

EMPTY: Column = np.empty(0, np.int64)


class Datagram(NamedTuple):
    """One UDP datagram; the payload is `data[start:stop]` of its block, `cut` more octets of it were not captured.

    `key`, `packet` and `time` are as in `SegmentBlock`; `ordinal` is that of the last TCP segment in front of it (where
    there is none, as if there were one), `row` its place among the packets of the block.
    """

    key: bytes
    start: int
    stop: int
    packet: int
    time: int
    cut: int
    row: int
    ordinal: int = -1


@dataclass(slots=True, eq=False)
class DatagramColumns:
    """The UDP datagrams of one block, an entry for each in every column but `keys`, in capture order. Columns are those
    of `Datagram`; `keys` are the distinct flows in order of first appearance, `flows` indexes into them. Messages of
    IGMP and MLD are among them."""

    keys: list[bytes]
    flows: Column
    starts: Column
    stops: Column
    cut: Column
    packets: Column
    times: Column
    rows: Column
    ordinals: Column

    def __len__(self) -> int:
        return len(self.flows)

    def memberships(self) -> Column:
        """The indexes of those that are messages of IGMP or MLD."""
        flows = [number for number, key in enumerate(self.keys) if key.endswith(NO_PORTS)]
        return np.flatnonzero(np.isin(self.flows, flows)) if flows else EMPTY

    def select(self, flows: Mask) -> DatagramColumns:
        """Those of which of `keys` `flows` says so."""
        chosen = flows[self.flows]
        columns = self.starts, self.stops, self.cut, self.packets, self.times, self.rows, self.ordinals
        keys = [self.keys[index] for index in flows.nonzero()[0].tolist()]
        return DatagramColumns(keys, (flows.cumsum() - 1)[self.flows[chosen]], *(column[chosen] for column in columns))

    def __getitem__(self, index: int) -> Datagram:
        columns = self.starts, self.stops, self.packets, self.times, self.cut, self.rows, self.ordinals
        return Datagram(self.keys[self.flows[index]], *(int(column[index]) for column in columns))

    def __iter__(self) -> Iterator[Datagram]:
        return map(self.__getitem__, range(len(self)))


NO_DATAGRAMS = DatagramColumns([], *[EMPTY] * 8)


class PacketPlaces(NamedTuple):
    """Where the packets of a block stand in their files, an entry for each, whatever became of it: packet references,
    offsets of the first octets (`packets.NOWHERE` where they cannot be read again), how many octets there are, and
    where in the octets of the block they begin.

    Records name packets by reference. Who wants to show the octets later keeps these places, 24 octets a packet.
    """

    references: Column
    offsets: Column
    lengths: Column
    starts: Column


NO_PLACES = PacketPlaces(EMPTY, EMPTY, EMPTY, EMPTY)


class SegmentRows(NamedTuple):
    """Segments and datagrams as one table, in capture order: what of a block can be sent to another process. All but
    `keys` have an entry for each row, as in `SegmentBlock`; flows of TCP and of UDP are numbered together, and a
    datagram has `DATAGRAM` for its flags and no numbers."""

    keys: list[bytes]
    flows: Column
    flags: Column
    sequences: Column
    acknowledgments: Column
    starts: Column
    stops: Column
    cut: Column
    hops: Column
    packets: Column
    times: Column

    def some(self, rows: Column | slice) -> SegmentRows:
        """Only these rows; `keys` stay."""
        return SegmentRows(self.keys, *(column[rows] for column in self[1:]))


class SegmentBlock:
    """The TCP segments of one block of captured octets, one entry per segment in every column, in capture order.

    `keys` are the distinct flows of the block in order of first appearance: source address, destination address,
    source port and destination port as they stand on the wire (12 octets for IPv4, 36 for IPv6), so that the reverse
    direction is a matter of slicing. `flows` are indexes into them. Payloads are `data[start:stop]`. `packets` are
    packet references (see `FILE_SHIFT`), `times` nanoseconds since the epoch. `ordinal` is that of the block's first
    segment: `ordinal + ORDINALS * index` orders segments over all files. `places` say where packets stand in files; a
    block of rows that were sent to another process has none.
    """

    __slots__ = (
        "acknowledgments",
        "cut",
        "data",
        "datagrams",
        "flags",
        "flows",
        "hops",
        "keys",
        "latest",
        "ordinal",
        "packets",
        "places",
        "sequences",
        "starts",
        "stops",
        "times",
    )

    def __init__(self, data: bytes, ordinal: int) -> None:
        self.data = data
        self.ordinal = ordinal
        self.keys: list[bytes] = []
        self.flows = EMPTY
        self.sequences = EMPTY
        self.acknowledgments = EMPTY
        self.flags = EMPTY
        self.starts = EMPTY
        self.stops = EMPTY
        self.packets = EMPTY
        self.times = EMPTY
        self.cut: dict[int, int] = {}
        """For entries with the `CUT` flag: index to the number of payload octets announced but not captured."""
        self.hops: dict[int, int] = {}
        """For entries with SYN or RST: how far the packet might still have gone (TTL, or hop limit), where that was
        read."""
        self.datagrams = NO_DATAGRAMS
        self.places = NO_PLACES
        self.latest = 0
        """The largest time of the packets of the block, those that are neither TCP nor UDP included."""

    def __len__(self) -> int:
        return len(self.flows)

    @classmethod
    def from_columns(cls, data: bytes, rows: SegmentRows, ordinal: int, latest: int) -> Self:
        """The block of these rows, whose payloads stand in `data`; `ordinal` is that of its first segment, `latest` the
        largest time of all packets that they were made of."""
        block = cls(data, ordinal)
        block.latest = latest
        chosen = (rows.flags & DATAGRAM) == 0
        if not chosen.all():
            block.datagrams = _datagrams_of(rows, ~chosen, ordinal)
        block.keys, block.flows = _keys_of(rows.keys, rows.flows[chosen])
        block.sequences, block.acknowledgments = rows.sequences[chosen], rows.acknowledgments[chosen]
        block.flags, block.starts, block.stops = rows.flags[chosen], rows.starts[chosen], rows.stops[chosen]
        block.packets, block.times = rows.packets[chosen], rows.times[chosen]
        block.cut, block.hops = by_entry(rows.cut[chosen]), by_entry(rows.hops[chosen])
        return block

    def payload_offsets(self) -> Column:
        """Where in its file the payload of each segment begins; `NOWHERE` where it cannot be read there again, as of
        what was put together of IP fragments."""
        return self.payload_places()[0]

    def payload_places(self) -> tuple[Column, Column, Column]:
        """The same, and how many octets of its packet stand in front of it and behind it (0 of what stands nowhere)."""
        places = self.places
        if not len(places.starts) or not len(self):
            return np.full(len(self), NOWHERE), np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        order = places.starts.argsort(kind="stable")
        before = places.starts[order].searchsorted(self.starts, "right") - 1
        packets = order[np.maximum(before, 0)]
        starts, offsets = places.starts[packets], places.offsets[packets]
        stands_there = (before >= 0) & (self.stops <= starts + places.lengths[packets]) & (offsets != NOWHERE)
        heads = np.where(stands_there, self.starts - starts, 0)
        tails = np.where(stands_there, starts + places.lengths[packets] - self.stops, 0)
        return np.where(stands_there, offsets + heads, NOWHERE), heads, tails

    def rows(self) -> SegmentRows:
        """Its segments and datagrams as one table, which `from_columns` makes the same block of again."""
        datagrams = self.datagrams
        ordinals = self.ordinal + ORDINALS * np.arange(len(self))
        order = np.concatenate((ordinals, datagrams.ordinals)).argsort(kind="stable")
        cut, hops = np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        cut[list(self.cut)] = list(self.cut.values())
        hops[list(self.hops)] = list(self.hops.values())
        none = np.zeros(len(datagrams), np.int64)
        columns = (
            (self.flows, datagrams.flows + len(self.keys)),
            (self.flags, none + DATAGRAM),
            (self.sequences, none),
            (self.acknowledgments, none),
            (self.starts, datagrams.starts),
            (self.stops, datagrams.stops),
            (cut, datagrams.cut),
            (hops, none),
            (self.packets, datagrams.packets),
            (self.times, datagrams.times),
        )
        return SegmentRows(self.keys + datagrams.keys, *(np.concatenate(column)[order] for column in columns))

    def select(self, flows: Mask, *, datagrams: bool | Mask) -> SegmentBlock:
        """The segments of those of `keys` for which `flows` says so, and all datagrams, none, or those of which of
        `datagrams.keys`, over the same octets.

        `latest` and `places` stay. Ordinals are counted anew from that of this block on, so they are never behind those
        of the next block.
        """
        block = SegmentBlock(self.data, self.ordinal)
        block.latest, block.places = self.latest, self.places
        chosen = flows[self.flows]
        if datagrams is not False and len(self.datagrams):
            in_front = np.cumsum(np.concatenate(([0], chosen)))
            places = (self.datagrams.ordinals - self.ordinal) // ORDINALS + 1
            block.datagrams = replace(self.datagrams, ordinals=self.ordinal + ORDINALS * (in_front[places] - 1))
            if datagrams is not True:
                block.datagrams = block.datagrams.select(datagrams)
        block.keys = [self.keys[index] for index in flows.nonzero()[0].tolist()]
        block.flows = (flows.cumsum() - 1)[self.flows[chosen]]
        for name in ("sequences", "acknowledgments", "flags", "starts", "stops", "packets", "times"):
            setattr(block, name, getattr(self, name)[chosen])
        if self.cut or self.hops:
            numbers = chosen.cumsum() - 1
            for name in ("cut", "hops"):
                some = getattr(self, name).items()
                setattr(block, name, {int(numbers[index]): value for index, value in some if chosen[index]})
        return block


def by_entry(column: Column) -> dict[int, int]:
    """What is not 0 in a column, by entry, as in `SegmentBlock.cut` and `hops`."""
    indexes = np.flatnonzero(column)
    return dict(zip(indexes.tolist(), column[indexes].tolist(), strict=True))


def _keys_of(keys: list[bytes], flows: Column) -> tuple[list[bytes], Column]:
    """Those of `keys` that `flows` index into, in order of first appearance, and the indexes into them."""
    found, first, inverse = np.unique(flows, return_index=True, return_inverse=True)
    order = first.argsort()
    return [keys[index] for index in found[order].tolist()], order.argsort()[inverse]


def _datagrams_of(rows: SegmentRows, chosen: Mask, ordinal: int) -> DatagramColumns:
    """The datagrams among the rows of a block whose first segment is `ordinal`."""
    keys, flows = _keys_of(rows.keys, rows.flows[chosen])
    return DatagramColumns(
        keys,
        flows,
        rows.starts[chosen],
        rows.stops[chosen],
        rows.cut[chosen],
        rows.packets[chosen],
        rows.times[chosen],
        rows=chosen.nonzero()[0],
        ordinals=ordinal + ORDINALS * ((~chosen).cumsum()[chosen] - 1),
    )
