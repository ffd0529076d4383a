"""Write a key log: a regular file that only its user can read, created or appended to."""

from __future__ import annotations

import os
import shlex
import stat
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zmtpscope.curve_keys import KeyLine

HEADER = b"# CURVE keys, written by zmtpscope: they open recorded traffic for ever; delete them when you are done\n"
OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class KeyLogError(Exception):
    """A key log cannot be written. The text is one line: the path, the reason and the remedy."""


def open_key_log(path: Path) -> FileIO:
    """Open a key log for appending whole lines. Each write reaches the file at once.

    Raises `KeyLogError` if the path is a link or no regular file, belongs to another user, or is readable by others.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK  # a named pipe must not block
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        why = "it is a symbolic link; name the file itself" if path.is_symlink() else error.strerror
        raise KeyLogError(f"{path}: {why}") from None
    file = FileIO(descriptor, "r+")
    try:
        _check_permissions(path, os.fstat(descriptor))
        size = os.fstat(descriptor).st_size
        if not size:
            file.write(HEADER)
        elif os.pread(descriptor, 1, size - 1) != b"\n":
            file.write(b"\n")
    except BaseException:
        file.close()
        raise
    return file


def _check_permissions(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyLogError(f"{path}: keys are written to plain files only")
    if status.st_uid != os.geteuid():
        raise KeyLogError(f"{path}: belongs to another user; name a file of your own")
    if status.st_mode & OF_OTHERS:
        raise KeyLogError(
            f"{path}: other users can read it, and its keys decrypt traffic; chmod 600 {shlex.quote(str(path))}"
        )


class KeyLog:
    """A key log to which lines are appended. Raises `KeyLogError` like `open_key_log`, and `OSError` with the path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_key_log(path)

    @classmethod
    def beside(cls, capture: Path) -> KeyLog:
        """Return the key log of a capture file: `out.keys` for `out.pcapng`."""
        path = capture.with_suffix(".keys")
        if path == capture:
            raise KeyLogError(f"{capture}: its key log would have the same name; name the capture differently")
        return cls(path)

    def add(self, line: KeyLine) -> None:
        from zmtpscope.curve_keys import build_key_line  # loads libsodium, which only CURVE needs

        try:
            self._file.write(build_key_line(line))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def close(self) -> None:
        self._file.close()
