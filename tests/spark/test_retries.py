"""A task of a worker that dies runs again, and the rows of the dead worker are not duplicated."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from tests.readings import CAPTURES
from tests.spark.local import in_any_order, local_rows, shuffled_frame
from zmtpscope.spark import ingest, ingestion, sending, shuffle
from zmtpscope.spark.settings import ReadSettings
from zmtpscope.spark.source import ZmtpDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType

FILES = [str(CAPTURES / "patterns" / name) for name in ("pubsub.pcap", "reqrep.pcap")]
PUBSUB = FILES[:1]

Batches = Iterator[pa.RecordBatch]


@pytest.fixture(autouse=True)
def classes_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send workers the code of classes that tests create, which they cannot import."""
    monkeypatch.setattr(sending, "pickle", cloudpickle)


def killer(folder: Path) -> Callable[[Callable[..., Batches]], Callable[..., Batches]]:
    """Return a decorator for functions that yield batches: the process dies once, after the last batch; `folder`
    then contains a file."""

    def dying(give: Callable[..., Batches]) -> Callable[..., Batches]:
        def given(*arguments: Any, **named: Any) -> Batches:
            yield from give(*arguments, **named)
            try:
                os.close(os.open(folder / "died", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)

        return given

    return dying


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["SplitStage", "AnalyserStage", "ComparisonStage"])
def test_rows_of_a_shuffle_arrive_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    real, dying = getattr(shuffle, stage), killer(tmp_path)

    class Dying(real):  # type: ignore[misc, valid-type]
        """Created here, so that workers get its code and not its name."""

        read = dying(real.read)
        report = dying(getattr(real, "report", real.read))

    monkeypatch.setattr(shuffle, stage, Dying)
    record = "findings" if stage == "ComparisonStage" else "messages"
    found = shuffled_frame(spark, FILES, record, partitions=2).toArrow().to_pylist()
    assert (tmp_path / "died").exists()
    assert in_any_order(found) == in_any_order(local_rows(FILES, ReadSettings.parse({"record": record})))


@pytest.mark.slow
def test_rows_of_a_shared_scan_arrive_once(spark: SparkSession, tmp_path: Path) -> None:
    dying = killer(tmp_path)

    class Source(ZmtpDataSource):
        __reduce__ = object.__reduce__  # by value: workers cannot import this class

        @classmethod
        def name(cls) -> str:
            return "dying_zmtp"

        def reader(self, schema: StructType) -> DataSourceReader:
            reader = super().reader(schema)
            vars(reader)["read"] = dying(reader.read)
            return reader

    spark.dataSource.register(Source)
    found = spark.read.format("dying_zmtp").option("partitions", "2").load(FILES[0]).toArrow().to_pylist()
    assert (tmp_path / "died").exists()
    assert in_any_order(found) == in_any_order(local_rows(PUBSUB, ReadSettings()))


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["write", "compare"])
def test_files_of_a_dead_worker_are_no_part_of_the_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """Its files are complete when it dies, beside the files of the next attempt."""
    real, dying = ingestion.WriterStage, killer(tmp_path)

    class Dying(real):  # type: ignore[misc, valid-type]
        """Created here, so that workers get its code and not its name."""

    setattr(Dying, stage, dying(getattr(real, stage)))
    monkeypatch.setattr(ingestion, "WriterStage", Dying)
    out = tmp_path / "out"
    written = ingest(spark, FILES, out, partitions=2)
    assert (tmp_path / "died").exists()
    for record in ("message", "connection", "finding"):
        rows = pa.parquet.read_table(out / f"{record}s.parquet").to_pylist()
        assert in_any_order(rows) == in_any_order(local_rows(FILES, ReadSettings.parse({"record": record})))
        assert written[f"{record}s"].rows == len(rows)
