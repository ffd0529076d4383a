"""Read packets one by one with recvmsg(2), for kernels without a ring.

Time stamps, lengths and VLAN tags are in control messages (SO_TIMESTAMPNS of socket(7), PACKET_AUXDATA of packet(7)).
"""

from __future__ import annotations

import socket
import struct

import numpy as np

from zmtpscope.export.pcapng import packet_block
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

SO_TIMESTAMPNS, SO_RCVBUFFORCE, PACKET_AUXDATA = 35, 33, 8
MAX_PACKETS = 1024
"""Maximum packets read before other events are handled."""
ROOM = 512
"""Octets for the control messages of a packet."""

Address = tuple[str, int, int, int, bytes]
"""Interface, protocol, packet type, hardware type, address."""

_time = struct.Struct("@ll").unpack  # struct timespec
_about = struct.Struct("=IIIHHHH").unpack  # struct tpacket_auxdata


class MessageSocket(PacketSocket):
    """A packet socket that reads one packet per system call, with the methods of `ring.RingSocket`."""

    delay = 0.02  # only the delay of the processor that received the packet

    def __init__(self, settings: CaptureSettings) -> None:
        super().__init__(settings)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        size = min(settings.buffer_octets, 0x3FFFFFFF)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, size)
        except PermissionError:  # needs CAP_NET_ADMIN; the kernel's limit applies instead (net.core.rmem_max)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        self.socket.setblocking(False)
        self._octets = bytearray(max(settings.snap_length, 1))
        self._indexes: dict[str, int] = {}
        self._bind()

    def read(self) -> Batch | None:
        blocks, captured = [], []
        for _ in range(MAX_PACKETS):
            try:
                size, about, _, address = self.socket.recvmsg_into([self._octets], ROOM)
            except OSError:  # no packet, or the interface is gone, which `check` detects
                break
            block, octets = self._frame(size, {kind: value for _, kind, value in about}, address)
            blocks.append(block)
            captured.append(octets)
        return Batch(blocks, np.array(captured, np.int64)) if blocks else None

    def _frame(self, captured: int, about: dict[int, bytes], address: Address) -> tuple[bytes, int]:
        """Return a packet as a pcapng block, and how many of its `captured` octets the block contains."""
        name, _, _, hardware_type, _ = address
        seconds, nanoseconds = _time(about[SO_TIMESTAMPNS])
        status, original, _, _, network, tag, tag_type = _about(about[PACKET_AUXDATA])
        number = self._number(self._index(name), hardware_type, name or None)
        self.counts[number] += 1
        packet = bytes(memoryview(self._octets)[:captured])
        if hardware_type not in LINK_TYPES:
            packet, original = packet[network:], original - network
        elif status & VLAN_VALID and captured >= VLAN_TAG_AT:
            tag_type = tag_type if status & VLAN_TYPE_VALID else DEFAULT_VLAN_TYPE
            packet = packet[:VLAN_TAG_AT] + struct.pack(">HH", tag_type, tag) + packet[VLAN_TAG_AT:]
            original += VLAN_TAG_OCTETS
        packet = packet[: self.settings.snap_length]
        return packet_block(number, seconds * 1_000_000_000 + nanoseconds, packet, original), len(packet)

    def _index(self, name: str) -> int:
        index = self._indexes.get(name)
        if index is None:
            try:
                index = socket.if_nametoindex(name)
            except OSError:  # the interface was removed, but its packets are still queued
                index = 0
            self._indexes[name] = index
        return index
