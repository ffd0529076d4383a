"""Plan a query of `format("zmtp")`: the number of partitions, and the flows or files of each.

Spark plans each query in separate processes that import this module, so it must not import the analyser.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zmtpscope.spark.balance import file_tasks, large_flows
from zmtpscope.spark.flows import FlowFilter
from zmtpscope.spark.paths import NO_TABLES, FoundCaptures, find_paths, given_paths
from zmtpscope.spark.sending import SentToWorkers
from zmtpscope.spark.settings import ReadSettings, SettingsError, one_sentence
from zmtpscope.spark.stream_settings import STREAM_OPTIONS, StreamSettings, are_of_a_stream

if TYPE_CHECKING:
    import pyarrow as pa

OCTETS_OF_A_PARTITION = 32 << 20
"""Octets of captures per partition: one partition reads smaller captures faster than two."""
MAX_SCANS = 8
"""Scans unless the user requests more: each of them reads all files."""


@dataclass(frozen=True)
class SharedScan:
    """A scan in which every partition reads all files and analyses its share of the connections.

    `large` is the partition of each large connection, by flow key.
    """

    files: list[str]
    settings: ReadSettings
    columns: list[str]
    partitions: int
    large: dict[bytes, int]
    """Partition of each flow with much data. Other flows are hashed."""

    @staticmethod
    def of(files: Mapping[str, int], settings: ReadSettings, columns: Sequence[str]) -> SharedScan:
        octets = sum(files.values())
        partitions = 1 if settings.needs_one_reader else settings.partitions or min(useful_scans(octets), MAX_SCANS)
        large = large_flows([*files], octets, partitions, settings.endpoints) if partitions > 1 else {}
        return SharedScan([*files], settings, [*columns], partitions, large)

    def rows(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition. Raises `CaptureError`."""
        from zmtpscope.spark.scan import scan

        flows = FlowFilter(partition, self.partitions, self.settings.endpoints, self.large)
        yield from scan(self.files, self.settings, self.columns, flows)


@dataclass(frozen=True)
class FileScan:
    """A scan of files as separate captures. `tasks` are the indexes of the files of each partition."""

    files: list[str]
    settings: ReadSettings
    columns: list[str]
    tasks: list[range]

    @staticmethod
    def of(files: Mapping[str, int], settings: ReadSettings, columns: Sequence[str]) -> FileScan:
        tasks = file_tasks([*files.values()], settings.partitions or os.cpu_count() or 1)
        return FileScan([*files], settings, [*columns], tasks)

    @property
    def partitions(self) -> int:
        return len(self.tasks)

    def rows(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition. Raises `CaptureError`."""
        from zmtpscope.spark.scan import scan_apart
        from zmtpscope.spark.storage import check_on_worker

        check_on_worker(self.files)
        yield from scan_apart([self.files[index] for index in self.tasks[partition]], self.settings, self.columns)


Scan = SharedScan | FileScan


def plan_scan(captures: FoundCaptures, settings: ReadSettings, columns: Sequence[str]) -> Scan:
    return (FileScan if settings.per_file else SharedScan).of(captures.files, settings, columns)


def useful_scans(octets: int) -> int:
    """Return the number of partitions with which this machine reads captures of this size (octets) fastest."""
    return max(1, min(octets // OCTETS_OF_A_PARTITION, os.cpu_count() or 1))


def check(options: Mapping[str, str]) -> StructType:
    """Return the schema of the table that the options request, and log skipped files.

    Raises an error of one sentence for invalid options.
    """
    with one_sentence():
        if "provider" in options:
            raise SettingsError(f"CREATE TABLE: {NO_TABLES}")
        if are_of_a_stream(options):
            return StreamSettings.parse(options).read.schema()
        settings, found = _found(options)
        found.warn()
        return settings.schema()


def plan(options: Mapping[str, str], schema: StructType) -> CaptureReader:
    """Return a reader for the captures that exist now. Raises an error of one sentence as `check` does."""
    with one_sentence():
        settings, found = _found(options)
        settings.check_schema(schema)
        return CaptureReader(plan_scan(found, settings, schema.fieldNames()))


def _found(options: Mapping[str, str]) -> tuple[ReadSettings, FoundCaptures]:
    settings = ReadSettings.parse_lookup(options, also=STREAM_OPTIONS)
    found = find_paths(given_paths(options), settings.lookup)
    return settings.of_captures(found), found


class CaptureReader(SentToWorkers, DataSourceReader):
    """The reader of a query: Spark calls it for each partition with the number of the partition."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self.scan.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with one_sentence():
            yield from self.scan.rows(partition.value)
