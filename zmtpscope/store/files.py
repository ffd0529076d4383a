"""Read octets from capture files again if the files are unchanged, and other octets from a temporary file."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import NamedTuple

LIMIT = 16 << 30
"""Maximum octets of the temporary file."""


class OctetsError(Exception):
    """Octets cannot be stored, or cannot be read again. `str()` is a sentence with problem and remedy."""


class Spool:
    """A temporary file to which octets are appended.

    It has no name, so no other process can open it; it is deleted with the process. One thread may write while others
    read.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.end = 0
        self._file = tempfile.TemporaryFile(prefix="zmtpscope-")  # noqa: SIM115 (stays open)
        self.close = weakref.finalize(self, self._file.close)
        """Close the file, which also deletes the octets."""

    def write(self, octets: bytes) -> int:
        """Append octets; return the offset of the first one. Raises `OctetsError`."""
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


MAX_OPEN = 16


class Identity(NamedTuple):
    """Device, inode, size and times of a capture file, to detect changes of the file."""

    device: int
    inode: int
    size: int
    changed_ns: int


class CaptureFiles:
    """The capture files, by their numbers in packet references.

    Files are read and never mapped: one that shrinks causes an error and not a signal.
    """

    def __init__(self) -> None:
        self.names: Sequence[str | None] = []
        self._known: dict[int, Identity] = {}
        self._open: OrderedDict[int, int] = OrderedDict()
        """Descriptors by file, least recently used first."""
        self._lock = Lock()
        weakref.finalize(self, _close, self._open)

    def note(self, names: Sequence[str | None], numbers: Iterable[int]) -> None:
        """Store the identity of the files `numbers`, of which octets were just read. `names` are their paths."""
        self.names = names
        for number in numbers:
            name = names[number]
            if name is not None:
                try:
                    self._known[number] = _identity(os.stat(name))
                except OSError:
                    self._known.setdefault(number, Identity(0, 0, 0, 0))

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Return `size` octets of the file `number` from `offset` on.

        Raises `OctetsError` if the file has changed, or the octets are missing.
        """
        name = self.names[number] or "-"
        try:
            with self._lock:
                descriptor = self._descriptor(number, name)
                now = _identity(os.fstat(descriptor))
                octets = os.pread(descriptor, size, offset)
        except OSError as error:
            raise OctetsError(f"cannot read {name} again: {error.strerror} -> restore it, and read it again") from error
        known = self._known.get(number)
        if known is None or now[:2] != known[:2]:
            raise OctetsError(f"{name} is not the file that was read -> read it again")
        if now.size < known.size or len(octets) < size:
            raise OctetsError(f"{name} was truncated since it was read -> read it again")
        if now.size == known.size and now.changed_ns != known.changed_ns:
            raise OctetsError(f"{name} changed since it was read -> read it again")
        return octets

    def _descriptor(self, number: int, name: str) -> int:
        descriptor = self._open.get(number)
        if descriptor is None:
            descriptor = self._open[number] = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            if len(self._open) > MAX_OPEN:
                os.close(self._open.popitem(last=False)[1])
        self._open.move_to_end(number)
        return descriptor

    def close(self) -> None:
        with self._lock:
            _close(self._open)


def _close(descriptors: OrderedDict[int, int]) -> None:
    while descriptors:
        os.close(descriptors.popitem()[1])


def _identity(status: os.stat_result) -> Identity:
    return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
