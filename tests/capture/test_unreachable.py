"""ICMP errors that quote a TCP segment become rows on the way back to its sender, and reports of multicast groups
datagrams without ports; all other ICMP is counted."""

from __future__ import annotations

import struct
from ipaddress import ip_address

import pytest

from zmtpscope.capture.decoder import Decoder, Segment
from zmtpscope.capture.segments import NO_HOST, NO_PORTS, PROHIBITED, UNREACHABLE, Datagram
from zmtpscope.capture.statistics import CaptureStatistics

RAW_IP = 101
CLIENT, SERVER, ROUTER = "10.0.0.2", "10.0.0.1", "10.0.0.254"
CLIENT_6, SERVER_6 = "fd00::2", "fd00::1"
SYN = struct.pack(">HHIIBBHHH", 40_000, 5555, 7, 0, 0x50, 2, 1024, 0, 0)


def packet(source: str, destination: str, protocol: int, payload: bytes) -> bytes:
    addresses = ip_address(source).packed + ip_address(destination).packed
    if len(addresses) == 8:
        return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0) + addresses + payload
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + addresses + payload


def icmp(type_: int, code: int, quoted: bytes, version: int = 4) -> bytes:
    body = bytes([type_, code]) + bytes(6) + quoted
    return packet(ROUTER, CLIENT, 1, body) if version == 4 else packet(SERVER_6, CLIENT_6, 58, body)


def decoded(octets: bytes) -> tuple[Segment | Datagram | None, CaptureStatistics]:
    statistics = CaptureStatistics()
    decoder = Decoder(statistics)
    decoder.begin(octets)
    return decoder.packet(0, RAW_IP, 0, len(octets), 0, 1, 0), statistics


def segment(octets: bytes) -> Segment:
    found, _ = decoded(octets)
    assert isinstance(found, Segment)
    return found


@pytest.mark.parametrize(("code", "reason"), [(0, NO_HOST), (1, NO_HOST), (3, PROHIBITED), (13, PROHIBITED)])
def test_the_quoted_segment_names_the_connection(code: int, reason: int) -> None:
    row = segment(icmp(3, code, packet(CLIENT, SERVER, 6, SYN)))
    key = ip_address(SERVER).packed + ip_address(CLIENT).packed + struct.pack(">HH", 5555, 40_000)
    assert (row.key, row.flags, row.sequence, row.acknowledgment) == (key, UNREACHABLE, 7, reason)
    assert row.start == row.stop


@pytest.mark.parametrize(("version", "type_"), [(4, 11), (6, 3)])
def test_packets_that_go_in_a_circle_do_not_reach_the_host(version: int, type_: int) -> None:
    addresses = (CLIENT, SERVER) if version == 4 else (CLIENT_6, SERVER_6)
    assert segment(icmp(type_, 0, packet(*addresses, 6, SYN), version)).acknowledgment == NO_HOST


def test_eight_quoted_octets_of_tcp_are_enough() -> None:
    row = segment(icmp(3, 10, packet(CLIENT, SERVER, 6, SYN)[:28]))
    assert row.sequence == 7


def test_version_6_is_read_alike() -> None:
    row = segment(icmp(1, 1, packet(CLIENT_6, SERVER_6, 6, SYN), version=6))
    key = ip_address(SERVER_6).packed + ip_address(CLIENT_6).packed + struct.pack(">HH", 5555, 40_000)
    assert (row.key, row.acknowledgment) == (key, PROHIBITED)


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(icmp(8, 0, b"ping"), id="an echo request"),
        pytest.param(icmp(3, 4, packet(CLIENT, SERVER, 6, SYN)), id="fragmentation needed"),
        pytest.param(icmp(3, 3, packet(CLIENT, SERVER, 17, SYN)), id="of a datagram"),
        pytest.param(icmp(3, 1, packet(CLIENT, SERVER, 6, SYN)[:24]), id="quoted too short"),
        pytest.param(icmp(3, 1, b""), id="nothing quoted"),
        pytest.param(packet(ROUTER, CLIENT, 1, b"")[:20], id="no message at all"),
    ],
)
def test_all_else_is_no_row(octets: bytes) -> None:
    found, statistics = decoded(octets)
    assert found is None
    assert sum(statistics.other.values()) == 1


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(packet(CLIENT, "224.0.0.22", 2, b"\x22" + bytes(15)), id="IGMPv3"),
        pytest.param(packet(CLIENT_6, "ff02::16", 58, b"\x8f" + bytes(27)), id="MLDv2"),
    ],
)
def test_a_report_of_multicast_groups_is_a_datagram_without_ports(octets: bytes) -> None:
    datagram, _ = decoded(octets)
    assert isinstance(datagram, Datagram)
    assert datagram.key.endswith(NO_PORTS)
    assert octets[datagram.start : datagram.stop][0] in (0x22, 0x8F)
