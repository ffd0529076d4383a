"""Properties of every view, on every capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.export.test_secrets_of_payloads import SENT, WORD, registry
from tests.readings import CAPTURES
from tests.store.stores import FILES
from tests.traffic import Capture
from tests.tui.worker.views.fed import cell, opened_whole, store_of, view_of
from zmtpscope.dissect import Analyser, DecodeAs, Options
from zmtpscope.export.safe_text import safe_text
from zmtpscope.filter import Filter
from zmtpscope.store import Store
from zmtpscope.tui.requests import Sort, Table, TableRow, Wanted
from zmtpscope.tui.worker.views import tables
from zmtpscope.tui.worker.views.catalogue import VIEWS
from zmtpscope.tui.worker.views.tables import Column, ShownLine

MESSAGES = " and record == message"
COUNTED = {
    **dict.fromkeys(("messages", "messages_0", "messages_1"), MESSAGES),
    "records": "",
}
"""The records that a column counts, among those that match the filter of a row."""


@cache
def whole(name: str, path: Path) -> Table:
    """Return a view of a capture with all rows opened; several tests use it."""
    return opened_whole(view_of(name, store_of(path)))


BY_CAPTURE = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")


@BY_CAPTURE
def test_steps_do_not_change_the_result(path: Path) -> None:
    store = store_of(path)
    for name in VIEWS:
        assert opened_whole(view_of(name, store, step=23)) == whole(name, path)


def test_every_value_has_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt name would leave a cell empty."""
    row = tables._row

    def checked(columns: Sequence[Column], shown: ShownLine, *, is_raw: bool) -> TableRow:
        names = {column.name for column in columns} | {"others"}  # a column only if there are many subscribers
        assert shown.line.values.keys() <= names
        return row(columns, shown, is_raw=is_raw)

    monkeypatch.setattr(tables, "_row", checked)
    for path in FILES:
        for name in VIEWS:
            opened_whole(view_of(name, store_of(path)))


@BY_CAPTURE
def test_every_number_leads_to_its_records(path: Path) -> None:
    store = store_of(path)
    for name in VIEWS:
        table = whole(name, path)
        for row in table.rows:
            if row.record is not None:
                assert 0 <= row.record < len(store)
            if not row.filter:
                continue
            found = Counter[str]()
            for column in COUNTED.keys() & {each.name for each in table.columns}:
                if cell(table, row, column):
                    found[COUNTED[column]] += int(cell(table, row, column))
            for extra, count in found.items():
                assert len(store.select(Filter(f"({row.filter}){extra}"))) == count, (name, row)
            Filter(row.filter)


@BY_CAPTURE
def test_all_text_is_safe_to_show_and_keys_are_different(path: Path) -> None:
    for name in VIEWS:
        table = whole(name, path)
        texts = [*table.text, *(text for row in table.rows for text in (*row.cells, row.filter))]
        assert [text for text in texts if safe_text(text) != text] == []
        keys = [row.key for row in table.rows]
        assert len(keys) == len(set(keys))
        assert all(len(row.cells) == len(table.columns) for row in table.rows)


def test_rows_can_be_sorted_by_every_column() -> None:
    store = store_of(CAPTURES / "implementations/jupyter.pcap")
    for name in VIEWS:
        view = view_of(name, store)
        table = view.table()
        for column in table.columns:
            for descending in (False, True):
                rows = view.table(Wanted(Sort(column.name, descending))).rows
                assert sorted(row.key for row in rows) == sorted(row.key for row in table.rows)


@pytest.mark.parametrize("what", SENT)
def test_passwords_inside_messages_stay_hidden(what: str) -> None:
    options = Options(payloads=registry(), decode_as=(DecodeAs("udp.port", 5556),), index=True)
    store = Store(options)
    for batch in Analyser(options).run(Capture(SENT[what](), 1)):
        store.append(batch)
    for name in VIEWS:
        assert WORD[:5] not in str(opened_whole(view_of(name, store))).encode()


def test_rows_are_limited_and_further_ones_are_reported() -> None:
    store = store_of(next(path for path in FILES if path.stem == "port-scan" or path.stem == "holes"))
    for name in VIEWS:
        view = view_of(name, store)
        table = view.table(Wanted(opened=frozenset(row.key for row in view.table().rows)))
        if len(table.rows) > 1:
            shorter = view.table(Wanted(opened=frozenset(row.key for row in table.rows), most=1))
            assert shorter.rows == table.rows[:1]
            assert shorter.text[-1].startswith("the first 1 row")
