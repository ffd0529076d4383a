"""Read files, pipes and compressed streams in blocks, without seeking."""

from __future__ import annotations

import errno
import importlib
import os
import select
import stat
import sys
import time
import zlib
from collections import OrderedDict
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.errors import CaptureError
from zmtpscope.capture.packets import NOWHERE

GZIP_MAGIC = b"\x1f\x8b\x08"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
STANDARD_INPUT = 0
READ_ONLY = os.O_RDONLY | getattr(os, "O_BINARY", 0)
RAW_READ = 1 << 20
"""Octets of one read before decompression."""
RECORDS = 1 << 20
RECORDS_PER_OCTET = 2
"""Records allowed per octet of a compressed file, besides `RECORDS`.

Real packets differ in times and numbers, so they compress to more than one octet each; empty records compress to a
sixtieth.
"""
MAX_OPEN_FILES = 64
"""Regular files that a run keeps open; processes are often limited to 1,024."""
GATHER_SECONDS = 0.02
"""Time in seconds to wait for more octets from a pipe: it returns at most 64 KiB at a time, and small blocks cost
more."""


class Octets(Protocol):
    def read(self, size: int) -> bytes: ...


class OpenFiles:
    """Limits how many files are open at the same time.

    Above `MAX_OPEN_FILES`, the file that was not read for longest is closed until its next read.
    """

    def __init__(self) -> None:
        self._sources: OrderedDict[Source, None] = OrderedDict()

    def use(self, source: Source) -> None:
        self._sources[source] = None
        self._sources.move_to_end(source)
        if len(self._sources) > MAX_OPEN_FILES:
            self._sources.popitem(last=False)[0].rest()

    def forget(self, source: Source) -> None:
        self._sources.pop(source, None)


