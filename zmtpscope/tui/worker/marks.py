"""Marked records, saved for each capture in `$XDG_CONFIG_HOME/zmtpscope/marks`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from zmtpscope.store import Store
from zmtpscope.tui.saved_files import folder, save_file
from zmtpscope.tui.worker.channel import CannotAnswer

MAX_MARKS = 10_000

IDENTITY = ("ts_ns", "conn_id", "side", "source", "offset", "record")
"""Fields that show whether a number still means the same record, for example with another `-d`."""
Mark = tuple[int, tuple[int | str | None, ...]]
"""(number of a record, its `IDENTITY`)."""

_marks = msgspec.json.Decoder(tuple[Mark, ...])


def load_marks(paths: Sequence[str], store: Store) -> tuple[int, ...]:
    """Return the numbers of records that were marked when these captures were last open."""
    try:
        marks = _marks.decode(_path(paths).read_bytes())
    except (OSError, msgspec.DecodeError):
        return ()
    there = (each for each in marks if 0 <= each[0] < len(store))
    return tuple(number for number, identity in there if _identity(store, number) == identity)


def save_marks(paths: Sequence[str], store: Store, numbers: Iterable[int]) -> tuple[int, ...]:
    """Save the marked records and return them; without any, remove the saved ones. Raises `CannotAnswer`."""
    marks: tuple[Mark, ...] = tuple((number, _identity(store, number)) for number in sorted(numbers)[:MAX_MARKS])
    path = _path(paths)
    try:
        if marks:
            save_file(path, msgspec.json.encode(marks))
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise CannotAnswer(f"{path}: {error.strerror}") from None
    return tuple(number for number, _ in marks)


def _identity(store: Store, number: int) -> tuple[int | str | None, ...]:
    values = store.row(number)
    return tuple(values.get(name) for name in IDENTITY)


def _path(paths: Sequence[str]) -> Path:
    name = "\0".join(str(Path(path).absolute()) for path in paths)
    return folder() / "marks" / f"{hashlib.sha256(name.encode(errors='surrogateescape')).hexdigest()[:32]}.json"
