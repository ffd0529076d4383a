"""Columns of rows: each equals the field of each row, has its type, and needs no other column."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.test_arrow import ODD, batches
from tests.export.test_json_lines import message_runs, mixed_batches
from tests.readings import CAPTURE_FILES
from tests.rows_by_hand import row_values
from tests.suites import examples
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Batch, FrameTable, MessageTable, Options
from zmtpscope.dissect.records.columns import Booleans, Column, Integers, Lists, Octets, Texts, Words
from zmtpscope.dissect.records.message_columns import MessageColumns, Payloads, content_frames
from zmtpscope.dissect.records.row_columns import FrameRowColumns, RowColumns
from zmtpscope.payloads.registry import Registry
from zmtpscope.records import RECORDS

FILES = [path for path in CAPTURE_FILES if path.stem != "many-small"]
OPTIONS = [*ODD, Options(payloads=Registry(), bodies="head", head=2)]


def columns_of(batch: Batch, options: Options) -> dict[str, RowColumns[Any]]:
    found: dict[str, RowColumns[Any]] = {}
    if batch.messages:
        found["message"] = MessageColumns.of(batch, options)
    if batch.frames:
        found["frame"] = FrameRowColumns.of(batch)
    return found


def assert_columns_are_the_fields(batch: Batch, options: Options) -> None:
    kinds = {"message": MessageTable, "frame": FrameTable}
    for record, columns in columns_of(batch, options).items():
        items = [(item, index) for item, index in batch.in_order() if isinstance(item, kinds[record])]
        rows = [row_values(item, index, batch.files, options) for item, index in items]  # type: ignore[arg-type]
        assert len(columns) == len(rows)
        for field in RECORDS[record].fields:
            found = [columns[field.name][row] for row in range(len(rows))]
            assert found == [row[field.name] for row in rows], field.name
            assert columns[field.name].tolist() == found
        assert list(columns.records()) == rows


def type_of(column: Column) -> str:
    if isinstance(column, Lists):
        return f"list<{type_of(column.items)}>"
    if isinstance(column, Payloads):
        return "struct<protocol:text,summary:text,fields:json>"
    return {Integers: "int", Booleans: "bool", Words: "text", Texts: "text", Octets: "octets"}[type(column)]


@examples(300)
@given(batches() | mixed_batches(), st.sampled_from(OPTIONS))
def test_columns_of_any_runs_are_the_fields_of_their_rows(batch: Batch, options: Options) -> None:
    assert_columns_are_the_fields(batch, options)


@examples(300, least=150)
@given(message_runs(), st.integers(0, 40), st.integers(0, 40), st.sampled_from(OPTIONS))
def test_columns_contain_only_the_octets_that_were_kept(
    run: MessageTable, front: int, back: int, options: Options
) -> None:
    data = run.data[front : max(front, len(run.data) - back)]
    types = {"socket_type": "ROUTER", "peer_socket_type": "REQ"}
    sender = run.sender._replace(data=data, base=run.base + front, **types)
    part = replace(run, senders=[sender], topics=None, payloads=None, texts=None, json=None)
    assert_columns_are_the_fields(Batch(["a", None], messages=[part]), options)


def name_of(options: Options) -> str:
    inside = "with" if options.payloads else "without"
    return f"{options.bodies} bodies, limit {options.body_limit}, head {options.head}, {inside} payloads"


@pytest.mark.parametrize("options", OPTIONS, ids=name_of)
def test_columns_of_captures_are_the_fields_of_their_rows(options: Options) -> None:
    for path in FILES:
        for batch in Analyser(replace(options, frames=True)).run(open_captures([str(path)])):
            assert_columns_are_the_fields(batch, options)


@given(batches() | mixed_batches())
def test_columns_have_the_types_and_the_order_of_the_fields(batch: Batch) -> None:
    for record, columns in columns_of(batch, Options()).items():
        assert {name: type_of(columns[name]) for name in columns.derive} == {
            field.name: field.type for field in RECORDS[record].fields
        }
        assert list(columns.values(0)) == [field.name for field in RECORDS[record].fields]


@given(batches(), st.sampled_from(OPTIONS), st.randoms())
def test_a_column_is_the_same_after_any_other_column(batch: Batch, options: Options, random: Any) -> None:
    columns = columns_of(batch, options)["message"]
    names = list(columns.derive)
    random.shuffle(names)
    for name in names:
        alone = columns_of(batch, options)["message"][name]
        assert [columns[name][row] for row in range(len(columns))] == [alone[row] for row in range(len(columns))]
        assert columns[name] is columns[name]


@given(mixed_batches(), st.sampled_from(OPTIONS))
def test_columns_are_freed_when_they_are_unused(batch: Batch, options: Options) -> None:
    """Columns hold a batch. In a reference cycle it would stay until the garbage collector runs."""
    gc.disable()
    try:
        made = columns_of(batch, options)
        while made:
            _, columns = made.popitem()
            columns.values(0)
            held = weakref.ref(columns)
            del columns
            assert held() is None
    finally:
        gc.enable()


@examples(200, least=200)
@given(message_runs())
def test_content_begins_at_the_same_frame_however_it_is_looked_for(run: MessageTable) -> None:
    """Of a run, and of all runs together."""
    frames = content_frames(run).tolist()
    assert MessageColumns.of_table(run).content.tolist() == frames