class Source:
    """A stream of octets, decompressed, read once from the start.

    Container readers keep an incomplete record until the next read completes it. Reading never raises: an input error
    or broken compression ends the octets and sets `damage`.
    """

    was_left = False
    """Whether the user stopped reading, so that an incomplete record is no damage."""

    def __init__(self, path: str, descriptor: int | None, *, pipe: bool, open_files: OpenFiles | None = None) -> None:
        self.path = path
        self._open_files = None if pipe else open_files
        self._identity = os.stat(os.devnull) if descriptor is None else os.fstat(descriptor)
        self._position: int | None = None
        self.damage: str | None = None
        self.octets = 0
        """Octets read so far, decompressed."""
        self._descriptor = -1 if descriptor is None else descriptor
        self._packed = 0 if pipe else self._identity.st_size
        """Octets of the file on disk; for a pipe, read so far."""
        self._is_pipe = pipe
        self._ended = False
        self._poll: select.poll | None = None
        if pipe and hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLIN)
        self._ahead = b""
        self._decompressor: Octets | None = None

    def decompress(self) -> None:
        """Detect compression from the first octets. Raises `CaptureError`."""
        head = self.peek(len(ZSTD_MAGIC))
        if head.startswith(GZIP_MAGIC):
            self._decompressor = Gzip(Raw(self))
        elif head.startswith(ZSTD_MAGIC):
            self._decompressor = zstd(self.path, Raw(self))

    @property
    def is_growing(self) -> bool:
        """Whether octets may still be written after the current end (`following.py`)."""
        return False

    def offsets(self, starts: NDArray[np.int64], origin: int) -> NDArray[np.int64]:
        """Return the file offsets of the octets `starts`, which count from octet `origin` of this stream.

        They are `NOWHERE` if the octets cannot be read again: compressed file, pipe, standard input.
        """
        is_file = self._decompressor is None and not self._is_pipe and self.path != "-"
        return starts + origin if is_file else np.full(len(starts), NOWHERE)

    @property
    def most_records(self) -> int:
        """The maximum number of packets: a file that decompresses to more was made to waste time."""
        return sys.maxsize if self._decompressor is None else RECORDS + RECORDS_PER_OCTET * self._packed

    def read(self, size: int) -> bytes:
        """Return 1 to `size` octets; none at the end, and none at `damage`."""
        if self._decompressor is None:
            octets = self.read_raw(size)
        elif self.damage is not None:
            return b""
        else:
            try:
                octets = self._decompressor.read(size)
            except Exception as error:  # each decompressor has its own exception classes
                self.damage = self.damage or f"the compressed stream is damaged: {error}"
                return b""
        self.octets += len(octets)
        return octets

    def read_raw(self, size: int) -> bytes:
        """Return at most `size` octets of the file before decompression."""
        if self._ahead:
            octets, self._ahead = self._ahead[:size], self._ahead[size:]
            return octets
        octets = self._read_now(size)
        return self._gather(octets, size, GATHER_SECONDS) if self._poll and 0 < len(octets) < size else octets

    def _read_now(self, size: int) -> bytes:
        """Return at most `size` octets from one system call; none at and after the end of the file."""
        while self.damage is None and not self._ended:
            try:
                if self._open_files is not None:
                    self._reopen()
                octets = os.read(self._descriptor, size)
                self._ended = not octets
                self._packed += len(octets) * self._is_pipe
                return octets
            except BlockingIOError:
                select.select([self._descriptor], [], [])
            except OSError as error:
                self.damage = f"reading failed: {error.strerror}"
        return b""

    def rest(self) -> None:
        self._position = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        os.close(self._descriptor)

    def _reopen(self) -> None:
        """Open the file again at the position of the last read. Raises `OSError`."""
        assert self._open_files is not None
        if self._position is not None:
            descriptor = os.open(self.path, READ_ONLY)
            if not os.path.samestat(os.fstat(descriptor), self._identity):
                os.close(descriptor)
                raise OSError(errno.ESTALE, "another file replaced it")
            os.lseek(descriptor, self._position, os.SEEK_SET)
            self._descriptor, self._position = descriptor, None
        self._open_files.use(self)

    def _gather(self, octets: bytes, size: int, seconds: float) -> bytes:
        """Return `octets`, followed by the octets of a pipe that arrive within `seconds`; at most `size` in all."""
        assert self._poll is not None
        parts, missing = [octets], size - len(octets)
        until = time.monotonic() + seconds
        while octets and missing and self._poll.poll(max(0, until - time.monotonic()) * 1000):
            octets = self._read_now(missing)
            parts.append(octets)
            missing -= len(octets)
        return b"".join(parts)

    def read_at_least(self, least: int, size: int) -> bytes:
        """Read `size` octets at a time until at least `least` octets are read or the source ends."""
        octets = self.read(size)
        while len(octets) < least:
            more = self.read(size)
            if not more and not self.is_growing:
                break
            octets += more
        return octets

    def peek(self, count: int) -> bytes:
        """Return the next `count` octets without consuming them."""
        octets = b""
        while len(octets) < count:
            more = self.read(count - len(octets))
            if not more and not self.is_growing:
                break
            octets += more
        self.octets -= len(octets)
        if self._decompressor is None:
            self._ahead = octets + self._ahead
        else:
            self._decompressor = Front(octets, self._decompressor)
        return octets

    def close(self) -> None:
        """Close the file, but not standard input."""
        if self._open_files is not None:
            self._open_files.forget(self)
        if self._descriptor > 2 and self._position is None:
            os.close(self._descriptor)


AnySource = TypeVar("AnySource", bound=Source)


class StreamSource(Source):
    """A source that reads a Python stream of `size` octets, such as an object in a store.

    Reading the stream may raise `OSError`.
    """

    def __init__(self, path: str, stream: BinaryIO, size: int) -> None:
        super().__init__(path, None, pipe=False)
        self._stream = stream
        self._packed = size

    def _read_now(self, size: int) -> bytes:
        if self.damage is None:
            try:
                return self._stream.read(size)
            except OSError as error:
                self.damage = f"reading failed: {error}"
        return b""

    def close(self) -> None:
        self._stream.close()


