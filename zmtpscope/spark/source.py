"""`format("zmtp")`: captures as a data source of Spark.

A source cannot shuffle, so captures are read as a shared scan (`shared_scan.py`). Spark plans each query in processes
of its own that import this module, so the module must not import the analyser.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from zmtpscope.spark.errors import SettingsError, one_sentence
from zmtpscope.spark.paths import NO_TABLES, find_paths, given_paths
from zmtpscope.spark.sending import SentToWorkers
from zmtpscope.spark.settings import ReadSettings
from zmtpscope.spark.shared_scan import Scan, plan_scan
from zmtpscope.spark.stream_settings import STREAM_OPTIONS, StreamSettings, are_of_a_stream

if TYPE_CHECKING:
    import pyarrow as pa


class ZmtpDataSource(SentToWorkers, DataSource):
    """Captures as rows of one record type."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        with one_sentence():
            if "provider" in options:
                raise SettingsError(f"CREATE TABLE: {NO_TABLES}")
            if are_of_a_stream(options):
                self.settings = StreamSettings.parse(options).read
            else:
                settings = ReadSettings.parse_lookup(options, also=STREAM_OPTIONS)
                found = find_paths(given_paths(options), settings.lookup)  # whatever is wrong with one is said at once
                found.warn()
                self.settings = settings.of_captures(found)

    @classmethod
    def name(cls) -> str:
        return "zmtp"

    def schema(self) -> StructType:
        return self.settings.schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        with one_sentence():
            settings = ReadSettings.parse_lookup(self.options)
            found = find_paths(given_paths(self.options), settings.lookup)
            settings = settings.of_captures(found)
            settings.check_schema(schema)
            return CaptureReader(plan_scan(found, settings, schema.fieldNames()))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from zmtpscope.spark.streaming import StreamReader  # it loads the analyser

        return StreamReader(self.options, schema)


class CaptureReader(SentToWorkers, DataSourceReader):
    """Reads capture files by themselves or as a shared scan. A partition has its number for its value."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self.scan.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with one_sentence():
            yield from self.scan.rows(partition.value)
