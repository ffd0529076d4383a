"""Saves the rows of a view as JSON lines or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from zmtpscope.export.files import OutputFile
from zmtpscope.export.words import size
from zmtpscope.tui.requests import SaveTable, Table, TableRow
from zmtpscope.tui.worker.channel import CannotAnswer
from zmtpscope.tui.worker.loading import Loading
from zmtpscope.tui.worker.saving import CannotSave, Saving, Steps, is_free, target_of
from zmtpscope.words import counted

MAX_ROWS = 4096


def table_saving_of(request: SaveTable, make: Callable[[], Table], loading: Loading) -> Saving | None:
    """Return a `Saving` that writes the table returned by `make`; None if the file exists. Raises `CannotSave`."""
    path = target_of(request.path, FORMS)
    if not is_free(path, loading.captures.files, force=request.force):
        return None
    table = make()
    if not table.rows:
        raise CannotSave(f"{path}: there are no rows to save")
    return Saving(path, len(table.rows), _save(path, table))


def _save(path: Path, table: Table) -> Steps:
    file = OutputFile(path)
    lines = FORMS[path.suffix.lower()]
    try:
        file.open()
        for begin in range(0, len(table.rows), MAX_ROWS):
            for line in lines(table, begin, begin + MAX_ROWS):
                file.write(line)
            yield min(begin + MAX_ROWS, len(table.rows))
        file.finish()
        file.commit()
    finally:
        with suppress(OSError):
            file.discard()
    return f"{counted(len(table.rows), 'row')}, {size(file.octets)}"


def _json_lines(table: Table, begin: int, end: int) -> Iterator[bytes]:
    """Yield a JSON object for each row from `begin` to `end`: its cells that are not empty, by column."""
    for row in table.rows[begin:end]:
        yield msgspec.json.encode({"depth": row.depth, **_values(table, row)}) + b"\n"


def row_json(table: Table, key: str) -> str:
    """Return a row as JSON. Raises `CannotAnswer` if the row is gone."""
    row = next((row for row in table.rows if row.key == key), None)
    if row is None:
        raise CannotAnswer("the row has gone")
    return msgspec.json.encode(_values(table, row)).decode()


def _values(table: Table, row: TableRow) -> dict[str, int | float | str]:
    cells = zip(table.columns, row.cells, strict=True)
    return {column.name: _number(cell) if column.is_number else cell for column, cell in cells if cell}


def _number(cell: str) -> int | float | str:
    with suppress(ValueError):
        return int(cell)
    with suppress(ValueError):
        return float(cell)
    return cell


def _csv_lines(table: Table, begin: int, end: int) -> Iterator[bytes]:
    written = io.StringIO(newline="")
    writer = csv.writer(written, lineterminator="\n")
    if not begin:
        writer.writerow(["depth", *(column.name for column in table.columns)])
    writer.writerows([row.depth, *row.cells] for row in table.rows[begin:end])
    yield written.getvalue().encode()


FORMS: dict[str, Callable[[Table, int, int], Iterator[bytes]]] = {".jsonl": _json_lines, ".csv": _csv_lines}
"""Functions that yield the lines of rows, by file extension."""
