"""TCP segments and UDP datagrams of one block as columns: the output of the capture layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.packets import NOWHERE

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

CUT = 0x100
"""Flag above the TCP flags: fewer payload octets were captured than IP announces."""

CLOSED_WINDOW = 0x400
"""Flag of an acknowledgment with a receive window of 0: the sender accepts no more octets for now. Windows of SYN
and RST do not count."""

UNREACHABLE = 0x800
"""Flag of an ICMP message: a segment of the other direction was not delivered (RFC 792, RFC 4443). `sequences` is
that segment's sequence number, `acknowledgments` is `PROHIBITED` or `NO_HOST`."""

PROHIBITED, NO_HOST = 1, 2
"""Reasons in `acknowledgments` of an ICMP message: a firewall rejects the segment; the host or a route to it does not
exist."""

NO_PORTS = bytes(4)
"""Ports of an IGMP or MLD message, which joins or leaves multicast groups. UDP never has destination port 0 (RFC
768)."""

DATAGRAM = 0x200
"""Flag in `SegmentRows.flags`: a UDP datagram."""

FILE_SHIFT = 40
"""A packet reference is `file index << FILE_SHIFT | packet number`, from 1 within the file."""

ORDINALS = 2
"""Distance between ordinals of segments. The odd ordinal before a segment is for events that time alone decided."""

PACKET_MASK = (1 << FILE_SHIFT) - 1

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

EMPTY: Column = np.empty(0, np.int64)


class Datagram(NamedTuple):
    """A UDP datagram with the payload `data[start:stop]`; `cut` more octets were not captured.

    `ordinal` is that of the preceding TCP segment (one distance before the first segment, if none precedes). `row` is
    the index of the packet in its block.
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
    """The UDP datagrams, IGMP and MLD messages of a block in capture order; columns as in `Datagram`.

    `keys` are the distinct flows in order of first appearance; `flows` index them.
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
        """Return the indexes of the IGMP and MLD messages."""
        flows = [number for number, key in enumerate(self.keys) if key.endswith(NO_PORTS)]
        return np.flatnonzero(np.isin(self.flows, flows)) if flows else EMPTY

    def select(self, flows: Mask) -> DatagramColumns:
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
    """Where all packets of a block lie in their files, to display their octets later (24 octets per packet).

    Columns: packet references, file offsets (`packets.NOWHERE` if the octets cannot be read again), lengths, and starts
    in the block.
    """

    references: Column
    offsets: Column
    lengths: Column
    starts: Column


NO_PLACES = PacketPlaces(EMPTY, EMPTY, EMPTY, EMPTY)


class SegmentRows(NamedTuple):
    """Segments and datagrams of a block as one table in capture order, to send to another process.

    Columns as in `SegmentBlock`. TCP and UDP flows share one numbering. A datagram has the flag `DATAGRAM` and no
    sequence numbers.
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
        """Return the selected rows; `keys` stays complete."""
        return SegmentRows(self.keys, *(column[rows] for column in self[1:]))


class SegmentBlock:
    """The TCP segments of a block of packets in capture order, one entry per segment in every column.

    - `keys`: the distinct flows in order of first appearance: source address, destination address, source port,
      destination port in wire format (12 octets for IPv4, 36 for IPv6)
    - `flows`: the index in `keys` of each segment
    - payloads are `data[start:stop]`
    - `packets`: packet references (see `FILE_SHIFT`)
    - `times`: nanoseconds since the epoch
    - `ordinal + ORDINALS * index` orders segments over all files
    - `places`: where the packets lie in files; empty in a block from another process
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
        """Payload octets not captured, by index of the segment (flag `CUT`)."""
        self.hops: dict[int, int] = {}
        """TTL or hop limit, by index of the segment (SYN and RST only)."""
        self.datagrams = NO_DATAGRAMS
        self.places = NO_PLACES
        self.latest = 0
        """Latest time of all packets, including packets that are neither TCP nor UDP."""

    def __len__(self) -> int:
        return len(self.flows)

    @classmethod
    def from_columns(cls, data: bytes, rows: SegmentRows, ordinal: int, latest: int) -> Self:
        """Make a block from rows with payloads in `data`.

        `ordinal` is that of the first segment, `latest` the latest time of the original packets.
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

    def payload_places(self) -> tuple[Column, Column, Column]:
        """Return the file offset of each payload, and how many octets its packet has before and after it.

        The offset is `NOWHERE`, and the other two are 0, if a payload cannot be read again, as in IP fragments.
        """
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
        """Return the segments and datagrams as one table, from which `from_columns` restores the block."""
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
        """Return the segments of selected flows, with the same `data`.

        `flows` is a mask over `keys`. `datagrams`: True for all, False for none, or a mask over `datagrams.keys`.
        `latest` and `places` stay unchanged. Ordinals start again at the first of this block, so they never exceed
        those of the next block.
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
    indexes = np.flatnonzero(column)
    return dict(zip(indexes.tolist(), column[indexes].tolist(), strict=True))


def _keys_of(keys: list[bytes], flows: Column) -> tuple[list[bytes], Column]:
    """Return the keys that occur in `flows`, in order of first appearance, and for each row its index in them."""
    found, first, inverse = np.unique(flows, return_index=True, return_inverse=True)
    order = first.argsort()
    return [keys[index] for index in found[order].tolist()], order.argsort()[inverse]


def _datagrams_of(rows: SegmentRows, chosen: Mask, ordinal: int) -> DatagramColumns:
    """Return the datagrams among `rows`, the rows of a block whose first segment has this ordinal.

    `chosen`: which rows are datagrams to return.
    """
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
