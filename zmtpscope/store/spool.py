"""Octets that are not in the user's files, or not as needed: in a temporary file."""

from __future__ import annotations

import os
import tempfile
import weakref

LIMIT = 16 << 30
"""Octets of the file."""


class OctetsError(Exception):
    """Octets cannot be kept or read again. `str()` is a sentence with problem and remedy."""


class Spool:
    """Append-only storage of octets. The file has no name, so no other process can open it; it is deleted with the
    process.

    One thread may write while others read.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.end = 0
        self._file = tempfile.TemporaryFile(prefix="zmtpscope-")  # noqa: SIM115 (stays open)
        self.close = weakref.finalize(self, self._file.close)
        """Close the file, which also deletes the octets."""

    def write(self, octets: bytes) -> int:
        """Return the place of the first octet. Raises `OctetsError`."""
        place = self.end
        if place + len(octets) > self.limit:
            raise OctetsError(f"more than {self.limit:,} octets are needed in a temporary file -> raise the limit")
        view, end = memoryview(octets), place
        try:
            while view:
                count = os.pwrite(self._file.fileno(), view, end)
                view, end = view[count:], end + count
        except OSError as error:
            where = tempfile.gettempdir()
            raise OctetsError(
                f"cannot write to {where}: {error.strerror} -> free some space, or set TMPDIR to a larger directory"
            ) from error
        self.end = end
        return place

    def read(self, place: int, size: int) -> bytes:
        found = os.pread(self._file.fileno(), size, place)
        while len(found) < size:
            more = os.pread(self._file.fileno(), size - len(found), place + len(found))
            if not more:
                raise OctetsError("the temporary file was truncated -> read the capture again")
            found += more
        return found
