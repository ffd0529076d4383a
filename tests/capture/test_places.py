"""Positions of packets in their files: octets that are read there again equal the packet."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.containers import Packet, captures_of, pcap, pcapng, tcp_packet
from tests.readings import CAPTURE_FILES
from zmtpscope.capture import Captures, open_captures
from zmtpscope.capture.files import CaptureFile
from zmtpscope.capture.packets import NOWHERE
from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK, SegmentBlock
from zmtpscope.capture.statistics import FileReports

TWO_PACKETS = pcap([Packet(tcp_packet(42, b"hello")), Packet(tcp_packet(47, b"world"))])


def is_compressed(path: Path) -> bool:
    return path.suffix in (".gz", ".zst")


def read_again(captures: Captures) -> Iterator[tuple[SegmentBlock, dict[int, bytes]]]:
    """Return each block, and the octets of its packets in the files, by reference."""
    for block in captures:
        found = {}
        for reference, offset, length, _ in zip(*(column.tolist() for column in block.places), strict=True):
            path = captures.files[reference >> FILE_SHIFT]
            assert path is not None
            with open(path, "rb") as file:
                found[reference] = os.pread(file.fileno(), length, offset)
                assert len(found[reference]) == length
        yield block, found


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_octets_that_are_read_again_equal_the_packet(path: Path) -> None:
    octets = path.read_bytes()
    for block in CaptureFile(str(path)).blocks(1 << 12, FileReports()):
        for start, stop, offset in zip(
            block.starts.tolist(), block.stops.tolist(), block.offsets.tolist(), strict=True
        ):
            if is_compressed(path):
                assert offset == NOWHERE
            else:
                assert octets[offset : offset + stop - start] == block.data[start:stop]


@given(
    files=st.lists(st.lists(st.integers(0, 60), max_size=25), min_size=1, max_size=5),
    size=st.sampled_from([64, 500, 1 << 20]),
)
def test_packets_of_files_that_overlap_keep_their_places(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[int]], size: int
) -> None:
    folder = tmp_path_factory.mktemp("places")
    written = [
        [Packet(tcp_packet(42, bytes((index, number))), time=time * 1000) for number, time in enumerate(times)]
        for index, times in enumerate(files)
    ]
    octets = [(pcapng if index % 2 else pcap)(packets) for index, packets in enumerate(written)]
    count = 0
    for block, found in read_again(captures_of(folder, *octets, block_size=size)):
        for reference in block.packets.tolist():
            assert found[reference] == written[reference >> FILE_SHIFT][(reference & PACKET_MASK) - 1].octets
            count += 1
    assert count == sum(map(len, files))


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_payloads_that_are_read_again_equal_the_segments(path: Path) -> None:
    octets = path.read_bytes()
    for block in open_captures([str(path)], block_size=1 << 12):
        for start, stop, offset in zip(
            block.starts.tolist(), block.stops.tolist(), block.payload_places()[0].tolist(), strict=True
        ):
            assert is_compressed(path) <= (offset == NOWHERE)
            assert offset == NOWHERE or octets[offset : offset + stop - start] == block.data[start:stop]


def test_a_part_of_a_block_has_its_places() -> None:
    path = next(path for path in CAPTURE_FILES if path.name == "pubsub.pcap")
    for block, found in read_again(open_captures([str(path)])):
        part = block.select(np.arange(len(block.keys)) < 1, datagrams=False)
        assert part.places is block.places
        for start, stop, packet in zip(part.starts, part.stops, part.packets.tolist(), strict=True):
            assert part.data[start:stop] in found[packet]


def test_packets_of_compressed_files_have_no_place(tmp_path: Path) -> None:
    path = tmp_path / "packed.gz"
    path.write_bytes(gzip.compress(TWO_PACKETS))
    assert [block.places.offsets.tolist() for block in open_captures([str(path)])] == [[NOWHERE] * 2]


def test_packets_of_pipes_have_no_place(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(TWO_PACKETS,))
    writer.start()
    captures = open_captures([str(path)])
    writer.join()
    assert [block.places.offsets.tolist() for block in captures] == [[NOWHERE] * 2]
