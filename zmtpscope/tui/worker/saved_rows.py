"""Saves the rows of a list: records as text, JSON lines, CSV or Parquet, with the columns of `zmtpscope export`, or
their packets."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from zmtpscope.conversations.choosing import Chosen
from zmtpscope.conversations.following import Following
from zmtpscope.conversations.text import ConversationText
from zmtpscope.dissect import Batch
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns
from zmtpscope.excerpt.copying import copy_packets, shortcomings
from zmtpscope.excerpt.wanted import WantedPackets
from zmtpscope.export.clock import Clock
from zmtpscope.export.files import OutputFile
from zmtpscope.export.json_lines import text_of
from zmtpscope.export.tables import MakeTable, Table, by_type, table_maker
from zmtpscope.export.words import size
from zmtpscope.records import RECORDS
from zmtpscope.store import Store
from zmtpscope.store.packed import Int64
from zmtpscope.tui.requests import SaveRows
from zmtpscope.tui.worker.lists import RecordList
from zmtpscope.tui.worker.loading import Loading
from zmtpscope.tui.worker.saving import CannotSave, Saving, Steps, is_free, target_of
from zmtpscope.words import counted

FORMS = {".txt": "txt", ".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet"}
"""Formats by file extension."""

PACKETS = ".pcapng"
"""Extension of files with the packets of records, with comments, as `read -w` writes them."""

MIN_ROWS, MAX_ROWS = 512, 4096
"""Minimum rows of a step, since fewer cost about as much, and maximum."""

MAX_OCTETS = 4 << 20
"""Octets in a step of several messages."""

STEP_SECONDS = 0.012


def portions(store: Store, numbers: Iterable[Int64]) -> Iterator[Int64]:
    """Split ascending record numbers into portions that take about one step each."""
    rows = MIN_ROWS
    for some in numbers:
        at = 0
        while at < len(some):
            portion = some[at : at + rows]
            while len(portion) > 1 and _octets(store.batch(portion, octets=False)) > MAX_OCTETS:
                portion = portion[: len(portion) // 2]
            at += len(portion)
            begun = time.monotonic()
            yield portion
            factor = STEP_SECONDS / max(time.monotonic() - begun, 1e-6)
            rows = max(MIN_ROWS, min(MAX_ROWS, int(rows * min(2.0, max(0.5, factor)))))


def _octets(batch: Batch) -> int:
    messages, frames = MessageColumns.of(batch), FrameRowColumns.of(batch)
    return int(messages.body_octets.sum()) + int(frames.sizes.sum())


class JsonLines:
    """Writes records of all types like `read --json`, in order."""

    def __init__(self, file: OutputFile, store: Store) -> None:
        self.rows = 0
        self._file = file
        self._options = store.options

    def add(self, batch: Batch) -> None:
        for text in text_of(batch, self._options):
            self._file.write(text)
            self.rows += text.count(b"\n")

    def close(self) -> None:
        """Do nothing: all lines are written."""


class ConversationLines:
    """Writes messages and subscriptions with bodies, like `zmtpscope follow`."""

    def __init__(self, file: OutputFile, store: Store) -> None:
        self.rows = 0
        self._file = file
        self._following = Following(Chosen(), store.options, lambda: store.first_time)
        self._text = ConversationText(Clock("r", lambda: store.first_time), "auto", lambda style, text: text)

    def add(self, batch: Batch) -> None:
        for values, is_told in self._following.records(batch):
            if not is_told:
                self._text.learn(values)
                continue
            self._file.write("".join(self._text.lines(values)).encode())
            self.rows += 1

    def close(self) -> None:
        """Do nothing: all lines are written."""


IN_ORDER: dict[str, Callable[[OutputFile, Store], Table]] = {"txt": ConversationLines, "jsonl": JsonLines}
"""Formats that write all record types to one file."""


class SavedRows:
    """Files that are being written: one with all records (`IN_ORDER`), or one per record type, for example
    `out.messages.csv`."""

    def __init__(self, path: Path, store: Store, *, force: bool) -> None:
        self._path, self._store, self._force = path, store, force
        self._form = FORMS[path.suffix.lower()]
        self._files: dict[str, OutputFile] = {}
        self._tables: dict[str, Table] = {}
        self._make: MakeTable | None = None if self._form in IN_ORDER else _table_maker(self._form)

    def add(self, batch: Batch) -> None:
        if self._make is None:
            self._table("").add(batch)
            return
        for record, part in by_type(batch):
            self._table(record).add(part)

    def _table(self, record: str) -> Table:
        if record not in self._tables:
            file = self._files[record] = OutputFile(self._path)
            file.open()
            if self._make is None:
                self._tables[record] = IN_ORDER[self._form](file, self._store)
            else:
                columns = tuple(field.name for field in RECORDS[record].fields)
                self._tables[record] = self._make(file, record, columns, self._store.options)
        return self._tables[record]

    def commit(self) -> str:
        """Give the files their final names, and return a summary."""
        for record, file in self._files.items():
            self._tables[record].close()
            if len(self._files) > 1:
                file.target = self._path.with_suffix(f".{record}s{self._path.suffix}")
            if os.path.lexists(file.target) and not self._force:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file.target))
            file.finish()
        for file in self._files.values():
            file.commit()
        rows = counted(sum(table.rows for table in self._tables.values()), "row")
        octets = size(sum(file.octets for file in self._files.values()))
        names = ", ".join(sorted(file.target.name for file in self._files.values()))
        return f"{rows}, {octets}" + (f" in {names}" if len(self._files) > 1 else "")

    def discard(self) -> None:
        for file in self._files.values():
            file.discard()


def save_rows(path: Path, store: Store, numbers: Iterable[Int64], *, force: bool) -> Steps:
    """Write the records with these numbers, which ascend, step by step. Raises `CannotSave` and `OSError`."""
    saved, done = SavedRows(path, store, force=force), 0
    problem: str | None = None
    try:
        for portion in portions(store, numbers):
            store.problem = None
            saved.add(store.batch(portion))
            problem = problem or store.problem
            done += len(portion)
            yield done
        if not done:
            raise CannotSave(f"{path}: there are no rows to save")
        text = saved.commit()
    finally:
        with suppress(OSError):
            saved.discard()
    return text if problem is None else f"{text}; octets are missing in it: {problem}"


def _table_maker(form: str) -> MakeTable:
    try:
        return table_maker(form)
    except ImportError as error:
        raise CannotSave(
            f"Parquet needs {error.name}, the extra arrow of zmtpscope: pip install 'zmtpscope[arrow]' "
            "(.jsonl and .csv need nothing more)"
        ) from None


def readable_again(paths: Sequence[str | None]) -> list[str]:
    """Return the paths of the captures. Raises `CannotSave` if one of them can be read only once, for
    example a pipe."""
    found = []
    for path in paths:
        if path is None or path == "-" or not _is_plain(path):
            name = {None: "what was captured here", "-": "standard input"}.get(path, path)
            raise CannotSave(f"packets are copied from the capture, and {name} can be read only once")
        found.append(path)
    return found


def _is_plain(path: str) -> bool:
    """Whether a path is a regular file, or missing, which is reported later."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return True


