"""The TCP segments and UDP datagrams of one block as columns: the output of the capture layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.packets import NOWHERE

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

CUT = 0x100
"""Flag in `SegmentBlock.flags`, next to the TCP flags: fewer payload octets were captured than IP announces."""

CLOSED_WINDOW = 0x400
"""Flag in `SegmentBlock.flags`: the sender accepts no more octets for now, because it announces a receive window of 0
in an acknowledgment. Windows of SYN and RST do not count."""

UNREACHABLE = 0x800
"""Flag of a row that stands for an ICMP message: a segment of the other direction was not delivered (RFC 792, RFC
4443). `sequences` is the sequence number of that segment, `acknowledgments` is `PROHIBITED` or `NO_HOST`."""

PROHIBITED, NO_HOST = 1, 2
"""Reasons of an ICMP message: a firewall rejects the segment, or the host or a route to it does not exist."""

NO_PORTS = bytes(4)
"""Ports of an IGMP or MLD message, by which a host joins or leaves multicast groups. UDP datagrams never have
destination port 0 (RFC 768)."""

DATAGRAM = 0x200
"""Flag in `SegmentRows.flags`: the row is a UDP datagram."""

FILE_SHIFT = 40
"""Bits of the packet number in a packet reference, which is `file index << FILE_SHIFT | packet number`. Packets are
numbered from 1 within their file."""

ORDINALS = 2
"""Distance between the ordinals of segments. The odd ordinal before a segment is for events that time alone decided
before the segment arrived."""

PACKET_MASK = (1 << FILE_SHIFT) - 1

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

EMPTY: Column = np.empty(0, np.int64)


class Datagram(NamedTuple):
    """One UDP datagram. Its payload is `data[start:stop]` of its block; `cut` more octets were not captured.

    `key`, `packet` and `time` are as in `SegmentBlock`. `ordinal` is the ordinal of the preceding TCP segment (one
    distance before the first segment, if none precedes), and `row` the index of its packet in the block.
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
    """The UDP datagrams of a block in capture order, including IGMP and MLD messages.

    Each column except `keys` has an entry per datagram, as in `Datagram`. `keys` are the distinct flows in order of
    first appearance; `flows` are indexes into `keys`.
    """

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
        """Return the indexes of IGMP and MLD messages among the datagrams."""
        flows = [number for number, key in enumerate(self.keys) if key.endswith(NO_PORTS)]
        return np.flatnonzero(np.isin(self.flows, flows)) if flows else EMPTY

    def select(self, flows: Mask) -> DatagramColumns:
        """Return the datagrams of selected flows; `flows` is a mask over `keys`."""
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
    """Where the packets of a block are in their files, with an entry for each packet, decoded or not.

    Columns: packet references, offsets of the first octets (`packets.NOWHERE` if they cannot be read again), lengths,
    and starts in the octets of the block. Records name packets by reference. To display their octets later, keep these
    columns, 24 octets per packet.
    """

    references: Column
    offsets: Column
    lengths: Column
    starts: Column


NO_PLACES = PacketPlaces(EMPTY, EMPTY, EMPTY, EMPTY)


class SegmentRows(NamedTuple):
    """Segments and datagrams as one table in capture order: the form in which a block is sent to another process.

    All columns except `keys` have an entry per row, as in `SegmentBlock`. TCP and UDP flows share one numbering. A
    datagram has the flag `DATAGRAM` and no sequence numbers.
    """

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
        """Return a selection of the rows. `keys` stay complete."""
        return SegmentRows(self.keys, *(column[rows] for column in self[1:]))


class SegmentBlock:
    """The TCP segments of one block of captured octets in capture order, with one entry per segment in every column.

    `keys` are the distinct flows of the block in order of first appearance: source address, destination address, source
    port and destination port in wire format (12 octets for IPv4, 36 for IPv6), so that slicing yields the reverse
    direction. `flows` are indexes into them. Payloads are `data[start:stop]`. `packets` are packet references (see
    `FILE_SHIFT`), `times` nanoseconds since the epoch. `ordinal` is the ordinal of the block's first segment: `ordinal
    + ORDINALS * index` orders segments over all files. `places` locates packets in files; it is empty in a block
    received from another process.
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
        """Payload octets announced but not captured, by index of the segment (segments with the flag `CUT`)."""
        self.hops: dict[int, int] = {}
        """Remaining hops (TTL or hop limit), by index of the segment (SYN and RST only)."""
        self.datagrams = NO_DATAGRAMS
        self.places = NO_PLACES
        self.latest = 0
        """The latest time of all packets of the block, including packets that are neither TCP nor UDP."""

    def __len__(self) -> int:
        return len(self.flows)

    @classmethod
    def from_columns(cls, data: bytes, rows: SegmentRows, ordinal: int, latest: int) -> Self:
        """Return a block made of rows whose payloads are in `data`.

        `ordinal` is the ordinal of its first segment, `latest` the latest time of the original packets.
        """
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
        """Return the offset in its file of each segment's payload, or `NOWHERE` if it cannot be read again.

        Reassembled IP fragments cannot be read again.
        """
        return self.payload_places()[0]

    def payload_places(self) -> tuple[Column, Column, Column]:
        """Return `payload_offsets`, and the octets of each packet before and after its payload (0 if the offset is
        `NOWHERE`)."""
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
        """Return segments and datagrams as one table. `from_columns` restores the block."""
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
        """Return a block with the segments of selected flows, over the same octets; `flows` is a mask over `keys`.

        `datagrams` selects all or no datagrams, or is a mask over `datagrams.keys`. `latest` and `places` stay
        unchanged. Ordinals start again at the first ordinal of this block, so they never exceed the next block's.
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
    """Return the non-zero values of a column by index, as in `SegmentBlock.cut` and `hops`."""
    indexes = np.flatnonzero(column)
    return dict(zip(indexes.tolist(), column[indexes].tolist(), strict=True))


def _keys_of(keys: list[bytes], flows: Column) -> tuple[list[bytes], Column]:
    """Return the keys that occur in `flows`, in order of first appearance, and the indexes into them."""
    found, first, inverse = np.unique(flows, return_index=True, return_inverse=True)
    order = first.argsort()
    return [keys[index] for index in found[order].tolist()], order.argsort()[inverse]


def _datagrams_of(rows: SegmentRows, chosen: Mask, ordinal: int) -> DatagramColumns:
    """Return the datagrams among the rows of a block whose first segment is `ordinal`."""
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
