"""`readStream.format("zmtp")` in a real Spark."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from tests.readings import CAPTURES
from tests.spark.rotation import packets_of, rotate
from tests.spark.test_stream_reader import counted, in_one_run

ROOT = CAPTURES.parent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


class Rows:
    """Takes the rows of batches; a repeated batch replaces its earlier rows."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}
        self.fails_at: int | None = None

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self.batches[batch] = rows.toArrow().to_pylist()
        if batch == self.fails_at:
            self.fails_at = None
            raise RuntimeError("the rows were taken, and then something went wrong")

    def counted(self) -> Counter[str]:
        return counted(row for rows in self.batches.values() for row in rows)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """A capture of a server that starts again, in five files."""
    (tmp_path / "ready").mkdir()
    path = CAPTURES / "patterns" / "reconnect-after-restart.pcap"
    count = len(packets_of(path))
    return rotate(path, tmp_path / "ready", range(0, count, count // 5 + 1))


def start(spark: SparkSession, folder: Path, rows: Rows, **options: object) -> StreamingQuery:
    """A query over the captures of a folder; with the same folder the same query again."""
    reader = spark.readStream.format("zmtp").option("stateLocation", str(folder / "states"))
    for name, value in options.items():
        reader = reader.option(name, str(value))
    writer = reader.load(str(folder / "captures")).writeStream.foreachBatch(rows)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    if "finish" in options or rows.fails_at is not None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime="50 milliseconds")
    return writer.start()


@pytest.mark.slow
def test_a_stream_that_fails_stops_and_starts_has_the_rows_of_one_run(
    spark: SparkSession, tmp_path: Path, files: list[Path]
) -> None:
    rows, folder = Rows(), tmp_path / "captures"
    folder.mkdir()
    for file in files[:3]:
        shutil.copy2(file, folder)
    # one batch for each file but the newest; the second fails when its state is written, and is done again
    rows.fails_at = 1
    with pytest.raises(StreamingQueryException, match="and then something went wrong"):
        start(spark, tmp_path, rows, partitions=2, maxFilesPerTrigger=1).awaitTermination()
    assert list(rows.batches) == [0, 1]
    rows.batches[1] = []
    # files that arrive while it runs
    query = start(spark, tmp_path, rows, partitions=2, maxFilesPerTrigger=1)
    shutil.copy2(files[3], folder)
    query.processAllAvailable()
    query.stop()
    assert list(rows.batches) == [0, 1, 2]
    # the capture ends: the newest file, and open connections
    shutil.copy2(files[4], folder)
    query = start(spark, tmp_path, rows, partitions=2, finish="true")
    query.awaitTermination()
    assert list(rows.batches) == [0, 1, 2, 3]
    assert json.loads(query.lastProgress["sources"][0]["endOffset"])["files"] == 5
    assert rows.counted() == in_one_run(folder, "message")


@pytest.mark.slow
def test_the_examples_of_the_page(spark: SparkSession, tmp_path: Path, files: list[Path]) -> None:
    """A stream into Parquet files, and the run that ends it."""
    shutil.move(tmp_path / "ready", tmp_path / "captures")
    text = (ROOT / "docs" / "spark-streaming.md").read_text()
    first, last = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(first.replace("/captures", f"{tmp_path}/captures").replace("/data", str(tmp_path)), names)
    assert names["spark"] is spark
    names["query"].processAllAvailable()
    names["query"].stop()
    some = spark.read.parquet(str(tmp_path / "messages")).toArrow().to_pylist()
    exec(last.replace("/captures", f"{tmp_path}/captures").replace("/data", str(tmp_path)), names)
    everything = spark.read.parquet(str(tmp_path / "messages")).toArrow().to_pylist()
    assert 0 < len(some) < len(everything)
    assert counted(everything) == in_one_run(tmp_path / "captures", "message")


def test_errors_of_options_are_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StreamingQueryException) as raised:
        start(spark, tmp_path, Rows(), finish="true").awaitTermination()
    assert "captures: cannot be listed: No such file or directory" in str(raised.value)
    assert "Traceback" not in str(raised.value)
