"""`ingest` and `tables`: all records as Parquet, the rows of one run, complete or not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.readings import CAPTURES
from tests.spark.local import FILES, KEYS, in_any_order, local_rows, rows_of_all_captures
from zmtpscope.capture import CaptureError
from zmtpscope.cli import run
from zmtpscope.spark import ingest, tables
from zmtpscope.spark.errors import SettingsError
from zmtpscope.spark.ingestion import TABLES
from zmtpscope.spark.schemas import table_schema
from zmtpscope.spark.settings import ReadSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

PUBSUB = CAPTURES / "patterns" / "pubsub.pcap"


def test_tables_that_workers_write_have_the_rows_of_one_run(spark: SparkSession, tmp_path: Path) -> None:
    """And nothing is left beside them."""
    out = tmp_path / "out"
    written = ingest(spark, FILES, out, keys=KEYS, partitions=3)
    assert sorted(os.listdir(out)) == sorted(f"{record}s.parquet" for record in TABLES)
    found = tables(spark, out)
    assert found.keys() == written.keys() == {f"{record}s" for record in TABLES}
    for record in TABLES:
        frame = found[f"{record}s"]
        assert frame.schema == table_schema(record)
        rows = pa.parquet.read_table(out / f"{record}s.parquet").to_pylist()
        assert in_any_order(rows) == rows_of_all_captures(record)
        assert written[f"{record}s"].rows == len(rows)
    assert found["messages"].count() == written["messages"].rows


def test_tables_have_only_what_a_filter_holds_of(spark: SparkSession, tmp_path: Path) -> None:
    ingest(spark, PUBSUB, tmp_path / "out", filter="topic == 'a.topic' or record == connection")
    rows = {name: frame.count() for name, frame in tables(spark, tmp_path / "out").items()}
    assert {name: count for name, count in rows.items() if count} == {"messages": 7, "connections": 2}


def test_tables_are_not_overwritten_unless_asked(spark: SparkSession, tmp_path: Path) -> None:
    ingest(spark, PUBSUB, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileExistsError, match='is there already; mode="overwrite"'):
        ingest(spark, PUBSUB, tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    written = ingest(spark, PUBSUB.with_name("reqrep.pcap"), tmp_path, mode="overwrite", body="none")
    assert tables(spark, tmp_path)["messages"].count() == written["messages"].rows
    assert not set(before) & {path for path in tmp_path.rglob("*") if path.is_file()}


def test_tables_go_where_a_uri_says(spark: SparkSession, tmp_path: Path) -> None:
    for uri in (f"file:{tmp_path}/one", f"file://{tmp_path}/a%20b"):
        ingest(spark, PUBSUB, uri)
        assert tables(spark, uri)["messages"].count() == 19
    assert sorted(os.listdir(tmp_path)) == ["a b", "one"]


@pytest.mark.parametrize("uri", ["dbfs:/x", "wasbs://container@account/x", "xy:/y", "xy:y", "file:x", "file://host/x"])
def test_tables_that_would_go_elsewhere_are_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    """Not written into a folder of that name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CaptureError, match=r"no file system that is known here|no file of this host"):
        ingest(spark, PUBSUB, uri)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
def test_tables_of_export_are_opened_too(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    arguments = ["export", str(PUBSUB), "-o", str(tmp_path), "--format", format_, "--select", "message:conn_id,topic"]
    assert run(arguments) == 0
    frame = tables(spark, tmp_path)["messages"]
    local = local_rows([PUBSUB], ReadSettings.parse({"columns": "conn_id,topic"}))
    assert in_any_order(frame.select("conn_id", "topic").toArrow().to_pylist()) == in_any_order(local)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"record": "messages"}, "option record: ingest writes all records"),
        ({"mode": "append"}, "mode: 'append' is neither error nor overwrite"),
        ({"partitions": 0}, "option partitions"),
    ],
)
def test_a_mistake_is_one_sentence(spark: SparkSession, tmp_path: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        ingest(spark, PUBSUB, tmp_path, **options)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_folder_without_tables_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no tables are in it"):
        tables(spark, tmp_path)


def test_what_other_attempts_wrote_is_no_part_of_the_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a task that was tried again, or of two attempts at a time."""
    frames = type(spark.range(1))
    collect = frames.collect

    def collect_late(frame: DataFrame) -> list[Row]:
        rows = collect(frame)
        for folder in tmp_path.glob("_ingest-*/*.parquet"):
            part = next(folder.iterdir())
            (folder / "part-00000-of-another-attempt.parquet").write_bytes(part.read_bytes())
        return rows

    monkeypatch.setattr(frames, "collect", collect_late)
    written = ingest(spark, PUBSUB, tmp_path)
    monkeypatch.undo()
    assert not list(tmp_path.rglob("*another*"))
    assert tables(spark, tmp_path)["messages"].count() == written["messages"].rows > 0


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    cut, out = tmp_path / "cut.pcap", tmp_path / "out"
    cut.write_bytes(PUBSUB.read_bytes()[:-5])
    with pytest.raises(Exception, match="cut"):
        ingest(spark, cut, out, onError="fail")
    assert not list(out.iterdir())
    assert ingest(spark, cut, out)["messages"].rows > 0
