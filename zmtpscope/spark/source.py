"""`format("zmtp")`: captures as a data source of Spark.

A source cannot shuffle, so captures are read as a shared scan (`scan.py`). Spark plans each query in processes of its
own that import this module, so the module must not import the analyser.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from zmtpscope.spark.errors import SettingsError, one_sentence
from zmtpscope.spark.flows import FlowFilter, asked_for
from zmtpscope.spark.paths import NO_TABLES, find_paths, given_paths
from zmtpscope.spark.schemas import schema
from zmtpscope.spark.settings import ReadSettings
from zmtpscope.spark.stream_settings import STREAM_OPTIONS, StreamSettings, are_of_a_stream

if TYPE_CHECKING:
    import pyarrow as pa

OCTETS_OF_A_PARTITION = 32 << 20
"""Of captures that are smaller than that one partition is quicker than two."""
MOST_PARTITIONS = 8
"""As many as are made unless the user asks for more: each reads all files."""


class ZmtpDataSource(DataSource):
    """Captures as rows of one record type."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        with one_sentence():
            if "provider" in options:
                raise SettingsError(f"CREATE TABLE: {NO_TABLES}")
            self.settings = ReadSettings.parse(options, also=STREAM_OPTIONS)
            self.paths = given_paths(options)
            if are_of_a_stream(options):
                StreamSettings.parse(options)
            else:
                find_paths(self.paths)  # whatever is wrong with one is said at once

    @classmethod
    def name(cls) -> str:
        return "zmtp"

    def schema(self) -> StructType:
        return schema(self.settings.record, self.settings.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        with one_sentence():
            settings = ReadSettings.parse(self.options)
            settings.check_schema(schema)
            return CaptureReader(find_paths(self.paths), settings, schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from zmtpscope.spark.streaming import StreamReader  # it loads the analyser

        return StreamReader(self.options, schema)


@dataclass
class FlowPartition(InputPartition):
    """One of so many partitions of the flows of a run."""

    number: int
    count: int


class CaptureReader(DataSourceReader):
    """Reads capture files as a shared scan."""

    def __init__(self, files: Sequence[str], settings: ReadSettings, columns: Sequence[str]) -> None:
        self.files = list(files)
        self.settings = settings
        self.columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        count = 1 if self.settings.needs_one_reader else self.settings.partitions or self._usual_number()
        return [FlowPartition(number, count) for number in range(count)]

    def _usual_number(self) -> int:
        octets = sum(os.path.getsize(file) for file in self.files if os.path.exists(file))
        return max(1, min(octets // OCTETS_OF_A_PARTITION, os.cpu_count() or 1, MOST_PARTITIONS))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from zmtpscope.spark.scan import scan  # the analyser takes a while to load, and only workers need it

        assert isinstance(partition, FlowPartition)
        with one_sentence():
            endpoints = asked_for(self.settings.ports, self.settings.hosts)
            flows = FlowFilter(partition.number, partition.count, endpoints)
            yield from scan(self.files, self.settings, self.columns, flows)
