"""Packets out of a ring that the kernel fills (TPACKET_V3 of packet(7); the kernel's packet_mmap document).

A block of the ring is handed over when it is full, or soon after it was begun (`RETIRE`). Its packets become pcapng
where they lie: in front of each there is room for more than the header of a packet block, and behind each nothing that
is still wanted, so a packet costs one copy, and what is reckoned is reckoned for all packets of a block at once.
"""

from __future__ import annotations

import mmap
import struct

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.pcapng import PACKET, PACKET_FIELDS
from zmtpscope.export.pcapng import PACKET_OVERHEAD
from zmtpscope.live.capture.interfaces import LINK_TYPES
from zmtpscope.live.capture.packet_socket import (
    DEFAULT_VLAN_TYPE,
    SOL_PACKET,
    VLAN_TAG_AT,
    VLAN_TAG_OCTETS,
    VLAN_TYPE_VALID,
    VLAN_VALID,
    Batch,
    PacketSocket,
)
from zmtpscope.live.capture.settings import CaptureSettings

PACKET_RX_RING, PACKET_VERSION, TPACKET_V3 = 5, 10, 2
BLOCK = 1 << 19
"""Octets of a block. One packet never takes two blocks: this has room for the largest snap length."""
RETIRE = 20
"""Milliseconds from one look of the kernel to the next whether a block is to be handed over that is not full: it is if
it was begun before the last look."""
KERNEL, USER = 0, 1
"""Whose a block is; the other bits of its status do not matter here."""

_block = struct.Struct("=8xIII").unpack_from  # struct tpacket_block_desc: status, packets, offset of the first
_status = struct.Struct("=I")
_next = struct.Struct("=I").unpack_from
STATUS_AT = 8

HEADER = np.dtype(
    [
        ("next", "u4"),
        ("seconds", "u4"),
        ("nanoseconds", "u4"),
        ("captured", "u4"),
        ("original", "u4"),
        ("status", "u4"),
        ("link_header", "u2"),
        ("network_header", "u2"),
        ("hash", "u4"),
        ("vlan_tag", "u4"),
        ("vlan_type", "u2"),
        ("padding", "V10"),
        # struct sockaddr_ll
        ("family", "u2"),
        ("protocol", ">u2"),
        ("interface", "i4"),
        ("hardware_type", "u2"),
    ]
)
"""struct tpacket3_hdr in front of each packet, and the address behind it. The offsets count from here."""
PACKET_HEADER = np.dtype([(name, "<u4") for name in PACKET_FIELDS])
LENGTH = np.dtype("<u4")
TAG = np.dtype([("type", ">u2"), ("tag", ">u2")])
ADDRESSES = np.dtype(f"V{VLAN_TAG_AT}")


