from __future__ import annotations

from struct import Struct, error
from typing import NamedTuple

from zmtpscope.capture.errors import Undecodable
from zmtpscope.capture.fragments import Fragments
from zmtpscope.capture.link import IPV4, IPV6, open_link
from zmtpscope.capture.segments import (
    ACK,
    CLOSED_WINDOW,
    CUT,
    NO_HOST,
    NO_PORTS,
    PROHIBITED,
    RST,
    SYN,
    UNREACHABLE,
    Datagram,
)
from zmtpscope.capture.statistics import CaptureStatistics
from zmtpscope.capture.tunnels import BELOW_IP, LARGEST_LENGTH, MPLS, ON_UDP, gre, snap

TCP, UDP = 6, 17
IN_IP = {4: IPV4, 41: IPV6, 137: MPLS}
"""IP protocols of tunnels without a header of their own."""
GRE = 47
ICMP, IGMP, ICMPV6 = 1, 2, 58
REASONS = {
    (ICMP, 3): {0: NO_HOST, 1: NO_HOST, 3: PROHIBITED, 9: PROHIBITED, 10: PROHIBITED, 13: PROHIBITED},
    (ICMP, 11): {0: NO_HOST},
    (ICMPV6, 1): {0: NO_HOST, 1: PROHIBITED, 3: NO_HOST, 4: PROHIBITED, 5: PROHIBITED, 6: PROHIBITED},
    (ICMPV6, 3): {0: NO_HOST},
}
"""Reasons of Destination Unreachable and Time Exceeded, by protocol and type, then code. A Port Unreachable for TCP
comes from a firewall: a host would send RST. Routers that send packets in a circle exceed their hop limit."""
MEMBERSHIP = {(IGMP, type_) for type_ in (b"\x12", b"\x16", b"\x17", b"\x22")}
MEMBERSHIP |= {(ICMPV6, type_) for type_ in (b"\x83", b"\x84", b"\x8f")}
"""Messages that join or leave multicast groups: IGMPv1 to v3 (RFC 1112, 2236, 3376), MLDv1 and v2 (RFC 2710, 3810)."""
ICMP_HEADER = 8
"""Octets before the quoted packet of an ICMP error."""
FRAGMENT, AUTHENTICATION = 44, 51
EXTENSIONS = (0, 43, 60, 135, 139, 140)
"""IPv6 extension headers of the common format (RFC 6564): next header, length in 8 octets."""
PORTS = 4
"""Octets of the ports at the start of a TCP segment or UDP datagram."""
WINDOW_FLAGS = SYN | RST | ACK
"""A window counts if ACK is the only one of these that is set."""
WINDOW_AT = 14
DEEPEST = 16
"""Maximum number of nested headers before TCP or UDP; more are invalid or an attack."""

_ipv4 = Struct(">BxHHHBBxx8s").unpack_from
_ipv6 = Struct(">BxxxHBB32s").unpack_from
_fragment = Struct(">BxHI").unpack_from
_tcp = Struct(">4sIIBB").unpack_from
_quoted = Struct(">4sI").unpack_from
_udp = Struct(">HHH").unpack_from


class Segment(NamedTuple):
    """A TCP segment; fields as in `SegmentBlock`.

    `cut`: how many payload octets were announced but not captured. `hops`: the remaining TTL or hop limit of a SYN or
    RST, otherwise 0.
    """

    key: bytes
    sequence: int
    acknowledgment: int
    flags: int
    start: int
    stop: int
    cut: int
    hops: int


class Fragment(NamedTuple):
    """A fragment of an IP datagram, for callers that reassemble datagrams themselves.

    - `row`: index of its packet in the block
    - `key`: addresses, protocol and identification
    - `begins`: the first octets of the datagram, if this fragment has them
    - `offset`, `size`: which octets of the datagram it contains
    """

    row: int
    key: bytes
    begins: bytes | None
    is_last: bool
    offset: int
    size: int
    time: int


