"""What holds of every view, on every capture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.stores import FILES
from tests.tui.worker.views.fed import cell, opened_whole, store_of, view_of
from zmtpscope.export.safe_text import safe_text
from zmtpscope.filter import Filter
from zmtpscope.tui.requests import Sort
from zmtpscope.tui.worker.views.catalogue import VIEWS

COUNTED = {"messages": "message", "messages_0": "message", "messages_1": "message", "findings": "finding"}
"""Which type of records the numbers in a column count."""

BY_CAPTURE = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")


@BY_CAPTURE
def test_it_does_not_matter_how_records_are_divided_into_steps(path: Path) -> None:
    store = store_of(path)
    for name in VIEWS:
        at_once = opened_whole(view_of(name, store))
        assert opened_whole(view_of(name, store, step=7)) == at_once


@BY_CAPTURE
def test_every_number_leads_to_its_records(path: Path) -> None:
    store = store_of(path)
    for name in VIEWS:
        table = opened_whole(view_of(name, store))
        for row in table.rows:
            if row.record is not None:
                assert 0 <= row.record < len(store)
            if not row.filter:
                continue
            found: dict[str, int] = {}
            for column, type_ in COUNTED.items():
                if column in {each.name for each in table.columns} and cell(table, row, column):
                    found[type_] = found.get(type_, 0) + int(cell(table, row, column))
            for type_, count in found.items():
                filter = Filter(f"({row.filter}) and record == {type_}")
                assert len(store.select(filter)) == count, (name, row)
            Filter(row.filter)


@BY_CAPTURE
def test_all_text_is_safe_to_show_and_keys_are_different(path: Path) -> None:
    store = store_of(path)
    for name in VIEWS:
        table = opened_whole(view_of(name, store))
        texts = [*table.text, *(text for row in table.rows for text in (*row.cells, row.filter))]
        assert [text for text in texts if safe_text(text) != text] == []
        keys = [row.key for row in table.rows]
        assert len(keys) == len(set(keys))
        assert all(len(row.cells) == len(table.columns) for row in table.rows)


@BY_CAPTURE
def test_rows_can_be_sorted_by_every_column(path: Path) -> None:
    store = store_of(path)
    for name in VIEWS:
        view = view_of(name, store)
        table = view.table()
        for column in table.columns:
            for descending in (False, True):
                rows = view.table(Sort(column.name, descending)).rows
                assert sorted(row.key for row in rows) == sorted(row.key for row in table.rows)


def test_at_most_so_many_rows_are_shown_and_that_there_are_more_is_said() -> None:
    store = store_of(next(path for path in FILES if path.stem == "port-scan" or path.stem == "holes"))
    for name in VIEWS:
        view = view_of(name, store)
        table = view.table(opened=[row.key for row in view.table().rows])
        if len(table.rows) > 1:
            shorter = view.table(opened=[row.key for row in table.rows], most=1)
            assert shorter.rows == table.rows[:1]
            assert shorter.text[-1].startswith("the first 1 row")
