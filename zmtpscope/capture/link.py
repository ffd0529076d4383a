"""Link layers: where the protocol field and the IP header stand, for the header loop and for the decoder.

Numbers are LINKTYPE values (https://www.tcpdump.org/linktypes.html) with the DLT values that some systems write.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from zmtpscope.capture.undecodable import Undecodable

IPV4, IPV6 = 0x0800, 0x86DD
"""Protocols are named by their EtherType, whatever the link layer writes."""

VLAN_TAGS = frozenset((0x8100, 0x88A8, 0x9100, 0x9200))
"""802.1Q, 802.1ad, and what stood for the outer tag before it."""

IPV4_TCP = "BxHxxHxBxx12sIIBB"
"""Version and header length, total length, fragment field, protocol, addresses and ports (behind an IPv4 header of 20
octets they are one slice), sequence, acknowledgment, data offset, flags."""

IPV6_TCP = "BxxxHBx36sIIBB"
"""Version, payload length, next header, addresses and ports, sequence, acknowledgment, data offset, flags."""


class Layout(NamedTuple):
    """How the header loop reads a link layer: structs that yield the protocol field and the header fields behind it.

    `header` is the length of the link layer header; `mark4` and `mark6` are the protocol fields of IPv4 and IPv6.
    `tags` are protocol fields behind which a VLAN tag of four octets moves everything on.
    """

    header: int
    ipv4: Struct
    ipv6: Struct
    mark4: object
    mark6: object
    tags: frozenset[int]


def _layout(
    protocol: str, header: int, mark4: object = IPV4, mark6: object = IPV6, tags: frozenset[int] = frozenset()
) -> Layout:
    return Layout(header, Struct(">" + protocol + IPV4_TCP), Struct(">" + protocol + IPV6_TCP), mark4, mark6, tags)


_RAW = _layout("0s", 0, b"", b"")
"""No protocol field at all: a field of no octets has the same value always, and the IP version decides."""

ETHERNET, NULL, LOOP, SLL, SLL2 = 1, 0, 108, 113, 276
RAW_TYPES = (101, 12, 14, 228, 229)

LAYOUTS: dict[int, Layout] = {
    ETHERNET: _layout("12xH", 14, tags=VLAN_TAGS),
    NULL: _layout("I", 4, 0x02000000, 0x1E000000),  # as little-endian systems and Darwin write it
    LOOP: _layout("I", 4, 2, 24),
    SLL: _layout("14xH", 16, tags=VLAN_TAGS),
    SLL2: _layout("H18x", 20),
    **dict.fromkeys(RAW_TYPES, _RAW),
}

FAMILIES = {2: IPV4, 10: IPV6, 23: IPV6, 24: IPV6, 28: IPV6, 30: IPV6}
"""Address families of Linux, Windows, the BSDs and Darwin."""

PPP_TYPES = (9, 50)
PPPOE, CISCO_HDLC, PKTAP, NFLOG = 51, 104, 258, 239
FIXED = {ETHERNET: (12, 14), SLL: (14, 16), SLL2: (0, 20), CISCO_HDLC: (2, 4)}
"""Where the EtherType stands, and the length of the header."""

PPP_PROTOCOL, PPPOE_PROTOCOL = 0x880B, 0x8864
"""EtherTypes of PPP and of PPPoE sessions, which the tunnel table reads on."""

_short = Struct(">H").unpack_from
_long = Struct(">I").unpack_from
_little_long = Struct("<I").unpack_from
_attribute = Struct("<HH").unpack_from


def open_link(link: int, octets: bytes) -> tuple[int, int]:
    """The EtherType of a packet's payload and where it begins.

    Raises `Undecodable`, or `IndexError` or `struct.error` where the packet is too short.
    """
    if link in FIXED:
        field, header = FIXED[link]
        return _short(octets, field)[0], header
    if link in RAW_TYPES:
        return (IPV6 if octets[0] >> 4 == 6 else IPV4), 0
    if link in (NULL, LOOP):
        # DLT_NULL is in the byte order of the machine that captured, which need not be that of the file.
        family = _little_long(octets, 0)[0]
        return FAMILIES.get(family) or FAMILIES.get(_long(octets, 0)[0], 0), 4
    if link in PPP_TYPES:
        return PPP_PROTOCOL, 0
    if link == PPPOE:
        return PPPOE_PROTOCOL, 0
    if link == PKTAP:
        header, inner = _little_long(octets, 0)[0], _little_long(octets, 8)[0]
        if header < 12 or inner not in LAYOUTS:
            raise Undecodable("link header lies")
        protocol, at = open_link(inner, octets[header:])
        return protocol, header + at
    if link == NFLOG:
        return _open_nflog(octets)
    raise Undecodable(f"link type {link} is not known")


def _open_nflog(octets: bytes) -> tuple[int, int]:
    """Linux netfilter log: an address family, then attributes in host byte order; attribute 9 is the packet."""
    at = 4
    while True:
        length, kind = _attribute(octets, at)
        if kind & 0x7FFF == 9:
            return FAMILIES.get(octets[0], 0), at + 4
        if length < 4:
            raise Undecodable("link header lies")
        at += length + (-length & 3)
