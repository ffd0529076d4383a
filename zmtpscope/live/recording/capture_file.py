from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from zmtpscope.export.pcapng import PcapngWriter


class CaptureFile:
    """A new pcapng file that can be read while it grows, only by its owner because it may contain PLAIN passwords.

    `comment` appears in the file's properties. Raises `FileExistsError` if `path` exists; with `force` a plain file is
    replaced. Every method raises `OSError` with the path.
    """

    def __init__(self, path: Path, comment: str, *, force: bool = False) -> None:
        self.path = path
        with self._naming_path():
            if force:
                _remove_plain_file(path)
            # created anew, never overwritten: an existing file might be readable by others, or be a link
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(descriptor, "wb")
            self._writer = PcapngWriter(self._file, comment)

    def write(self, time: int, packets: Sequence[bytes]) -> None:
        """Write IP packets that share one time (ns since the epoch)."""
        with self._naming_path():
            self._writer.write(time, packets)

    def close(self) -> None:
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