def save_packets(path: Path, store: Store, numbers: Iterable[Int64], paths: Sequence[str]) -> Steps:
    """Copy the packets of records from the captures, step by step. The record numbers must ascend.

    Raises `CannotSave`, `CaptureError` and `OSError`.
    """
    file, wanted, done = OutputFile(path), WantedPackets(store.options), 0
    try:
        file.open()
        for portion in portions(store, numbers):
            wanted.feed(store.batch(portion, details=True))
            done += len(portion)
            yield done
        if not done:
            raise CannotSave(f"{path}: there are no rows to save")
        if wanted.references:
            for portion in portions(store, [np.arange(len(store))]):
                wanted.find(store.batch(portion, details=True))
                yield done
        count = 0
        for copied in copy_packets(paths, wanted, file):
            count = copied
            yield done
        file.finish()
        file.commit()
    finally:
        file.discard()
    return "; it ".join([f"{counted(count, 'packet')}, {size(file.octets)}", *shortcomings(wanted, count)])


def saving_of(request: SaveRows, rows: RecordList | None, loading: Loading) -> Saving | None:
    """Return a `Saving` that writes the list `rows`; None if the file exists. Raises `CannotSave`."""
    path = target_of(request.path, [*FORMS, PACKETS])
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
    """Finish filtering the records that are in the store now, then run `steps`."""
    total = rows.state.total
    while rows.state.looked_at < total:
        rows.step()
        yield 0
    return (yield from steps)


def _found(rows: RecordList) -> Iterator[Int64]:
    yield np.sort(rows.numbers())
