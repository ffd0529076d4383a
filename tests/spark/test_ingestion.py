"""`ingest` and `tables`: all records as Parquet, the rows of one run, complete or not there."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow.fs import FileSystem

from tests.readings import PUBSUB
from tests.spark.local import FILES, KEYS, in_any_order, local_rows, rows_of_all_captures
from zmtpscope.capture import CaptureError
from zmtpscope.cli import run
from zmtpscope.spark import ingest, ingestion, tables
from zmtpscope.spark.ingestion import TABLES
from zmtpscope.spark.settings import ReadSettings, SettingsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


def test_tables_that_workers_write_have_the_rows_of_one_run(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing else is left beside the tables."""
    out = tmp_path / "out"
    written = ingest(spark, FILES, out, keys=KEYS, partitions=3)
    assert sorted(os.listdir(out)) == ["_ingested", *sorted(f"{record}s.parquet" for record in TABLES)]
    found = tables(spark, out)
    assert found.keys() == written.keys() == {f"{record}s" for record in TABLES}
    for record in TABLES:
        frame = found[f"{record}s"]
        assert frame.schema == ReadSettings.parse({"record": record}).schema()
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
    with pytest.raises(FileExistsError, match='exists; use mode="overwrite"'):
        ingest(spark, PUBSUB, tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    written = ingest(spark, PUBSUB.with_name("reqrep.pcap"), tmp_path, mode="overwrite", body="none")
    assert tables(spark, tmp_path)["messages"].count() == written["messages"].rows
    assert not set(before) & {path for path in tmp_path.rglob("*") if path.is_file()}


def test_tables_are_written_to_a_uri(spark: SparkSession, tmp_path: Path) -> None:
    for uri in (f"file:{tmp_path}/one", f"file://{tmp_path}/a%20b"):
        ingest(spark, PUBSUB, uri)
        assert tables(spark, uri)["messages"].count() == 19
    assert sorted(os.listdir(tmp_path)) == ["a b", "one"]


@pytest.mark.parametrize("uri", ["dbfs:/x", "wasbs://container@account/x", "xy:/y", "xy:y", "file:x", "file://host/x"])
def test_tables_that_would_go_elsewhere_are_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    """They are not written into a folder of that name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CaptureError, match=r"is not a known file system|is not a file of this host"):
        ingest(spark, PUBSUB, uri)
    assert not list(tmp_path.iterdir())


class Killed(BaseException):
    """The driver ends here."""


def ports(spark: SparkSession, out: Path) -> list[int]:
    return sorted(row["src_port"] for row in tables(spark, out)["messages"].collect())


def test_append_adds_the_captures_that_are_new_each_once(spark: SparkSession, tmp_path: Path) -> None:
    captures, out = tmp_path / "captures", tmp_path / "out"
    captures.mkdir()
    (captures / "1.pcap").write_bytes(PUBSUB.read_bytes())
    assert ingest(spark, captures, out, mode="append")["messages"].rows == 19
    assert ingest(spark, captures, out, mode="append")["messages"].rows == 0
    reqrep = PUBSUB.with_name("reqrep.pcap").read_bytes()
    (captures / "2.pcap").write_bytes(reqrep)
    added = ingest(spark, captures, out, mode="append")["messages"].rows
    (captures / "2.pcap").unlink()
    (captures / "2.pcap.gz").write_bytes(gzip.compress(reqrep))  # the same capture
    assert ingest(spark, captures, out, mode="append")["messages"].rows == 0
    assert len(ports(spark, out)) == 19 + added
    (captures / "1.pcap").write_bytes(reqrep)
    with pytest.raises(CaptureError, match=r"1.pcap: it changed after its rows were written"):
        ingest(spark, captures, out, mode="append")
    assert ingest(spark, captures, out, mode="overwrite")["messages"].rows == len(ports(spark, out))


@pytest.mark.parametrize("moved", [None, 0, 1, 4])
def test_append_has_each_row_once_after_a_driver_was_killed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: int | None
) -> None:
    """The driver ends before its captures were noted (None), or after this many tables got their parts."""
    out, reqrep = tmp_path / "out", PUBSUB.with_name("reqrep.pcap")
    ingest(spark, PUBSUB, out)
    before = ports(spark, out)

    def killed(filesystem: FileSystem, root: str, staging: str) -> None:
        for folder in sorted(Path(staging).iterdir())[:moved]:
            for part in folder.iterdir():
                part.rename(Path(root) / folder.name / part.name)
        raise Killed

    if moved is None:
        shutil.copytree(out / "messages.parquet", out / "_ingest-0" / "messages.parquet")
    else:
        monkeypatch.setattr(ingestion, "put_in_place", killed)
        with pytest.raises(Killed):
            ingest(spark, reqrep, out, mode="append")
        monkeypatch.undo()
    assert list(out.glob("_ingest-*"))
    added = ingest(spark, reqrep, out, mode="append")["messages"].rows
    assert bool(added) == (moved is None)
    expected = local_rows([reqrep], ReadSettings())
    assert ports(spark, out) == sorted([*before, *(row["src_port"] for row in expected)])
    assert not list(out.glob("_ingest-*"))


@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
def test_tables_of_export_are_opened_too(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    arguments = ["export", str(PUBSUB), "-o", str(tmp_path), "--format", format_, "--select", "message:conn_id,topic"]
    assert run(arguments) == 0
    frame = tables(spark, tmp_path)["messages"]
    local = local_rows([PUBSUB], ReadSettings.parse({"columns": "conn_id,topic"}))
    assert in_any_order(frame.select("conn_id", "topic").toArrow().to_pylist()) == in_any_order(local)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"record": "messages"}, "option record: ingest writes all records"),
        ({"mode": "ignore"}, "mode: 'ignore' is not error, overwrite or append"),
        ({"partitions": 0}, "option partitions"),
    ],
)
def test_a_mistake_is_one_sentence(spark: SparkSession, tmp_path: Path, options: dict[str, object], error: str) -> None:
    with pytest.raises(SettingsError, match=error):
        ingest(spark, PUBSUB, tmp_path, **options)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_folder_without_tables_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="contains no tables"):
        tables(spark, tmp_path)


def test_files_of_other_attempts_are_no_part_of_the_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other attempts occur after a retried task, or two at a time."""
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
