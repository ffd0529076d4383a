"""Random valid packets, crafted by scapy, with the expected result of reading them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Packet as Layer
from scapy.packet import Raw

from tests.capture.containers import Packet
from zmtpscope.capture.segments import ACK, CLOSED_WINDOW, RST, SYN


@dataclass(frozen=True)
class Crafted:
    """The octets of an Ethernet frame, and the transport header and payload in it."""

    octets: bytes
    key: bytes
    sequence: int
    acknowledgment: int
    flags: int
    payload: bytes
    udp: bool = False

    @property
    def ip(self) -> bytes:
        """The IP packet alone, without Ethernet's header, tags or padding."""
        at = 14
        while self.octets[at - 2 : at] in (b"\x81\x00", b"\x88\xa8"):
            at += 4
        if self.octets[at] >> 4 == 4:
            length = struct.unpack_from(">H", self.octets, at + 2)[0]
        else:
            length = 40 + struct.unpack_from(">H", self.octets, at + 4)[0]
        return self.octets[at : at + length]


ports = st.integers(0, 65535)
numbers = st.integers(0, 2**32 - 1)
payloads = st.binary(max_size=64)
tcp_options = st.sampled_from(
    [[], [("Timestamp", (1, 2))], [("MSS", 1460), ("SAckOK", b""), ("NOP", None), ("WScale", 7)], [("NOP", None)] * 40]
)
addresses4 = st.binary(min_size=4, max_size=4).map(lambda octets: ".".join(map(str, octets)))
addresses6 = st.binary(min_size=16, max_size=16)


@st.composite
def crafted(draw: st.DrawFn, udp: bool | None = False, plain: bool = False) -> Crafted:
    """An Ethernet frame with TCP (or UDP); `plain` excludes packets that the header loop leaves to the decoder."""
    is_udp = draw(st.booleans()) if udp is None else udp
    payload = draw(payloads)
    source_port = draw(ports)
    destination_port = draw(ports.filter(lambda port: port not in (4789, 8472, 6081) and (port or not is_udp)))
    sequence, acknowledgment, flags = draw(numbers), draw(numbers), draw(st.integers(0, 255))
    transport: Layer
    if is_udp:
        transport = UDP(sport=source_port, dport=destination_port)
        sequence = acknowledgment = flags = 0
    else:
        transport = TCP(
            sport=source_port,
            dport=destination_port,
            seq=sequence,
            ack=acknowledgment,
            flags=flags,
            window=(window := draw(st.sampled_from([0, 1, 256, 65535]))),
            options=draw(tcp_options),
        )
        flags |= CLOSED_WINDOW if window == 0 and flags & (SYN | RST | ACK) == ACK else 0
    inside = transport / Raw(payload) if payload else transport
    network: Layer
    if draw(st.booleans()):
        source, destination = draw(addresses4), draw(addresses4)
        options = b"" if plain else draw(st.sampled_from([b"", b"\x94\x04\x00\x00", b"\x01" * 40]))
        network = IP(src=source, dst=destination, flags=draw(st.sampled_from(["", "DF"])))
        octets = bytearray(bytes(network / inside))
        if options:
            octets[20:20] = options
            octets[0] += len(options) // 4
            octets[2:4] = struct.pack(">H", len(octets))
        key = bytes(octets[12:20])
        kind = 0x0800
    else:
        first, second = draw(addresses6), draw(addresses6)
        network = IPv6()
        extensions = [] if plain else draw(st.lists(st.sampled_from(EXTENSIONS), max_size=3))
        for extension in extensions:
            network = network / extension()
        octets = bytearray(bytes(network / inside))
        octets[8:40] = key = first + second
        kind = 0x86DD
    key += struct.pack(">HH", source_port, destination_port)
    link: Layer = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    for tag in draw(st.lists(st.sampled_from([Dot1Q, Dot1AD]), max_size=2)):
        link = link / tag(vlan=draw(st.integers(0, 4095)))
    header = bytearray(bytes(link / Raw(b"")))
    header[-2:] = struct.pack(">H", kind)
    padding = draw(st.sampled_from([b"", bytes(6), b"\xee" * 18]))
    return Crafted(bytes(header + octets) + padding, key, sequence, acknowledgment, flags, payload, is_udp)


EXTENSIONS = [IPv6ExtHdrHopByHop, IPv6ExtHdrDestOpt, IPv6ExtHdrRouting]


IPV4, IPV6 = b"\x08\x00", b"\x86\xdd"


def family(order: str, darwin: int = 30) -> dict[bytes, bytes]:
    return {IPV4: struct.pack(order + "I", 2), IPV6: struct.pack(order + "I", darwin)}


LINKS = {
    "Ethernet": (1, lambda kind: bytes(12) + kind),
    "802.1Q": (1, lambda kind: bytes(12) + b"\x81\x00\x20\x05" + kind),
    "QinQ": (1, lambda kind: bytes(12) + b"\x88\xa8\x00\x05\x81\x00\x00\x06" + kind),
    "802.3 with SNAP": (1, lambda kind: bytes(12) + b"\x00\x40\xaa\xaa\x03\0\0\0" + kind),
    **{f"raw {link}": (link, lambda kind: b"") for link in (101, 12, 14, 228, 229)},
    "BSD null": (0, family("<").__getitem__),
    "BSD null, big endian": (0, family(">", 28).__getitem__),
    "BSD null, Windows": (0, family("<", 23).__getitem__),
    "BSD loop": (108, family(">", 24).__getitem__),
    "Linux cooked": (113, lambda kind: bytes(14) + kind),
    "Linux cooked, 802.1Q": (113, lambda kind: bytes(14) + b"\x81\x00\x00\x05" + kind),
    "Linux cooked 2": (276, lambda kind: kind + bytes(18)),
    "Linux cooked 2, 802.1Q": (276, lambda kind: b"\x81\x00" + bytes(18) + b"\x00\x05" + kind),
    "PPP": (9, lambda kind: b"\xff\x03" + {IPV4: b"\x00\x21", IPV6: b"\x00\x57"}[kind]),
    "PPP, short": (9, lambda kind: {IPV4: b"\x21", IPV6: b"\x57"}[kind]),
    "PPP in HDLC framing": (50, lambda kind: b"\xff\x03" + {IPV4: b"\x00\x21", IPV6: b"\x00\x57"}[kind]),
    "PPPoE": (51, lambda kind: b"\x11\0\0\1\0\x40" + {IPV4: b"\x00\x21", IPV6: b"\x00\x57"}[kind]),
    "Cisco HDLC": (104, lambda kind: b"\x0f\0" + kind),
    "PKTAP": (258, lambda kind: struct.pack("<III", 108, 1, 1) + bytes(96) + bytes(12) + kind),
    "NFLOG": (239, lambda kind: {IPV4: b"\2", IPV6: b"\x0a"}[kind] + b"\0\0\0\x05\0\x03\0x\0\0\0\x00\0\x09\0"),
}


def on(link: str, packet: Crafted, time: int = 0) -> Packet:
    number, header = LINKS[link]
    return Packet(header(IPV4 if packet.ip[0] >> 4 == 4 else IPV6) + packet.ip, time=time, link=number)
