"""Seam P12: JSON lines, Arrow rows and Spark rows are equal, field by field."""

from __future__ import annotations

import base64
import json
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.export.test_arrow import batches
from tests.export.test_json_lines import contents_of
from tests.readings import CAPTURES
from tests.suites import examples, some
from zmtpscope.cli import run
from zmtpscope.dissect import Batch, Options, Record
from zmtpscope.export.arrow import arrow_batch, held_schema
from zmtpscope.export.json_lines import lines
from zmtpscope.export.tables import Tables
from zmtpscope.export.types import spark_schema, translate
from zmtpscope.record_fields import COMMON
from zmtpscope.records import PLURALS, RECORDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]
Convert = Callable[[Any], Any]
COLUMNS = {record: tuple(field.name for field in type_.fields) for record, type_ in RECORDS.items()}


def same(value: Any) -> Any:
    return value


def each(convert: Convert) -> Convert:
    return lambda values: None if values is None else [convert(value) for value in values]


def members(converts: dict[str, Convert]) -> Convert:
    return lambda struct: (
        None if struct is None else {name: convert(struct[name]) for name, convert in converts.items()}
    )


JSON: dict[str, Convert] = {
    "int": same,
    "bool": same,
    "text": same,
    "octets": lambda value: None if value is None else base64.b64decode(value),
    "json": lambda value: None if value is None else orjson.dumps(value).decode(),
}
"""How a value of a JSON line is turned into that of a table, by its logical type."""


def json_rows(record: str, json_lines: list[bytes]) -> list[Row]:
    """JSON lines as rows of a table: without `time`, which is `ts_ns` in words."""
    converts = {field.name: translate(field.type, JSON, each, members) for field in RECORDS[record].fields}
    rows = []
    for line in map(json.loads, json_lines):
        del line["time"]
        assert list(line) == list(converts)
        rows.append({name: converts[name](value) for name, value in line.items()})
    return rows


def spark_rows(frame: DataFrame) -> list[Row]:
    return [{name: plain(value) for name, value in row.asDict(recursive=True).items()} for row in frame.collect()]


def meant(rows: list[Row]) -> list[Row]:
    """Replace JSON texts of payloads by their values: Spark formats numbers of JSON differently."""
    return [
        row | {"payload": payload | {"fields": json.loads(payload["fields"])}}
        if (payload := row.get("payload")) is not None and payload["fields"] is not None
        else row
        for row in rows
    ]


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(member) for member in value]
    return bytes(value) if isinstance(value, bytearray) else value


# -- real captures ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Every capture that ships with the source in one set of tables, as JSON lines and in Parquet."""
    folder = tmp_path_factory.mktemp("tables")
    captures = [str(path) for path in sorted(CAPTURES.iterdir()) if path.is_dir()]
    for form in ("jsonl", "parquet"):
        # one of the captures is cut short
        assert (
            run(["export", *captures, "-o", str(folder), "--frames", "--derived", "--show-secrets", "--format", form])
            == 3
        )
    return folder


@pytest.mark.parametrize("record", RECORDS)
def test_tables_of_captures_are_equal(folder: pathlib.Path, record: str) -> None:
    expected = json_rows(record, (folder / f"{PLURALS[record]}.jsonl").read_bytes().splitlines())
    assert expected
    assert pq.read_table(folder / f"{PLURALS[record]}.parquet").to_pylist() == expected


@pytest.mark.parametrize("record", some(RECORDS, 3))
def test_spark_reads_both_as_the_same(folder: pathlib.Path, record: str, spark: SparkSession) -> None:
    from_json = spark.read.schema(spark_schema(record)).json(str(folder / f"{PLURALS[record]}.jsonl"))
    from_parquet = spark.read.parquet(str(folder / f"{PLURALS[record]}.parquet"))
    assert from_json.schema == from_parquet.schema
    expected = pq.read_table(folder / f"{PLURALS[record]}.parquet").to_pylist()
    assert meant(spark_rows(from_json)) == meant(expected)
    assert spark_rows(from_parquet) == expected


