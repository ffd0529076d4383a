"""What applications said becomes packets, the headers made by dpkt (RFC 791, 8200, 9293).

dpkt is loaded here and nowhere else: it takes as long as reading a small capture, and only who records needs it.
"""

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
"""An IP address (a scope behind % is left out) and a port; a longer tuple, as sockets have it, will do."""

LARGEST_PACKET = 65_535
"""Octets, with all headers: what the length of IPv4 can say, and what tools expect of a packet at most."""
LARGEST_PAYLOAD = LARGEST_PACKET - 60
"""For IPv6 and IPv4 alike."""

MODULUS = 1 << 32
CHECKSUM_MODULUS = 0xFFFF
"""The ones' complement sum of 16-bit words is their sum modulo this (RFC 1071), and so is that of words of 32 bits."""

FEW = 1000
"""Octets that dpkt sums up itself. It takes 11 ns for each, which is 750 us for the largest packet; columns take 20."""

TIME_TO_LIVE = 64
WINDOW = 0xFFFF
SYN_OPTIONS = Struct(">BBHBB3B3x").pack(2, 4, LARGEST_PAYLOAD, 4, 2, 3, 3, 14)
"""The largest segment, what Wireshark misses else (selective acknowledgments), and a window of 1 GiB (RFC 7323), which
nothing that is sent fills."""
WORDS_OF_HEADER = 5
"""Of 32 bits, in a TCP header without options."""


class Direction:
    """The packets from one socket to another. `next` is the sequence number of the next octet.

    `sequence` is that of the SYN. Raises `ValueError` where an address is none, or not of the family of the other.
    """

    def __init__(self, source: Address, target: Address, sequence: int) -> None:
        hosts = ip_address(source[0]), ip_address(target[0])
        if hosts[0].version != hosts[1].version:
            raise ValueError(f"no connection leads from {source[0]} to {target[0]}")
        self.next = sequence
        self._is_ipv4 = hosts[0].version == 4
        self._tcp = TCP(sport=source[1], dport=target[1], win=WINDOW)
        """Of one packet after the other: making it anew would take as long as all the rest."""
        ends = {"src": hosts[0].packed, "dst": hosts[1].packed}
        if self._is_ipv4:
            self._ip = IP(**ends, df=1, ttl=TIME_TO_LIVE, p=IP_PROTO_TCP, data=self._tcp)
        else:
            self._ip = IP6(**ends, hlim=TIME_TO_LIVE, nxt=IP_PROTO_TCP, data=self._tcp)

    @classmethod
    def pair(cls, one: Address, other: Address, sequence: int) -> tuple[Self, Self]:
        """Both directions between two sockets."""
        return cls(one, other, sequence), cls(other, one, sequence)

    def segment(self, flags: int, reverse: Direction, payload: bytes | memoryview = b"") -> bytes:
        """The next packet, which acknowledges all of `reverse` where it has ACK."""
        ip, tcp = self._ip, self._tcp
        tcp.seq = self.next
        tcp.ack = reverse.next if flags & ACK else 0
        tcp.flags = flags
        tcp.opts = SYN_OPTIONS if flags & SYN else b""
        tcp.off = WORDS_OF_HEADER + len(tcp.opts) // 4
        tcp.data = payload
        tcp.sum = 0  # dpkt makes what is 0
        if len(payload) >= FEW:
            tcp.sum = self._checksum()
        if self._is_ipv4:
            ip.sum = 0
        else:
            ip.plen = len(tcp)
        packet = bytes(ip)
        tcp.data = b""  # the octets of others are not held on to
        self.next = (self.next + len(payload) + bool(flags & (SYN | FIN))) % MODULUS
        return packet

    def data(self, octets: bytes, reverse: Direction) -> list[bytes]:
        """The packets that carry so many octets, the last of them pushed."""
        view = memoryview(octets)
        starts = range(0, len(octets), LARGEST_PAYLOAD)
        return [
            self.segment(ACK | PSH if start == starts[-1] else ACK, reverse, view[start : start + LARGEST_PAYLOAD])
            for start in starts
        ]

    def _checksum(self) -> int:
        """That of a TCP segment and its pseudo header, as long as it has none (RFC 9293, 3.1)."""
        ip, tcp = self._ip, self._tcp
        header = tcp.pack_hdr() + tcp.opts
        total: int = word_sum(ip.src + ip.dst) + IP_PROTO_TCP + len(tcp) + word_sum(header) + word_sum(tcp.data)
        return -total % CHECKSUM_MODULUS


def word_sum(octets: bytes | memoryview) -> int:
    """A number with the same remainder as the sum of the 16-bit words, a zero octet behind an odd one."""
    whole = len(octets) & ~3
    rest = bytes(octets[whole:]).ljust(4, b"\0")
    return int(np.frombuffer(octets[:whole], ">u4").sum(dtype=np.uint64)) + int.from_bytes(rest)
