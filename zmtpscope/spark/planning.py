"""Plan a query of `format("zmtp")`, in processes that must not import the analyser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zmtpscope.spark.paths import NO_TABLES, FoundCaptures, find_paths, given_paths
from zmtpscope.spark.sending import SentToWorkers
from zmtpscope.spark.settings import ReadSettings, SettingsError, one_sentence
from zmtpscope.spark.shared_scan import Scan, plan_scan
from zmtpscope.spark.stream_settings import STREAM_OPTIONS, StreamSettings, are_of_a_stream

if TYPE_CHECKING:
    import pyarrow as pa


def check(options: Mapping[str, str]) -> StructType:
    """Return the schema of the requested table, and log skipped files. Raises one sentence for invalid options."""
    with one_sentence():
        if "provider" in options:
            raise SettingsError(f"CREATE TABLE: {NO_TABLES}")
        if are_of_a_stream(options):
            return StreamSettings.parse(options).read.schema()
        settings, found = _found(options)
        found.warn()
        return settings.schema()


def plan(options: Mapping[str, str], schema: StructType) -> CaptureReader:
    """Plan the reading of the current captures. Raises one sentence as `check` does."""
    with one_sentence():
        settings, found = _found(options)
        settings.check_schema(schema)
        return CaptureReader(plan_scan(found, settings, schema.fieldNames()))


def _found(options: Mapping[str, str]) -> tuple[ReadSettings, FoundCaptures]:
    settings = ReadSettings.parse_lookup(options, also=STREAM_OPTIONS)
    found = find_paths(given_paths(options), settings.lookup)
    return settings.of_captures(found), found


class CaptureReader(SentToWorkers, DataSourceReader):
    """Reads capture files separately or as a shared scan. The value of a partition is its number."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self.scan.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with one_sentence():
            yield from self.scan.rows(partition.value)
