"""Tunnels and labels: inner packets are read in any wrapping, and wrong inner lengths raise nothing."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.containers import Packet, captures_of, pcap, read, read_octets
from tests.capture.packets import Crafted, crafted
from tests.capture.test_headers import expected
from tests.suites import examples

OUTER = bytes((10, 9, 9, 1, 10, 9, 9, 2))


def ethernet(kind: int, inside: bytes) -> bytes:
    return bytes(12) + kind.to_bytes(2, "big") + inside


def ipv4(protocol: int, inside: bytes) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inside), 0, 0, 64, protocol, 0)
    return ethernet(0x0800, head + OUTER + inside)


def ipv6(protocol: int, inside: bytes) -> bytes:
    return ethernet(0x86DD, struct.pack(">IHBB", 0x60000000, len(inside), protocol, 64) + bytes(32) + inside)


def udp(port: int, inside: bytes) -> bytes:
    return struct.pack(">HHHH", 40_000, port, 8 + len(inside), 0) + inside


def kind(packet: Crafted) -> int:
    return 0x0800 if packet.ip[0] >> 4 == 4 else 0x86DD


def ppp(packet: Crafted) -> bytes:
    return {0x0800: b"\x00\x21", 0x86DD: b"\x00\x57"}[kind(packet)] + packet.ip


WRAPPED: dict[str, Callable[[Crafted], bytes]] = {
    "VXLAN": lambda it: ipv4(17, udp(4789, b"\x08\0\0\0\0\0\1\0" + it.octets)),
    "VXLAN, group policy": lambda it: ipv4(17, udp(4789, b"\x88\0\0\7\0\0\1\0" + it.octets)),
    "VXLAN, Linux's first port": lambda it: ipv4(17, udp(8472, b"\x08\0\0\0\0\0\1\0" + it.octets)),
    "VXLAN on IPv6": lambda it: ipv6(17, udp(4789, b"\x08\0\0\0\0\0\1\0" + it.octets)),
    "Geneve": lambda it: ipv4(17, udp(6081, b"\0\0\x65\x58\0\0\1\0" + it.octets)),
    "Geneve, options": lambda it: ipv4(17, udp(6081, b"\2\0\x65\x58\0\0\1\0" + bytes(8) + it.octets)),
    "GRE": lambda it: ipv4(47, b"\0\0" + kind(it).to_bytes(2, "big") + it.ip),
    "GRE, key": lambda it: ipv4(47, b"\x20\0" + kind(it).to_bytes(2, "big") + bytes(4) + it.ip),
    "GRE, all": lambda it: ipv4(47, b"\xb0\0" + kind(it).to_bytes(2, "big") + bytes(12) + it.ip),
    "GRE, Ethernet": lambda it: ipv6(47, b"\0\0\x65\x58" + it.octets),
    "PPTP": lambda it: ipv4(47, b"\x30\x81\x88\x0b" + bytes(12) + b"\xff\x03" + ppp(it)),
    "ERSPAN I": lambda it: ipv4(47, b"\0\0\x88\xbe" + it.octets),
    "ERSPAN II": lambda it: ipv4(47, b"\x10\0\x88\xbe" + bytes(4) + bytes(8) + it.octets),
    "ERSPAN III": lambda it: ipv4(47, b"\x10\0\x22\xeb" + bytes(4) + bytes(12) + it.octets),
    "IP in IPv4": lambda it: ipv4(4 if kind(it) == 0x0800 else 41, it.ip),
    "IP in IPv6": lambda it: ipv6(4 if kind(it) == 0x0800 else 41, it.ip),
    "PPPoE": lambda it: ethernet(0x8864, b"\x11\0\0\1" + (2 + len(it.ip)).to_bytes(2, "big") + ppp(it)),
    "MPLS": lambda it: ethernet(0x8847, b"\0\x01\0\x40" + b"\0\x02\x01\x40" + it.ip),
    "MPLS, Ethernet": lambda it: ethernet(0x8847, b"\0\x01\x01\x40" + bytes(4) + it.octets),
    "MPLS in IP": lambda it: ipv4(137, b"\0\x01\x01\x40" + it.ip),
    "authentication header": lambda it: (
        ipv4(51, b"\x04\x04\0\0" + bytes(20) + it.ip)
        if kind(it) == 0x0800
        else ipv6(51, b"\x29\x04\0\0" + bytes(20) + it.ip)
    ),
    "VXLAN in GRE in VLAN": lambda it: (
        bytes(12)
        + b"\x81\0\0\1"
        + ipv4(47, b"\0\0\x08\0" + ipv4(17, udp(4789, b"\x08\0\0\0\0\0\1\0" + it.octets))[14:])[12:]
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tunnels")


@pytest.mark.parametrize("name", WRAPPED)
@examples(15)
@given(packets=st.lists(crafted(udp=None), min_size=1, max_size=3))
def test_what_is_inside_is_read(folder: Path, name: str, packets: list[Crafted]) -> None:
    wrapped = [Packet(WRAPPED[name](packet)) for packet in packets]
    assert read_octets(folder, pcap(wrapped)) == expected(packets)


@given(packet=crafted(), name=st.sampled_from(sorted(WRAPPED)), seed=st.integers(0, 2**32))
def test_lies_in_tunnels_raise_nothing(folder: Path, packet: Crafted, name: str, seed: int) -> None:
    chance = random.Random(seed)
    octets = bytearray(WRAPPED[name](packet))
    for _ in range(3):
        octets[chance.randrange(len(octets))] = chance.choice((0, 1, 4, 0x45, 0xFF, 0x81, 0x88))
    read(captures_of(folder, pcap([Packet(bytes(octets[: chance.randrange(len(octets) + 1)]))])))


@pytest.mark.parametrize(("port", "payload"), [(4789, b"\0" * 30), (6081, b"\xff" * 30), (6081, b"\0"), (5670, b"ZRE")])
def test_a_datagram_to_a_port_of_a_tunnel_need_not_be_one(tmp_path: Path, port: int, payload: bytes) -> None:
    _, (datagram,) = read_octets(tmp_path, pcap([Packet(ipv4(17, udp(port, payload)))]))
    assert datagram.payload == payload


@pytest.mark.parametrize(("length", "payload"), [(0, b"whole"), (11, b"who"), (8, b""), (60_000, b"whole")])
def test_the_length_of_a_datagram_is_what_both_headers_allow(tmp_path: Path, length: int, payload: bytes) -> None:
    datagram = struct.pack(">HHHH", 1, 2, length, 0) + b"whole"
    _, (read_datagram,) = read_octets(tmp_path, pcap([Packet(ipv4(17, datagram) + b"padding")]))
    assert read_datagram.payload == payload