def test_spark_reads_many_runs_at_once(folder: pathlib.Path, spark: SparkSession, tmp_path: pathlib.Path) -> None:
    empty = tmp_path / "empty"
    run(["export", str(CAPTURES / "negative" / "http.pcap"), "-o", str(empty), "--format", "parquet"])
    tables = [str(place / "messages.parquet") for place in (folder, empty)]
    assert spark.read.parquet(*tables).count() == pq.read_metadata(tables[0]).num_rows


# -- any records -----------------------------------------------------------------------------------------------------

WORDS = st.text(max_size=8) | st.text(st.sampled_from('a"\\\n\r\t\x00\x1f\x7f\x85\u2028\u202e\U0001f680'), max_size=8)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.none() | st.integers(-(2**63), 2**64),
    "bool": st.none() | st.booleans(),
    "text": st.none() | WORDS,
    "octets": st.none() | st.binary(max_size=5),
    "json": contents_of,
}
INSIDE = LEAVES | {"int": st.none() | st.integers(-(2**63), 2**63 - 1)}
"""Inside a struct are no numbers of peers, which alone may need more bits."""
VALUES = {
    type_: translate(
        type_,
        INSIDE if "struct" in type_ else LEAVES,
        lambda member: st.none() | st.lists(member.filter(lambda value: value is not None), max_size=3),
        st.fixed_dictionaries,
    )
    for record in RECORDS.values()
    for type_ in {field.type for field in record.fields}
}
COUNTED = {field: st.none() | st.integers(0, 2**63 - 1) for field in COMMON if field.type == "int"}
"""The common numbers are counted here, from 0 on; no peer sends them."""
TOLD = [record for record in RECORDS if record not in ("message", "frame")]


@st.composite
def drawn_record(draw: st.DrawFn, record: str) -> Record:
    """Draw a record of the type with any field values; but a finding has an id, which orders findings at one place."""
    values = {field.name: draw(COUNTED.get(field, VALUES[field.type])) for field in RECORDS[record].fields}
    values |= {"record": record, "ts_ns": draw(st.integers(-(2**60), 2**62))}
    if record == "finding":
        values["id"] = draw(st.text(max_size=4))
    return Record.of(record, (draw(st.integers(0, 9)), 1, 0, 0, 0), values)


@st.composite
def parts(draw: st.DrawFn) -> tuple[str, Batch]:
    record = draw(st.sampled_from([*TOLD, "message"]))
    if record == "message":
        return record, draw(batches())
    return record, Batch([None], records=draw(st.lists(drawn_record(record), min_size=1, max_size=5)))


@examples(200)
@given(parts())
def test_any_records_are_equal(part: tuple[str, Batch]) -> None:
    record, batch = part
    made = arrow_batch(batch, record, held_schema(record, COLUMNS[record]), Options())
    assert made.to_pylist() == json_rows(record, list(lines(batch, Options())))


@settings(examples(5), phases=[Phase.generate])
@given(st.lists(parts(), min_size=2, max_size=5))
def test_spark_reads_any_records_as_the_same(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, some: list[tuple[str, Batch]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    for form in ("jsonl", "parquet"):
        with Tables(folder, form, COLUMNS, Options(), force=False) as tables:
            for _, batch in some:
                tables.add(batch)
            tables.commit()
    for record in {record for record, _ in some}:
        expected = pq.read_table(folder / f"{PLURALS[record]}.parquet").to_pylist()
        from_json = spark.read.schema(spark_schema(record)).json(str(folder / f"{PLURALS[record]}.jsonl"))
        assert spark_rows(spark.read.parquet(str(folder / f"{PLURALS[record]}.parquet"))) == expected
        assert meant(spark_rows(from_json)) == meant(expected)
