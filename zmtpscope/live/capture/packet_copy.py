"""Copy a growing capture to another program: to standard output, a FIFO or a device."""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Sequence

from zmtpscope.live.capture.session import CaptureFile

CHUNK = select.PIPE_BUF
"""Octets of one write. A pipe for which poll(2) reports room takes this many without blocking."""
READ_AHEAD = 1 << 18
PATIENCE = 0.05
"""Seconds that `copy` waits for a full pipe, so that a slow reader does not delay the analysis."""


def is_pipe(path: str) -> bool:
    """Whether `path` is a FIFO or character device, whose octets cannot be read back."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # the path is new, or the capture process reports the error
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


class PacketCopy:
    """Writes the files of a capture as one stream of pcapng sections to `target`.

    `target` is an open descriptor, or the path of a FIFO or device, which is opened when a program reads it. `copy`
    raises `OSError`.
    """

    def __init__(self, target: int | str) -> None:
        self.name = target if isinstance(target, str) else "standard output"
        self._output = -1 if isinstance(target, str) else target
        self._poll = select.poll()
        self._input = -1
        self.file = 0
        self._copied: list[int] = []
        self.is_closed = False
        if self._output >= 0:
            self._poll.register(self._output, select.POLLOUT)

    @property
    def awaits_reader(self) -> bool:
        """Whether no program has opened the FIFO for reading."""
        return not self.is_closed and not self._opens()

    def copied(self, file: int) -> int:
        return self._copied[file] if file < len(self._copied) else 0

    def copy(self, files: Sequence[CaptureFile], patience: float | None) -> bool:
        """Copy new octets. Return whether everything was copied, or the pipe was closed.

        `patience`: seconds to wait for a full pipe, None for no limit.
        """
        if self.is_closed or not self._opens():
            return self.is_closed
        try:
            while self.file < len(files):
                if not self._copy_file(files[self.file], patience):
                    return False
                if not files[self.file].is_complete:
                    break
                self._next()
            self._has_room(0)
        except BrokenPipeError:
            self.close()
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.name) from None
        return True

    def _opens(self) -> bool:
        if self._output < 0:
            try:
                self._output = os.open(self.name, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return False
                raise
            os.set_blocking(self._output, True)
            self._poll.register(self._output, select.POLLOUT)
        return True

    def _copy_file(self, file: CaptureFile, patience: float | None) -> bool:
        if len(self._copied) == self.file:
            self._copied.append(0)
        while (at := self._copied[self.file]) < file.octets:
            if self._input < 0:  # not earlier: an empty file may be replaced by one in another folder
                self._input = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
            octets = memoryview(os.pread(self._input, min(READ_AHEAD, file.octets - at), at))
            if not octets:  # the file system lost written octets
                return True
            for begin in range(0, len(octets), CHUNK):
                if not self._has_room(patience):
                    return False
                piece = octets[begin : begin + CHUNK]
                while piece:
                    piece = piece[os.write(self._output, piece) :]
                self._copied[self.file] += len(octets[begin : begin + CHUNK])
        return True

    def _has_room(self, patience: float | None) -> bool:
        """Wait until the pipe takes octets, at most `patience` seconds (None: forever); return whether it does.

        Raises `BrokenPipeError` if the reader has closed the pipe.
        """
        for _, events in self._poll.poll(None if patience is None else patience * 1000):
            if events & select.POLLERR:
                raise BrokenPipeError
            return True
        return False

    def _next(self) -> None:
        if self._input >= 0:
            os.close(self._input)
        self._input = -1
        self.file += 1

    def close(self) -> None:
        for descriptor in (self._output, self._input):
            if descriptor >= 0:
                os.close(descriptor)
        self._output = self._input = -1
        self.is_closed = True
