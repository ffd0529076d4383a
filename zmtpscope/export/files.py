"""Write output files that are either complete or absent.

A hidden temporary file, readable by its owner only, becomes the output file.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

BUFFER = 1 << 20


class OutputFile:
    """Writes `target` as a temporary file first.

    `open` creates the temporary file, `finish` flushes it, `commit` renames it to `target`, and `discard` removes it.
    Every method raises an `OSError` that names the target. `octets` is the number of octets written.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self.octets = 0
        # chosen before the file exists, so that `discard` can remove it if `open` is interrupted
        self._path = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
        self._file: BinaryIO | None = None
        self.closed = True
        """Whether the file accepts no more data.

        Not a property: Arrow takes an interrupt within a property for true.
        """

    def open(self) -> None:
        """Create the temporary file, empty and readable by its owner only."""
        with self._naming_target():
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self._file = os.fdopen(descriptor, "wb", BUFFER)
        self.closed = False

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.finish()
                self.commit()
        finally:
            self.discard()

    def write(self, octets: bytes) -> int:
        """Write octets. If the file is not open they are discarded, so that writers can finish without errors."""
        if self._file is not None:
            with self._naming_target():
                self._file.write(octets)
            self.octets += len(octets)
        return len(octets)

    def flush(self) -> None:
        """Write buffered octets to the temporary file. `target` is unchanged before `commit`."""

    def close(self) -> None:
        """Do nothing: `commit` decides that the file is complete, not the writer."""

    def finish(self) -> None:
        if self._file is not None:
            with self._naming_target():
                self._file.flush()
                os.fchmod(self._file.fileno(), 0o666 & ~_umask())
                os.fsync(self._file.fileno())
                self._file.close()
            self._file, self.closed = None, True

    def commit(self) -> None:
        """Rename the temporary file to `target`, in place of an existing file."""
        with self._naming_target():
            os.replace(self._path, self.target)

    def discard(self) -> None:
        """Remove the temporary file unless it was committed."""
        file, self._file, self.closed = self._file, None, True
        if file is not None:
            with suppress(OSError):  # buffered data that failed before fails again
                file.close()
        self._path.unlink(missing_ok=True)

    @contextmanager
    def _naming_target(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.target)) from error


def write_file(path: Path, octets: bytes) -> None:
    """Write a file at once. Raises an `OSError` that names the file."""
    with OutputFile(path) as file:
        file.write(octets)


def check_replaceable(directory: Path, files: Iterable[Path], *, force: bool) -> None:
    """Raise an exception if one of `files` cannot be written in `directory`.

    `FileExistsError` for an existing file, unless `force` is set; `NotADirectoryError` or `IsADirectoryError` for a
    path that cannot be replaced.
    """
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
    for path in files:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if os.path.lexists(path) and not force:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
