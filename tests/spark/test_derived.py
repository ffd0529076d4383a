"""Derived records are the same rows for any reader: one run, a shared scan, or workers after a shuffle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.readings import run
from tests.spark.local import shuffled_frame
from tests.suites import some
from zmtpscope.records import DERIVED, PLURALS
from zmtpscope.spark.settings import NUMBERS_OF_CONNECTIONS

CAPTURES = ("problems/login-refused.pcap", "problems/late-subscriber.pcap", "problems/request-unanswered.pcap")
Row = dict[str, Any]


def local(paths: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in DERIVED}
    for line in run("read", "--json", "--derived", *paths).stdout.splitlines():
        record = json.loads(line)
        if record["record"] in DERIVED:
            found[record["record"]].append(_comparable(record))
    return {name: sorted(rows) for name, rows in found.items()}


def _comparable(row: Row) -> str:
    known = {name: value for name, value in row.items() if name not in NUMBERS_OF_CONNECTIONS and name != "time"}
    return json.dumps(known, sort_keys=True, default=str)


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(_comparable(row.asDict(recursive=True)) for row in frame.collect())


def scanned(spark: SparkSession, paths: list[str], table: str) -> DataFrame:
    """A shared scan by three workers."""
    reader = spark.read.format("zmtp").option("record", table).option("partitions", "3")
    return reader.option("paths", json.dumps(paths)).load()


def shuffled(spark: SparkSession, paths: list[str], table: str) -> DataFrame:
    """Let one of three workers analyse each connection."""
    return shuffled_frame(spark, paths, table, partitions=3)


READS = [(scanned, "subscription"), *((shuffled, record) for record in ("subscription", "delivery", "diagnosis"))]


@pytest.mark.parametrize(("read", "record"), some(READS, 3))
def test_derived_rows_match_one_run(
    spark: SparkSession, captures: Path, read: Callable[[SparkSession, list[str], str], DataFrame], record: str
) -> None:
    paths = [str(captures / name) for name in CAPTURES]
    expected = local(paths)[record]
    assert expected
    assert rows_of(read(spark, paths, PLURALS[record])) == expected


@pytest.mark.slow
def test_a_stream_refuses_what_needs_the_end_of_a_capture(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="diagnoses are derived from whole captures"):
        spark.readStream.format("zmtp").option("record", "diagnoses").option(
            "stateLocation", str(tmp_path / "state")
        ).load(str(tmp_path)).writeStream.format("memory").queryName("derived").start().awaitTermination(30)
