"""Write files step by step. If writing is cancelled or fails, the incomplete file is removed."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable
from pathlib import Path

import msgspec

from zmtpscope.capture import CaptureError
from zmtpscope.export.safe_text import safe_text
from zmtpscope.store import OctetsError
from zmtpscope.tui.requests import SavingState
from zmtpscope.tui.worker.channel import CannotAnswer

Steps = Generator[int, None, str]
"""Writes a file: yields progress, returns a summary. Closing it early removes the file."""


class CannotSave(CannotAnswer):
    """The file cannot be saved; the text is the reason."""


class Saving:
    """A file that is being written, step by step. `total` is the amount of work (rows or octets)."""

    def __init__(self, path: Path, total: int, steps: Steps) -> None:
        self._steps = steps
        self.state = SavingState(safe_text(str(path)), 0, total)
        self.notified: SavingState | None = None
        """The state sent last."""

    def step(self) -> None:
        try:
            self.state = msgspec.structs.replace(self.state, done=next(self._steps))
        except StopIteration as end:
            text = f"{self.state.path}: {safe_text(end.value)}"
            self.state = msgspec.structs.replace(self.state, done=self.state.total, is_done=True, text=text)
        except (OSError, CannotSave, CaptureError, OctetsError) as error:
            self._fail(sentence_of(error))

    def cancel(self) -> None:
        """Stop writing and remove the incomplete file."""
        self._steps.close()
        self._fail(f"{self.state.path}: cancelled, nothing was saved")

    def _fail(self, text: str) -> None:
        self.state = msgspec.structs.replace(self.state, is_done=True, text=safe_text(text), has_failed=True)


def sentence_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    return str(error)


def target_of(text: str, endings: Collection[str]) -> Path:
    """Return the path that a user typed, with ~ expanded. Raises `CannotSave` if the file name has none of the
    `endings`."""
    if not text.strip():
        raise CannotSave("name a file to write")
    try:
        path = Path(text.strip()).expanduser()
    except RuntimeError:
        raise CannotSave(f"{text}: nobody of that name has a home directory") from None
    if "\0" in text:
        raise CannotSave(f"{text}: no file can be called so")
    if path.suffix.lower() not in endings:
        raise CannotSave(f"{path}: the ending of its name selects the format: use {', '.join(endings)}")
    return path


def is_free(path: Path, sources: Iterable[str | None], *, force: bool) -> bool:
    """Whether a file may be written: False if it exists and `force` is false.

    Raises `CannotSave` if it cannot be written, or is one of the captures `sources`.
    """
    if path.is_dir():
        raise CannotSave(f"{path}: is a directory; name a file in it")
    if not path.parent.is_dir():
        raise CannotSave(f"{path}: there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise CannotSave(f"{path}: nothing may be written in {path.parent}: permission denied")
    if not os.path.lexists(path):
        return True
    if any(source is not None and _is_same(path, source) for source in sources):
        raise CannotSave(f"{path}: is the capture that is read; name another file")
    return force


def _is_same(path: Path, source: str) -> bool:
    try:
        return os.path.samefile(path, source)
    except (OSError, ValueError):
        return False
