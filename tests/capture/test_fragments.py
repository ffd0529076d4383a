"""IP fragments: datagrams are put together again, in any order, within bounds of octets and time."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.containers import Packet, Segment, Udp, captures_of, pcap, read, read_octets
from tests.capture.packets import Crafted, crafted
from zmtpscope.capture import Captures
from zmtpscope.capture.fragments import LONGEST_WAIT, MAX_OCTETS, Fragments
from zmtpscope.capture.segments import CUT


def fragments(ip: bytes, cuts: list[int], number: int = 7) -> list[bytes]:
    """An IPv4 (without options) or IPv6 (without extension headers) packet, fragmented at multiples of 8 octets."""
    version = ip[0] >> 4
    header, payload = (ip[:20], ip[20:]) if version == 4 else (ip[:40], ip[40:])
    edges = [0, *sorted({cut * 8 for cut in cuts if 0 < cut * 8 < len(payload)}), len(payload)]
    packets = []
    for start, stop in pairwise(edges):
        more = stop < len(payload)
        part = payload[start:stop]
        if version == 4:
            field = (0x2000 if more else 0) | start // 8
            changed = struct.pack(">HHH", 20 + len(part), number, field)
            packets.append(header[:2] + changed + header[8:] + part)
        else:
            extension = struct.pack(">BBHI", header[6], 0, start | more, number)
            packets.append(header[:4] + struct.pack(">HB", 8 + len(part), 44) + header[7:] + extension + part)
    return packets


def raw(octets: bytes, time: int = 0, original: int | None = None) -> Packet:
    return Packet(octets, time=time, link=101, original=original)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fragments")


@given(packet=crafted(udp=None, plain=True), cuts=st.lists(st.integers(1, 15), min_size=1), data=st.data())
def test_fragments_in_any_order_are_the_packet(
    folder: Path, packet: Crafted, cuts: list[int], data: st.DataObject
) -> None:
    """Fragments may arrive twice. The packet that completes the datagram is its packet."""
    parts = fragments(packet.ip, cuts)
    order = data.draw(st.permutations(parts))
    twice = [part for part in order[:-1] for _ in range(2)] + [order[-1]]
    captures = captures_of(
        folder, pcap([raw(part) for part in twice]), block_size=data.draw(st.sampled_from([64, 1 << 20]))
    )
    segments, datagrams = read(captures)
    if packet.udp:
        assert datagrams == [Udp(0, len(twice), 0, packet.key, packet.payload)]
    else:
        fields = (packet.sequence, packet.acknowledgment, packet.flags, packet.payload)
        assert segments == [Segment(0, len(twice), 0, packet.key, *fields, 0)]
    assert captures.statistics.fragments_given_up == 0


def tcp_over_ip(payload: bytes) -> bytes:
    header = bytes((0x45, 0)) + (40 + len(payload)).to_bytes(2, "big") + bytes(4) + b"\x40\x06\0\0" + bytes(range(8))
    return header + b"\x12\x34\x15\xb3" + bytes(8) + b"\x50\x18" + bytes(6) + payload


BODY = bytes(range(256)) * 4
WHOLE = tcp_over_ip(BODY)


def read_raw(folder: Path, packets: list[Packet]) -> Captures:
    return captures_of(folder, pcap(packets, link=101))


def test_a_fragment_that_was_captured_in_part_cuts_the_segment_there(tmp_path: Path) -> None:
    first, second, third = fragments(WHOLE, [50, 100])
    packets = [raw(third), raw(second[:120], original=len(second)), raw(first)]
    (segment,), _ = read(read_raw(tmp_path, packets))
    kept = 400 - 20 + 100
    assert (segment.payload, segment.cut) == (BODY[:kept], len(BODY) - kept)
    assert segment.flags & CUT


def test_two_datagrams_are_kept_apart_by_their_identification(tmp_path: Path) -> None:
    other = tcp_over_ip(BODY[::-1])
    mixed = [part for pair in zip(fragments(WHOLE, [50], 1), fragments(other, [50], 2), strict=True) for part in pair]
    segments, _ = read(read_raw(tmp_path, [raw(part) for part in mixed]))
    assert [segment.payload for segment in segments] == [BODY, BODY[::-1]]


def test_a_datagram_of_which_a_fragment_is_missing_is_given_up(tmp_path: Path) -> None:
    captures = read_raw(tmp_path, [raw(part) for part in fragments(WHOLE, [50, 100])[:2]])
    assert read(captures) == ([], [])
    assert captures.statistics.other == {"IP fragment": 2}
    assert captures.statistics.fragments_given_up == 1


@pytest.mark.parametrize(("wait", "segments"), [(LONGEST_WAIT, 1), (LONGEST_WAIT + 1, 0)])
def test_fragments_wait_30_seconds_of_capture_time(tmp_path: Path, wait: int, segments: int) -> None:
    first, second = fragments(WHOLE, [50])
    wait = -(-wait // 1000) * 1000  # pcap has microseconds
    captures = read_raw(tmp_path, [raw(first), raw(second, time=wait)])
    assert len(read(captures)[0]) == segments


def test_capture_time_that_runs_backwards_ends_no_wait(tmp_path: Path) -> None:
    first, second = fragments(WHOLE, [50])
    captures = read_raw(tmp_path, [raw(first, time=2 * LONGEST_WAIT), raw(second, time=0)])
    assert len(read(captures)[0]) == 1


def test_fragments_that_overlap_void_their_datagram(tmp_path: Path) -> None:
    first, second = fragments(WHOLE, [50])
    overlapping = fragments(tcp_over_ip(BODY[::-1]), [49])[1]
    captures = read_raw(tmp_path, [raw(first), raw(overlapping), raw(second)])
    assert read(captures) == ([], [])
    assert captures.statistics.fragments_given_up >= 1


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40), st.integers(0, 8191), st.booleans(), st.integers(1, 2000), st.integers(0, 10**11)
        ),
        max_size=60,
    )
)
def test_no_fragments_make_more_wait_than_the_bound(
    pieces: list[tuple[int, int, bool, int, int]],
) -> None:
    """Hostile ones: overlapping, beyond the largest datagram, never completed."""
    waiting = Fragments()
    for key, offset, more, size, time in pieces * 20:
        joined = waiting.add(bytes([key]), offset * 8, more, bytes(size), size, time)
        assert joined is None or len(joined[0]) <= 65_535
        assert waiting.cost <= MAX_OCTETS
        assert waiting.cost == sum(each.cost for each in waiting.waiting.values())
    waiting.finish()
    assert (waiting.cost, waiting.waiting) == (0, {})


def test_the_oldest_datagram_gives_way_at_4_mib() -> None:
    waiting = Fragments()
    for number in range(200):
        waiting.add(number.to_bytes(2, "big"), 0, True, bytes(32_000), 32_000, 0)
    assert waiting.given_up == 200 - MAX_OCTETS // 32_128
    assert min(waiting.waiting) == (200 - MAX_OCTETS // 32_128).to_bytes(2, "big")


@pytest.mark.parametrize("count", [1, 3])
def test_segments_point_behind_the_octets_of_their_block(tmp_path: Path, count: int) -> None:
    """Packets on either side of a datagram that was put together are as they were."""
    between = tcp_over_ip(b"between")
    packets = [raw(between)] + [raw(part) for _ in range(count) for part in [*fragments(WHOLE, [50]), between]]
    segments, _ = read_octets(tmp_path, pcap(packets))
    assert [segment.payload for segment in segments] == [b"between"] + [BODY, b"between"] * count
