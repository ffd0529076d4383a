"""Saving the rows of a list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from zmtpscope.store.packed import Int64
from zmtpscope.tui.requests import SaveRows
from zmtpscope.tui.worker.lists import RecordList
from zmtpscope.tui.worker.loading import Loading
from zmtpscope.tui.worker.saved_packets import FORM as PACKETS
from zmtpscope.tui.worker.saved_packets import readable_again, save_packets
from zmtpscope.tui.worker.saved_rows import FORMS, save_rows
from zmtpscope.tui.worker.saving import CannotSave, Saving, Steps, is_free, target_of


def saving_of(request: SaveRows, rows: RecordList | None, loading: Loading) -> Saving | None:
    """Return a `Saving` of the list `rows`, None if the file exists. Raises `CannotSave`."""
    path = target_of(request.path)
    ending = path.suffix.lower()
    if ending not in FORMS and ending != PACKETS:
        endings = ", ".join([*FORMS, PACKETS])
        raise CannotSave(f"{path}: its ending says as what rows are saved; it is one of {endings}")
    if not is_free(path, loading.captures.files, force=request.force):
        return None
    if rows is None:
        raise CannotSave("the list is not there any more")
    total = 0 if rows.is_behind else rows.state.found
    return Saving(path, total, _when_found(rows, _steps(path, loading, _found(rows), request.force)))


def _steps(path: Path, loading: Loading, numbers: Iterator[Int64], force: bool) -> Steps:
    if path.suffix.lower() == PACKETS:
        return save_packets(path, loading.store, numbers, readable_again(loading.captures.files))
    return save_rows(path, loading.store, numbers, force=force)


def _when_found(rows: RecordList, steps: Steps) -> Steps:
    """Filter the records present at the start, then run `steps`."""
    total = rows.state.total
    while rows.state.looked_at < total:
        rows.step()
        yield 0
    return (yield from steps)


def _found(rows: RecordList) -> Iterator[Int64]:
    yield np.sort(np.concatenate([np.empty(0, np.int64), *rows.numbers()]))
