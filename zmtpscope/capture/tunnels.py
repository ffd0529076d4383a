"""Headers between the link layer and IP: tags, labels and tunnels.

Each function takes the octets of a packet and the start of its header `at`; it returns the EtherType and the start of
the next header. It raises `Undecodable`, or `IndexError` or `struct.error` if the packet is too short.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from zmtpscope.capture.errors import Undecodable
from zmtpscope.capture.link import IPV4, IPV6, PPP_PROTOCOL, PPPOE_PROTOCOL, VLAN_TAGS

MPLS, MPLS_MULTICAST, BRIDGED = 0x8847, 0x8848, 0x6558
ERSPAN, ERSPAN_3 = 0x88BE, 0x22EB
PPP_PROTOCOLS = {0x21: IPV4, 0x57: IPV6, 0x281: MPLS}
LARGEST_LENGTH = 1500
"""Type fields up to this are the length of an 802.3 frame."""
SNAP = b"\xaa\xaa\x03\0\0\0"

_short = Struct(">H").unpack_from


def ethernet(octets: bytes, at: int) -> tuple[int, int]:
    """Skip the Ethernet header of a frame inside a tunnel; return EtherType and start of the network layer."""
    return _short(octets, at + 12)[0], at + 14


def snap(octets: bytes, at: int) -> tuple[int, int]:
    """Skip LLC and SNAP in an 802.3 frame, followed by an EtherType (RFC 1042)."""
    if octets[at : at + 6] != SNAP:
        raise Undecodable("not IP")
    return _short(octets, at + 6)[0], at + 8


def vlan(octets: bytes, at: int) -> tuple[int, int]:
    """Skip one tag of 802.1Q or 802.1ad."""
    return _short(octets, at + 2)[0], at + 4


def mpls(octets: bytes, at: int) -> tuple[int, int]:
    """Skip a stack of MPLS labels (RFC 3032).

    The first four bits after it show the type of the content (RFC 4385, 4928).
    """
    while not octets[at + 2] & 1:
        at += 4
    at += 4
    version = octets[at] >> 4
    if version == 0:
        return BRIDGED, at + 4
    return (IPV6 if version == 6 else IPV4), at


def ppp(octets: bytes, at: int) -> tuple[int, int]:
    """Skip a PPP header (RFC 1661, RFC 1662).

    It may lack address and control, and its protocol field has one octet or two.
    """
    if octets[at : at + 2] == b"\xff\x03":
        at += 2
    if octets[at] & 1:
        return PPP_PROTOCOLS.get(octets[at], 0), at + 1
    return PPP_PROTOCOLS.get(_short(octets, at)[0], 0), at + 2


def pppoe(octets: bytes, at: int) -> tuple[int, int]:
    """Skip the header of a PPPoE frame of the session stage (RFC 2516)."""
    if octets[at + 1] != 0:
        raise Undecodable("not IP")
    return PPP_PROTOCOL, at + 6


def gre(octets: bytes, at: int) -> tuple[int, int]:
    """Skip a header of GRE (RFC 2784, 2890), of the GRE of PPTP (RFC 2637), or of ERSPAN inside GRE."""
    flags, second, protocol = octets[at], octets[at + 1], _short(octets, at + 2)[0]
    version = second & 7
    if version > 1 or flags & 0x40:
        raise Undecodable("tunnel not known")
    sequence = flags & 0x10
    at += 4 + (4 if flags & 0x80 else 0) + (4 if flags & 0x20 else 0) + (4 if sequence else 0)
    if version == 1:
        return PPP_PROTOCOL, at + (4 if second & 0x80 else 0)
    if protocol == ERSPAN:
        return BRIDGED, at + (8 if sequence else 0)
    if protocol == ERSPAN_3:
        return BRIDGED, at + 12
    return protocol, at


def vxlan(octets: bytes, at: int) -> tuple[int, int] | None:
    """Skip a VXLAN header (RFC 7348), also with a group policy; return None if its network identifier is not valid."""
    return (BRIDGED, at + 8) if octets[at] & 0x08 else None


def geneve(octets: bytes, at: int) -> tuple[int, int] | None:
    """Skip a Geneve header (RFC 8926); return None if it is not Geneve."""
    head = octets[at : at + 4]
    if len(head) < 4 or head[0] >> 6:
        return None
    protocol = _short(head, 2)[0]
    if protocol not in (BRIDGED, IPV4, IPV6):
        return None
    return protocol, at + 8 + (head[0] & 0x3F) * 4


BELOW_IP: dict[int, Callable[[bytes, int], tuple[int, int]]] = {
    **dict.fromkeys(VLAN_TAGS, vlan),
    MPLS: mpls,
    MPLS_MULTICAST: mpls,
    PPP_PROTOCOL: ppp,
    PPPOE_PROTOCOL: pppoe,
    BRIDGED: ethernet,
}

ON_UDP: dict[int, Callable[[bytes, int], tuple[int, int] | None]] = {4789: vxlan, 8472: vxlan, 6081: geneve}
"""Tunnels by destination port; Linux used 8472 for VXLAN before RFC 7348."""
