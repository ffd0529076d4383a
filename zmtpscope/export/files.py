"""Files that are complete or absent: written beside their place, under a hidden name and for nobody else to read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

BUFFER = 1 << 20


class OutputFile:
    """A file on its way to `target`: `open` makes it, `finish` writes it out, `commit` puts it in its place, `discard`
    removes it unless that has happened.

    Every method raises an `OSError` that names the target. `octets` is what was written so far.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.octets = 0
        # named before it exists, so that whatever interrupts `open` leaves nothing that `discard` does not know
        self._path = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
        self._file: BinaryIO | None = None
        self.closed = True
        """Whether nothing more can be written. No property: Arrow takes an interrupt that is raised in one for yes."""

    def open(self) -> None:
        """Make the file, empty and for its owner only."""
        with self._naming_target():
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(descriptor, "wb", BUFFER)
        self.closed = False

    def write(self, octets: bytes) -> int:
        """Add octets; how many. What is not open takes them and forgets them, so that writers may end in peace."""
        if self._file is not None:
            with self._naming_target():
                self._file.write(octets)
            self.octets += len(octets)
        return len(octets)

    def flush(self) -> None:
        """There is nothing to be seen before `commit`."""

    def close(self) -> None:
        """Whoever writes does not decide when the file is complete."""

    def finish(self) -> None:
        """Write out all there is, as durable as the disk makes it."""
        if self._file is not None:
            with self._naming_target():
                self._file.flush()
                os.fchmod(self._file.fileno(), 0o666 & ~_umask())
                os.fsync(self._file.fileno())
                self._file.close()
            self._file, self.closed = None, True

    def commit(self) -> None:
        """Put the finished file in its place; what is there gives way."""
        with self._naming_target():
            os.replace(self._path, self.target)

    def discard(self) -> None:
        """Remove what was not committed."""
        file, self._file, self.closed = self._file, None, True
        if file is not None:
            with suppress(OSError):  # what could not be written before cannot be now
                file.close()
        self._path.unlink(missing_ok=True)

    @contextmanager
    def _naming_target(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.target)) from error


def write_file(path: Path, octets: bytes) -> None:
    """Write a whole file. Raises an `OSError` that names it."""
    file = OutputFile(path)
    try:
        file.open()
        file.write(octets)
        file.finish()
        file.commit()
    finally:
        file.discard()


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
