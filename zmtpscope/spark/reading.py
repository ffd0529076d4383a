"""`zmtpscope.spark.read`: captures as a DataFrame, by a shared scan or a shuffle, whichever is faster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from zmtpscope.capture import CaptureError
from zmtpscope.spark.paths import ANY_NAME, FoundCaptures, Lookup, find_paths
from zmtpscope.spark.planning import MAX_SCANS, Scan, plan_scan, useful_scans
from zmtpscope.spark.sending import numbers_in, on_workers
from zmtpscope.spark.sessions import register
from zmtpscope.spark.settings import ReadSettings, one_sentence
from zmtpscope.spark.shuffle import Run, shuffled
from zmtpscope.spark.storage import find_stored, is_uri

Paths = str | Path | Iterable[str | Path]

SCANS_OF_ONE_READER = 4
"""Scans of one reader on one machine. With more, a shuffle is faster than one partition that compares all
connections."""


def read(spark: SparkSession, paths: Paths, record: str = "messages", **options: Any) -> DataFrame:
    """Return the records of one type ("messages", "connections", ...) in capture files, globs and directories.

    Rows and options are those of `spark.read.format("zmtp")`. Raises `CaptureError` for a path that is not a capture,
    and `SettingsError` for an invalid option.
    """
    settings = ReadSettings.parse_lookup({"record": record, **options})
    register(spark)
    found = find_captures(paths, settings.lookup)
    found.warn()
    settings = settings.of_captures(found)
    columns = settings.column_names()
    if not settings.per_file and not _is_scanned(spark, found.files, settings):
        return shuffled(spark, Run.of(spark, found.files, settings), columns)
    stage = ScanStage(plan_scan(found, settings, columns))
    numbers = spark.range(stage.scan.partitions, numPartitions=stage.scan.partitions)
    return numbers.mapInArrow(on_workers(stage.read), settings.schema())


@dataclass(frozen=True)
class ScanStage:
    """The work of a Spark stage that scans captures. Its input rows are partition numbers."""

    scan: Scan

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with one_sentence():
            for number in numbers_in(batches):
                yield from self.scan.rows(number)


def skipped(paths: Paths, **options: Any) -> dict[str, str]:
    """Return the files in directories and globs that `read` skips because they are not captures, with the reasons.
    Options, and errors, are those of `read`."""
    return find_captures(paths, ReadSettings.parse_lookup(options).lookup).skipped


def find_captures(paths: Paths, lookup: Lookup = ANY_NAME) -> FoundCaptures:
    """Find the captures of paths and URIs, each once. Raises `CaptureError`."""
    found = FoundCaptures()
    for path in map(str, [paths] if isinstance(paths, str | Path) else paths):
        found.update(find_stored(path, lookup) if is_uri(path) else find_paths([path], lookup))
    if not found.files:
        raise CaptureError("read", "no path was given")
    return found


def _is_scanned(spark: SparkSession, files: dict[str, int], settings: ReadSettings) -> bool:
    """Whether to use a scan, in which each partition reads all files: it is faster than a shuffle on a few processors
    of one machine."""
    master = spark.conf.get("spark.master") or ""
    if not master.startswith("local") or any(map(is_uri, files)):
        return False
    scans = settings.partitions or useful_scans(sum(files.values()))
    return scans <= (SCANS_OF_ONE_READER if settings.needs_one_reader else MAX_SCANS)
