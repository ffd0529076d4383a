"""Link layers: find the EtherType and the start of the next header.

Numbers are LINKTYPE values (https://www.tcpdump.org/linktypes.html), and DLT values that some systems write.
"""

from __future__ import annotations

from struct import Struct

from zmtpscope.capture.errors import Undecodable

IPV4, IPV6 = 0x0800, 0x86DD
"""EtherTypes, used as protocol numbers."""

VLAN_TAGS = (0x8100, 0x88A8, 0x9100, 0x9200)
"""802.1Q, 802.1ad, and earlier types of the outer tag."""

ETHERNET, NULL, LOOP, SLL, SLL2 = 1, 0, 108, 113, 276
RAW_IP = 101
RAW_TYPES = (RAW_IP, 12, 14, 228, 229)
INSIDE_PKTAP = (ETHERNET, NULL, LOOP, SLL, SLL2, *RAW_TYPES)

FAMILIES = {2: IPV4, 10: IPV6, 23: IPV6, 24: IPV6, 28: IPV6, 30: IPV6}
"""Address families of Linux, Windows, the BSDs and Darwin."""

PPP_TYPES = (9, 50)
PPPOE, CISCO_HDLC, PKTAP, NFLOG = 51, 104, 258, 239
FIXED = {ETHERNET: (12, 14), SLL: (14, 16), SLL2: (0, 20), CISCO_HDLC: (2, 4)}
"""Offset of the EtherType, and length of the header, by link type."""

PPP_PROTOCOL, PPPOE_PROTOCOL = 0x880B, 0x8864
"""Protocols of PPP and PPPoE sessions, which `tunnels.py` reads."""

_short = Struct(">H").unpack_from
_long = Struct(">I").unpack_from
_little_long = Struct("<I").unpack_from
_attribute = Struct("<HH").unpack_from


def open_link(link: int, octets: bytes) -> tuple[int, int]:
    """Return the EtherType and the start of a packet's payload; `link` is its link type.

    Raises `Undecodable`, or `IndexError` or `struct.error` if the packet is too short.
    """
    if link in FIXED:
        field, header = FIXED[link]
        return _short(octets, field)[0], header
    if link in RAW_TYPES:
        return (IPV6 if octets[0] >> 4 == 6 else IPV4), 0
    if link in (NULL, LOOP):
        # DLT_NULL uses the byte order of the capturing machine, which may differ from the file's
        family = _little_long(octets, 0)[0]
        return FAMILIES.get(family) or FAMILIES.get(_long(octets, 0)[0], 0), 4
    if link in PPP_TYPES:
        return PPP_PROTOCOL, 0
    if link == PPPOE:
        return PPPOE_PROTOCOL, 0
    if link == PKTAP:
        header, inner = _little_long(octets, 0)[0], _little_long(octets, 8)[0]
        if header < 12 or inner not in INSIDE_PKTAP:
            raise Undecodable("link header lies")
        protocol, at = open_link(inner, octets[header:])
        return protocol, header + at
    if link == NFLOG:
        return _open_nflog(octets)
    raise Undecodable(f"unknown link type {link}")


def _open_nflog(octets: bytes) -> tuple[int, int]:
    """Return the EtherType and the start of the packet in a Linux netfilter log.

    The log has an address family, then attributes in host byte order; attribute 9 is the packet.
    """
    at = 4
    while True:
        length, kind = _attribute(octets, at)
        if kind & 0x7FFF == 9:
            return FAMILIES.get(octets[0], 0), at + 4
        if length < 4:
            raise Undecodable("link header lies")
        at += length + (-length & 3)
