"""Where Spark looks by itself: it imports what is named `pyspark_...` and registers the `DefaultSource` in it."""

from zmtpscope.spark.source import ZmtpDataSource as DefaultSource

__all__ = ["DefaultSource"]
