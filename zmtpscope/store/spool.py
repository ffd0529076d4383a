"""Octets that are not in the user's files, or not as needed: in a temporary file or in memory."""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import IO

LIMIT = 16 << 30
"""Of the file, in octets."""
MEMORY_LIMIT = 1 << 30
"""In memory, in octets."""


class OctetsError(Exception):
    """Octets cannot be kept or read again. `str()` is a sentence with problem and remedy."""


class Spool:
    """Append-only storage of octets. The file has no name, so no other process can open it; it is deleted with the
    process.

    One thread may write while others read.
    """

    def __init__(self, *, in_memory: bool = False, limit: int | None = None) -> None:
        self.in_memory = in_memory
        self.limit = limit if limit is not None else MEMORY_LIMIT if in_memory else LIMIT
        self.end = 0
        self._pieces = bytearray()
        self._file = None if in_memory else tempfile.TemporaryFile(prefix="zmtpscope-")  # noqa: SIM115 (stays open)
        self.close = weakref.finalize(self, _close, self._file)
        """Also deletes the octets."""

    def write(self, octets: bytes) -> int:
        """Return the place of the first octet. Raises `OctetsError`."""
        place = self.end
        if place + len(octets) > self.limit:
            what = "memory" if self.in_memory else "a temporary file"
            raise OctetsError(f"more than {self.limit:,} octets are needed in {what} -> raise the limit")
        if self._file is None:
            self._pieces += octets
        else:
            self._write_file(self._file.fileno(), octets)
        self.end = place + len(octets)
        return place

    def _write_file(self, descriptor: int, octets: bytes) -> None:
        view, place = memoryview(octets), self.end
        try:
            while view:
                count = os.pwrite(descriptor, view, place)
                view, place = view[count:], place + count
        except OSError as error:
            where = tempfile.gettempdir()
            raise OctetsError(
                f"cannot write to {where}: {error.strerror} -> free some space, or set TMPDIR to a larger directory"
            ) from error

    def read(self, place: int, size: int) -> bytes:
        if self._file is None:
            return bytes(self._pieces[place : place + size])
        found = os.pread(self._file.fileno(), size, place)
        while len(found) < size:
            more = os.pread(self._file.fileno(), size - len(found), place + len(found))
            if not more:
                raise OctetsError("the temporary file was truncated -> read the capture again")
            found += more
        return found


def _close(file: IO[bytes] | None) -> None:
    if file is not None:
        file.close()
