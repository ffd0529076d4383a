"""A capture that is recorded: it grows at its place, and can be read meanwhile."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from zmtpscope.export.pcapng import PcapngWriter


class CaptureFile:
    """A new pcapng file at `path`, which its owner alone can read: it may hold passwords of PLAIN. `comment` is for
    those who look at its properties.

    Raises `FileExistsError` where something is there already; with `force` a plain file gives way. Every method raises
    an `OSError` that names the path.
    """

    def __init__(self, path: Path, comment: str, *, force: bool = False) -> None:
        self.path = path
        with self._naming_path():
            if force:
                _remove_plain_file(path)
            # made anew, never written over: so nobody else can read it, and it is nothing that a link leads to
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(descriptor, "wb")
            self._writer = PcapngWriter(self._file, comment)

    def write(self, time: int, packets: Sequence[bytes]) -> None:
        """Add IP packets, all of one time (nanoseconds since the epoch)."""
        with self._naming_path():
            self._writer.write(time, packets)

    def close(self) -> None:
        """Nothing more will be written."""
        with self._naming_path():
            self._file.close()

    @contextmanager
    def _naming_path(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error


def _remove_plain_file(path: Path) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISREG(os.lstat(path).st_mode):
            os.unlink(path)
