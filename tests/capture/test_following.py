"""Files that another process still writes give the blocks of whole files, as soon as the octets are there."""

from __future__ import annotations

import gzip
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.containers import Packet, pcap, pcapng, read, tcp_packet
from zmtpscope.capture import CaptureError, FollowedFile, Polling, follow_captures, open_captures
from zmtpscope.capture.following import IDLE_PAUSE, LONGEST_PAUSE, Pace
from zmtpscope.capture.packets import NOWHERE

PACKETS = [Packet(tcp_packet(40 + size, bytes(size)), time=size * 1000) for size in range(60)]


class Script:
    """A writer that takes one step with each `wait`: it appends octets, begins a new file, or makes a call."""

    def __init__(self, directory: Path, steps: Iterable[bytes | str | None], *, named: bool = True) -> None:
        self.directory = directory
        self.files: list[FollowedFile] = []
        self.read_to: dict[int, int] = {}
        self._steps = iter(steps)
        self._named = named

    def wait(self, seconds: float) -> bool:
        step = next(self._steps, None)
        if isinstance(step, str):
            self._complete()
            path = str(self.directory / step)
            self.files.append(FollowedFile(path, path if self._named else None, False))
        elif step is not None:
            with open(self.files[-1].path, "ab") as file:
                file.write(step)
        else:
            self._complete()
            return False
        return True

    def consumed(self, file: int, octets: int) -> None:
        assert octets <= os.path.getsize(self.files[file].path)
        self.read_to[file] = octets

    def _complete(self) -> None:
        self.files[-1:] = [each._replace(is_complete=True) for each in self.files[-1:]]


def cut(octets: bytes, places: Iterable[int]) -> Iterator[bytes]:
    begin = 0
    for place in sorted({place % len(octets) for place in places}):
        yield octets[begin:place]
        begin = place
    yield octets[begin:]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zmtpscope.capture.following.SHORTEST_PAUSE", 0.0)
    monkeypatch.setattr("zmtpscope.capture.following.PAUSE_PER_COST", 0)


FILES = {"pcap": pcap(PACKETS), "pcapng": pcapng(PACKETS), "gzip": gzip.compress(pcap(PACKETS))}


@given(st.sampled_from(list(FILES)), st.lists(st.integers(0), max_size=8))
def test_the_output_is_the_same_wherever_the_writer_pauses(form: str, places: list[int]) -> None:
    octets = FILES[form]
    with tempfile.TemporaryDirectory() as directory:
        script = Script(Path(directory), ["a", *cut(octets, places)])
        followed = follow_captures(script)
        result = read(followed)
        path = str(Path(directory) / "a")
        assert result == read(open_captures([path]))
        assert followed.files == [path]
        assert not followed.problems
        assert script.read_to == {0: len(octets)}


@pytest.mark.parametrize("octets", [pcap(PACKETS[:4]), pcapng(PACKETS[:4])])
def test_a_packet_is_returned_as_soon_as_its_last_octet_is_there(tmp_path: Path, octets: bytes) -> None:
    pieces = [octets[place : place + 1] for place in range(len(octets))]
    script = Script(tmp_path, ["a", *pieces])
    whole = 0
    for block in follow_captures(script):
        if len(block):
            assert len(block) == 1
            whole += 1
            (tmp_path / "b").write_bytes((tmp_path / "a").read_bytes())
            cut_short = open_captures([str(tmp_path / "b")])
            assert sum(len(each) for each in cut_short) == whole
            assert not cut_short.problems
    assert whole == 4


@pytest.mark.parametrize("named", [True, False])
def test_octets_of_files_without_a_name_cannot_be_read_again(tmp_path: Path, named: bool) -> None:
    for block in follow_captures(Script(tmp_path, ["a", pcap(PACKETS)], named=named)):
        if len(block):
            assert (block.places.offsets == NOWHERE).all() != named


def test_the_files_of_a_session_are_read_one_after_the_other(tmp_path: Path) -> None:
    one, two = pcapng(PACKETS[:20]), pcapng(PACKETS[20:])
    steps = ["1", one[:500], one[500:], "2", two[:60], two[60:]]
    followed = follow_captures(Script(tmp_path, steps))
    paths = [str(tmp_path / name) for name in "12"]
    assert read(followed) == read(open_captures(paths))
    assert followed.files == paths


def test_packets_are_counted_on_where_files_have_no_names(tmp_path: Path) -> None:
    one, two = pcapng(PACKETS[:20]), pcapng(PACKETS[20:])
    followed = follow_captures(Script(tmp_path, ["1", one, "2", two], named=False))
    result = read(followed)
    (tmp_path / "both").write_bytes(one + two)
    assert result == read(open_captures([str(tmp_path / "both")]))
    assert followed.files == [None]


