"""Which files of a folder a batch takes, and up to when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.capture.containers import Packet
from tests.spark.rotation import write
from zmtpscope.capture import CaptureError
from zmtpscope.spark.capture_folder import CaptureFolder, MicroBatch, next_micro_batch

SECOND = 1_000_000_000


def capture(folder: Path, name: str, *seconds: int, modified: int | None = None) -> Path:
    """Write a capture with a packet at each of these times; by default it was modified at the last one."""
    path = folder / name
    write([Packet(bytes(60), second * SECOND) for second in seconds], path)
    modified = max(seconds, default=0) if modified is None else modified
    os.utime(path, ns=(modified * SECOND, modified * SECOND))
    return path


def names(batch: MicroBatch | None) -> list[str]:
    return [] if batch is None else [os.path.basename(file.path) for file in batch.files]


class Stream:
    def __init__(self, folder: Path) -> None:
        self.folder = CaptureFolder(str(folder))
        self.batch = MicroBatch()

    def take(
        self, *, growing: int = 1, most_files: int | None = None, finish: bool = False, skip_grown: bool = False
    ) -> list[str]:
        """The names of the files of the next batch; none where there is no batch."""
        captures = self.folder.captures()
        how = {"growing": growing, "most_files": most_files, "finish": finish, "skip_grown": skip_grown}
        batch = next_micro_batch(self.batch, captures, partitions=1, **how)  # type: ignore[arg-type]
        self.batch = batch or self.batch
        return names(batch)


def test_the_newest_file_is_left_alone_until_there_is_a_newer_one(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    capture(tmp_path, "1", 1, 2)
    assert stream.take() == []
    capture(tmp_path, "2", 3, 4)
    assert stream.take() == ["1"]
    assert stream.take() == []
    capture(tmp_path, "3", 5)
    assert stream.take() == ["2"]
    assert stream.batch.number == 2


def test_files_are_taken_in_the_order_of_their_first_packets(tmp_path: Path) -> None:
    """tcpdump -C numbers without zeros in front, so names are in another order."""
    for number in range(12):
        capture(tmp_path, f"cap{number or ''}", number)
    stream = Stream(tmp_path)
    assert stream.take(most_files=3) == ["cap", "cap1", "cap2"]
    assert stream.take() == [f"cap{number}" for number in range(3, 11)]
    assert [file.number for file in stream.batch.files] == list(range(3, 11))


def test_a_batch_ends_where_the_first_file_that_is_left_begins(tmp_path: Path) -> None:
    """Two interfaces write into one folder: packets after that time are in the next batch, in order."""
    capture(tmp_path, "a1", 1, 60)
    capture(tmp_path, "b1", 30, 90)
    capture(tmp_path, "a2", 61, 120)
    stream = Stream(tmp_path)
    assert stream.take(growing=1) == ["a1", "b1"]
    assert stream.batch.until == 61 * SECOND
    capture(tmp_path, "b2", 91, 150)
    assert stream.take(growing=1) == ["a2"]
    assert stream.batch.until == 91 * SECOND


def test_a_file_that_holds_a_batch_up_may_vanish(tmp_path: Path) -> None:
    capture(tmp_path, "1", 1, 9, modified=4)
    path = capture(tmp_path, "2", 5)
    stream = Stream(tmp_path)
    assert stream.take() == ["1"]
    assert stream.batch.until == 5 * SECOND
    path.unlink()
    assert stream.take() == []
    assert (stream.batch.number, stream.batch.until) == (2, None)


def test_files_that_arrive_complete_are_all_taken(tmp_path: Path) -> None:
    capture(tmp_path, "1", 1)
    capture(tmp_path, "2", 2)
    stream = Stream(tmp_path)
    assert stream.take(growing=0) == ["1", "2"]
    capture(tmp_path, "0", 0)
    assert stream.take(growing=0) == ["0"]  # late, and not lost


def test_a_late_copy_does_not_make_a_growing_file_look_complete(tmp_path: Path) -> None:
    capture(tmp_path, "1", 1)
    capture(tmp_path, "2", 2)
    stream = Stream(tmp_path)
    assert stream.take() == ["1"]
    capture(tmp_path, "copy", 0, modified=100)
    assert stream.take() == []
    capture(tmp_path, "2", 2, modified=101)
    assert stream.take() == ["copy"]


def test_as_many_files_are_left_alone_as_are_written_at_a_time(tmp_path: Path) -> None:
    for place, name in enumerate(("a1", "b1", "a2", "b2")):
        capture(tmp_path, name, place)
    assert Stream(tmp_path).take(growing=2) == ["a1", "b1"]


@pytest.mark.parametrize("octets", [b"", b"# captured on eth0\n"])
def test_files_that_are_no_captures_are_skipped(tmp_path: Path, octets: bytes) -> None:
    for number in range(3):
        capture(tmp_path, f"{number}", number)
    capture(tmp_path, ".hidden", 0)
    capture(tmp_path, "begun")  # a header, and no packet so far
    (tmp_path / "notes").write_bytes(octets)
    (tmp_path / "folder").mkdir()
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    stream = Stream(tmp_path)
    assert stream.take() == ["0", "1"]
    assert stream.take(finish=True) == ["begun", "2"]
    assert stream.batch.is_last


def test_a_file_that_grows_behind_its_batch_is_an_error(tmp_path: Path) -> None:
    capture(tmp_path, "1", 1)
    capture(tmp_path, "2", 2)
    stream = Stream(tmp_path)
    stream.take()
    capture(tmp_path, "1", 1, 2, 3)
    with pytest.raises(CaptureError, match=r"1: had 100 octets when it was read and has 252 now; more files grow "):
        stream.take()


def test_a_stream_continues_after_a_file_that_grew_on_request(tmp_path: Path) -> None:
    capture(tmp_path, "1", 1)
    capture(tmp_path, "2", 2)
    stream = Stream(tmp_path)
    stream.take()
    capture(tmp_path, "1", 1, 2, 3)
    capture(tmp_path, "3", 4)
    capture(tmp_path, "4", 5)
    assert stream.take(growing=2, skip_grown=True) == ["2"]
    assert stream.take(growing=0) == ["3", "4"]  # omitted files stay omitted
    capture(tmp_path, "1", 1, 2, 3, 4)
    with pytest.raises(CaptureError, match=r"1: had 252 octets when it was read and has 328 now; .* skipGrown=true"):
        stream.take()


def test_a_file_of_a_ring_is_another_file_when_it_is_written_again(tmp_path: Path) -> None:
    for number in range(3):
        capture(tmp_path, f"{number}", number)
    stream = Stream(tmp_path)
    stream.take()
    capture(tmp_path, "0", 3)
    assert stream.take() == ["2"]
    capture(tmp_path, "1", 4)
    assert stream.take() == ["0"]
    assert stream.batch.files_so_far == 4


def test_a_file_that_is_compressed_behind_its_batch_is_not_read_again(tmp_path: Path) -> None:
    import gzip

    for number in range(3):
        capture(tmp_path, f"{number}.pcap", number)
    stream = Stream(tmp_path)
    assert stream.take() == ["0.pcap", "1.pcap"]
    (tmp_path / "0.pcap.gz").write_bytes(gzip.compress((tmp_path / "0.pcap").read_bytes()))
    assert stream.take() == []
    (tmp_path / "0.pcap").unlink()
    capture(tmp_path, "3.pcap", 3, modified=1 << 32)
    assert stream.take() == ["2.pcap"]


def test_removed_files_are_forgotten(tmp_path: Path) -> None:
    """So the memory has the size of the folder, however long the stream runs."""
    stream = Stream(tmp_path)
    for number in range(10):
        path = capture(tmp_path, f"{number}", number)
        stream.take()
        if number:
            before.unlink()  # noqa: F821
        before = path  # noqa: F841
    assert len(stream.batch.seen) <= 2


def test_a_pattern_names_files(tmp_path: Path) -> None:
    for name in ("a1", "b1", "a2", "b2", "a3"):
        capture(tmp_path, name, int(name[1]))
    stream = Stream(tmp_path)
    stream.folder = CaptureFolder(str(tmp_path / "a*"))
    assert stream.take() == ["a1", "a2"]


def test_after_the_end_no_file_is_accepted(tmp_path: Path) -> None:
    capture(tmp_path, "1", 1)
    stream = Stream(tmp_path)
    assert stream.take(finish=True) == ["1"]
    assert stream.take(finish=True) == []
    capture(tmp_path, "2", 2)
    with pytest.raises(CaptureError, match=r"2: it is new, and the option finish ended this query"):
        stream.take()


def test_the_end_may_be_a_batch_without_files(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    capture(tmp_path, "1", 1)
    assert stream.take(growing=0) == ["1"]
    assert stream.take(finish=True) == []
    assert (stream.batch.number, stream.batch.is_last) == (2, True)


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="gone: cannot be listed: No such file or directory"):
        CaptureFolder(str(tmp_path / "gone")).captures()
    with pytest.raises(CaptureError, match="1: is a file; a stream reads a folder"):
        CaptureFolder(str(capture(tmp_path, "1", 1))).captures()
