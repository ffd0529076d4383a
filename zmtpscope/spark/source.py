"""`format("zmtp")`: captures as a Spark data source.

Spark finds and creates the source, plans queries and reads in separate processes, which all import this module. So its
methods import their dependencies.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from zmtpscope.spark.sending import SentToWorkers


class ZmtpDataSource(SentToWorkers, DataSource):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        from zmtpscope.spark.planning import check

        super().__init__(options)
        self._schema = check(options)  # raises errors in options and paths immediately

    @classmethod
    def name(cls) -> str:
        return "zmtp"

    def schema(self) -> StructType:
        return self._schema

    def reader(self, schema: StructType) -> DataSourceReader:
        from zmtpscope.spark.planning import plan

        return plan(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from zmtpscope.spark.streaming import StreamReader

        return StreamReader(self.options, schema)
