"""Write a capture to one file, or to a ring of files. No file of a ring is removed before the parent has read it.

A private capture (without a file name from the user) is a ring of two files in a directory of its own.
"""

from __future__ import annotations

import os
import stat
import time
from bisect import bisect
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from zmtpscope.live.capture.packet_socket import CannotCapture
from zmtpscope.live.capture.private_folders import PrivateFolders
from zmtpscope.live.capture.settings import CaptureSettings, RingLimits

STAYS = "the packets captured until then can be read"


@dataclass
class WrittenFile:
    """A file of a capture, with its size in octets and packets so far. If `is_complete`, it does not grow any more.

    `consumed` is the number of octets that the parent has read.
    """

    path: str
    octets: int = 0
    packets: int = 0
    is_complete: bool = False
    consumed: int = 0


class OutputFiles:
    """The files that a capture writes; `files` includes removed ones. All methods raise `CannotCapture`."""

    def __init__(self, settings: CaptureSettings) -> None:
        self.files: list[WrittenFile] = []
        self._there: deque[WrittenFile] = deque()
        """Files that were not removed."""
        self.octets = 0
        self._limits = settings.ring or RingLimits()
        if self._limits.files is not None and self._limits.files < 2:
            raise CannotCapture("a ring needs at least two files", "without a ring the limit is one")
        self.private = PrivateFolders() if settings.write_to is None else None
        if self.private is None:
            self._target = Path(settings.write_to or "")
        else:
            self._target, self._limits = self.private.enter()
        self._failure: OSError | None = None
        """Reason why the open file takes no more octets below its limits.

        A private capture then continues in another folder.
        """
        self._left: list[WrittenFile] = []
        """Files left in a full folder, each removed once it is read."""
        self._numbered = self._limits != RingLimits()
        self._descriptor = -1
        self._deadline = float("inf")

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    def make_room(self) -> bool:
        """Remove the oldest files if the ring is full; return False if the oldest was not read completely."""
        while self._failure is None and self._limits.files is not None and len(self._there) >= self._limits.files:
            oldest = self._there[0]
            if oldest.consumed < oldest.octets:
                return False
            _unlink(oldest)
            self._there.popleft()
        return True

    def open_next(self) -> None:
        if self._failure is not None:
            self._leave_folder(self._failure)
        while self._descriptor < 0:
            path = self._next_path()
            try:
                _remove_plain_file(path)
                # never overwritten: an existing file might be readable by others, or a link
                self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            except OSError as error:
                if self.private is None:
                    raise CannotCapture(f"{path}: {error.strerror}") from None
                self._target, self._limits = self.private.enter(error)
        self.files.append(WrittenFile(str(path)))
        self._there.append(self.files[-1])
        if self._limits.duration is not None:
            self._deadline = time.monotonic() + self._limits.duration

    def _leave_folder(self, why: OSError) -> None:
        """Continue in the next folder, after the error `why`. Files in this one remain readable; an empty file is
        removed."""
        assert self.private is not None
        self._failure = None
        if not self.files[-1].octets:
            _unlink(self.files.pop())
            self._there.pop()
        self._left += self._there
        self._there.clear()
        self._target, self._limits = self.private.enter(why)

    def write_packets(self, blocks: list[bytes]) -> int:
        """Append packet blocks until the file reaches a limit; return their number."""
        file, limits = self.files[-1], self._limits
        if not self._takes(len(blocks), sum(map(len, blocks))):
            blocks = blocks[: fitting(blocks, limits.packets, file.packets, limits.filesize, file.octets)]
        count = self._append(blocks)
        file.packets += count
        return count

    def write(self, octets: bytes) -> None:
        """Append pcapng blocks that contain no packets."""
        self._append([octets])

    def _append(self, blocks: list[bytes]) -> int:
        """Append blocks as far as the disk has space; return their number. The file always ends with a whole block."""
        file, octets, written = self.files[-1], b"".join(blocks), 0
        count = len(blocks)
        if self._failure is not None:
            return 0
        try:
            while written < len(octets):
                written += os.write(self._descriptor, memoryview(octets)[written:])
        except OSError as error:
            ends = [0, *accumulate(map(len, blocks))]
            count = bisect(ends, written) - 1
            written = ends[count]
            with suppress(OSError):
                os.ftruncate(self._descriptor, file.octets + written)
            if count == 0 and self.private is None:
                raise CannotCapture(f"{file.path}: {error.strerror}; {STAYS}") from None
            if count == 0:
                self._failure = error
        file.octets += written
        self.octets += written
        return count

    @property
    def is_full(self) -> bool:
        return self._failure is not None or not self._takes(0, 0) or time.monotonic() >= self._deadline

    def _takes(self, packets: int, octets: int) -> bool:
        file, limits = self.files[-1], self._limits
        return (limits.packets is None or file.packets + packets < limits.packets) and (
            limits.filesize is None or file.octets + octets < limits.filesize
        )

    def complete(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        self._deadline = float("inf")
        self.files[-1].is_complete = True
        try:
            os.close(descriptor)
        except OSError as error:  # errors that a network file system reports late
            if self.private is not None:
                return
            raise CannotCapture(f"{self.files[-1].path}: {error.strerror}; {STAYS}") from None

    def consumed(self, file: int, octets: int) -> None:
        """Store that the parent has read the file with number `file` up to `octets`."""
        if 0 <= file < len(self.files):
            self.files[file].consumed = octets
        for each in [*self._left]:
            if each.consumed >= each.octets:
                _unlink(each)
                self._left.remove(each)

    def check(self) -> None:
        """Raise `CannotCapture` if the open file was removed."""
        if self.is_open and os.fstat(self._descriptor).st_nlink == 0:
            raise CannotCapture(f"{self.files[-1].path} was removed")

    def _next_path(self) -> Path:
        number, target = len(self.files) + 1, self._target
        if not self._numbered:
            return target
        # dumpcap's naming scheme
        return target.with_name(f"{target.stem}_{number:05}_{time.strftime('%Y%m%d%H%M%S')}{target.suffix}")


def fitting(blocks: list[bytes], most_packets: int | None, packets: int, most_octets: int | None, octets: int) -> int:
    """Return how many of `blocks` to write until a file of `packets` and `octets` reaches one of its limits."""
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
            raise CannotCapture(f"{path} exists and is not a plain file", "name another file")
        os.unlink(path)


def _unlink(file: WrittenFile) -> None:
    with suppress(FileNotFoundError):
        os.unlink(file.path)
