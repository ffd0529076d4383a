"""pcapng: sections, interfaces, time stamps, the three kinds of packet block, and lengths that lie."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.capture.containers import (
    Packet,
    block,
    captures_of,
    enhanced,
    interface,
    old,
    option,
    pcap,
    read,
    read_octets,
    section,
    tcp_packet,
)
from zmtpscope.capture.packets import LATEST

SECOND = 1_000_000_000
PACKET = Packet(tcp_packet(42, b"hi"))
UNITS = 1_700_000_000_123_456
MANY = 19


@pytest.fixture(params=[64, 1 << 20], ids=["small blocks", "one block"])
def block_size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("options", "units", "nanoseconds"),
    [
        ([], UNITS, UNITS * 1000),
        ([(9, b"\x06")], UNITS, UNITS * 1000),
        ([(9, b"\x09")], UNITS, UNITS),
        ([(9, b"\x03")], 1234, 1234 * 1_000_000),
        ([(9, b"\x00")], 17, 17 * SECOND),
        ([(9, b"\x0c")], 1_999, 1),
        ([(9, b"\x8a")], 1024 + 512, SECOND + SECOND // 2),
        ([(9, b"\x80")], 3, 3 * SECOND),
        ([(14, 5)], UNITS, UNITS * 1000 + 5 * SECOND),
        ([(14, -5)], UNITS, UNITS * 1000 - 5 * SECOND),
        ([(2, b"eth0"), (9, b"\x09"), (0, b""), (9, b"\x03")], UNITS, UNITS),
        ([(9, b"\x09\x09")], UNITS, UNITS * 1000),
        ([(9, b"\x7f")], 2**64 - 1, 0),
        ([], 2**64 - 1, LATEST),
        ([(14, -(2**63))], UNITS, 0),
    ],
)
def test_time_stamps_in_any_resolution_and_with_an_offset(
    tmp_path: Path, order: str, options: list[tuple[int, bytes | int]], units: int, nanoseconds: int
) -> None:
    written = b"".join(
        option(code, struct.pack(order + "q", value) if isinstance(value, int) else value, order)
        for code, value in options
    )
    for write in (enhanced, old):
        for count in (1, MANY):
            file = section(order) + interface(1, order, written) + write(PACKET, units, 0, order) * count
            segments, _ = read_octets(tmp_path, file)
            assert [segment.time for segment in segments] == [nanoseconds] * count


def test_each_packet_has_the_clock_of_its_interface(tmp_path: Path) -> None:
    """This includes several interfaces in one block, and clocks beyond 64 bits."""
    picoseconds, nanoseconds, seconds = (interface(1, "<", option(9, bytes((digits,)))) for digits in (12, 9, 0))
    expected = {0: 5, 1: 5_000, 2: LATEST}
    for clocks in ([0, 1], [1, 2], [0, 1, 2]):
        file = section() + picoseconds + nanoseconds + seconds
        file += b"".join(
            enhanced(PACKET, 1 << 62 if clock == 2 else 5_000, clock) for _ in range(MANY) for clock in clocks
        )
        segments, _ = read_octets(tmp_path, file)
        assert [segment.time for segment in segments] == [expected[clock] for _ in range(MANY) for clock in clocks]


def test_options_with_a_wrong_length_are_left_out(tmp_path: Path) -> None:
    lying = struct.pack("<HH", 9, 60_000) + b"\x09"
    (segment,), _ = read_octets(tmp_path, section() + interface(1, "<", lying) + enhanced(PACKET, UNITS))
    assert segment.time == UNITS * 1000


def test_sections_have_byte_orders_and_interfaces_of_their_own(tmp_path: Path, block_size: int) -> None:
    raw = Packet(PACKET.octets[14:])
    file = (
        section("<")
        + interface(101, "<")
        + interface(1, "<", option(9, b"\x09"))
        + enhanced(raw, 1, 0)
        + enhanced(PACKET, 2, 1)
        + section(">")
        + interface(1, ">")
        + enhanced(PACKET, 3, 0, ">")
    )
    segments, _ = read_octets(tmp_path, file, block_size=block_size)
    assert [(segment.packet, segment.time) for segment in segments] == [(1, 1000), (2, 2), (3, 3000)]


def test_packets_alternate_between_interfaces(tmp_path: Path, block_size: int) -> None:
    """Each interface has its own clock, and there are two link types."""
    raw = Packet(PACKET.octets[14:])
    file = section() + interface(101) + interface(1, "<", option(9, b"\x09"))
    file += b"".join(enhanced(raw, unit, 0) + enhanced(PACKET, unit, 1) for unit in range(50))
    segments, _ = read_octets(tmp_path, file, block_size=block_size)
    assert [segment.packet for segment in segments] == list(range(1, 101))
    assert [segment.time for segment in segments] == [time for unit in range(50) for time in (unit * 1000, unit)]


def test_simple_packets_take_the_time_of_the_packet_before(tmp_path: Path, block_size: int) -> None:
    simple = block(3, struct.pack("<I", len(PACKET.octets)) + PACKET.octets)
    file = section() + interface() + simple + enhanced(PACKET, UNITS) + simple
    segments, _ = read_octets(tmp_path, file, block_size=block_size)
    assert [segment.time for segment in segments] == [0, UNITS * 1000, UNITS * 1000]
    assert {segment.payload for segment in segments} == {b"hi"}


def test_simple_packets_are_cut_by_the_snap_length_of_the_interface(tmp_path: Path) -> None:
    long = tcp_packet(140, bytes(100))
    simple = block(3, struct.pack("<I", len(long)) + long[:60])
    (segment,), _ = read_octets(tmp_path, section() + interface(1, "<", b"", 60) + simple)
    assert (len(segment.payload), segment.cut) == (6, 94)


def test_unknown_blocks_are_skipped(tmp_path: Path, block_size: int) -> None:
    """Unknown blocks may have any length, and are not kept."""
    statistics, custom = block(5, bytes(20)), block(0x80000BAD, bytes(200_000))
    file = section() + statistics + interface() + custom + enhanced(PACKET, 1) + block(0x77, b"") + enhanced(PACKET, 2)
    segments, _ = read_octets(tmp_path, file, block_size=block_size)
    assert [segment.packet for segment in segments] == [1, 2]


def test_packets_may_have_options(tmp_path: Path) -> None:
    options = option(2, bytes(4)) + option(1, b"a comment") + option(0, b"")
    (segment,), _ = read_octets(tmp_path, section() + interface() + enhanced(PACKET, 1, options=options))
    assert segment.payload == b"hi"


@pytest.mark.parametrize("before", [1, MANY])
@pytest.mark.parametrize(
    ("damaged", "text"),
    [
        (b"\x06\0\0\0\x0b\0\0\0" + bytes(40), "a block of type 6 claims a length of 11 octets"),
        (b"\x06\0\0\0\x1c\0\0\0" + bytes(40), "a block of type 6 claims a length of 28 octets"),
        (b"\x06\0\0\0\x29\0\0\0" + bytes(40), "a block of type 6 claims a length of 41 octets"),
        (b"\x06\0\0\0\xfc\xff\xff\xff" + bytes(40), "a block of type 6 claims a length of 4294967292 octets"),
        (b"\x77\0\0\0\0\0\0\0" + bytes(40), "a block of type 119 claims a length of 0 octets"),
        (enhanced(PACKET, 2)[:-4] + b"\0\0\0\1", "the two lengths of a block of type 6 differ"),
        (block(0x77, bytes(100_000))[:-4] + b"\0\0\0\1", "the two lengths of a block of type 119 differ"),
        (enhanced(PACKET, 2, 1), "a packet names interface 1, which its section does not describe"),
        (old(PACKET, 2, 7), "a packet names interface 7, which its section does not describe"),
        (
            block(6, struct.pack("<IIIII", 0, 0, 0, 500, 500) + bytes(60)),
            "a packet claims 500 octets in a block that has room for 60",
        ),
        (section()[:8] + bytes(20), "a section header has no byte-order magic"),
        (enhanced(PACKET, 2)[:-5], "the file ends inside a block"),
        (b"\x06\0\0", "the file ends inside a block, after 3 octets of it"),
        (block(0x77, bytes(100_000))[:-50_000], "the file ends inside a block"),
    ],
)
def test_a_wrong_length_is_reported_with_packet_and_octet(
    tmp_path: Path, damaged: bytes, text: str, block_size: int, before: int
) -> None:
    """Everything before it is read, and nothing after it is invented."""
    good = section() + interface() + enhanced(PACKET, 1) * before
    behind = enhanced(PACKET, 3) * MANY * (text[:8] != "the file")
    captures = captures_of(tmp_path, good + damaged + behind, block_size=block_size)
    segments, _ = read(captures)
    assert [segment.packet for segment in segments] == list(range(1, before + 1))
    (problem,) = captures.problems
    assert (problem.packet, problem.offset) == (before, len(good))
    assert problem.text.startswith(text)
    assert str(problem).startswith(f"{captures.files[0]}: {problem.text} (after packet {before}, octet {len(good)}); ")


def test_a_section_has_at_most_65536_interfaces(tmp_path: Path) -> None:
    good = section() + interface() * 65_536
    captures = captures_of(tmp_path, good + interface() + enhanced(PACKET, 1))
    assert read(captures) == ([], [])
    (problem,) = captures.problems
    assert (problem.offset, problem.text) == (len(good), "a section has more than 65536 interfaces")
    (segment,), _ = read_octets(tmp_path, good + enhanced(PACKET, 1, 65_535))
    assert segment.packet == 1


def test_a_length_above_the_largest_packet_is_damage(tmp_path: Path, block_size: int) -> None:
    """An announced length takes no memory, in pcap either."""
    good = pcap([PACKET])
    record = struct.pack("<IIII", 1, 0, 0xFFFFFFF0, 0xFFFFFFF0)
    captures = captures_of(tmp_path, good + record + bytes(5000), block_size=block_size)
    segments, _ = read(captures)
    assert len(segments) == 1
    (problem,) = captures.problems
    assert (problem.packet, problem.offset) == (1, len(good))
    assert problem.text == "the next packet claims a length of 4294967280 octets"
