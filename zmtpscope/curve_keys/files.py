"""One key file: how it is read, at once and again where it grows or is replaced."""

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
"""Octets; 470,000 lines in hex: 1.3 s, 170 MB of memory."""

MOST_LINES = 500_000
"""With `LARGEST_FILE` the bound of what a file costs, whatever is in it: 5 s (lines in Z85), 230 MB."""

PIECE = 1 << 20

WHAT_CAME = "what came since is not read"
THE_PART = "give the part of it that belongs to the capture"
TOO_LARGE = f"the file is larger than {LARGEST_FILE >> 20} MiB"


class KeyFileError(Exception):
    """A key file that cannot be read at all. `str()` is the one line for people."""


class Place(NamedTuple):
    """How far a key file was read: how often from its start, and to which line."""

    readings: int
    line: int


START = Place(0, 0)


class KeyFile:
    """One key file: what it says, and up to where it was read. Without `path` it is standard input."""

    contents: Contents
    _status: os.stat_result
    readings = 0
    """How often it was read from its start."""
    _took_unfinished: bool

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.name = "standard input" if path is None else str(path)
        try:
            self._read_all(unfinished=True)
        except OSError as error:
            raise KeyFileError(f"{self.name}: {_reason(error)}") from None

    def lines_of(self, client_transient: bytes) -> tuple[KeyLine, ...]:
        """The lines about the connection of this C'. One whose c' is that of another key is dropped and reported."""
        lines = self.contents.connections.get(client_transient, ())
        kept = tuple(line for line in lines if not _is_of_another_key(line))
        if len(kept) < len(lines):
            for line in lines:
                if line not in kept:
                    text = f"the secret key of {CLIENT_TRANSIENT} does not belong to the public key in front of it"
                    self.contents.complain(text, line.number)
            self.contents.connections[client_transient] = kept
        return kept

    @property
    def place(self) -> Place:
        """How far the file was read until now."""
        return Place(self.readings, self.contents.lines)

    def newest_shared(self, behind: Place) -> Iterator[tuple[bytes, bytes]]:
        """(C', k) of the CURVE_SHARED lines behind a place, newest first; of all where the file was replaced since."""
        return self.contents.newest_shared(behind.line if behind.readings == self.readings else 0)

    def problems(self) -> list[str]:
        """The problems of this file, bounded, in sentences."""
        contents = self.contents
        problems = contents.problems.copy()
        if contents.untold_problems:
            problems.append(f"{self.name}: {contents.untold_problems} more lines could not be used")
        if contents.is_utf_16:
            problems.append(f"{self.name}: it is saved as UTF-16, of which nothing is read; save it as UTF-8")
        elif contents.is_empty():
            problems.append(
                f"{self.name}: there is no key in it; a key log has lines like {SHARED}, a certificate a section curve"
            )
        return problems

    def is_readable_by_others(self) -> bool:
        """Whether the mode of the file lets its group or others read it."""
        if os.name != "posix" or self.path is None:
            return False
        mode = self._status.st_mode
        return stat.S_ISREG(mode) and bool(mode & 0o077)

    def refresh(self) -> bool:
        """Read what is new; True if the file says something else than before. Standard input is read once."""
        if self.path is None:
            return False
        try:
            status = os.stat(self.path)
            if not stat.S_ISREG(status.st_mode) or _state(status) == _state(self._status):
                return False
            if status.st_size > LARGEST_FILE:
                if self._status.st_size <= LARGEST_FILE:
                    self.contents.complain(f"{TOO_LARGE}; {WHAT_CAME}")
                self._status = status
                return False
            if self._has_only_grown(self.path, status):
                return self._read_on(self.path, status)
            before = self.contents
            # what was taken of a line without end is put right by reading that line again, with its end
            self._read_all(unfinished=not self._took_unfinished)
        except OSError:  # gone, or closed to us: perhaps not for long
            return False
        except KeyFileError:
            self._status = status
            self.contents.complain(f"{_too_many_lines()}; {WHAT_CAME}")
            return False
        return not self.contents.says_the_same(before)

    def _has_only_grown(self, path: Path, status: os.stat_result) -> bool:
        """Whether the octets that were read still stand in front of new ones, as far as their end shows."""
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
        if contents.lines <= MOST_LINES:
            with open(path, "rb") as file:
                file.seek(contents.octets)
                for piece in _pieces(file, status.st_size - contents.octets):
                    news |= contents.add(piece)
                    if contents.lines > MOST_LINES:
                        contents.complain(f"{_too_many_lines()}; {WHAT_CAME}")
                        break
        self._status = status
        return news

    def _read_all(self, unfinished: bool) -> None:
        """Read the file from its start; with `unfinished` a last line without end counts as it is."""
        contents = Contents(self.name)
        with open(0 if self.path is None else self.path, "rb", closefd=self.path is not None) as file:
            status = os.fstat(file.fileno())
            for piece in _pieces(file, status.st_size if stat.S_ISREG(status.st_mode) else LARGEST_FILE + 1):
                contents.add(piece)
                if contents.octets > LARGEST_FILE:
                    raise KeyFileError(f"{self.name}: {TOO_LARGE}; {THE_PART}")
                if contents.lines > MOST_LINES:
                    raise KeyFileError(f"{self.name}: {_too_many_lines()}; {THE_PART}")
        self._took_unfinished = unfinished and contents.add_unfinished_line()
        self.contents, self._status = contents, status
        self.readings += 1


class HandedLines(KeyFile):
    """Lines of a key log that stand in no file: whoever has the secrets hands them over while a capture grows.

    Of more than `MOST_LINES` lines the last are not kept.
    """

    def __init__(self) -> None:
        self.path = None
        self.name = "handed lines"
        self.contents = Contents(self.name)
        self._has_news = False

    def add(self, line: KeyLine) -> None:
        """One more line; it counts from the next `Keys.refresh` on."""
        if self.contents.lines < MOST_LINES:
            self._has_news |= self.contents.add(build_key_line(line))

    def refresh(self) -> bool:
        """True if lines came that say anything new."""
        news, self._has_news = self._has_news, False
        return news

    def problems(self) -> list[str]:
        """None, also where no line came yet: there is no file that anybody could mend."""
        return []


def _too_many_lines() -> str:
    return f"the file has more than {MOST_LINES:,} lines"


def _state(status: os.stat_result) -> tuple[int, int, int, int]:
    """What changes when a file is written or replaced."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _pieces(file: BinaryIO, octets: int) -> Iterator[bytes]:
    """At most so many octets of `file`, in pieces."""
    while octets and (piece := file.read(min(octets, PIECE))):
        octets -= len(piece)
        yield piece


def _is_of_another_key(line: KeyLine) -> bool:
    """Whether c' of the line is certainly not the secret of its C'."""
    return line.label == CLIENT_TRANSIENT and line.value is not None and public_key(line.value) != line.public


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, IsADirectoryError):
        return "it is a directory"
    if isinstance(error, PermissionError):
        return "there is no permission to read it"
    return f"it cannot be read ({error.strerror or error})"