class Raw:
    """File object with the compressed octets of a source, for a decompressor to read."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def read(self, size: int = -1) -> bytes:
        return self._source.read_raw(size if size > 0 else RAW_READ)


class Front:
    """File object that returns octets read before, and then the octets of a stream."""

    def __init__(self, octets: bytes, rest: Octets) -> None:
        self._octets = octets
        self._rest = rest

    def read(self, size: int) -> bytes:
        if self._octets:
            octets, self._octets = self._octets[:size], self._octets[size:]
            return octets
        return self._rest.read(size)


class Gzip:
    """Decompresses gzip members (RFC 1952). Unlike `gzip.GzipFile`, returns all octets before a truncated end."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self._member = zlib.decompressobj(wbits=31)
        self._input = b""

    def read(self, size: int) -> bytes:
        """Decompress at most `size` octets, whatever the compression ratio."""
        while True:
            if self._member.eof:
                # zeros or garbage after the last member is padding, as for gzip
                self._input = self._member.unused_data or self._raw.read(RAW_READ)
                while self._input and len(self._input) < len(GZIP_MAGIC):
                    more = self._raw.read(RAW_READ)
                    if not more:
                        break
                    self._input += more
                if not self._input.startswith(GZIP_MAGIC):
                    return b""
                self._member = zlib.decompressobj(wbits=31)
            if not self._input:
                self._input = self._raw.read(RAW_READ)
                if not self._input:
                    octets = self._member.decompress(b"", size)  # left over from the last call
                    if octets:
                        return octets
                    raise EOFError("it is truncated")
            before = self._member.copy()
            try:
                octets = self._member.decompress(self._input, size)
                self._input = self._member.unconsumed_tail
            except zlib.error:
                octets = self._up_to_damage(before, size)
            if octets:
                return octets

    def _up_to_damage(self, member: zlib._Decompress, size: int) -> bytes:
        """Decompress at most `size` octets of a gzip member that is damaged, from before the damage.

        Raises the error of the decompressor if no octets are left there.
        """
        octets, step = b"", len(self._input)
        while self._input and len(octets) < size:
            before = member.copy()
            try:
                octets += member.decompress(self._input[:step], size - len(octets))
            except zlib.error:
                member, step = before, step // 2
                if step == 0:
                    if octets:
                        break
                    raise
            else:
                self._input = member.unconsumed_tail + self._input[step:]
        # the next read starts at the damage
        self._member = member
        return octets


def zstd(path: str, raw: Raw) -> Octets:
    """Return a decompressor for zstd: Python's own module (3.14), or `zstandard`.

    Raises `CaptureError` without either.
    """
    module: Any
    try:
        module = importlib.import_module("compression.zstd")
    except ImportError:
        try:
            module = importlib.import_module("zstandard")
        except ImportError:
            raise CaptureError(
                path,
                "is compressed with zstd, and no module for it is installed",
                hint="install the Python package zstandard, or decompress it first",
            ) from None
        return Steps(module.ZstdDecompressor().stream_reader(raw, read_across_frames=True))
    return Steps(module.ZstdFile(raw))


STEP = 16 << 10


class Steps:
    """Reads from a decompressor in steps of constant size.

    A read that meets damage discards the octets before it, so the result must not depend on the size that the caller
    requests.
    """

    def __init__(self, octets: Octets) -> None:
        self._octets = octets
        self._rest = b""
        self._damage: Exception | None = None

    def read(self, size: int) -> bytes:
        """Return at most `size` octets.

        Raises the decompressor's error after all octets before the damage were returned.
        """
        parts, missing = [], size
        while missing and (step := self._rest or self._step()):
            parts.append(step[:missing])
            self._rest = step[missing:]
            missing -= len(parts[-1])
        if self._damage is not None and missing == size:
            raise self._damage
        return b"".join(parts)

    def _step(self) -> bytes:
        if self._damage is None:
            try:
                return self._octets.read(STEP)
            except Exception as error:  # each decompressor has its own exception classes
                self._damage = error
        return b""


def open_source(path: str, open_files: OpenFiles | None = None) -> Source:
    """Open a file, a FIFO, or standard input ("-"). Raises `CaptureError`.

    If `open_files` is given, a regular file may be closed between two reads.
    """
    descriptor, pipe = open_descriptor(path)
    return ready(Source(path, descriptor, pipe=pipe, open_files=None if path == "-" else open_files))


def open_descriptor(path: str) -> tuple[int, bool]:
    """Open a file, FIFO or standard input ("-"); return its descriptor, and whether it is a pipe.

    Raises `CaptureError`.
    """
    name = None if path == "-" else path
    try:
        descriptor = STANDARD_INPUT if name is None else os.open(path, READ_ONLY)
        return descriptor, not stat.S_ISREG(os.fstat(descriptor).st_mode)
    except FileNotFoundError:
        raise CaptureError(name, "no such file") from None
    except PermissionError:
        raise CaptureError(name, "permission denied") from None
    except (OSError, ValueError) as error:
        raise CaptureError(name, f"cannot be opened: {getattr(error, 'strerror', None) or error}") from None


def is_readable(descriptor: int) -> bool:
    """Whether a read of this descriptor would return at once; True if this system cannot tell."""
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def ready(source: AnySource) -> AnySource:
    """Detect compression and add a decompressor to the source. Raises `CaptureError` after closing the source."""
    try:
        source.decompress()
    except CaptureError:
        source.close()
        raise
    return source