class Decoder:
    """Decodes one packet at a time; keeps IP fragments from block to block.

    `fragments_apart`: the fragments of the current block, if the caller reassembles them; otherwise None.
    """

    def __init__(self, statistics: CaptureStatistics, *, put_together: bool = True) -> None:
        self.statistics = statistics
        self.fragments = Fragments()
        self.puts_together = put_together
        self.begin(b"")

    def begin(self, data: bytes) -> None:
        self.data = data
        self.fragments_apart: list[Fragment] = []
        self.behind = bytearray()
        """Reassembled datagrams, appended to the block at its end."""

    def whole_data(self) -> bytes:
        """Return the octets to which the decoded segments and datagrams refer, at the end of a block."""
        return self.data + self.behind if self.behind else self.data

    def packet(
        self, row: int, link: int, start: int, stop: int, missing: int, packet: int, time: int
    ) -> Segment | Datagram | None:
        """Decode the packet `data[start:stop]`; `missing` further octets of it were not captured. Never raises.

        `row` is its index in the block, `link` its link type, `packet` its reference, `time` its time in ns.
        """
        self.row, self.base, self.missing, self.number, self.time = row, start, missing, packet, time
        # a copy: an invalid length must not reach into the next packet
        octets = self.data[start:stop]
        try:
            protocol, at = open_link(link, octets)
            return self._network(protocol, octets, at)
        except Undecodable as reason:
            self.statistics.count(str(reason))
        except (IndexError, error):
            self.statistics.count("headers cut short")
        return None

    def _network(self, protocol: int, octets: bytes, at: int) -> Segment | Datagram:
        """Decode the headers from index `at` on, down to TCP or UDP.

        `protocol` is the EtherType of the first header.
        """
        for _ in range(DEEPEST):
            if protocol in (IPV4, IPV6):
                read = self._read_ipv4 if protocol == IPV4 else self._read_ipv6
                inner, addresses, octets, at, end = read(octets, at)
                if inner == TCP:
                    return self._tcp(addresses, octets, at, end)
                if inner == UDP:
                    tunnel = ON_UDP.get(_udp(octets, at)[1])
                    inside = tunnel(octets, at + 8) if tunnel else None
                    if inside is None:
                        return self._udp(addresses, octets, at, end)
                    protocol, at = inside
                elif inner == GRE:
                    protocol, at = gre(octets, at)
                elif (inner, octets[at : at + 1]) in MEMBERSHIP:
                    return self._membership(addresses, octets, at, end)
                elif inner in (ICMP, ICMPV6):
                    return self._unreachable(inner, octets, at)
                elif inner in IN_IP:
                    protocol = IN_IP[inner]
                else:
                    raise Undecodable("other IP protocol")
            elif protocol in BELOW_IP:
                protocol, at = BELOW_IP[protocol](octets, at)
            elif 0 < protocol <= LARGEST_LENGTH:
                protocol, at = snap(octets, at)
            else:
                raise Undecodable("not IP")
        raise Undecodable("headers nested too deep")

    def _read_ipv4(self, octets: bytes, at: int) -> tuple[int, bytes, bytes, int, int]:
        """Parse the IPv4 header at index `at`; return (protocol, addresses, octets, payload start, payload end).

        The payload end is the announced one, and may be beyond the captured octets.
        """
        version, total, identification, fragment, self.hops, protocol, addresses = _ipv4(octets, at)
        header = (version & 0x0F) * 4
        # segmentation offload leaves 0 for a length above 16 bits: the packet extends to its end
        end = at + total if total else len(octets) + self.missing
        at += header
        if version >> 4 != 4 or header < 20 or at > end:
            raise Undecodable("IP header lies")
        if fragment & 0x3FFF:
            key = addresses + bytes((protocol,)) + identification.to_bytes(2, "big")
            octets, at, end = self._reassemble(key, (fragment & 0x1FFF) * 8, bool(fragment & 0x2000), octets, at, end)
        elif protocol == AUTHENTICATION:
            protocol, at = octets[at], at + (octets[at + 1] + 2) * 4
        return protocol, addresses, octets, at, end

    def _read_ipv6(self, octets: bytes, at: int) -> tuple[int, bytes, bytes, int, int]:
        """Parse the IPv6 header at index `at`, with extensions.

        Returns (protocol, addresses, octets, payload start, payload end).
        """
        version, length, following, self.hops, addresses = _ipv6(octets, at)
        if version >> 4 != 6:
            raise Undecodable("IP header lies")
        at += 40
        # 0 is a jumbogram (RFC 2675) or segmentation offload
        end = at + length if length else len(octets) + self.missing
        for _ in range(DEEPEST):
            if following in EXTENSIONS:
                following, at = octets[at], at + (octets[at + 1] + 1) * 8
            elif following == AUTHENTICATION:
                following, at = octets[at], at + (octets[at + 1] + 2) * 4
            elif following == FRAGMENT:
                following, fragment, identification = _fragment(octets, at)
                at += 8
                if fragment & 0xFFF9:
                    key = addresses + bytes((following,)) + identification.to_bytes(4, "big")
                    octets, at, end = self._reassemble(key, fragment & 0xFFF8, bool(fragment & 1), octets, at, end)
            else:
                break
        if at > end:
            raise Undecodable("IP header lies")
        return following, addresses, octets, at, end

    def _reassemble(
        self, key: bytes, offset: int, more: bool, octets: bytes, at: int, end: int
    ) -> tuple[bytes, int, int]:
        """Add the IP fragment `octets[at:end]`; return octets that contain the complete payload, its start and its end.

        `offset` is that of the fragment in the datagram; `more`: further fragments follow. Raises `Undecodable` if
        fragments are missing.
        """
        if at >= end or (more and (end - at) % 8):
            raise Undecodable("IP header lies")
        if not self.puts_together:
            begins = None if offset else octets[at : at + PORTS]
            self.fragments_apart.append(Fragment(self.row, key, begins, not more, offset, end - at, self.time))
            raise Undecodable("IP fragment")
        whole = self.fragments.add(key, offset, more, octets[at:end], end - at, self.time)
        if whole is None:
            raise Undecodable("IP fragment")
        joined, self.missing = whole
        self.base = len(self.data) + len(self.behind)
        self.behind += joined
        return joined, 0, len(joined) + self.missing

    def _tcp(self, addresses: bytes, octets: bytes, at: int, end: int) -> Segment:
        ports, sequence, acknowledgment, offset, flags = _tcp(octets, at)
        start = at + (offset >> 4) * 4
        if offset < 0x50 or start > end:
            raise Undecodable("TCP header lies")
        if flags & WINDOW_FLAGS == ACK and octets[at + WINDOW_AT : at + WINDOW_AT + 2] == b"\0\0":
            flags |= CLOSED_WINDOW
        stop = min(end, len(octets))
        cut = max(0, end - max(start, stop))
        place = self.base + min(start, stop), self.base + stop
        hops = self.hops if flags & (SYN | RST) else 0
        flags |= CUT if cut else 0
        return Segment(addresses + ports, sequence, acknowledgment, flags, *place, cut, hops)

    def _unreachable(self, protocol: int, octets: bytes, at: int) -> Segment:
        """Return an ICMP error about a TCP segment as a segment, in the direction of the error.

        The ICMP header is at index `at`; `protocol` is ICMP or ICMPv6.
        """
        reason = REASONS.get((protocol, octets[at]), {}).get(octets[at + 1])
        quoted = at + ICMP_HEADER
        if reason is None or quoted >= len(octets):
            raise Undecodable("other IP protocol")
        if protocol == ICMP:
            size, inner, addresses = (octets[quoted] & 0x0F) * 4, octets[quoted + 9], octets[quoted + 12 : quoted + 20]
            is_first = not int.from_bytes(octets[quoted + 6 : quoted + 8]) & 0x1FFF
        else:
            size, inner, addresses, is_first = 40, octets[quoted + 6], octets[quoted + 8 : quoted + 40], True
        ports, sequence = _quoted(octets, quoted + size)
        if inner != TCP or not is_first:
            raise Undecodable("other IP protocol")
        half, end = len(addresses) // 2, self.base + len(octets)
        key = addresses[half:] + addresses[:half] + ports[2:] + ports[:2]
        return Segment(key, sequence, reason, UNREACHABLE, end, end, 0, 0)

    def _membership(self, addresses: bytes, octets: bytes, at: int, end: int) -> Datagram:
        stop = min(end, len(octets))
        place = self.base + at, self.base + stop
        return Datagram(addresses + NO_PORTS, *place, self.number, self.time, end - stop, self.row)

    def _udp(self, addresses: bytes, octets: bytes, at: int, end: int) -> Datagram:
        length = _udp(octets, at)[2]
        if at + 8 > end or 0 < length < 8 or not any(octets[at + 2 : at + 4]):
            raise Undecodable("UDP header lies")
        start = min(at + 8, len(octets))
        announced = min(end, at + length) if length else end
        stop = max(start, min(announced, len(octets)))
        cut = max(0, announced - stop)
        key = addresses + octets[at : at + 4]
        place = self.base + start, self.base + stop
        return Datagram(key, *place, self.number, self.time, cut, self.row)
