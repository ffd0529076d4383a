"""Make the captures that are derived from others in this folder.

    python captures/derive.py

The same traffic through other link layers, tunnels and containers (`VARIANTS`, into network/, with the truth of their
source, TCP payloads untouched), and a frame too long for 32 bits. Needs scapy; the results are committed, so nobody has
to run this to use them.
"""

from __future__ import annotations

import json
import pathlib
import struct
from collections.abc import Callable
from decimal import Decimal

from scapy.contrib.geneve import GENEVE
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import GRE, IP, TCP, UDP, IPOption_Router_Alert, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, PadN, fragment6
from scapy.layers.l2 import CookedLinux, Dot1Q, Ether
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet
from scapy.utils import rdpcap

HERE = pathlib.Path(__file__).parent
FIRST_REQUEST = 12
"""This many packets of patterns/reqrep.pcap contain the handshake and the first request."""
MICROSECONDS, MODIFIED = 0xA1B2C3D4, 0xA1B2CD34
LINK = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}
OUTER = Ether(**LINK) / IP(src="192.0.2.1", dst="192.0.2.2")


def pcap(packets: list[tuple[int, bytes]], link: int, *, order: str = "<", magic: int = MICROSECONDS) -> bytes:
    """Return a pcap file of (time in microseconds, octets); the "modified" form has eight more octets per packet."""
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)]
    for time, octets in packets:
        out.append(struct.pack(order + "IIII", time // 1_000_000, time % 1_000_000, len(octets), len(octets)))
        if magic == MODIFIED:
            out.append(struct.pack(order + "IHBx", 1, 0x0800, 0))
        out.append(octets)
    return b"".join(out)


def zero_length(packet: Packet) -> bytes:
    """Return a packet with IP total length 0, as captured before segmentation offload."""
    octets = bytearray(bytes(packet))
    octets[16:18] = b"\0\0"
    return bytes(octets)


def ipv4_fragments(packet: Packet) -> list[bytes]:
    """Add IP options (router alert), and split datagrams with payload into fragments of 24 octets, last one first."""
    ip = packet[IP].copy()
    ip.options = [IPOption_Router_Alert()]
    ip.ihl = ip.len = ip.chksum = None
    ip.flags = 0
    pieces = fragment(ip, 24) if len(packet[TCP].payload) else [ip]
    return [bytes(Ether(**LINK) / piece) for piece in reversed(pieces)]


def ipv6_fragments(packet: Packet) -> list[bytes]:
    """Add a hop-by-hop header to every packet, and fragment datagrams with payload."""
    ip = packet[IPv6]
    header = IPv6(src=ip.src, dst=ip.dst) / IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0\0\0\0")])
    if not len(packet[TCP].payload):
        return [bytes(Ether(**LINK) / header / packet[TCP])]
    number = int(packet.time * 1_000_000) & 0xFFFFFFFF
    # scapy splits towards a whole packet size; 96 octets leave 24 for each piece
    pieces = fragment6(header / IPv6ExtHdrFragment(id=number) / packet[TCP], 96)
    return [bytes(Ether(**LINK) / piece) for piece in pieces]


def one(build: Callable[[Packet], Packet | bytes]) -> Callable[[Packet], list[bytes]]:
    return lambda packet: [bytes(build(packet))]


ETHERNET, NULL, LOOP, RAW, COOKED, IPV4 = 1, 0, 108, 101, 113, 228
VARIANTS: dict[str, tuple[str, int, Callable[[Packet], list[bytes]], dict[str, object]]] = {
    "bsd-null": ("BSD null, host byte order", NULL, one(lambda p: struct.pack("<I", 2) + bytes(p[IP])), {}),
    "bsd-loop": ("BSD loop, network byte order", LOOP, one(lambda p: struct.pack(">I", 2) + bytes(p[IP])), {}),
    "raw-ip": ("raw IP, no link layer", RAW, one(lambda p: p[IP]), {}),
    "raw-ipv4": ("raw IPv4 (link type 228)", IPV4, one(lambda p: p[IP]), {}),
    "linux-cooked": ("Linux cooked capture, first version", COOKED, one(lambda p: CookedLinux() / p[IP]), {}),
    "qinq": (
        "two VLAN tags, 802.1ad outside",
        ETHERNET,
        one(lambda p: Ether(**LINK, type=0x88A8) / Dot1Q(vlan=100, type=0x8100) / Dot1Q(vlan=42) / p[IP]),
        {},
    ),
    "ethernet-padding": (
        "short frames padded to 60 octets with aa",
        ETHERNET,
        one(lambda p: bytes(p).ljust(60, b"\xaa")),
        {},
    ),
    "offload-length-0": ("IP total length 0 (segmentation offload)", ETHERNET, one(zero_length), {}),
    "vxlan": ("VXLAN in UDP", ETHERNET, one(lambda p: OUTER / UDP(sport=49152, dport=4789) / VXLAN(vni=7) / p), {}),
    "geneve": (
        "Geneve in UDP",
        ETHERNET,
        one(lambda p: OUTER / UDP(sport=49152, dport=6081) / GENEVE(vni=7) / p),
        {},
    ),
    "gre": ("GRE", ETHERNET, one(lambda p: OUTER / GRE() / p[IP]), {}),
    "ip-in-ip": ("IPv4 in IPv4", ETHERNET, one(lambda p: OUTER / p[IP]), {}),
    "mpls": ("one MPLS label", ETHERNET, one(lambda p: Ether(**LINK, type=0x8847) / MPLS(label=16, s=1) / p[IP]), {}),
    "pppoe": (
        "PPPoE session",
        ETHERNET,
        one(lambda p: Ether(**LINK, type=0x8864) / PPPoE(sessionid=1) / PPP() / p[IP]),
        {},
    ),
    "ipv4-fragments": ("IP options, and fragments with the last piece first", ETHERNET, ipv4_fragments, {}),
    "ipv6-fragments": ("hop-by-hop headers and fragments", ETHERNET, ipv6_fragments, {}),
    "pcap-big-endian": ("pcap written by a big-endian machine", ETHERNET, one(bytes), {"order": ">"}),
    "pcap-modified": ('"modified" pcap with longer packet headers', ETHERNET, one(bytes), {"magic": MODIFIED}),
}


def long_length() -> None:
    """The first answer of patterns/reqrep announces a frame of 2^32 + 5 octets behind the delimiter and begins it.

    Who keeps the size in 32 bits takes "AAAAA" for the whole frame and what follows in its body for messages.
    """
    packets = list(rdpcap(str(HERE / "patterns/reqrep.pcap")))[:FIRST_REQUEST]
    last = next(packet for packet in reversed(packets) if packet[TCP].sport == 5555)
    segment = last.copy()
    segment.time = packets[-1].time + Decimal("0.001")
    segment[TCP].seq = last[TCP].seq + len(last[TCP].payload)
    segment[TCP].remove_payload()
    segment = segment / (b"\1\0\2" + struct.pack(">Q", 2**32 + 5) + b"AAAAA" + b"\0\5hello" * 20)
    del segment[IP].len, segment[IP].chksum, segment[TCP].chksum
    octets = [(int(packet.time * 1_000_000), bytes(packet)) for packet in [*packets, segment]]
    (HERE / "faults" / "frame-length-above-32-bits.pcap").write_bytes(pcap(octets, ETHERNET))
    truth = {
        "what": "frame of 2^32 + 5 octets, whose first 145 octets are in the file and look like small frames",
        "made": "start of patterns/reqrep, then one scripted segment, by derive.py",
        "exit": 0,
        "versions": ["3.1"],
        "start_captured": True,
        "handshake": "complete",
        "whole": True,
        "sent": [["Hello 0"]],
        "received": [["Hello 0"]],
        "each_once": True,
    }
    path = HERE / "faults" / "frame-length-above-32-bits.truth.json"
    path.write_text(json.dumps(truth, indent=1) + "\n")


def main() -> None:
    for name, (what, link, build, container) in VARIANTS.items():
        source = HERE / ("network/ipv6" if name == "ipv6-fragments" else "patterns/reqrep")
        packets = [
            (int(packet.time * 1_000_000), octets)
            for packet in rdpcap(str(source.with_suffix(".pcap")))
            for octets in build(packet)
        ]
        (HERE / "network" / f"{name}.pcap").write_bytes(pcap(packets, link, **container))
        truth = json.loads(source.with_suffix(".truth.json").read_text())
        truth |= {"what": what, "made": f"{source.relative_to(HERE)} put into it by derive.py"}
        (HERE / "network" / f"{name}.truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    long_length()


if __name__ == "__main__":
    main()
