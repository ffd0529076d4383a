"""Several files as one capture: in time order, packet by packet where they overlap, each packet with its file."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable
from heapq import merge
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.containers import Packet, Segment, captures_of, pcap, pcapng, read, tcp_packet
from zmtpscope.capture import CaptureError, open_captures, source
from zmtpscope.capture import merge as merging

times = st.lists(st.integers(0, 60), max_size=25)


def packets(moments: list[int], file: int) -> list[Packet]:
    """Return packets at these microseconds; their payload names file and number."""
    return [
        Packet(tcp_packet(42, bytes((file, number))), time=moment * 1000) for number, moment in enumerate(moments, 1)
    ]


def order(segments: list[Segment]) -> list[tuple[int, int, int]]:
    for segment in segments:
        assert segment.payload == bytes((segment.file, segment.packet))
    return [(segment.time // 1000, segment.file, segment.packet) for segment in segments]


def open_files() -> int:
    """Return the number of open files, inherited ones included."""
    return len(os.listdir("/dev/fd"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("merge")


@given(files=st.lists(times, min_size=1, max_size=9), size=st.sampled_from([64, 500, 1 << 20]), mixed=st.booleans())
def test_packets_of_all_files_arrive_in_time_order(
    folder: Path, files: list[list[int]], size: int, mixed: bool
) -> None:
    """Equal times in the order of the files; each file's own order is kept also where its time runs backwards."""
    written = [packets(moments, index) for index, moments in enumerate(files)]
    octets = [(pcapng if mixed and index % 2 else pcap)(each) for index, each in enumerate(written)]
    segments, _ = read(captures_of(folder, *octets, block_size=size))
    keyed = [
        [(moment, index, number) for number, moment in enumerate(moments, 1)] for index, moments in enumerate(files)
    ]
    assert order(segments) == list(merge(*keyed, key=lambda entry: entry[:2]))


@given(first=times, second=times, size=st.sampled_from([64, 500, 1 << 20]))
def test_files_that_do_not_overlap_come_one_after_the_other(
    folder: Path, first: list[int], second: list[int], size: int
) -> None:
    """By their times, not by the order they were named in; time may run backwards inside each."""
    later = [moment + 100 for moment in second]
    segments, _ = read(captures_of(folder, pcap(packets(later, 0)), pcap(packets(first, 1)), block_size=size))
    expected = [(moment, 1, number) for number, moment in enumerate(first, 1)]
    assert order(segments) == expected + [(moment, 0, number) for number, moment in enumerate(later, 1)]


def test_blocks_of_files_that_do_not_overlap_are_handed_on_untouched(tmp_path: Path) -> None:
    early, late = pcap(packets(list(range(50)), 0)), pcap(packets(list(range(50, 100)), 1))
    blocks = [block.data for block in captures_of(tmp_path, late, early)]
    assert b"".join(blocks) == early + late


def test_fragments_and_ordinals_continue_from_file_to_file(tmp_path: Path) -> None:
    """`read` checks the ordinals; a file that is damaged does not end the run."""
    whole, cut = pcap(packets([1, 4], 0)), pcap(packets([2, 3], 1))[:-10]
    captures = captures_of(tmp_path, whole, cut)
    segments, _ = read(captures)
    assert order(segments) == [(1, 0, 1), (2, 1, 1), (4, 0, 2)]
    assert [problem.file for problem in captures.problems] == [str(tmp_path / "1.capture")]


def test_a_pipe_is_merged_like_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    writer = threading.Thread(target=(tmp_path / "fifo").write_bytes, args=(pcap(packets([2, 3, 9], 1)),))
    writer.start()
    (tmp_path / "file").write_bytes(pcap(packets([1, 4, 5], 0)))
    segments, _ = read(open_captures([str(tmp_path / "file"), str(tmp_path / "fifo")]))
    writer.join()
    assert [moment for moment, _, _ in order(segments)] == [1, 2, 3, 4, 5, 9]


