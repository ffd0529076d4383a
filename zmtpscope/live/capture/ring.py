"""Reads packets from a ring that the kernel fills (TPACKET_V3, packet(7), the kernel's packet_mmap document).

The kernel packs packets into blocks and hands over each full block. Packets need not wait for that: each look also
reads the block that the kernel is filling. A packet is complete once the last field of its header is set, since blocks
are zeroed before the kernel gets them back, and the kernel sets that field after copying the packet. Processors may
reorder stores, so a packet found complete is taken a little later (`SETTLE`).
"""

from __future__ import annotations

import mmap
import struct
import time

from zmtpscope.live.capture.packet_socket import SOL_PACKET, Batch, PacketSocket
from zmtpscope.live.capture.settings import CaptureSettings

PACKET_RX_RING, PACKET_VERSION, TPACKET_V3 = 5, 10, 2
BLOCK = 1 << 19
"""Octets of a block. A packet never spans two blocks, so it must fit the largest snapshot length."""
ROOM_BEHIND = 8
"""Octets left free after the last packet, for the end of its pcapng block."""
RETIRE = 60_000
"""Milliseconds after which the kernel hands over a block that is not full (16 bits in the kernel).

A short time would waste most of the ring when few packets arrive.
"""
LOOK, SETTLE = 0.015, 0.001
"""Seconds between looks at the block that the kernel is filling, and from a look until its packets are taken."""
KERNEL, USER = 0, 1
"""Owners of a block. Other bits of its status are ignored."""

# native formats: the kernel writes meanwhile, and an aligned native number is read at once
_block = struct.Struct("@8xIIII").unpack_from
"""struct tpacket_block_desc: status, packets, offsets of the first packet and of the end."""
_owner = struct.Struct("@8xII").pack_into
"""Status and packets of struct tpacket_block_desc."""
_header = struct.Struct("@II44xi").unpack_from
"""struct tpacket3_hdr and the address after it: offset of the next header, seconds, and the index of the interface,
which the kernel sets last."""


class RingSocket(PacketSocket):
    """A socket whose packets the kernel writes to a ring.

    Raises `OSError` if the kernel has no ring; another engine may work then.
    """

    delay = 3 * LOOK

    def __init__(self, settings: CaptureSettings) -> None:
        super().__init__(settings)
        # one more block, since the one that the kernel is filling may be read almost to its end
        self._blocks = -(-settings.buffer_octets // BLOCK) + 1
        self.socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
        # struct tpacket_req3; version 3 ignores the frame size, but it must divide the block size
        request = struct.pack("=7I", BLOCK, self._blocks, BLOCK, self._blocks, RETIRE, 0, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
        self._ring = mmap.mmap(self.socket.fileno(), BLOCK * self._blocks)
        self._octets = memoryview(self._ring)
        self._zeros = memoryview(bytes(BLOCK))
        self._block = 0
        self._at = 0
        """Offset of the next packet's header; 0 if no packet of the block was taken."""
        self._taken = 0
        """Packets taken from the block."""
        self._found = 0
        """Further packets that the last look found complete."""
        self._looked = 0.0
        self._bind()

    @property
    def due(self) -> float:
        return self._looked + (SETTLE if self._found else LOOK)

    def read(self) -> Batch | None:
        """Return the next packets, or None.

        If the kernel has finished the block, they are all its remaining packets, otherwise the packets that the
        previous call found complete.
        """
        begin = self._block * BLOCK
        status, count, first, end = _block(self._ring, begin)
        at = self._at or begin + first
        if status & USER:
            batch = self._take(at, count - self._taken, begin + end)
            self._hand_back(begin + first, begin + end)
            return batch
        now = time.monotonic()
        if now < self.due:
            return None
        if self._found:
            return self._take(at, self._found)
        self._looked = now
        self._found = self._complete(at, count - self._taken)
        self.has_read_all = self._taken == count
        return None

    def _complete(self, at: int, count: int) -> int:
        for number in range(count):
            size, seconds, interface = _header(self._ring, at)
            if not (size and seconds and interface):
                return number
            at += size
        return count

    def _take(self, begin: int, count: int, end: int = 0) -> Batch:
        """Return the next `count` packets of a block, from offset `begin` on.

        In a full block they end at offset `end`, because the last header contains no next offset.
        """
        from zmtpscope.live.capture.ring_packets import packet_batch  # loads numpy, so only after the socket is open

        headers, at = [], begin
        for _ in range(count):
            headers.append(at - begin)
            at += _header(self._ring, at)[0]
        self._taken += count
        self._found = 0
        self._at = at = end or at
        octets = bytearray(self._octets[begin:at])
        octets += bytes(ROOM_BEHIND)
        return packet_batch(octets, headers, self.settings.snap_length, self._count)

    def _hand_back(self, first: int, end: int) -> None:
        """Fill the packets of a block, from `first` to `end`, with zeros, and give the block back to the kernel."""
        self._octets[first:end] = self._zeros[: end - first]
        _owner(self._ring, self._block * BLOCK, KERNEL, 0)
        self._block = (self._block + 1) % self._blocks
        self._at = self._taken = self._found = 0

    def _count(self, index: int, hardware_type: int, packets: int) -> int:
        number = self._number(index, hardware_type)
        self.counts[number] += packets
        return number

    def close(self) -> None:
        self._octets.release()
        self._ring.close()
        super().close()
