"""`format("zmtp")`: captures as a data source of Spark.

Spark looks the source up, makes it, plans each query and reads in processes of its own, which all import this module.
So its methods import what they need.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from zmtpscope.spark.sending import SentToWorkers


class ZmtpDataSource(SentToWorkers, DataSource):
    """Captures as rows of one record type."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        from zmtpscope.spark.planning import check

        super().__init__(options)
        self._schema = check(options)  # what is wrong with an option or path is said at once

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
