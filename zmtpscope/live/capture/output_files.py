"""What a capture is written to: one file, or a ring of files, of which nothing goes that was not read.

A private capture, where nobody asked for a file, is a ring of two in a directory of its own.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from bisect import bisect
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from zmtpscope.live.capture.packet_socket import CannotCapture
from zmtpscope.live.capture.settings import CaptureSettings, RingLimits

PRIVATE = RingLimits(filesize=256 << 20, files=2)
PREFIX = "zmtpscope-capture-"
NEW = 60
"""Seconds in which whoever made a directory holds it, too."""
STAYS = "what was captured until then can be read"


@dataclass
class WrittenFile:
    """A file of the capture. `octets` were written, `packets` are in it; a complete one gets no more."""

    path: str
    octets: int = 0
    packets: int = 0
    is_complete: bool = False
    consumed: int = 0
    """Octets that were read."""


class OutputFiles:
    """Where the capture goes, file by file; `files` are all that there ever were. Methods raise `CannotCapture`."""

    def __init__(self, settings: CaptureSettings) -> None:
        self.files: list[WrittenFile] = []
        self._there: deque[WrittenFile] = deque()
        """Those that were not removed."""
        self.octets = 0
        """Of all files."""
        self.directory: str | None = None
        """Where the files of a private capture are; it is there for nothing else."""
        self._limits = settings.ring or RingLimits()
        if self._limits.files is not None and self._limits.files < 2:
            raise CannotCapture("a ring has two files at least", "without a ring there is one")
        if settings.write_to is None:
            self._limits = PRIVATE
            try:
                remove_abandoned(_large_directory())
                self.directory = tempfile.mkdtemp(prefix=PREFIX, dir=_large_directory())
                hold(self.directory)
            except OSError as error:
                sentence = f"there is no place for what is captured: {error.strerror}"
                raise CannotCapture(sentence, "name a file with -w, or a directory with TMPDIR") from None
        self._target = Path(settings.write_to or f"{self.directory}/capture.pcapng")
        self._numbered = self._limits != RingLimits()
        self._descriptor = -1
        self._deadline = float("inf")

    @property
    def is_open(self) -> bool:
        """Whether there is a file to write to."""
        return self._descriptor >= 0

    def make_room(self) -> bool:
        """Remove the oldest files where the next one would be one too many; False: they were not read to their end."""
        while self._limits.files is not None and len(self._there) >= self._limits.files:
            oldest = self._there[0]
            if oldest.consumed < oldest.octets:
                return False
            with suppress(FileNotFoundError):
                os.unlink(oldest.path)
            self._there.popleft()
        return True

    def open_next(self) -> None:
        """Begin the next file."""
        path = self._next_path()
        try:
            _remove_plain_file(path)
            # made anew, never written over: so nobody else can read it, and it is nothing that a link leads to
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            raise CannotCapture(f"{path}: {error.strerror}") from None
        self.files.append(WrittenFile(str(path)))
        self._there.append(self.files[-1])
        if self._limits.duration is not None:
            self._deadline = time.monotonic() + self._limits.duration

    def write_packets(self, blocks: list[bytes]) -> int:
        """Add the pcapng blocks of packets until the file is full; how many. There is a file open."""
        file, limits = self.files[-1], self._limits
        if not self._takes(len(blocks), sum(map(len, blocks))):
            blocks = blocks[: fitting(blocks, limits.packets, file.packets, limits.filesize, file.octets)]
        count = self._append(blocks)
        file.packets += count
        return count

    def write(self, octets: bytes) -> None:
        """Add whole blocks that are no packets."""
        self._append([octets])

    def _append(self, blocks: list[bytes]) -> int:
        """Add blocks; how many the disk had room for, if only for the first. The file ends with a whole block."""
        file, octets, written = self.files[-1], b"".join(blocks), 0
        count = len(blocks)
        try:
            while written < len(octets):
                written += os.write(self._descriptor, memoryview(octets)[written:])
        except OSError as error:
            ends = [0, *accumulate(map(len, blocks))]
            count = bisect(ends, written) - 1
            written = ends[count]
            with suppress(OSError):
                os.ftruncate(self._descriptor, file.octets + written)
            if count == 0:
                raise CannotCapture(f"{file.path}: {error.strerror}; {STAYS}") from None
        file.octets += written
        self.octets += written
        return count

    @property
    def is_full(self) -> bool:
        """Whether the open file has reached a limit."""
        return not self._takes(0, 0) or time.monotonic() >= self._deadline

    def _takes(self, packets: int, octets: int) -> bool:
        file, limits = self.files[-1], self._limits
        return (limits.packets is None or file.packets + packets < limits.packets) and (
            limits.filesize is None or file.octets + octets < limits.filesize
        )

    def complete(self) -> None:
        """The open file gets no more."""
        descriptor, self._descriptor = self._descriptor, -1
        self._deadline = float("inf")
        self.files[-1].is_complete = True
        try:
            os.close(descriptor)
        except OSError as error:  # what a network file system could not write before
            raise CannotCapture(f"{self.files[-1].path}: {error.strerror}; {STAYS}") from None

    def consumed(self, file: int, octets: int) -> None:
        """File number `file` was read up to `octets`."""
        if 0 <= file < len(self.files):
            self.files[file].consumed = octets

    def check(self) -> None:
        """Raises `CannotCapture` if the open file was removed."""
        if self.is_open and os.fstat(self._descriptor).st_nlink == 0:
            raise CannotCapture(f"{self.files[-1].path} was removed")

    def _next_path(self) -> Path:
        number, target = len(self.files) + 1, self._target
        if not self._numbered:
            return target
        # as dumpcap names them
        return target.with_name(f"{target.stem}_{number:05}_{time.strftime('%Y%m%d%H%M%S')}{target.suffix}")

    def remove_private(self) -> None:
        """Remove the files of a private capture."""
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)


def hold(directory: str) -> int:
    """A private capture in use, by a descriptor that its users have open. Raises `OSError`."""
    import fcntl  # not on every system that imports this

    descriptor = os.open(directory, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def remove_abandoned(folder: str) -> None:
    """Remove our private captures that nobody holds: their processes were killed, or the machine went down."""
    import fcntl

    for path in Path(folder).glob(f"{PREFIX}*"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                about = os.fstat(descriptor)
                if about.st_uid == os.geteuid() and time.time() - about.st_mtime > NEW:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(descriptor)


def fitting(blocks: list[bytes], most_packets: int | None, packets: int, most_octets: int | None, octets: int) -> int:
    """How many of `blocks` come until a limit is reached, where `packets` and `octets` are there already; the one that
    reaches it is the last."""
    count = len(blocks) if most_packets is None else max(0, min(len(blocks), most_packets - packets))
    if most_octets is None:
        return count
    for place in range(count):
        if octets >= most_octets:
            return place
        octets += len(blocks[place])
    return count


def _remove_plain_file(path: Path) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise CannotCapture(f"{path} is there, and is not a plain file", "write to another one")
        os.unlink(path)


def _large_directory() -> str:
    """Where temporary files may be large: /tmp is in memory on many systems."""
    if "TMPDIR" not in os.environ and os.access("/var/tmp", os.W_OK | os.X_OK):
        return "/var/tmp"
    return tempfile.gettempdir()
