"""Packets out of a ring that the kernel fills (TPACKET_V3 of packet(7); the kernel's packet_mmap document).

The kernel packs packets into the blocks of the ring one behind the other, and hands a block over when it is full. So
`-B` is what it says: that many octets of packets and their headers wait in the ring while this process does not run.

No packet waits for its block to be full. At each look the packets in the block that the kernel is still filling are
read, too. A packet there is complete once the last field of its header is set: a block is zeroed before the kernel gets
it back, and the kernel sets that field after it has copied the packet. Processors may make stores visible in another
order, so a packet that was found complete is taken a little later (`SETTLE`).
"""

from __future__ import annotations

import mmap
import struct
import time

from zmtpscope.live.capture.packet_socket import SOL_PACKET, Batch, PacketSocket
from zmtpscope.live.capture.settings import CaptureSettings

PACKET_RX_RING, PACKET_VERSION, TPACKET_V3 = 5, 10, 2
BLOCK = 1 << 19
"""Octets of a block. One packet never takes two blocks: this has room for the largest snap length."""
ROOM_BEHIND = 8
"""Octets behind the last packet for the end of its packet block."""
RETIRE = 60_000
"""Milliseconds after which the kernel hands a block over that is not full. A short time would waste most of the ring
where few packets come. The kernel keeps it in 16 bits."""
LOOK, SETTLE = 0.015, 0.001
"""Seconds between two looks at the block that the kernel is filling, and from a look until its packets are taken."""
KERNEL, USER = 0, 1
"""The owner of a block; the other bits of its status do not matter here."""

# native formats: the kernel writes meanwhile, and an aligned number is then read as a whole
_block = struct.Struct("@8xIIII").unpack_from
"""struct tpacket_block_desc: status, packets, offsets of the first packet and of the end."""
_owner = struct.Struct("@8xII").pack_into
"""The same: status, packets."""
_header = struct.Struct("@II44xi").unpack_from
"""struct tpacket3_hdr and the address behind it: offset of the next header, seconds, and the index of the interface,
which the kernel sets last."""


class RingSocket(PacketSocket):
    """See `PacketSocket`. Raises `OSError` as well, where the kernel gives no ring: there may be a way without one."""

    delay = 3 * LOOK

    def __init__(self, settings: CaptureSettings) -> None:
        super().__init__(settings)
        # the block that the kernel is filling may be read almost to its end, so it does not count
        self._blocks = -(-settings.buffer_octets // BLOCK) + 1
        self.socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
        # struct tpacket_req3; the size of a frame says nothing in version 3, but must divide that of a block
        request = struct.pack("=7I", BLOCK, self._blocks, BLOCK, self._blocks, RETIRE, 0, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
        self._ring = mmap.mmap(self.socket.fileno(), BLOCK * self._blocks)
        self._octets = memoryview(self._ring)
        self._zeros = memoryview(bytes(BLOCK))
        self._block = 0
        self._at = 0
        """Where the header of the next packet begins; 0 if no packet of the block was taken."""
        self._taken = 0
        """How many packets of the block were taken."""
        self._found = 0
        """How many more the last look has found complete."""
        self._looked = 0.0
        self._bind()

    @property
    def due(self) -> float:
        return self._looked + (SETTLE if self._found else LOOK)

    def read(self) -> Batch | None:
        """The rest of a block that the kernel has filled, or packets that were complete at the last look at the block
        that it is filling."""
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
        """How many of the next packets are complete, up to the first that is not."""
        for number in range(count):
            size, seconds, interface = _header(self._ring, at)
            if not (size and seconds and interface):
                return number
            at += size
        return count

    def _take(self, begin: int, count: int, end: int = 0) -> Batch:
        """The next packets. Those of a block that the kernel has filled end at `end`; its last header has no next."""
        from zmtpscope.live.capture.ring_packets import packet_batch  # numpy: the socket is open before it is loaded

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
        """Let the kernel have the block again, with zeros in the place of packets."""
        self._octets[first:end] = self._zeros[: end - first]
        _owner(self._ring, self._block * BLOCK, KERNEL, 0)
        self._block = (self._block + 1) % self._blocks
        self._at = self._taken = self._found = 0

    def _count(self, index: int, hardware_type: int, packets: int) -> int:
        """The number in the file of an interface that `packets` came from."""
        number = self._number(index, hardware_type)
        self.counts[number] += packets
        return number

    def close(self) -> None:
        """Nothing is read any more."""
        self._octets.release()
        self._ring.close()
        super().close()
