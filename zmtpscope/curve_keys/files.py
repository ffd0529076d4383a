"""Read a key file, and read it again when it grows or is replaced."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from zmtpscope.curve_crypto import public_key
from zmtpscope.curve_keys.contents import Contents
from zmtpscope.curve_keys.lines import CLIENT_TRANSIENT, SHARED, KeyLine, build_key_line

LARGEST_FILE = 64 << 20
"""Octets of a file: 470,000 lines in hex, 1.3 s, 170 MB of memory."""

MAX_LINES = 500_000
"""Maximum number of lines of a file.

With `LARGEST_FILE` it limits the cost of any file to 5 s (lines in Z85) and 230 MB.
"""

PIECE = 1 << 20

LATER_LINES = "later lines are not read"
THE_PART = "use the part of it that belongs to the capture"
TOO_LARGE = f"the file is larger than {LARGEST_FILE >> 20} MiB"


class KeyFileError(Exception):
    """A key file cannot be read at all. `str()` is one line for users."""


class Place(NamedTuple):
    """A position in a key file: a line number, and how often the file was read again from its start."""

    readings: int
    line: int


START = Place(0, 0)


class KeyFile:
    """One key file; `path` None is standard input. Lines that are added later can be read, too."""

    contents: Contents
    _status: os.stat_result
    readings = 0
    """Number of times that the file was read from its start."""
    _took_unfinished: bool

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.name = "standard input" if path is None else str(path)
        try:
            self._read_all(unfinished=True)
        except OSError as error:
            raise KeyFileError(f"{self.name}: {_reason(error)}") from None

    def lines_of(self, client_transient: bytes) -> tuple[KeyLine, ...]:
        """Return the lines for the connection with the client transient key C'.

        A line whose secret c' does not belong to C' is reported and ignored.
        """
        lines = self.contents.connections.get(client_transient, ())
        kept = tuple(line for line in lines if not _is_of_another_key(line))
        if len(kept) < len(lines):
            for line in lines:
                if line not in kept:
                    text = f"the secret key of {CLIENT_TRANSIENT} does not match the public key before it"
                    self.contents.add_problem(text, line.number)
            self.contents.connections[client_transient] = kept
        return kept

    @property
    def place(self) -> Place:
        return Place(self.readings, self.contents.lines)

    def newest_shared(self, behind: Place) -> Iterator[tuple[bytes, bytes]]:
        """Yield (C', k) of the CURVE_SHARED lines after a position, newest first; all lines if the file was replaced
        since."""
        return self.contents.newest_shared(behind.line if behind.readings == self.readings else 0)

    def problems(self) -> list[str]:
        """The sentences about lines that cannot be used, up to a maximum number."""
        contents = self.contents
        problems = contents.problems.copy()
        if contents.untold_problems:
            problems.append(f"{self.name}: {contents.untold_problems} more lines could not be used")
        if contents.is_utf_16:
            problems.append(f"{self.name}: saved as UTF-16, which is not supported; save it as UTF-8")
        elif contents.is_empty():
            problems.append(
                f"{self.name}: contains no key; a key log has lines like {SHARED}, a certificate has a section curve"
            )
        return problems

    def is_readable_by_others(self) -> bool:
        if os.name != "posix" or self.path is None:
            return False
        mode = self._status.st_mode
        return stat.S_ISREG(mode) and bool(mode & 0o077)

    def refresh(self) -> bool:
        """Read new lines; return whether the keys have changed. Standard input is read only once."""
        if self.path is None:
            return False
        try:
            status = os.stat(self.path)
            if not stat.S_ISREG(status.st_mode) or _state(status) == _state(self._status):
                return False
            if status.st_size > LARGEST_FILE:
                if self._status.st_size <= LARGEST_FILE:
                    self.contents.add_problem(f"{TOO_LARGE}; {LATER_LINES}")
                self._status = status
                return False
            if self._has_only_grown(self.path, status):
                return self._read_on(self.path, status)
            before = self.contents
            # an incomplete last line was parsed before: read it again now that it is complete
            self._read_all(unfinished=not self._took_unfinished)
        except OSError:  # the file is gone or not readable, perhaps temporarily
            return False
        except KeyFileError:
            self._status = status
            self.contents.add_problem(f"{_too_many_lines()}; {LATER_LINES}")
            return False
        return not self.contents.has_equal_keys(before)

    def _has_only_grown(self, path: Path, status: os.stat_result) -> bool:
        """Whether a changed file only has new octets at its end. Of the octets before, the last `TAIL` are compared."""
        place = (status.st_dev, status.st_ino)
        if place != (self._status.st_dev, self._status.st_ino) or status.st_size <= self.contents.octets:
            return False
        if self._took_unfinished:
            return False
        tail = self.contents.tail
        with open(path, "rb") as file:
            file.seek(self.contents.octets - len(tail))
            return file.read(len(tail)) == tail

    def _read_on(self, path: Path, status: os.stat_result) -> bool:
        contents, news = self.contents, False
        if contents.lines <= MAX_LINES:
            with open(path, "rb") as file:
                file.seek(contents.octets)
                for piece in _pieces(file, status.st_size - contents.octets):
                    news |= contents.add(piece)
                    if contents.lines > MAX_LINES:
                        contents.add_problem(f"{_too_many_lines()}; {LATER_LINES}")
                        break
        self._status = status
        return news

    def _read_all(self, unfinished: bool) -> None:
        """Read the file from its start; with `unfinished` also an incomplete last line."""
        contents = Contents(self.name)
        with open(0 if self.path is None else self.path, "rb", closefd=self.path is not None) as file:
            status = os.fstat(file.fileno())
            for piece in _pieces(file, status.st_size if stat.S_ISREG(status.st_mode) else LARGEST_FILE + 1):
                contents.add(piece)
                if contents.octets > LARGEST_FILE:
                    raise KeyFileError(f"{self.name}: {TOO_LARGE}; {THE_PART}")
                if contents.lines > MAX_LINES:
                    raise KeyFileError(f"{self.name}: {_too_many_lines()}; {THE_PART}")
        self._took_unfinished = unfinished and contents.add_unfinished_line()
        self.contents, self._status = contents, status
        self.readings += 1


class HandedLines(KeyFile):
    """Key log lines that come from the program itself, not from a file, while it records its own traffic.

    Lines after the first `MAX_LINES` are discarded.
    """

    def __init__(self) -> None:
        self.path = None
        self.name = "handed lines"
        self.contents = Contents(self.name)
        self._has_news = False

    def add(self, line: KeyLine) -> None:
        """Add a line, which is used after the next `Keys.refresh`."""
        if self.contents.lines < MAX_LINES:
            self._has_news |= self.contents.add(build_key_line(line))

    def refresh(self) -> bool:
        news, self._has_news = self._has_news, False
        return news

    def problems(self) -> list[str]:
        """Return the problems of all files. A file without lines is no mistake of the user."""
        return []


def _too_many_lines() -> str:
    return f"the file has more than {MAX_LINES:,} lines"


def _state(status: os.stat_result) -> tuple[int, int, int, int]:
    """Return values that change when a file is written or replaced."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _pieces(file: BinaryIO, octets: int) -> Iterator[bytes]:
    while octets and (piece := file.read(min(octets, PIECE))):
        octets -= len(piece)
        yield piece


def _is_of_another_key(line: KeyLine) -> bool:
    """Whether the secret c' of a line certainly does not belong to its public key C'."""
    return line.label == CLIENT_TRANSIENT and line.value is not None and public_key(line.value) != line.public


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "it is a directory"
    if isinstance(error, PermissionError):
        return "permission denied"
    return f"cannot be read ({error.strerror or error})"
