"""Marked records, saved by capture under `$XDG_CONFIG_HOME/zmtpscope/marks`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from zmtpscope.store import Store
from zmtpscope.tui.saved_files import folder, save_file
from zmtpscope.tui.worker.channel import CannotAnswer

MAX_MARKS = 10_000

Mark = tuple[int, int]
"""Number and time of a record. The time shows whether it is still the same one, for example with another `-d`."""

_marks = msgspec.json.Decoder(tuple[Mark, ...])


def load_marks(paths: Sequence[str], store: Store) -> tuple[int, ...]:
    """Return the numbers of the marked records that are in the store."""
    try:
        marks = _marks.decode(_path(paths).read_bytes())
    except (OSError, msgspec.DecodeError):
        return ()
    return tuple(number for number, time in marks if 0 <= number < len(store) and store.row(number)["ts_ns"] == time)


def save_marks(paths: Sequence[str], store: Store, numbers: Iterable[int]) -> tuple[int, ...]:
    """Save and return marked records; forget them if there are none. Raises `CannotAnswer`."""
    marks: tuple[Mark, ...] = tuple((number, store.row(number)["ts_ns"]) for number in sorted(numbers)[:MAX_MARKS])
    path = _path(paths)
    try:
        if marks:
            save_file(path, msgspec.json.encode(marks))
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise CannotAnswer(f"{path}: {error.strerror}") from None
    return tuple(number for number, _ in marks)


def _path(paths: Sequence[str]) -> Path:
    name = "\0".join(str(Path(path).absolute()) for path in paths)
    return folder() / "marks" / f"{hashlib.sha256(name.encode(errors='surrogateescape')).hexdigest()[:32]}.json"
