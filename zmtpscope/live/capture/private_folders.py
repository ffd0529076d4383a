"""Folders for captures without a file name, whose files keep packets until they are read.

If a file system is full, the capture continues in memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from zmtpscope.live.capture.packet_socket import CannotCapture
from zmtpscope.live.capture.settings import RingLimits

ON_DISK = RingLimits(filesize=256 << 20, files=2)
MEMORY, IN_MEMORY = "/dev/shm", RingLimits(filesize=24 << 20, files=2)
"""A folder in memory, and file limits for the small share of it that containers have."""
PREFIX = "zmtpscope-capture-"
NEW = 60
"""Seconds after which the creator of a directory must have locked it."""


class PrivateFolders:
    """The directories of one private capture: one in each folder that it has used so far."""

    def __init__(self) -> None:
        self.directories: list[str] = []
        self.notices: list[str] = []
        """Sentences for people; the caller removes them after printing."""
        self._candidates = _candidates()
        for folder, _ in self._candidates:
            remove_abandoned(folder)

    def enter(self, why: OSError | None = None) -> tuple[Path, RingLimits]:
        """Create a directory in the next folder; return the prefix of its file names, and their limits.

        `why` is the error of the previous folder. Raises `CannotCapture` if no folder is left.
        """
        before = os.path.dirname(self.directories[-1]) if self.directories else ""
        while self._candidates:
            folder, limits = self._candidates.pop(0)
            try:
                self.directories.append(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
                hold(self.directories[-1])
            except OSError as error:
                before, why = folder, error
                continue
            if why is not None:
                most = (limits.filesize or 0) * (limits.files or 0) >> 20
                self.notices.append(
                    f"{before}: {why.strerror}; packets are buffered in {folder} until they are read, at most "
                    f"{most} MiB: set TMPDIR to a directory with more space"
                )
            return Path(self.directories[-1]) / "capture.pcapng", limits
        words = "" if why is None else f"{before}: {why.strerror}; "
        raise CannotCapture(
            f"{words}no space to buffer packets until they are read",
            "set TMPDIR to a directory with free space, or name a file with -w",
        )

    def remove(self) -> None:
        for directory in self.directories:
            shutil.rmtree(directory, ignore_errors=True)


def _candidates() -> list[tuple[str, RingLimits]]:
    """Return the folders for private captures with their limits, best first.

    These are TMPDIR or /var/tmp (since /tmp is often in memory), then memory.
    """
    first = os.environ.get("TMPDIR")
    if not first:
        first = "/var/tmp" if os.access("/var/tmp", os.W_OK | os.X_OK) else tempfile.gettempdir()
    return [(first, ON_DISK), *([(MEMORY, IN_MEMORY)] if os.path.isdir(MEMORY) else [])]


def hold(directory: str) -> int:
    """Lock the directory of a private capture, so that other processes do not remove it; return the descriptor of the
    lock.

    Raises `OSError`.
    """
    import fcntl  # missing on some systems that import this module

    descriptor = os.open(directory, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def remove_abandoned(folder: str) -> None:
    """Remove private captures that no process has locked: their process crashed or was killed."""
    import fcntl

    for path in Path(folder).glob(f"{PREFIX}*"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                about = os.fstat(descriptor)
                if about.st_uid == os.geteuid() and time.time() - about.st_mtime > NEW:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(descriptor)
