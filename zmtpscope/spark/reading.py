"""`zmtpscope.spark.read`: captures as a DataFrame, by a shared scan or by a shuffle, whichever costs less."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from zmtpscope.capture import CaptureError
from zmtpscope.spark.errors import one_sentence
from zmtpscope.spark.paths import ANY_NAME, Lookup, find_paths
from zmtpscope.spark.schemas import schema, table_columns
from zmtpscope.spark.sessions import register
from zmtpscope.spark.settings import ReadSettings
from zmtpscope.spark.shared_scan import MOST_SCANS, SharedScan, useful_scans
from zmtpscope.spark.shuffle import Run, shuffled
from zmtpscope.spark.storage import find_stored, is_uri

Paths = str | Path | Iterable[str | Path]

SCANS_OF_ONE_READER = 4
"""A machine that could use more scans shuffles faster than one partition compares all connections."""


def read(spark: SparkSession, paths: Paths, record: str = "messages", **options: Any) -> DataFrame:
    """The records of one type ("messages", "connections", ...) in capture files, globs and directories.

    The rows are those of `spark.read.format("zmtp")`, and the options are its options. Raises `CaptureError` for a path
    that is no capture, and `SettingsError` for an option that cannot be.
    """
    settings = ReadSettings.parse({"record": record, **options})
    columns = table_columns(settings.record, settings.columns)
    register(spark)
    files = find_captures(paths, settings.lookup)
    if not _is_scanned(spark, files, settings):
        return shuffled(spark, Run.of(spark, files, settings), columns)
    stage = ScanStage(SharedScan.of([*files], settings, columns))
    numbers = spark.range(stage.scan.partitions, numPartitions=stage.scan.partitions)
    return numbers.mapInArrow(stage.read, schema(settings.record, columns))


@dataclass(frozen=True)
class ScanStage:
    """What the tasks of a shared scan do: rows are numbers of partitions."""

    scan: SharedScan

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Records as rows."""
        with one_sentence():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from self.scan.rows(number)


def find_captures(paths: Paths, lookup: Lookup = ANY_NAME) -> dict[str, int]:
    """Return the captures that paths and URIs name, each once, with their sizes. Raises `CaptureError`."""
    found: dict[str, int] = {}
    for path in map(str, [paths] if isinstance(paths, str | Path) else paths):
        if is_uri(path):
            found.update(find_stored(path, lookup))
        else:
            found.update((file, os.path.getsize(file)) for file in find_paths([path], lookup))
    if not found:
        raise CaptureError("read", "it was given no path")
    return found


def _is_scanned(spark: SparkSession, files: dict[str, int], settings: ReadSettings) -> bool:
    """Whether each partition reads all files: on a few processors of one machine that costs less than a shuffle."""
    master = spark.conf.get("spark.master") or ""
    if not master.startswith("local") or any(map(is_uri, files)):
        return False
    scans = settings.partitions or useful_scans(sum(files.values()))
    return scans <= (SCANS_OF_ONE_READER if settings.needs_one_reader else MOST_SCANS)
