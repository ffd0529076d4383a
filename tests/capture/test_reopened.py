"""Reading files that were found before: parts of them by time, and changes since."""

from __future__ import annotations

import pathlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.readings import CAPTURES
from zmtpscope.capture import ALWAYS, SegmentBlock, TimeSpan, open_captures, reopen_captures
from zmtpscope.capture.files import find_files
from zmtpscope.capture.statistics import FileReports

FILES = [str(CAPTURES / "patterns" / name) for name in ("pubsub.pcap", "reqrep.pcap")]


def packets_of(path: str, size: int, span: TimeSpan = ALWAYS) -> list[int]:
    (file,) = find_files([path])
    return [
        int(packet)
        for block in type(file)(path, None, span).blocks(size, FileReports())
        for packet in block.references.tolist()
    ]


def taken_times(path: str) -> list[int]:
    blocks = find_files([path])[0].blocks(1 << 20, FileReports())
    times = np.concatenate([block.times for block in blocks])
    return [int(time) for time in np.maximum.accumulate(times)]


@given(
    path=st.sampled_from([*FILES, *map(str, sorted((CAPTURES / "damage").glob("*.pcap")))]),
    first=st.integers(0, 100),
    count=st.integers(0, 100),
    shift=st.integers(-1, 1),
    size=st.sampled_from([1 << 10, 1 << 20]),
)
def test_packets_of_a_span_of_time_were_captured_in_it(
    path: str, first: int, count: int, shift: int, size: int
) -> None:
    times = taken_times(path)
    since = times[first % len(times)] + shift
    span = TimeSpan(since, times[min(first % len(times) + count, len(times) - 1)] + 1)
    wanted = [number for number, time in enumerate(times, 1) if span.since <= time < span.until]
    assert packets_of(path, size, span) == wanted


def segments(blocks: list[SegmentBlock]) -> list[tuple[int, int]]:
    return [pair for block in blocks for pair in zip(block.packets.tolist(), block.times.tolist(), strict=True)]


def test_captures_that_were_found_before_are_read_as_they_are_found() -> None:
    again = reopen_captures(FILES)
    assert segments(list(again)) == segments(list(open_captures(FILES)))
    assert (again.files, again.problems) == (FILES, [])


def test_files_that_vanished_keep_their_place_and_are_a_problem(tmp_path: pathlib.Path) -> None:
    other = tmp_path / "replaced.pcap"
    other.write_text("it was a capture once")
    captures = reopen_captures([str(tmp_path / "gone.pcap"), FILES[0], str(other), FILES[1]])
    found = {packet >> 40 for packet, _ in segments(list(captures))}
    assert found == {1, 3}
    assert [(problem.file, problem.text) for problem in captures.problems] == [
        (str(tmp_path / "gone.pcap"), "no such file"),
        (str(other), "is not a capture: neither pcap nor pcapng begins with 69 74 20 77"),
    ]
