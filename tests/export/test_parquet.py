"""Parquet files as the readers see them that people use; Spark is in test_p12_formats_agree.py."""

from __future__ import annotations

import base64
import json
import pathlib
import sys
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.readings import CAPTURES
from zmtpscope.capture import open_captures
from zmtpscope.cli import run
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.export import parquet
from zmtpscope.export.arrow import arrow_schema
from zmtpscope.export.files import OutputFile
from zmtpscope.export.tables import by_type
from zmtpscope.records import PLURALS, RECORDS

PUBSUB, MANY = CAPTURES / "patterns" / "pubsub.pcap", CAPTURES / "patterns" / "many-small.pcap"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Tables of a capture with subscriptions, in Parquet and as JSON lines."""
    folder = tmp_path_factory.mktemp("tables")
    for form in ("parquet", "jsonl"):
        assert run(["export", str(PUBSUB), "-o", str(folder), "--frames", "--derived", "--format", form]) == 0
    return folder


@pytest.fixture(scope="module")
def messages(folder: pathlib.Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / "messages.jsonl").read_text().splitlines()]
    return [{**record, "bodies": [base64.b64decode(body) for body in record["bodies"]]} for record in records]


TOPICS = ("a.topic", "b.topic", "c.topic")
QUERY = "select topic, sum(len(bodies)), max(ts_ns), min(octet_length(bodies[1])) from '{}' group by topic order by 1"


def test_duckdb(folder: pathlib.Path, messages: list[dict[str, Any]]) -> None:
    with duckdb.connect() as db:
        rows = db.execute(QUERY.format(folder / "messages.parquet")).fetchall()
        types = {row[0]: row[1] for row in db.execute(f"describe from '{folder / 'messages.parquet'}'").fetchall()}
        assert db.execute(f"select count(*) from '{folder / 'gaps.parquet'}'").fetchone() == (0,)
    expected = {topic: [each for each in messages if each["topic"] == topic] for topic in TOPICS}
    assert rows == [
        (topic, 2 * len(some), max(each["ts_ns"] for each in some), len(topic)) for topic, some in expected.items()
    ]
    assert (types["ts_ns"], types["bodies"], types["sizes"]) == ("BIGINT", "BLOB[]", "BIGINT[]")
    assert (types["topic"], types["complete"]) == ("VARCHAR", "BOOLEAN")


def test_polars(folder: pathlib.Path, messages: list[dict[str, Any]]) -> None:
    frame = pl.read_parquet(folder / "messages.parquet")
    assert frame.schema["bodies"] == pl.List(pl.Binary)
    assert frame.schema["ts_ns"] == pl.Int64
    assert frame.schema["topic"] == pl.String
    for name in ("topic", "sizes", "bodies", "ts_ns", "complete", "envelope"):
        assert frame[name].to_list() == [message[name] for message in messages]


def test_pandas(folder: pathlib.Path, messages: list[dict[str, Any]]) -> None:
    frame = pd.read_parquet(folder / "messages.parquet")
    assert frame["ts_ns"].dtype == "int64"
    assert frame["complete"].dtype == "bool"
    assert frame["topic"].tolist() == [message["topic"] for message in messages]
    assert [list(bodies) for bodies in frame["bodies"]] == [message["bodies"] for message in messages]


@pytest.mark.parametrize("record", RECORDS)
def test_the_file_has_the_schema_of_the_records(folder: pathlib.Path, record: str) -> None:
    expected = arrow_schema(record, [field.name for field in RECORDS[record].fields])
    read = pq.read_schema(folder / f"{PLURALS[record]}.parquet")
    assert read.names == expected.names
    for name in expected.names:
        if pa.types.is_list(expected.field(name).type):  # Parquet calls the elements of lists otherwise
            assert read.field(name).type.value_type == expected.field(name).type.value_type
        else:
            assert read.field(name).type == expected.field(name).type


def test_words_are_text_to_readers(folder: pathlib.Path) -> None:
    with duckdb.connect() as db:
        types = {row[0]: row[1] for row in db.execute(f"describe from '{folder / 'messages.parquet'}'").fetchall()}
    assert types["kind"] == types["conn_id"] == "VARCHAR"
    assert pl.read_parquet_schema(folder / "messages.parquet")["kind"] == pl.String
    assert pd.read_parquet(folder / "messages.parquet")["kind"].dtype != "category"


def test_columns_are_packed_as_they_should_be(folder: pathlib.Path) -> None:
    group = pq.read_metadata(folder / "messages.parquet").row_group(0)
    columns = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert "DELTA_BINARY_PACKED" in columns["ts_ns"].encodings
    assert "RLE_DICTIONARY" in columns["conn_id"].encodings
    assert columns["ts_ns"].statistics.has_min_max
    assert columns["bodies.list.element"].encodings == ("RLE", "PLAIN")
    assert columns["bodies.list.element"].statistics is None


def groups(path: pathlib.Path) -> list[int]:
    metadata = pq.read_metadata(path)
    return [metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)]


@pytest.mark.parametrize("parts", [2, parquet.MAX_PARTS])
def test_a_row_group_ends_with_its_number_of_rows(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, parts: int
) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 300)
    monkeypatch.setattr(parquet, "MAX_PARTS", parts)
    assert run(["export", str(MANY), "-o", str(tmp_path), "--format", "parquet"]) == 0
    *full, last = groups(tmp_path / "messages.parquet")
    assert set(full) == {300}
    assert 0 < last <= 300
    assert run(["export", str(MANY), "-o", str(tmp_path)]) == 0  # JSON lines, to compare with
    lines = [json.loads(line) for line in (tmp_path / "messages.jsonl").read_text().splitlines()]
    assert pq.read_table(tmp_path / "messages.parquet")["offset"].to_pylist() == [line["offset"] for line in lines]


def test_a_row_group_ends_with_its_octets(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_OCTETS", 1)
    assert run(["export", str(PUBSUB), str(MANY), "-o", str(tmp_path), "--format", "parquet"]) == 0
    assert len(groups(tmp_path / "messages.parquet")) > 1  # a batch is the least


@pytest.mark.slow
def test_rows_that_arrive_one_by_one_wait_in_little_memory(tmp_path: pathlib.Path) -> None:
    """In a large capture, blocks may have one message or gap each."""
    _, greetings = next(
        part
        for batch in Analyser().run(open_captures([str(PUBSUB)]))
        for part in by_type(batch)
        if part[0] == "greeting"
    )
    one = Batch(greetings.files, records=greetings.records[:1])
    file = OutputFile(tmp_path / "greetings.parquet")
    file.open()
    table = parquet.ParquetTable(file, "greeting", tuple(field.name for field in RECORDS["greeting"].fields), Options())
    before = pa.total_allocated_bytes()
    for _ in range(50 * parquet.MAX_PARTS):
        table.add(one)
    waiting = pa.total_allocated_bytes() - before
    table.close()
    file.finish()
    file.commit()
    assert pq.read_table(file.target).num_rows == table.rows == 50 * parquet.MAX_PARTS
    assert waiting / table.rows < 500


def test_an_interrupt_is_not_lost_while_arrow_asks_whether_a_file_is_closed(tmp_path: pathlib.Path) -> None:
    """Arrow takes an exception in this property for true, and reports a closed file. So there is no property in
    Python, in which an interrupt might be raised."""
    file = OutputFile(tmp_path / "out")
    file.open()
    sink = pa.PythonFile(file, "w")
    entered: list[str] = []
    sys.setprofile(lambda frame, event, argument: entered.append(frame.f_code.co_name) if event == "call" else None)
    try:
        is_closed = sink.closed
    finally:
        sys.setprofile(None)
    assert not is_closed
    assert entered == []
    file.discard()
    assert sink.closed
