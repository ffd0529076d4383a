"""Builds IP packets from the octets of a connection, with headers by dpkt (RFC 791, 8200, 9293)."""

from __future__ import annotations

from ipaddress import ip_address
from struct import Struct
from typing import Self

import numpy as np
from dpkt.ip import IP, IP_PROTO_TCP
from dpkt.ip6 import IP6
from dpkt.tcp import TCP

from zmtpscope.capture.segments import ACK, FIN, PSH, SYN

Address = tuple[str, int]
"""An IP address (a scope after % is ignored) and a port; further elements, as sockets return them, are ignored."""

LARGEST_PACKET = 65_535
"""Octets of a packet with all headers: the limit of IPv4's length field, and of other tools."""
LARGEST_PAYLOAD = LARGEST_PACKET - 60
"""Maximum payload of a segment, for both IPv6 and IPv4."""

MODULUS = 1 << 32
CHECKSUM_MODULUS = 0xFFFF
"""Modulus of a ones' complement sum of 16-bit words, also when summed as 32-bit words (RFC 1071)."""

FEW = 1000
"""Size of a payload below which dpkt sums faster, at 11 ns per octet (750 us for the largest packet, numpy: 20 us)."""

TIME_TO_LIVE = 64
WINDOW = 0xFFFF
SYN_OPTIONS = Struct(">BBHBB3B3x").pack(2, 4, LARGEST_PAYLOAD, 4, 2, 3, 3, 14)
"""Maximum segment size, selective acknowledgments (Wireshark reports them missing otherwise) and a window of 1 GiB (RFC
7323), which no recording fills."""
WORDS_OF_HEADER = 5
"""Size of a TCP header without options, in 32-bit words."""


class Direction:
    """The packets from one socket to another. `sequence` is the TCP sequence number of the SYN, `next` that of the next
    octet.

    Raises `ValueError` if an address is invalid, or if IPv4 and IPv6 are mixed.
    """

    def __init__(self, source: Address, target: Address, sequence: int) -> None:
        hosts = ip_address(source[0]), ip_address(target[0])
        if hosts[0].version != hosts[1].version:
            raise ValueError(f"no connection leads from {source[0]} to {target[0]}")
        self.next = sequence
        self._is_ipv4 = hosts[0].version == 4
        self._tcp = TCP(sport=source[1], dport=target[1], win=WINDOW)
        """A header reused for each packet: creating one takes as long as all other work on a packet."""
        ends = {"src": hosts[0].packed, "dst": hosts[1].packed}
        if self._is_ipv4:
            self._ip = IP(**ends, df=1, ttl=TIME_TO_LIVE, p=IP_PROTO_TCP, data=self._tcp)
        else:
            self._ip = IP6(**ends, hlim=TIME_TO_LIVE, nxt=IP_PROTO_TCP, data=self._tcp)

    @classmethod
    def pair(cls, one: Address, other: Address, sequence: int) -> tuple[Self, Self]:
        return cls(one, other, sequence), cls(other, one, sequence)

    def segment(self, flags: int, reverse: Direction, payload: bytes | memoryview = b"") -> bytes:
        """Return the next packet. With the ACK flag it acknowledges everything sent in `reverse`."""
        ip, tcp = self._ip, self._tcp
        tcp.seq = self.next
        tcp.ack = reverse.next if flags & ACK else 0
        tcp.flags = flags
        tcp.opts = SYN_OPTIONS if flags & SYN else b""
        tcp.off = WORDS_OF_HEADER + len(tcp.opts) // 4
        tcp.data = payload
        tcp.sum = 0  # dpkt computes a checksum that is 0
        if len(payload) >= FEW:
            tcp.sum = self._checksum()
        if self._is_ipv4:
            ip.sum = 0
        else:
            ip.plen = len(tcp)
        packet = bytes(ip)
        tcp.data = b""  # do not keep a reference to the caller's octets
        self.next = (self.next + len(payload) + bool(flags & (SYN | FIN))) % MODULUS
        return packet

    def data(self, octets: bytes, reverse: Direction) -> list[bytes]:
        """Return the packets that carry `octets`; the last one has PSH set."""
        view = memoryview(octets)
        starts = range(0, len(octets), LARGEST_PAYLOAD)
        return [
            self.segment(ACK | PSH if start == starts[-1] else ACK, reverse, view[start : start + LARGEST_PAYLOAD])
            for start in starts
        ]

    def _checksum(self) -> int:
        """Compute the checksum of the TCP segment and its pseudo header (RFC 9293, 3.1).

        The checksum field must be 0.
        """
        ip, tcp = self._ip, self._tcp
        header = tcp.pack_hdr() + tcp.opts
        total: int = word_sum(ip.src + ip.dst) + IP_PROTO_TCP + len(tcp) + word_sum(header) + word_sum(tcp.data)
        return -total % CHECKSUM_MODULUS


def word_sum(octets: bytes | memoryview) -> int:
    """Return a number congruent to the sum of the 16-bit words modulo `CHECKSUM_MODULUS`; an odd last octet is padded
    with zero."""
    whole = len(octets) & ~3
    rest = bytes(octets[whole:]).ljust(4, b"\0")
    return int(np.frombuffer(octets[:whole], ">u4").sum(dtype=np.uint64)) + int.from_bytes(rest)
