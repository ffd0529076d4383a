"""Every capture of the repository: block size changes nothing, dpkt finds the same, nothing is called a lie."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import dpkt
import pytest

from tests.capture.containers import read
from tests.readings import CAPTURE_FILES, CAPTURES
from zmtpscope.capture import open_captures

NAMES = [str(path.relative_to(CAPTURES)) for path in CAPTURE_FILES]
MODIFIED = "pcap-modified.pcap"
"""dpkt takes the modified format for a damaged file."""
ORDINARY = {"not IP", "other IP protocol", "IP fragment", "IGMP or MLD"}
"""Packets of real traffic other than TCP and UDP."""


def dpkt_packets(path: Path) -> list[tuple[float, bytes, int]]:
    """Time, octets and link type of every packet, read by dpkt as far as it goes."""
    octets = path.read_bytes()
    if octets.startswith(b"\x1f\x8b"):
        octets = gzip.decompress(octets)
    reader: Any = dpkt.pcap.UniversalReader(io.BytesIO(octets))
    packets = []
    try:
        for time, packet in reader:
            packets.append((time, bytes(packet), reader.datalink()))
    except (dpkt.dpkt.NeedData, ValueError):
        pass
    return packets


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=NAMES)
def test_block_size_changes_nothing(path: Path) -> None:
    results = []
    for size in (64, 1000, 1 << 20):
        captures = open_captures([str(path)], block_size=size)
        results.append((read(captures), captures.statistics, captures.problems))
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=NAMES)
def test_real_traffic_has_no_wrong_lengths(path: Path) -> None:
    captures = open_captures([str(path)])
    read(captures)
    assert set(captures.statistics.other) <= ORDINARY
    assert captures.statistics.fragments_given_up == 0
    if path.name == "cut-file.pcap":
        assert [problem.packet for problem in captures.problems] == [44]
    else:
        assert captures.problems == []
        assert captures.statistics.packets == len(dpkt_packets(path)) or path.name == MODIFIED


@pytest.mark.parametrize("path", [path for path in CAPTURE_FILES if path.name != MODIFIED], ids=str)
def test_dpkt_finds_the_same_segments(path: Path) -> None:
    """dpkt reads plain packets on Ethernet; other segments are tunnelled, fragmented or offloaded."""
    segments, _ = read(open_captures([str(path)]))
    ours = {segment.packet: segment for segment in segments}
    compared = 0
    for number, (time, octets, link) in enumerate(dpkt_packets(path), 1):
        if link != 1:
            continue
        ip = dpkt.ethernet.Ethernet(octets).data
        if not isinstance(getattr(ip, "data", None), dpkt.tcp.TCP) or getattr(ip, "len", 0) == 0:
            continue
        segment, tcp = ours[number], ip.data
        if segment.key[: len(ip.src)] != ip.src or getattr(ip, "mf", 0) or getattr(ip, "offset", 0):
            continue
        assert (segment.sequence, segment.acknowledgment, segment.flags & 0xFF) == (tcp.seq, tcp.ack, tcp.flags & 0xFF)
        assert tcp.data.startswith(segment.payload)
        assert tcp.data[len(segment.payload) :].strip(b"\0") == b""
        assert abs(segment.time / 1e9 - float(time)) < 1e-5
        compared += 1
    if path.parent.name == "public":
        assert compared == len(segments)
