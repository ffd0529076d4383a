"""`format("zmtp")`: the rows of a shared scan equal one run on one machine, field by field."""

from __future__ import annotations

import pathlib
import tempfile
from functools import cache
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.readings import CAPTURES, PUBSUB
from tests.spark.local import (
    FILES,
    FILTERED,
    KEYS,
    READ,
    Row,
    filtered_rows,
    in_any_order,
    local_rows,
    pieces,
    rows_of_all_captures,
    scanned_rows,
)
from zmtpscope.dissect import analyser
from zmtpscope.dissect.findings.comparison import Comparison
from zmtpscope.records import RECORDS
from zmtpscope.spark import schema
from zmtpscope.spark.settings import ReadSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIXED = [
    CAPTURES / name
    for name in (
        "damage/holes.pcap",
        "implementations/jupyter.pcap",
        "implementations/zre-pyre.pcap",
        "patterns/pubsub.pcap",
        "patterns/radio-dish.pcap",
        "security/curve-with-key-log.pcap",
        "security/plain-accepted.pcap",
    )
]
MESSAGE = RECORDS["message"]


def spark_rows(frame: DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


@pytest.mark.parametrize(("record", "partitions"), list(zip(READ, cycle((1, 2, 8)), strict=False)))
def test_rows_of_a_shared_scan_match_one_run(record: str, partitions: int) -> None:
    """All captures at once: some hundred connections, encrypted ones with their keys."""
    local = rows_of_all_captures(record)
    assert local
    settings = ReadSettings.parse({"record": record, "keys": KEYS, "partitions": partitions})
    assert in_any_order(scanned_rows(FILES, settings)) == local


@pytest.mark.parametrize(("record", "filter"), FILTERED)
def test_workers_leave_out_what_a_filter_does_not_hold_of(record: str, filter: str) -> None:
    expected = in_any_order(filtered_rows(MIXED, record, filter))
    for partitions in (1, 3):
        settings = ReadSettings.parse({"record": record, "filter": filter, "partitions": partitions})
        assert in_any_order(scanned_rows(MIXED, settings)) == expected


def test_a_filter_may_use_columns_that_were_not_requested(spark: SparkSession) -> None:
    frame = spark.read.format("zmtp").options(columns="topic", filter="bodies == 'payload 1'").load(str(PUBSUB))
    assert {row["topic"] for row in spark_rows(frame)} == {"a.topic", "b.topic", "c.topic"}


@pytest.mark.parametrize(("record", "partitions"), [("messages", 2), ("findings", 1)])
def test_rows_in_spark_match_one_run(spark: SparkSession, record: str, partitions: int) -> None:
    paths = [str(path) for path in FILES]
    options = {"record": record, "keys": KEYS, "partitions": str(partitions)}
    frame = spark.read.format("zmtp").options(**options).load(paths)
    assert frame.schema == ReadSettings.parse({"record": record}).schema()
    assert frame.rdd.getNumPartitions() == partitions
    assert in_any_order(spark_rows(frame.drop("time"))) == rows_of_all_captures(record.removesuffix("s"))


@given(
    capture=st.sampled_from([path for path in FILES if path.suffix == ".pcap"]),
    cuts=st.lists(st.integers(0, 10_000), min_size=1, max_size=6),
    record=st.sampled_from(READ),
    partitions=st.sampled_from([1, 2, 8]),
)
def test_rows_of_a_capture_in_pieces_match_one_run(
    capture: pathlib.Path, cuts: list[int], record: str, partitions: int
) -> None:
    settings = ReadSettings.parse({"record": record, "partitions": partitions})
    with tempfile.TemporaryDirectory() as folder:
        files = pieces(capture, cuts, pathlib.Path(folder))
        scanned = scanned_rows(files, settings)
        assert in_any_order(scanned) == in_any_order(local_rows(files, settings))
    # a connection that spans files is one connection: where packets stand is all that is different
    anywhere = dict.fromkeys(("file", "packet", "packet_end", "last_packet"))
    whole = [row | anywhere for row in local_rows([capture], settings)]
    assert in_any_order(row | anywhere for row in scanned) == in_any_order(whole)


@cache
def whole_rows(record: str) -> list[Row]:
    return scanned_rows(MIXED, ReadSettings.parse({"record": record, "keys": KEYS}))


@given(record=st.sampled_from(READ), numbers=st.lists(st.integers(0, 50), min_size=1, max_size=4, unique=True))
@example(record="message", numbers=[2])
@example(record="connection", numbers=[2])  # conn alone, which is null in all rows
def test_columns_are_the_same_beside_any_others(record: str, numbers: list[int]) -> None:
    fields = [field.name for field in RECORDS[record].fields]
    columns = list(dict.fromkeys(fields[number % len(fields)] for number in numbers))
    some = scanned_rows(MIXED, ReadSettings.parse({"record": record, "keys": KEYS, "columns": columns}))
    assert some == [{name: row[name] for name in columns} for row in whole_rows(record)]


def test_columns_may_be_an_option_or_a_declared_schema(spark: SparkSession) -> None:
    reader = spark.read.format("zmtp")
    by_option = reader.option("columns", "topic,ts_ns").load(str(PUBSUB))
    declared = spark.read.format("zmtp").schema(schema("messages", ["topic", "ts_ns"])).load(str(PUBSUB))
    assert by_option.columns == declared.columns == ["topic", "ts_ns"]
    local = local_rows([PUBSUB], ReadSettings.parse({"columns": "topic,ts_ns"}))
    assert spark_rows(by_option) == spark_rows(declared) == local


def test_tables_have_the_time_as_a_timestamp(spark: SparkSession) -> None:
    frame = spark.read.format("zmtp").load(str(PUBSUB))
    assert frame.where("time is null or time <> timestamp_micros(ts_ns div 1000)").count() == 0
    named = spark.read.format("zmtp").option("columns", "time,topic").load(str(PUBSUB))
    assert named.columns == ["time", "topic"]
    assert named.select("time").distinct().count() == frame.select("time").distinct().count() > 1


def test_columns_have_comments(spark: SparkSession) -> None:
    frame = spark.read.format("zmtp").load(str(PUBSUB))
    assert frame.schema["topic"].metadata == {"comment": next(f for f in MESSAGE.fields if f.name == "topic").meaning}
    assert all(field.metadata["comment"] for field in frame.schema)
    frame.createOrReplaceTempView("commented")
    described = {row["col_name"]: row["comment"] for row in spark.sql("describe commented").collect()}
    assert described["ts_ns"] == "Time of the packet, since 1970-01-01 UTC [ns]"


def test_captures_are_a_view_in_sql(spark: SparkSession) -> None:
    spark.sql(
        "create or replace temporary view topics (topic string, src_port bigint) using zmtp "
        f"options (path '{PUBSUB.parent}/pub*.pcap', partitions '2', port '5630')"
    )
    counts = spark.sql("select topic, count(*) as messages from topics where topic like 'a%' group by topic").collect()
    rows = local_rows([PUBSUB], ReadSettings())
    assert [tuple(row) for row in counts] == [("a.topic", sum(row["topic"] == "a.topic" for row in rows))]


@pytest.mark.parametrize(("record", "compares"), [("messages", False), ("connections", False), ("findings", True)])
def test_connections_are_compared_where_the_record_asked_for_needs_it(
    record: str, compares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def comparison(*given: Any, **named: Any) -> Comparison:
        made.append(given)
        return Comparison(*given, **named)

    monkeypatch.setattr(analyser, "Comparison", comparison)
    assert scanned_rows([PUBSUB.with_name("reconnect-after-restart.pcap")], ReadSettings.parse({"record": record}))
    assert bool(made) == compares


def test_options_choose_packets() -> None:
    """`port`, `host`, `from` and `to` select the packets that a capture filter would."""
    files = [CAPTURES / "patterns" / "pubsub.pcap", CAPTURES / "patterns" / "reqrep.pcap"]
    ports = {row["src_port"] for row in local_rows(files, ReadSettings())}
    assert len(ports) > 2
    for options in ({"port": "5630"}, {"port": 5630, "host": "127.0.0.1", "partitions": 8}):
        assert {row["file"] for row in scanned_rows(files, ReadSettings.parse(options))} == {str(files[0])}
    assert scanned_rows(files, ReadSettings.parse({"host": "10.1.2.3,::1"})) == []
    times = sorted(row["ts_ns"] for row in local_rows(files[:1], ReadSettings()))
    middle = times[len(times) // 2]
    behind = scanned_rows(files[:1], ReadSettings.parse({"from": middle}))
    in_front = scanned_rows(files[:1], ReadSettings.parse({"to": middle}))
    assert min(row["ts_ns"] for row in behind) >= middle > max(row["ts_ns"] for row in in_front)
    assert len(behind) + len(in_front) == len(times)


def test_few_octets_are_one_partition(spark: SparkSession) -> None:
    assert spark.read.format("zmtp").load(str(PUBSUB)).rdd.getNumPartitions() == 1
