"""The files of a capture as one stream, for a program that reads early, late, slowly, or no longer."""

from __future__ import annotations

import os
import pathlib
import select
import threading
import time
from itertools import accumulate

import pytest

from tests.waiting import PATIENCE
from zmtpscope.live.capture.packet_copy import PacketCopy, is_pipe
from zmtpscope.live.capture.session import CaptureFile

CONTENTS = [os.urandom(300_000), b"", os.urandom(5), os.urandom(70_000)]
"""Contents of the files of a capture, which do not matter here."""


@pytest.fixture
def files(tmp_path: pathlib.Path) -> list[CaptureFile]:
    for number, octets in enumerate(CONTENTS):
        (tmp_path / str(number)).write_bytes(octets)
    return [CaptureFile(str(tmp_path / str(number)), len(octets), True) for number, octets in enumerate(CONTENTS)]


def growing(files: list[CaptureFile], octets: int) -> list[CaptureFile]:
    """Return the files at the time when `octets` octets of them had been written."""
    there = []
    for file, end in zip(files, accumulate(map(len, CONTENTS)), strict=True):
        begin = end - file.octets
        there.append(CaptureFile(file.path, min(file.octets, octets - begin), end < octets))
        if end >= octets:
            break
    return there


class Reader(threading.Thread):
    """Reads a pipe, or the FIFO of that path, to its end."""

    def __init__(self, pipe: int | pathlib.Path) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self.octets = b""
        self.start()

    def run(self) -> None:
        with open(self._pipe, "rb", buffering=0) as pipe:
            while octets := pipe.read(1 << 16):
                self.octets += octets

    def end(self) -> bytes:
        self.join()
        return self.octets


@pytest.mark.parametrize("step", [1, 4096, 100_000, 1_000_000])
def test_all_packets_are_copied_once_and_in_order(files: list[CaptureFile], step: int) -> None:
    outgoing, incoming = os.pipe()
    reader, copy = Reader(outgoing), PacketCopy(incoming)
    total = sum(map(len, CONTENTS))
    steps = range(0, total, step) if step > 1 else range(total - 70_010, total - 69_990)
    for octets in steps:
        there = growing(files, octets)
        while not copy.copy(there, 1.0):
            pass
        assert [copy.copied(number) for number in range(len(there))] == [file.octets for file in there]
    assert copy.copy(files, None)
    copy.close()
    assert reader.end() == b"".join(CONTENTS)


def test_a_file_without_octets_may_give_way_to_one_in_another_folder(files: list[CaptureFile]) -> None:
    outgoing, incoming = os.pipe()
    reader, copy = Reader(outgoing), PacketCopy(incoming)
    assert copy.copy([CaptureFile(files[1].path, 0, False)], 1.0)
    assert copy.copy(files[2:], None)
    copy.close()
    assert reader.end() == b"".join(CONTENTS[2:])


def test_a_reader_that_is_slow_is_not_waited_for(files: list[CaptureFile]) -> None:
    outgoing, incoming = os.pipe()
    copy = PacketCopy(incoming)
    began = time.monotonic()
    assert not copy.copy(files, 0.01)
    assert time.monotonic() - began < 5
    assert 0 < copy.copied(0) < len(CONTENTS[0])  # the room in the pipe
    reader = Reader(outgoing)
    assert copy.copy(files, None)
    copy.close()
    assert reader.end() == b"".join(CONTENTS)


def test_nothing_is_copied_when_the_reader_has_gone(files: list[CaptureFile]) -> None:
    outgoing, incoming = os.pipe()
    copy = PacketCopy(incoming)
    assert copy.copy(growing(files, 10), None)
    os.close(outgoing)
    assert not copy.is_closed
    assert copy.copy(growing(files, 10), None)  # nothing new, and it is noticed
    assert copy.is_closed
    assert copy.copy(files, None)


def test_a_fifo_is_opened_when_a_program_reads_it(files: list[CaptureFile], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    assert is_pipe(str(path))
    copy = PacketCopy(str(path))
    assert not copy.copy(files, None)  # not even at the end is a reader waited for
    assert copy.awaits_reader
    reader = Reader(path)
    end = time.monotonic() + PATIENCE
    while copy.awaits_reader and time.monotonic() < end:
        time.sleep(0.01)
    assert copy.copy(files, None)
    copy.close()
    assert reader.end() == b"".join(CONTENTS)


def test_devices_are_pipes_and_files_and_what_is_not_there_are_none(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/dev/null")
    assert is_pipe("/dev/null")
    assert is_pipe(str(tmp_path / "link"))
    assert not any(map(is_pipe, [str(tmp_path / "file"), str(tmp_path / "nothing"), str(tmp_path), "a\0b"]))


def test_a_target_that_cannot_be_written_is_named(files: list[CaptureFile]) -> None:
    copy = PacketCopy("/dev/full")
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        copy.copy(files, None)


def test_one_write_fits_into_the_room_that_a_pipe_reports() -> None:
    """Else a slow reader would hold up the analysis."""
    outgoing, incoming = os.pipe()
    poll = select.poll()
    poll.register(incoming, select.POLLOUT)
    while poll.poll(0):
        assert os.write(incoming, bytes(select.PIPE_BUF)) == select.PIPE_BUF
    os.close(outgoing)
    os.close(incoming)
