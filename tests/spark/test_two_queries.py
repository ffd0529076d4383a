"""A query never changes the rows of another one on the same DataFrame, view or table, with any pushed filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import pytest

from tests.readings import PUBSUB
from tests.spark.local import in_any_order, local_rows
from tests.suites import some
from zmtpscope.spark.settings import ReadSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "packet,src_port,topic,length,complete"

QUERIES: dict[str, Any] = {
    "true": lambda row: True,
    "topic = 'a.topic'": lambda row: row["topic"] == "a.topic",
    "topic in ('b.topic', 'c.topic')": lambda row: row["topic"] in ("b.topic", "c.topic"),
    "topic like 'a%'": lambda row: row["topic"].startswith("a"),
    "not topic = 'a.topic'": lambda row: row["topic"] != "a.topic",
    "topic is null": lambda row: row["topic"] is None,
    "src_port = 5630": lambda row: row["src_port"] == 5630,
    "src_port = 1": lambda row: row["src_port"] == 1,
    "length > 11": lambda row: row["length"] > 11,
    "length <= 11 and topic = 'b.topic'": lambda row: row["length"] <= 11 and row["topic"] == "b.topic",
    "complete": lambda row: row["complete"],
    "packet < 40 or topic = 'c.topic'": lambda row: row["packet"] < 40 or row["topic"] == "c.topic",
}
"""Conditions of SQL, and their meaning; Spark pushes simple ones down to sources that accept them."""


@pytest.fixture(params=["DataFrame", "view", "temporary view"])
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[DataFrame]:
    """One table of messages that all queries of a test use, in a session that pushes filters down."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    frame = spark.read.format("zmtp").option("columns", COLUMNS).load(str(PUBSUB))
    if request.param == "view":
        frame.createOrReplaceTempView("captured")
    elif request.param == "temporary view":
        options = f"path '{PUBSUB}', columns '{COLUMNS}'"
        spark.sql(f"create or replace temporary view captured using zmtp options ({options})")
    yield frame if request.param == "DataFrame" else spark.table("captured")
    spark.catalog.dropTempView("captured")
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def expected(condition: str) -> list[str]:
    """The rows that a condition leaves in, read without Spark."""
    return in_any_order(filter(QUERIES[condition], local_rows([PUBSUB], ReadSettings.parse({"columns": COLUMNS}))))


def rows(frame: DataFrame) -> list[str]:
    return in_any_order(frame.toArrow().to_pylist())


def in_pairs(values: Sequence[str]) -> Iterator[str]:
    """Return values in an order in which each one directly follows each one, itself included."""
    for number, value in enumerate(values):
        yield value
        for later in values[number + 1 :]:
            yield from (value, later)
    yield values[0]


def test_each_of_two_queries_has_the_rows_of_a_fresh_one(table: DataFrame) -> None:
    for condition in in_pairs(some(QUERIES, every=4)):
        assert rows(table.where(condition)) == expected(condition), condition


def test_pairs_of_queries_are_complete() -> None:
    order = list(in_pairs(list(QUERIES)))
    assert {*pairwise(order)} == {*product(QUERIES, repeat=2)}


def test_a_part_of_a_table_and_all_of_it_are_used_in_one_query(spark: SparkSession, table: DataFrame) -> None:
    part, whole = expected("topic = 'a.topic'"), expected("true")
    topic_a = table.where("topic = 'a.topic'")
    assert rows(topic_a.union(table)) == sorted(part + whole)
    assert table.alias("one").join(topic_a.alias("other"), "complete").count() == len(part) * len(whole)
    counts = spark.sql(
        "select (select count(*) from {t} where topic = 'a.topic'), (select count(*) from {t}), "
        "(select count(*) from {t} where topic <> 'a.topic')",
        t=table,
    )
    assert tuple(counts.first() or ()) == (len(part), len(whole), len(whole) - len(part))