def test_a_file_that_is_not_there_yet_or_empty_is_waited_for(tmp_path: Path) -> None:
    octets = pcap(PACKETS)
    script = Script(tmp_path, ["a", b"", b"", octets])
    blocks = [len(block) for block in follow_captures(script)]
    assert blocks[:2] == [0, 0]
    assert sum(blocks) == len(PACKETS)


def test_standard_input_without_an_octet_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller gets empty blocks meanwhile, and can do other work."""
    reading, writing = os.pipe()
    monkeypatch.setattr("zmtpscope.capture.source.STANDARD_INPUT", reading)
    monkeypatch.setattr("zmtpscope.capture.following.STANDARD_INPUT", reading)
    blocks = iter(follow_captures(Polling("-")))
    assert [len(next(blocks)) for _ in range(2)] == [0, 0]
    with open(writing, "wb") as pipe:
        pipe.write(pcap(PACKETS))
    assert sum(map(len, blocks)) == len(PACKETS)


def test_without_an_octet_until_the_end_nothing_is_reported(tmp_path: Path) -> None:
    captures = follow_captures(Script(tmp_path, ["a", b"", b""]))
    assert sum(len(block) for block in captures) == 0
    assert not captures.problems


def test_a_file_that_is_no_capture_is_reported_when_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="is not a capture"):
        read(follow_captures(Script(tmp_path, ["a", b"GET / HTTP/1.1\r\n"])))


def test_a_complete_file_that_ends_inside_a_packet_is_damaged(tmp_path: Path) -> None:
    captures = follow_captures(Script(tmp_path, ["a", pcapng(PACKETS)[:-1]]))
    read(captures)
    assert [problem.packet for problem in captures.problems] == [len(PACKETS) - 1]


class Stopped(Polling):
    def __init__(self, path: Path, looks: int) -> None:
        super().__init__(str(path))
        self.looks = looks
        self.seen = 0

    def wait(self, seconds: float) -> bool:
        self.seen += 1
        if self.seen == self.looks:
            self.stop()
        return super().wait(0)


def test_a_packet_under_way_is_no_damage_where_reading_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(pcap(PACKETS)[:-1])
    captures = follow_captures(Stopped(path, 10))
    assert len(read(captures)[0]) == len(PACKETS) - 1
    assert not captures.problems


CHANGES: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: path.unlink(),
    "another file": lambda path: path.with_name("b").replace(path),
    "truncated": lambda path: os.truncate(path, 30),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_file_that_is_no_longer_the_same_ends_with_a_sentence(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(pcap(PACKETS))
    path.with_name("b").write_bytes(pcap(PACKETS))
    captures = follow_captures(Stopped(path, 1000))
    blocks = iter(captures)
    assert len(next(blocks)) == len(PACKETS)
    CHANGES[what](path)
    assert sum(len(block) for block in blocks) == 0
    assert [(what in problem.text, problem.packet) for problem in captures.problems] == [(True, len(PACKETS))]


def test_a_pipe_is_followed_until_its_writer_closes_it(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    octets = pcap(PACKETS)
    seen = threading.Event()

    def write() -> None:
        with path.open("wb", buffering=0) as pipe:
            pipe.write(octets[:-1])
            seen.wait(60)
            pipe.write(octets[-1:])

    writer = threading.Thread(target=write)
    writer.start()
    captures = follow_captures(Polling(str(path)))
    packets = 0
    for block in captures:
        packets += len(block)
        if packets == len(PACKETS) - 1:
            seen.set()
    writer.join()
    assert packets == len(PACKETS)
    assert not captures.problems


def test_a_growing_file_is_read_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zmtpscope.capture.following.SHORTEST_PAUSE", 0.02)
    monkeypatch.setattr("zmtpscope.capture.following.PAUSE_PER_COST", 2)
    now = [0.0]
    waited: list[float] = []

    class Writer(Polling):
        def wait(self, seconds: float) -> bool:
            waited.append(seconds)
            return True

    pace = Pace(Writer("-"), lambda: now[0])
    pace.looked()
    now[0] += 0.001
    assert pace.pause() == pytest.approx(0.019)
    now[0] += 0.1
    assert pace.pause() == pytest.approx(0.101)
    now[0] += LONGEST_PAUSE
    assert pace.pause() == 0
    pace.wait(IDLE_PAUSE)
    assert waited == [IDLE_PAUSE]
