"""Lists the network interfaces of the machine, or of the current network namespace, by netlink (rtnetlink(7)).

/sys/class/net would still list the namespace that it was mounted in.
"""

from __future__ import annotations

import difflib
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct

ETHERNET, RAW_IP, CISCO_HDLC = 1, 101, 104
IEEE802_11, IEEE802_11_PRISM, IEEE802_11_RADIOTAP = 105, 119, 127
"""LINKTYPE values of WLAN (https://www.tcpdump.org/linktypes.html)."""

LINK_TYPES = {
    1: ETHERNET,
    23: ETHERNET,  # Metricom
    772: ETHERNET,  # loopback: an Ethernet header of zeros
    # packets of the following types begin with the IP header
    256: RAW_IP,  # SLIP, also compressed and for IPv6
    257: RAW_IP,
    258: RAW_IP,
    259: RAW_IP,
    512: RAW_IP,  # PPP: the kernel removes its header
    518: RAW_IP,  # raw HDLC
    519: RAW_IP,
    768: RAW_IP,  # IP in IP
    769: RAW_IP,  # IP in IPv6
    776: RAW_IP,  # IPv6 in IP
    778: RAW_IP,  # GRE; after the outer IP header if the tunnel has many endpoints
    823: RAW_IP,  # GRE over IPv6
    65534: RAW_IP,  # none: tun, WireGuard
    513: CISCO_HDLC,
    801: IEEE802_11,
    802: IEEE802_11_PRISM,
    803: IEEE802_11_RADIOTAP,
}
"""LINKTYPE of packets of a SOCK_RAW packet socket, by hardware type (ARPHRD of <linux/if_arp.h>)."""

ANY = "any"
"""The name of all interfaces together, including future ones."""

IFF_UP, IFF_LOOPBACK, IFF_RUNNING = 0x1, 0x8, 0x40  # netdevice(7)


@dataclass(frozen=True)
class Interface:
    """A network interface, or `any` (index 0, hardware type 0).

    If `link_type` is None, packets are captured from the IP header on (SOCK_DGRAM). `is_running`: the interface is up
    and has a carrier. `description` is its kind and the administrator's alias, often empty.
    """

    name: str
    index: int
    hardware_type: int
    link_type: int | None
    is_up: bool
    is_running: bool
    is_loopback: bool
    addresses: tuple[str, ...] = ()
    description: str = ""


class UnknownInterface(Exception):
    """No interface has the requested name; the text lists the existing ones."""


def interfaces() -> list[Interface]:
    """Return all interfaces and `any`, most useful first as in `tcpdump -D`.

    Raises `OSError` if the kernel does not answer. Without netlink there are only names and numbers, and no `any`.
    """
    if sys.platform != "linux":
        return [Interface(name, index, 0, None, True, True, False) for index, name in socket.if_nameindex()]
    found = [*_linux_interfaces(), Interface(ANY, 0, 0, None, True, True, False, description="all of them together")]
    return sorted(found, key=_usefulness)


def find_interface(name: str, known: Sequence[Interface]) -> Interface:
    """Find an interface by name, or by number in the list (from 1). Raises `UnknownInterface`."""
    for each in known:
        if each.name == name:
            return each
    if name.isascii() and name.isdecimal() and 1 <= int(name[:9]) <= len(known):
        return known[int(name) - 1]
    names = [each.name for each in known]
    folded = {each.casefold(): each for each in names}
    nearest = difflib.get_close_matches(name.casefold(), folded, 1)
    there = f"did you mean {folded[nearest[0]]}? Use one of" if nearest else "use one of"
    raise UnknownInterface(f"no interface named {name}; {there} {', '.join(names)}")


def _usefulness(interface: Interface) -> tuple[bool, bool, bool, bool]:
    """Return a sort key in the order of libpcap: running, up and external interfaces first. `any` is the last of the
    external ones."""
    return (
        not interface.is_running,
        not interface.is_up,
        interface.is_loopback,
        interface.name == ANY,
    )


