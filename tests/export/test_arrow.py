"""Arrow columns: rows from numpy columns equal rows converted one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.test_json_lines import OPTIONS, message_runs
from tests.readings import CAPTURE_FILES
from tests.rows_by_hand import values_of
from tests.suites import examples
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Batch, MessageTable, Options
from zmtpscope.dissect.records.columns import Words
from zmtpscope.export.arrow import arrow_batch, arrow_column, arrow_type, as_text, held_schema, words
from zmtpscope.export.tables import by_type
from zmtpscope.export.values import as_base64
from zmtpscope.records import RECORDS, to_text

ODD = [*OPTIONS, Options(bodies="head", head=0), Options(body_limit=0), Options(body_limit=1 << 70)]


def names(record: str) -> list[str]:
    return [field.name for field in RECORDS[record].fields]


def table(batch: Batch, record: str, options: Options) -> list[dict[str, Any]]:
    made = arrow_batch(batch, record, held_schema(record, names(record)), options)
    made.validate(full=True)
    rows: list[dict[str, Any]] = made.to_pylist()
    return rows


def careful(batch: Batch, options: Options) -> list[dict[str, Any]]:
    rows = values_of(batch, options)
    for row in rows:
        if (payload := row.get("payload")) is not None and payload["fields"] is not None:
            text = orjson.dumps(payload["fields"], default=as_base64).decode()
            row["payload"] = payload | {"fields": text}
    return rows


@pytest.mark.parametrize(
    "options", ODD, ids=["full", "none", "head", "limit", "payloads", "head 0", "limit 0", "no limit"]
)
def test_rows_of_captures_match_the_careful_way(options: Options) -> None:
    options = replace(options, frames=True)
    for path in CAPTURE_FILES:
        if path.suffix != ".json" and path.stem != "many-small":
            for batch in Analyser(options).run(open_captures([str(path)])):
                for record, part in by_type(batch):
                    assert table(part, record, options) == careful(part, options)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Draw runs of several sides with messages decided in any order."""
    runs: list[MessageTable] = []
    for place, run in enumerate(draw(st.lists(message_runs(), min_size=1, max_size=4))):
        conn, side = divmod(place, 2)
        orders = sorted(draw(st.lists(st.integers(0, 4), min_size=len(run.first), max_size=len(run.first))))
        stream = run.stream._replace(conn=conn + 1, side=side)
        run.change(stream=stream)
        runs.append(replace(run, orders=np.array(orders, np.int64)))
    return Batch(['odd "%" name \udcff', None], messages=draw(st.permutations(runs)))


@examples(300, least=100)
@given(batches(), st.sampled_from(ODD))
def test_rows_of_any_messages_match_the_careful_way(batch: Batch, options: Options) -> None:
    assert table(batch, "message", options) == careful(batch, options)


@given(batches())
def test_a_part_of_a_run_has_the_rows_of_that_part(batch: Batch) -> None:
    parts = [run.part(low, low + 1) for run in batch.messages for low in range(len(run.first))]
    assert table(Batch(batch.files, messages=parts), "message", Options()) == careful(batch, Options())


@given(st.lists(st.binary(max_size=6) | st.text().map(str.encode) | st.sampled_from([b"\\", b"\xff", b"a"])))
def test_octets_become_the_text_that_records_have(values: list[bytes]) -> None:
    assert as_text(pa.array(values, pa.large_binary())).to_pylist() == [to_text(value) for value in values]


def leaves(type_: pa.DataType) -> set[pa.DataType]:
    if pa.types.is_list(type_):
        return leaves(type_.value_type)
    return set().union(*(leaves(member.type) for member in type_)) if pa.types.is_struct(type_) else {type_}


def test_there_are_only_types_that_every_reader_knows() -> None:
    types = [arrow_type(field.type) for record in RECORDS.values() for field in record.fields]
    assert set().union(*map(leaves, types)) == {pa.int64(), pa.bool_(), pa.string(), pa.large_binary()}


def test_json_is_its_text() -> None:
    type_ = "struct<protocol:text,summary:text,fields:json>"
    value = {"protocol": "json", "summary": "a", "fields": {"b": [1, None]}}
    [made, nothing] = arrow_column([value, None], type_).to_pylist()
    assert made == {**value, "fields": '{"b":[1,null]}'}
    assert nothing is None


@pytest.mark.parametrize(
    ("column", "dictionary"),
    [
        (Words(["b", "a", "never", None], np.array([1, 0, 1, 3])), ["a", "b"]),
        (Words(["b", "b", "a"], np.array([2, 1, 0])), ["a", "b"]),
        (Words(["a", "a"], np.array([1, 0])), ["a"]),
        (Words([None], np.array([0, 0])), []),
        (Words(["a"], np.empty(0, np.int64)), []),
    ],
)
def test_words_are_in_order_of_their_first_row(column: Words, dictionary: list[str]) -> None:
    """The files are the same however senders are divided into tables."""
    made = words(column)
    assert made.to_pylist() == column.tolist()
    assert made.dictionary.to_pylist() == dictionary
