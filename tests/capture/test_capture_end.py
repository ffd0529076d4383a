"""The end of a capture: statistics of files, and cases in which they are not trusted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from struct import pack

import pytest

from tests.suites import IS_FULL
from zmtpscope.capture import open_captures
from zmtpscope.export.pcapng import (
    InterfaceStatistics,
    interface_description,
    interface_statistics,
    packet_block,
    section_header,
)
from zmtpscope.records import SECOND

START = 1_795_000_000 * SECOND
RAW_IP = 101
PACKET = bytes.fromhex("4500001400000000400600000a0000010a000002")

BLOCKS = (64, 2 << 20) if IS_FULL else (64,)


def file_of(path: Path, *blocks: bytes) -> str:
    path.write_bytes(b"".join((section_header(), interface_description(RAW_IP, "eth0"), *blocks)))
    return str(path)


def packets(*seconds: int, interface: int = 0) -> bytes:
    return b"".join(packet_block(interface, START + each * SECOND, PACKET, len(PACKET)) for each in seconds)


def ended(second: int, delivered: int, interface: int = 0, began: int = 0) -> bytes:
    times = START + began * SECOND, START + second * SECOND
    return interface_statistics(interface, InterfaceStatistics(*times, delivered, 0, delivered))


def end_of(paths: Iterable[str], packet_limit: int | None = None) -> float | None:
    """Seconds after `START`; None if unknown."""
    found = set()
    for block_size in BLOCKS:
        captures = open_captures(list(paths), packet_limit=packet_limit, block_size=block_size)
        for _ in captures:
            pass
        found.add(captures.statistics.end_time())
    (end,) = found
    return (end - START) / SECOND if end else None


def test_the_last_statistics_show_when_the_capture_ended(tmp_path: Path) -> None:
    path = file_of(tmp_path / "a.pcapng", packets(1), ended(2, 1), packets(3), ended(9, 2))
    assert end_of([path]) == 9


def test_many_packets_are_counted_as_few_are(tmp_path: Path) -> None:
    assert end_of([file_of(tmp_path / "a.pcapng", packets(*range(100)), ended(120, 100))]) == 120


def test_dumpcap_counts_microseconds_for_any_clock_of_the_interface(tmp_path: Path) -> None:
    microseconds = (START + 9 * SECOND) // 1000
    high, low = microseconds >> 32, microseconds & 0xFFFFFFFF
    options = pack("<HHII", 3, 8, high, low) + pack("<HHQ", 4, 8, 1) + pack("<HH", 0, 0)
    length = 12 + 12 + len(options)
    block = pack("<IIIII", 5, length, 0, high, low) + options + pack("<I", length)
    assert end_of([file_of(tmp_path / "a.pcapng", packets(1), block)]) == 9


@pytest.mark.parametrize("statistics", [b"", ended(2, 1)], ids=["none", "before the last packet"])
def test_without_later_statistics_the_capture_ends_with_its_last_packet(tmp_path: Path, statistics: bytes) -> None:
    assert end_of([file_of(tmp_path / "a.pcapng", packets(1), statistics, packets(3))]) is None


def test_a_file_of_which_packets_were_removed_does_not_show_the_end(tmp_path: Path) -> None:
    """Tools that cut or filter captures keep the statistics of the whole."""
    assert end_of([file_of(tmp_path / "a.pcapng", packets(1), ended(600, 2))]) is None


def test_the_end_is_unknown_after_the_requested_packets(tmp_path: Path) -> None:
    path = file_of(tmp_path / "a.pcapng", packets(1, 2), ended(9, 2))
    assert (end_of([path], 1), end_of([path], 2), end_of([path], 3)) == (None, None, 9)


def test_the_interface_that_ended_first_decides(tmp_path: Path) -> None:
    other = interface_description(RAW_IP, "eth1")
    blocks = other, packets(1), packets(2, interface=1), ended(9, 1), ended(7, 1, interface=1)
    assert end_of([file_of(tmp_path / "a.pcapng", *blocks)]) == 7


def test_files_of_one_session_are_counted_together(tmp_path: Path) -> None:
    paths = [
        file_of(tmp_path / "a.pcapng", packets(1, 2), ended(3, 2)),
        file_of(tmp_path / "b.pcapng", packets(4), ended(9, 3)),
    ]
    assert (end_of(paths), end_of(paths[1:])) == (9, None)


def test_of_captures_one_after_the_other_the_last_one_decides(tmp_path: Path) -> None:
    paths = [
        file_of(tmp_path / "a.pcapng", packets(1), ended(3, 1)),
        file_of(tmp_path / "b.pcapng", packets(20), ended(29, 1, began=10)),
    ]
    assert end_of(paths) == 29


def test_a_file_without_statistics_leaves_the_end_open(tmp_path: Path) -> None:
    paths = [file_of(tmp_path / "a.pcapng", packets(1), ended(9, 1)), file_of(tmp_path / "b.pcapng", packets(2))]
    assert end_of(paths) is None
