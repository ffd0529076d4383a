"""Packets lost before they were written, as pcapng of any tool counts them."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import pytest

from tests.capture.containers import (
    ETHERNET,
    Packet,
    block,
    enhanced,
    interface,
    option,
    read,
    section,
    tcp_packet,
)
from zmtpscope.capture import Captures, CaptureStatistics, open_captures
from zmtpscope.capture.pcapng import MAX_OPTIONS

PACKETS = [Packet(tcp_packet(40 + size, bytes(size)), time=size * 1000) for size in range(20)]
RECEIVED, IF_DROP, OS_DROP, DELIVERED = 4, 5, 7, 8
UNITS = 1_700_000_000_123_456


def statistics(number: int, counts: dict[int, int], *, start: int | None = None, order: str = "<") -> bytes:
    body = struct.pack(order + "III", number, UNITS >> 32, UNITS & 0xFFFFFFFF)
    if start is not None:
        body += option(2, struct.pack(order + "II", start >> 32, start & 0xFFFFFFFF), order)
    for code, count in counts.items():
        body += option(code, struct.pack(order + "Q", count), order)
    return block(5, body + option(0, b"", order), order)


def named(name: str, order: str = "<") -> bytes:
    return interface(ETHERNET, order, option(2, name.encode(), order))


def packet_with(count: int, order: str = "<", before: bytes = b"") -> bytes:
    """A packet that counts `count` lost packets before it."""
    options = before + option(4, struct.pack(order + "Q", count), order)
    return enhanced(PACKETS[0], UNITS, 0, order, options)


def captures_of(tmp_path: Path, *files: bytes) -> Captures:
    paths = []
    for number, octets in enumerate(files):
        path = tmp_path / f"{number}.pcapng"
        path.write_bytes(octets)
        paths.append(str(path))
    return open_captures(paths, block_size=256)


def drops(tmp_path: Path, *files: bytes) -> dict[str, int]:
    captures = captures_of(tmp_path, *files)
    read(captures)
    assert not captures.problems
    return captures.statistics.dropped()


@pytest.mark.parametrize("order", ["<", ">"])
def test_each_interface_has_its_drops(tmp_path: Path, order: str) -> None:
    interfaces = [named("eth0", order), named("eth1", order), interface(ETHERNET, order)]
    counts = [
        statistics(0, {RECEIVED: 10, IF_DROP: 2, OS_DROP: 3, DELIVERED: 5}, order=order),
        statistics(1, {RECEIVED: 7, IF_DROP: 0}, order=order),
        statistics(2, {IF_DROP: 1}, order=order),
    ]
    octets = b"".join([section(order), *interfaces, *counts])
    assert drops(tmp_path, octets) == {"eth0": 5, "interface 2": 1}
    captures = captures_of(tmp_path, octets)
    read(captures)
    first = captures.statistics.interfaces()[0]
    assert (first.received, first.dropped_by_interface, first.dropped_by_system, first.delivered) == (10, 2, 3, 5)


def test_of_several_blocks_of_an_interface_the_last_counts(tmp_path: Path) -> None:
    blocks = [statistics(0, {IF_DROP: count}) for count in (0, 2, 7)]
    octets = section() + named("eth0") + b"".join(blocks)
    assert drops(tmp_path, octets) == {"eth0": 7}


def test_sections_are_captures_of_their_own_unless_they_began_together(tmp_path: Path) -> None:
    def part(count: int, start: int | None) -> bytes:
        return section() + named("eth0") + statistics(0, {IF_DROP: count}, start=start)

    assert drops(tmp_path, part(2, None) + part(3, None)) == {"eth0": 5}
    assert drops(tmp_path, part(2, 1), part(3, 2)) == {"eth0": 5}
    assert drops(tmp_path, part(2, 1), part(3, 1)) == {"eth0": 3}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("count", [1, 20])
def test_packets_count_the_lost_packets_before_them(tmp_path: Path, count: int, order: str) -> None:
    comment = option(1, b"hello", order)
    packets = [packet_with(each % 3, order, comment * (each % 4)) for each in range(1, count + 1)]
    octets = b"".join([section(order), named("eth0", order), *packets])
    assert drops(tmp_path, octets) == {"eth0": sum(each % 3 for each in range(1, count + 1))}


def test_losses_counted_by_packets_are_part_of_the_total(tmp_path: Path) -> None:
    octets = section() + named("eth0") + packet_with(4) + packet_with(5) + statistics(0, {IF_DROP: 9}, start=3)
    assert drops(tmp_path, octets) == {"eth0": 9}


def test_files_summed_up_one_by_one_have_the_total_of_all(tmp_path: Path) -> None:
    begin = section() + named("eth0") + named("eth1")
    files = [
        begin + packet_with(4) + statistics(0, {IF_DROP: 9}, start=3) + statistics(1, {IF_DROP: 1}),
        begin + statistics(0, {IF_DROP: 12}, start=3) + statistics(1, {IF_DROP: 2}),
        begin + statistics(0, {IF_DROP: 1}, start=4) + statistics(1, {IF_DROP: 0}),
    ]
    summed = CaptureStatistics()
    for octets in files:
        captures = captures_of(tmp_path, octets)
        read(captures)
        summed.files += captures.statistics.files
        summed.fold_files()
    assert summed.dropped() == drops(tmp_path, *files) == {"eth0": 13, "eth1": 3}
    assert len(summed.files) == 1
    assert len(summed.interfaces()) == 3


def test_options_after_many_others_are_not_read(tmp_path: Path) -> None:
    comments = option(1, b"") * MAX_OPTIONS
    assert drops(tmp_path, section() + named("eth0") + packet_with(4, before=comments)) == {}


def test_unreadable_statistics_are_ignored(tmp_path: Path) -> None:
    damaged = [
        block(5, b""),
        block(5, b"1234"),
        statistics(9, {IF_DROP: 1}),
        block(5, bytes(12) + b"\x05\0\x08\0\x01"),
        block(5, bytes(12) + option(5, b"1234")),
        block(5, bytes(1 << 17)),
    ]
    for blocks in itertools.permutations(damaged, 2):
        octets = section() + named("eth0") + b"".join(blocks) + statistics(0, {IF_DROP: 3})
        assert drops(tmp_path, octets) == {"eth0": 3}