def test_more_files_than_a_process_may_have_open(tmp_path: Path) -> None:
    """Rotated captures that do not overlap are open one at a time."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    paths = [tmp_path / f"{index:03}.pcap" for index in range(120)]
    for index, path in enumerate(paths):
        path.write_bytes(pcap(packets([index], index)))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 60, hard))
    try:
        captures = open_captures([str(tmp_path)])
        segments, _ = read(captures)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [segment.file for segment in segments] == list(range(120))
    assert captures.problems == []


@pytest.mark.parametrize("compressed", [False, True])
def test_more_files_that_overlap_than_a_process_may_have_open(tmp_path: Path, compressed: bool) -> None:
    """Each is read in several pieces, and closed in between."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    made = [pcap(packets(list(range(index, 8000, 130)), index)) for index in range(130)]
    for index, octets in enumerate(made):
        (tmp_path / f"{index:03}.pcap").write_bytes(gzip.compress(octets) if compressed else octets)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 76, hard))
    try:
        captures = open_captures([str(tmp_path)], block_size=2000)
        segments, _ = read(captures)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [moment for moment, _, _ in order(segments)] == list(range(8000))
    assert captures.problems == []


def test_a_file_that_was_replaced_while_it_was_closed_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_OPEN_FILES", 1)
    paths = [tmp_path / str(index) for index in range(2)]
    for index, path in enumerate(paths):
        path.write_bytes(pcap(packets(list(range(index, 200, 2)), index)))
    captures = open_captures(list(map(str, paths)), block_size=2000)
    blocks = iter(captures)
    next(blocks)
    for path in paths:
        path.rename(path.with_suffix(".old"))
        path.write_bytes(pcap(packets([5], 0)))
    list(blocks)
    assert {problem.text for problem in captures.problems} == {"reading failed: another file replaced it"}


def steps(folder: Path, monkeypatch: pytest.MonkeyPatch, files: int, each: int) -> tuple[int, int]:
    """Return how often a file was examined to merge `files` that all overlap, and the number of blocks."""
    folder.mkdir()
    for index in range(files):
        moments = list(range(index, files * each, files))
        (folder / f"{index:04}").write_bytes(pcap(packets(moments, index & 255)))
    count = 0

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any) -> Any:
            nonlocal count
            count += 1
            return method(*given)

        return counted

    with monkeypatch.context() as patch:
        patch.setattr(merging, "SMALLEST_BLOCK", 500)
        for name in ("read", "up_to"):
            patch.setattr(merging.Cursor, name, counting(getattr(merging.Cursor, name)))
        blocks = sum(1 for _ in open_captures([str(folder)], block_size=2000))
    return count, blocks


@pytest.mark.parametrize("each", [2, 40])
def test_a_merge_costs_each_file_as_much_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each: int
) -> None:
    few, _ = steps(tmp_path / "few", monkeypatch, 50, each)
    many, blocks = steps(tmp_path / "many", monkeypatch, 200, each)
    assert many < 4.5 * few
    assert blocks > 3 * each // 2


def test_a_directory_is_replaced_by_the_captures_in_it(tmp_path: Path) -> None:
    """Captures are found by contents under any name; other files are skipped."""
    (tmp_path / "b.pcap0").write_bytes(pcap(packets([5], 0)))
    (tmp_path / "a.pcapng").write_bytes(pcapng(packets([6], 0)))
    (tmp_path / "c").write_bytes(gzip.compress(pcap(packets([7], 0))))
    (tmp_path / "notes.txt").write_text("not a capture")
    (tmp_path / "empty.pcap").write_bytes(b"")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "d.pcap").write_bytes(pcap(packets([8], 0)))
    captures = open_captures([str(tmp_path)])
    assert captures.files == [str(tmp_path / name) for name in ("a.pcapng", "b.pcap0", "c")]
    segments, _ = read(captures)
    assert [(segment.time, segment.file) for segment in segments] == [(5000, 1), (6000, 0), (7000, 2)]


def test_a_directory_without_captures_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a capture")
    with pytest.raises(CaptureError, match=r"is a directory without captures; none of its 1 files is a capture"):
        open_captures([str(tmp_path)])
