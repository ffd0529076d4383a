"""IP and TCP headers for octets whose own nobody saw: what applications said becomes packets (RFC 791, 8200, 9293)."""

from __future__ import annotations

from ipaddress import ip_address
from struct import Struct
from typing import Self

import numpy as np

from zmtpscope.capture.decoder import TCP
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
"""Fewer octets are not worth columns."""

TIME_TO_LIVE = 64
DO_NOT_FRAGMENT = 0x4000
WINDOW = 0xFFFF
SYN_OPTIONS = Struct(">BBHBB3B3x").pack(2, 4, LARGEST_PAYLOAD, 4, 2, 3, 3, 14)
"""The largest segment, what Wireshark misses else (selective acknowledgments), and a window of 1 GiB (RFC 7323), which
nothing that is sent fills."""

_headers4 = Struct(">BBHHHBBH8sHHIIBBHHH").pack
_headers6 = Struct(">IHBB32sHHIIBBHHH").pack


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
        self._addresses = hosts[0].packed + hosts[1].packed
        self._ports = source[1], target[1]
        self._sum = word_sum(self._addresses)
        """Of what checksums have in common."""

    @classmethod
    def pair(cls, one: Address, other: Address, sequence: int) -> tuple[Self, Self]:
        """Both directions between two sockets."""
        return cls(one, other, sequence), cls(other, one, sequence)

    def segment(self, flags: int, reverse: Direction, payload: bytes | memoryview = b"") -> bytes:
        """The next packet, which acknowledges all of `reverse` where it has ACK."""
        options = SYN_OPTIONS if flags & SYN else b""
        acknowledgment = reverse.next if flags & ACK else 0
        size = 20 + len(options)
        length = size + len(payload)
        offset = size << 2
        fields = sum(self._ports) + self.next + acknowledgment + (offset << 8 | flags) + WINDOW + TCP + length
        checksum = -(self._sum + fields + word_sum(options) + word_sum(payload)) % CHECKSUM_MODULUS
        tcp = (*self._ports, self.next, acknowledgment, offset, flags, WINDOW, checksum, 0)
        if self._is_ipv4:
            total = 20 + length
            fields = 0x4500 + total + DO_NOT_FRAGMENT + (TIME_TO_LIVE << 8 | TCP)
            checksum = -(self._sum + fields) % CHECKSUM_MODULUS
            ip = (0x45, 0, total, 0, DO_NOT_FRAGMENT, TIME_TO_LIVE, TCP, checksum, self._addresses)
            headers = _headers4(*ip, *tcp)
        else:
            headers = _headers6(6 << 28, length, TCP, TIME_TO_LIVE, self._addresses, *tcp)
        self.next = (self.next + len(payload) + bool(flags & (SYN | FIN))) % MODULUS
        return b"".join((headers, options, payload))

    def data(self, octets: bytes, reverse: Direction) -> list[bytes]:
        """The packets that carry so many octets, the last of them pushed."""
        view = memoryview(octets)
        starts = range(0, len(octets), LARGEST_PAYLOAD)
        return [
            self.segment(ACK | PSH if start == starts[-1] else ACK, reverse, view[start : start + LARGEST_PAYLOAD])
            for start in starts
        ]


def word_sum(octets: bytes | memoryview) -> int:
    """A number with the same remainder as the sum of the 16-bit words, a zero octet behind an odd one.

    As one large number they take 2 ns an octet, as columns 0.1 ns and 2 us once.
    """
    if len(octets) < FEW:
        return int.from_bytes(octets) << 8 * (len(octets) & 1)
    whole = len(octets) & ~3
    rest = bytes(octets[whole:]).ljust(4, b"\0")
    return int(np.frombuffer(octets[:whole], ">u4").sum(dtype=np.uint64)) + int.from_bytes(rest)