class RingSocket(PacketSocket):
    """See `PacketSocket`. Raises `OSError` as well, where the kernel gives no ring: there may be a way without one."""

    delay = 3 * RETIRE / 1000

    def __init__(self, settings: CaptureSettings) -> None:
        super().__init__(settings)
        count = max(2, settings.buffer_octets // BLOCK)
        self.socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
        # struct tpacket_req3; the size of a frame says nothing in version 3, but must divide that of a block
        request = struct.pack("=7I", BLOCK, count, BLOCK, count, RETIRE, 0, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
        self._ring = mmap.mmap(self.socket.fileno(), BLOCK * count)
        self._blocks = count
        self._block = 0
        self._bind()

    def read(self) -> Batch | None:
        """The packets of the next block; None if there is none yet."""
        begin = self._block * BLOCK
        status, count, first = _block(self._ring, begin)
        if not status & USER:
            return None
        batch = self._frame(begin + first, count) if count else Batch([], np.zeros(0, np.int64))
        _status.pack_into(self._ring, begin + STATUS_AT, KERNEL)
        self._block = (self._block + 1) % self._blocks
        return batch

    def _frame(self, first: int, count: int) -> Batch:
        """Make packet blocks of `count` packets, the first of which has its header at `first`."""
        ring, at = self._ring, first
        places = []
        for _ in range(count):
            places.append(at)
            at += _next(ring, at)[0]
        headers = np.array(places, np.int64)
        fields = self._windows(HEADER)[headers]
        numbers, unknown = self._numbers_of(fields["interface"], fields["hardware_type"])
        starts = headers + fields["link_header"]
        captured, original = fields["captured"].astype(np.int64), fields["original"].astype(np.int64)
        if unknown is not None:  # packets of these link layers begin with their IP header
            skipped = (fields["network_header"].astype(np.int64) - fields["link_header"]) * unknown
            starts += skipped
            captured = np.maximum(captured - skipped, 0)
            original = np.maximum(original - skipped, 0)
        is_tagged = fields["status"] & VLAN_VALID
        if is_tagged.any():
            tagged = np.flatnonzero((is_tagged != 0) & (captured >= VLAN_TAG_AT))
            self._restore_tags(starts[tagged], fields[tagged])
            starts[tagged] -= VLAN_TAG_OCTETS
            captured[tagged] += VLAN_TAG_OCTETS
            original[tagged] += VLAN_TAG_OCTETS
        np.minimum(captured, self.settings.snap_length, captured)
        times = fields["seconds"].astype(np.int64) * 1_000_000_000 + fields["nanoseconds"]
        lengths = (captured + (PACKET_OVERHEAD + 3)) & -4
        begins = starts - PACKET_HEADER.itemsize
        ends = begins + lengths
        packet_headers = np.empty(count, PACKET_HEADER)
        columns = PACKET, lengths, numbers, times >> 32, times & 0xFFFFFFFF, captured, original
        for name, column in zip(PACKET_FIELDS, columns, strict=True):
            packet_headers[name] = column
        self._windows(PACKET_HEADER)[begins] = packet_headers
        windows = self._windows(LENGTH)
        windows[starts + captured] = 0  # the padding, of which the length covers what is too much
        windows[ends - LENGTH.itemsize] = lengths
        return Batch([ring[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)], captured)

    def _windows(self, form: np.dtype[np.void] | np.dtype[np.uint32]) -> NDArray[np.void]:
        """The ring as `form` at each of its octets: they overlap."""
        return np.ndarray((len(self._ring) - form.itemsize + 1,), form, self._ring, strides=(1,))

    def _restore_tags(self, starts: NDArray[np.int64], fields: NDArray[np.void]) -> None:
        """Put VLAN tags, which the kernel has taken out, in their place; the addresses move to the front."""
        addresses = self._windows(ADDRESSES)
        addresses[starts - VLAN_TAG_OCTETS] = addresses[starts]
        tags = np.empty(len(fields), TAG)
        tags["type"] = np.where(fields["status"] & VLAN_TYPE_VALID, fields["vlan_type"], DEFAULT_VLAN_TYPE)
        tags["tag"] = fields["vlan_tag"]
        self._windows(TAG)[starts - VLAN_TAG_OCTETS + VLAN_TAG_AT] = tags

    def _numbers_of(
        self, indexes: NDArray[np.int32], hardware: NDArray[np.uint16]
    ) -> tuple[NDArray[np.int64] | int, NDArray[np.bool_] | None]:
        """The numbers in the file of the interfaces of packets, and which packets have a link layer that is not known;
        None: none has."""
        if (indexes == indexes[0]).all() and int(hardware[0]) in LINK_TYPES:
            number = self._number(int(indexes[0]), int(hardware[0]))
            self.counts[number] += len(indexes)
            return number, None
        # in the order of their first packets, so that they are numbered as they came
        found, firsts, which, counts = np.unique(indexes, return_index=True, return_inverse=True, return_counts=True)
        numbers = np.empty(len(found), np.int64)
        unknown = np.empty(len(found), bool)
        for place in np.argsort(firsts).tolist():
            kind = int(hardware[firsts[place]])
            numbers[place] = number = self._number(int(found[place]), kind)
            unknown[place] = kind not in LINK_TYPES
            self.counts[number] += int(counts[place])
        return numbers[which], unknown[which] if unknown.any() else None

    def close(self) -> None:
        """Nothing is read any more."""
        self._ring.close()
        super().close()