# <linux/netlink.h>, <linux/rtnetlink.h>, <linux/if_link.h>, <linux/if_addr.h>; all in the machine's byte order
HEADER = Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence number, port
LINK = Struct("=BxHiII")  # ifinfomsg: family, hardware type, index, flags, change
ADDRESS = Struct("=BBBBI")  # ifaddrmsg: family, prefix length, flags, scope, index
ATTRIBUTE = Struct("=HH")  # rtattr: length, type
ERROR_NUMBER = Struct("=i")

RTM_NEWLINK, RTM_GETLINK, RTM_NEWADDR, RTM_GETADDR = 16, 18, 20, 22
NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST_DUMP = 0x1 | 0x300
IFLA_IFNAME, IFLA_LINKINFO, IFLA_IFALIAS, INFO_KIND = 3, 18, 20, 1
IFA_ADDRESS, IFA_LOCAL = 1, 2
LARGEST_ANSWER = 1 << 16
"""Octets for one datagram of a dump; the kernel sends at most 32 KiB."""


def _linux_interfaces() -> Iterator[Interface]:
    addresses: dict[int, list[str]] = {}
    for body in _dump(RTM_GETADDR, RTM_NEWADDR):
        family, _, _, _, index = ADDRESS.unpack_from(body)
        attributes = _attributes(body[ADDRESS.size :])
        # on a point-to-point link IFA_ADDRESS is the remote end, and IFA_LOCAL ours; IPv6 has only IFA_ADDRESS
        packed = attributes.get(IFA_LOCAL) or attributes.get(IFA_ADDRESS)
        if packed is not None and family in (socket.AF_INET, socket.AF_INET6):
            addresses.setdefault(index, []).append(socket.inet_ntop(family, packed))
    for body in _dump(RTM_GETLINK, RTM_NEWLINK):
        _, hardware_type, index, flags, _ = LINK.unpack_from(body)
        attributes = _attributes(body[LINK.size :])
        kind = _attributes(attributes.get(IFLA_LINKINFO, b"")).get(INFO_KIND, b"")
        words = [_text(kind), _text(attributes.get(IFLA_IFALIAS, b""))]
        yield Interface(
            _text(attributes[IFLA_IFNAME]),
            index,
            hardware_type,
            LINK_TYPES.get(hardware_type),
            bool(flags & IFF_UP),
            bool(flags & IFF_RUNNING),
            bool(flags & IFF_LOOPBACK),
            tuple(addresses.get(index, ())),
            ", ".join(filter(None, words)),
        )


def _dump(request: int, answer: int) -> Iterator[bytes]:
    """Send a netlink request, and yield the bodies of all messages of type `answer` that the kernel returns."""
    body = LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.sendto(HEADER.pack(HEADER.size + len(body), request, REQUEST_DUMP, 1, 0) + body, (0, 0))
        while True:
            octets = netlink.recv(LARGEST_ANSWER)
            at = 0
            while at < len(octets):
                length, kind, _, _, _ = HEADER.unpack_from(octets, at)
                message = octets[at + HEADER.size : at + length]
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    number = -ERROR_NUMBER.unpack_from(message)[0]
                    raise OSError(number, "cannot list the network interfaces")
                if kind == answer:
                    yield message
                at += length + (-length & 3)


def _attributes(octets: bytes) -> dict[int, bytes]:
    found = {}
    at = 0
    while at + ATTRIBUTE.size <= len(octets):
        length, kind = ATTRIBUTE.unpack_from(octets, at)
        if length < ATTRIBUTE.size:
            break
        found[kind & 0x3FFF] = octets[at + ATTRIBUTE.size : at + length]  # the two highest bits are flags
        at += length + (-length & 3)
    return found


def _text(octets: bytes) -> str:
    """Decode an interface name that ends with a zero octet. It may contain any octets but zero and `/`."""
    return octets.rstrip(b"\0").decode(errors="surrogateescape")
