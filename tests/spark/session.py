"""A small Spark for tests: two threads, two attempts of a task, 512 MB, loopback, no files left."""

from __future__ import annotations

import pathlib
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from zmtpscope.spark import session as spark_session
from zmtpscope.spark.sessions import JAVA_OPTIONS

SETTINGS = {
    "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # short-lived
    "spark.driver.memory": "512m",
    "spark.master": "local[2, 2]",  # a task that fails is tried once more
    "spark.python.authenticate.socketTimeout": "2m",  # workers start slowly on a busy machine
    "spark.sql.adaptive.enabled": "false",  # jobs are small: planning each stage anew costs more than it saves
    "spark.sql.codegen.wholeStage": "false",  # compiling costs more than it saves
    "spark.sql.files.minPartitionNum": "1",  # rows keep the order of the file
    "spark.sql.shuffle.partitions": "2",
}


@contextmanager
def session(folder: pathlib.Path) -> Iterator[SparkSession]:
    """A Spark session whose files are in `folder`. Ctrl-C keeps its handler."""
    interrupted = signal.getsignal(signal.SIGINT)
    spark = spark_session({**SETTINGS, "spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder)})
    signal.signal(signal.SIGINT, interrupted)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        with warnings.catch_warnings():  # pyspark leaves files open
            warnings.simplefilter("ignore", ResourceWarning)
            spark.stop()
