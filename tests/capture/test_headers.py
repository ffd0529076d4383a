"""Headers: they agree with dpkt and with scapy, compiled and in Python (seam P20), and nothing raises."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import dpkt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import Ether

from tests.capture.containers import Packet, Segment, Udp, captures_of, pcap, read, read_octets, tcp_packet
from tests.capture.packets import LINKS, Crafted, crafted, on
from tests.twins import twins
from zmtpscope.capture.captures import Captures
from zmtpscope.capture.decoder import Decoder
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.capture.segments import CLOSED_WINDOW, CUT, ORDINALS
from zmtpscope.capture.statistics import CaptureStatistics


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("headers")


def expected(packets: list[Crafted]) -> tuple[list[Segment], list[Udp]]:
    time = Packet(b"").time
    segments, datagrams = [], []
    for number, packet in enumerate(packets, 1):
        if packet.udp:
            datagrams.append(Udp(0, number, time, packet.key, packet.payload))
        else:
            fields = (packet.sequence, packet.acknowledgment, packet.flags, packet.payload)
            segments.append(Segment(0, number, time, packet.key, *fields, 0))
    return segments, datagrams


@given(packets=st.lists(crafted(udp=None), max_size=12))
def test_every_valid_packet_becomes_what_was_put_in(folder: Path, packets: list[Crafted]) -> None:
    """Options, extension headers, tags and padding change nothing."""
    assert read_octets(folder, pcap([Packet(packet.octets) for packet in packets])) == expected(packets)


def inner(layer: Any) -> Any:
    """Return the IP packet inside an Ethernet frame of dpkt."""
    while not isinstance(layer, dpkt.ip.IP | dpkt.ip6.IP6):
        layer = layer.data
    return layer


@given(packets=st.lists(crafted(), min_size=1, max_size=8))
def test_dpkt_reads_the_same(folder: Path, packets: list[Crafted]) -> None:
    segments, _ = read_octets(folder, pcap([Packet(packet.octets) for packet in packets]))
    assert len(segments) == len(packets)
    for segment, packet in zip(segments, packets, strict=True):
        ip = inner(dpkt.ethernet.Ethernet(packet.octets))
        tcp = ip.data
        key = ip.src + ip.dst + tcp.sport.to_bytes(2, "big") + tcp.dport.to_bytes(2, "big")
        assert (segment.key, segment.sequence, segment.acknowledgment) == (key, tcp.seq, tcp.ack)
        assert segment.flags & 0xFF == tcp.flags & 0xFF
        says_window = tcp.flags & dpkt.tcp.TH_ACK and not tcp.flags & (dpkt.tcp.TH_SYN | dpkt.tcp.TH_RST)
        assert bool(segment.flags & CLOSED_WINDOW) == bool(says_window and tcp.win == 0)
        # dpkt keeps Ethernet padding where the payload is empty or IPv6.
        assert tcp.data[: len(segment.payload)] == segment.payload
        assert tcp.data[len(segment.payload) :].strip(b"\0\xee") == b""


@given(packets=st.lists(crafted(), min_size=1, max_size=4))
def test_scapy_reads_the_same(folder: Path, packets: list[Crafted]) -> None:
    segments, _ = read_octets(folder, pcap([Packet(packet.octets) for packet in packets]))
    assert len(segments) == len(packets)
    for segment, packet in zip(segments, packets, strict=True):
        tcp = Ether(packet.octets)["TCP"]
        flags = int(tcp.flags) & 0xFF
        assert (segment.sequence, segment.acknowledgment, segment.flags & 0xFF) == (tcp.seq, tcp.ack, flags)
        assert segment.key[-4:] == tcp.sport.to_bytes(2, "big") + tcp.dport.to_bytes(2, "big")
        assert segment.payload == (bytes(tcp["Raw"].load) if tcp.haslayer("Raw") else b"")


@given(packet=crafted(plain=True), data=st.data())
def test_a_snap_length_cuts_payload_and_the_size_is_known(folder: Path, packet: Crafted, data: st.DataObject) -> None:
    """Headers that are there give a segment, however little of the payload was captured."""
    at = packet.octets.index(packet.ip)
    header = at + len(packet.ip) - len(packet.payload)
    kept = data.draw(st.integers(header, len(packet.octets)))
    cut = Packet(packet.octets[:kept], original=len(packet.octets))
    (segment,), _ = read_octets(folder, pcap([cut]))
    missing = max(0, len(packet.payload) - (kept - header))
    assert segment.cut == missing
    assert segment.flags == packet.flags | (CUT if missing else 0)
    assert segment.payload == packet.payload[: len(packet.payload) - missing]
    assert segment.sequence == packet.sequence


@given(packet=crafted(plain=True), data=st.data())
def test_a_cut_inside_tcp_options_leaves_a_segment_without_payload(
    folder: Path, packet: Crafted, data: st.DataObject
) -> None:
    at = packet.octets.index(packet.ip)
    header = at + len(packet.ip) - len(packet.payload)
    fixed = at + (20 if packet.ip[0] >> 4 == 4 else 40) + 20
    kept = data.draw(st.integers(fixed, header))
    (segment,), _ = read_octets(folder, pcap([Packet(packet.octets[:kept], original=len(packet.octets))]))
    assert (segment.sequence, segment.payload, segment.cut) == (packet.sequence, b"", len(packet.payload))
    assert bool(segment.flags & CUT) == bool(packet.payload)


def block_of(packets: list[bytes], links: list[int]) -> PacketBlock:
    """Return a block of consecutive packets, as from a container reader."""
    stops = np.cumsum([len(octets) for octets in packets])
    count = np.arange(len(packets))
    starts = stops - np.array([len(octets) for octets in packets])
    return PacketBlock(b"".join(packets), np.array(links), starts, stops, 0 * count, count, count + 1, starts)


DECODE = twins("zmtpscope.capture.headers.decode")


def in_both_forms(packets: PacketBlock) -> None:
    """P20: the same segments, datagrams and counts from the compiled loop and from the decoder, packet by packet."""
    results = []
    for decode in DECODE:
        decoder = Decoder(CaptureStatistics())
        decoder.begin(packets.data)
        keys, segments, cut, hops, datagram_keys, datagrams = decode(packets, decoder, ORDINALS * 7)
        columns = segments.tolist(), datagrams.tolist() if datagram_keys else []
        results.append((keys, cut, hops, datagram_keys, *columns, decoder.whole_data(), decoder.statistics))
    assert all(result == results[0] for result in results)


any_packet = st.one_of(crafted(udp=None), crafted(plain=True), crafted(plain=True))


@given(packets=st.lists(any_packet, min_size=3, max_size=6), data=st.data(), seed=st.integers(0, 2**32))
def test_p20_damaged_headers_mean_the_same_compiled(packets: list[Crafted], data: st.DataObject, seed: int) -> None:
    """Any octets, on any link layer: nothing raises, and the compiled loop decodes what the decoder decodes."""
    names = data.draw(st.lists(st.sampled_from(sorted(LINKS)), min_size=1, max_size=2))
    chance = random.Random(seed)
    damaged, links = [], []
    for packet in packets * 20:
        name = chance.choice(names)
        links.append(LINKS[name][0])
        octets = bytearray(on(name, packet).octets)
        header = len(octets) - len(packet.ip)
        for _ in range(chance.randrange(3)):
            at = chance.choice((header + chance.randrange(10), chance.randrange(len(octets))))
            octets[at] = chance.choice((0, 1, 4, 6, 8, 0x20, 0x45, 0x60, 0x81, 0xFF))
        damaged.append(bytes(octets[: chance.choice((len(octets), len(octets), chance.randrange(len(octets))))]))
    in_both_forms(block_of(damaged, links))


@given(packets=st.lists(crafted(udp=True, plain=True), min_size=1, max_size=4), seed=st.integers(0, 2**32))
def test_p20_damaged_datagrams_mean_the_same_compiled(packets: list[Crafted], seed: int) -> None:
    """Lengths that lie, ports of tunnels, octets that were not captured."""
    chance = random.Random(seed)
    damaged = []
    for packet in packets * 8:
        octets = bytearray(packet.octets)
        header = octets.index(packet.ip) + len(packet.ip) - len(packet.payload) - 8
        port, length = chance.choice((4789, 8472, 6081, 53)), chance.choice((0, 1, 7, 8, 9, 40, 200, 65535))
        if chance.randrange(2):
            octets[header + 2 : header + 4] = port.to_bytes(2, "big")
        if chance.randrange(2):
            octets[header + 4 : header + 6] = length.to_bytes(2, "big")
        damaged.append(bytes(octets[: header + chance.choice((4, 6, 7, 8, 9, 20, 200))]))
    in_both_forms(block_of(damaged, [1] * len(damaged)))


def test_a_total_length_of_zero_reaches_to_the_end_of_the_packet(tmp_path: Path) -> None:
    """With segmentation offload the length did not fit its field."""
    body = bytes(range(256)) * 300
    whole, cut = Packet(tcp_packet(0, body)), Packet(tcp_packet(0, body[:100]), original=54 + len(body))
    (first, second), _ = read_octets(tmp_path, pcap([whole, cut]))
    assert (first.payload, first.cut) == (body, 0)
    assert (second.payload, second.cut, second.flags & CUT) == (body[:100], len(body) - 100, CUT)


def test_padding_is_no_payload(tmp_path: Path) -> None:
    (segment,), _ = read_octets(tmp_path, pcap([Packet(tcp_packet(40, bytes(6)))]))
    assert segment.payload == b""


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (tcp_packet(39, b""), "TCP header lies"),
        (tcp_packet(40, b"", header=0x40), "TCP header lies"),
        (tcp_packet(40, b"", header=0xF0), "TCP header lies"),
        (tcp_packet(19, b""), "IP header lies"),
        (tcp_packet(40, b"")[:40], "headers cut short"),
        (tcp_packet(40, b"")[:20], "headers cut short"),
        (b"", "headers cut short"),
        (tcp_packet(40, b"").replace(b"\x40\x06", b"\x40\x01"), "other IP protocol"),
        (bytes(12) + b"\x08\x06" + bytes(28), "not IP"),
        (bytes(12) + b"\x81\x00\0\0" * 40 + b"\x08\0", "headers nested too deep"),
    ],
)
def test_packets_without_segment_are_counted_by_reason(tmp_path: Path, octets: bytes, reason: str) -> None:
    captures = captures_of(tmp_path, pcap([Packet(octets)]))
    assert read(captures) == ([], [])
    assert captures.statistics.other == {reason: 1}


def test_an_unknown_link_type_is_counted(tmp_path: Path) -> None:
    captures = captures_of(tmp_path, pcap([Packet(tcp_packet(40, b""))] * 3, link=147))
    assert read(captures) == ([], [])
    assert captures.statistics.other == {"unknown link type 147": 3}


def test_statistics_count_packets_octets_and_times(tmp_path: Path) -> None:
    packets = [Packet(tcp_packet(40, b""), time=time * 1000) for time in (5, 3, 9)]
    captures: Captures = captures_of(tmp_path, pcap(packets))
    read(captures)
    statistics = captures.statistics
    assert (statistics.packets, statistics.octets) == (3, 3 * 54)
    assert (statistics.first_time, statistics.last_time) == (5000, 9000)
