"""`format("zmtp")`: captures as a data source of Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser
from zmtpscope.spark.rows import rows
from zmtpscope.spark.schemas import schema
from zmtpscope.spark.settings import ReadSettings


class ZmtpDataSource(DataSource):
    """Captures as rows of one record type."""

    @classmethod
    def name(cls) -> str:
        return "zmtp"

    def schema(self) -> StructType:
        settings = ReadSettings.parse(self.options)
        return schema(settings.record, settings.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return CaptureReader([self.options["path"]], ReadSettings.parse(self.options), schema.fieldNames())


class CaptureReader(DataSourceReader):
    """Reads captures in one pass."""

    def __init__(self, paths: list[str], settings: ReadSettings, columns: list[str]) -> None:
        self.paths = paths
        self.settings = settings
        self.columns = columns

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        captures = open_captures(self.paths)
        options = self.settings.dissect_options(self.columns)
        for batch in Analyser(options).run(captures):
            yield from rows(batch, self.settings.record, self.columns, options)
