"""Analytics of derived records against numbers that plain Python takes from JSON lines of the same captures."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.readings import CAPTURES, run
from tests.spark.test_analytics import Row, groups, micros, quantiles, rows
from zmtpscope.records import PLURALS
from zmtpscope.spark import analytics

NAMES = (
    "heartbeat-timeout",
    "late-subscriber",
    "request-unanswered",
    "slow-receiver",
    "subscription-lost-on-reconnect",
)
TABLES = ("requests", "heartbeats", "subscriptions", "topics", "deliveries", "stalls")


class Case(NamedTuple):
    """The same records as tables and as JSON lines."""

    tables: dict[str, DataFrame]
    records: dict[str, list[Row]]


@pytest.fixture(scope="module")
def case(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Case:
    paths = [str(CAPTURES / f"problems/{name}.pcap") for name in NAMES]
    out = tmp_path_factory.mktemp("tables")
    assert run("export", *paths, "-o", str(out), "--format", "parquet", "--derived").returncode == 0
    records = defaultdict(list)
    for line in run("read", "--json", "--derived", *paths).stdout.splitlines():
        record = json.loads(line)
        records[PLURALS[record["record"]]].append(record)
    assert all(records[name] for name in TABLES)
    return Case({name: spark.read.parquet(str(out / f"{name}.parquet")) for name in TABLES}, records)


@pytest.mark.slow
def test_request_latency_has_the_socket_first_that_leaves_clients_waiting(case: Case) -> None:
    found = rows(analytics.request_latency(case.tables["requests"]))
    by_socket = groups(case.records["requests"], "dst_ip", "dst_port", "socket_type", "peer_socket_type")
    assert len(found) == len(by_socket)
    for row in found:
        some = by_socket[row["address"], row["port"], row["socket_type"], row["peer_socket_type"]]
        waits = [each["waited_ns"] for each in some if each["outcome"] in ("open", "unanswered")]
        assert row["longest_wait_ns"] == max(waits, default=None)
        assert row["answered"] == sum(each["outcome"] == "answered" for each in some)
        latencies = [each["latency_ns"] for each in some if each["latency_ns"] is not None]
        assert {name: row[name] for name in quantiles([])} == quantiles(latencies)
    assert found[0]["longest_wait_ns"] == max(row["longest_wait_ns"] or 0 for row in found)


def test_heartbeat_rtt_counts_what_was_not_answered(case: Case) -> None:
    found = rows(analytics.heartbeat_rtt(case.tables["heartbeats"]))
    by_pair = groups(case.records["heartbeats"], "src_ip", "dst_ip", "dst_port")
    assert len(found) == len(by_pair)
    for row in found:
        some = by_pair[row["asker"], row["address"], row["port"]]
        assert row["pings"] == len(some)
        assert row["unanswered"] == sum(each["outcome"] == "unanswered" for each in some)
        assert {name: row[name] for name in quantiles([])} == quantiles(
            [each["rtt_ns"] for each in some if each["rtt_ns"] is not None]
        )
        assert row["first"] == micros(min(each["ts_ns"] for each in some))
    assert any(row["unanswered"] or row["open"] for row in found)


def test_subscription_churn_shows_how_they_ended(case: Case) -> None:
    found = rows(analytics.subscription_churn(case.tables["subscriptions"]))
    by_pair = groups(case.records["subscriptions"], "src_ip", "dst_ip", "dst_port")
    assert len(found) == len(by_pair)
    for row in found:
        some = by_pair[row["subscriber"], row["address"], row["port"]]
        assert row["topics"] == len({each["topic"] for each in some})
        assert row["again"] == len(some) - row["topics"]
        ends = [each["ended_by"] for each in some]
        assert [row["cancelled"], row["closed"], row["in_force"]] == [
            ends.count("cancel"),
            ends.count("close"),
            ends.count(None),
        ]
        assert row["without_messages"] == sum(each["messages"] == 0 for each in some)


def test_topic_fanout_counts_what_goes_to_all_subscribers(case: Case) -> None:
    found = rows(analytics.topic_fanout(case.tables["topics"], case.tables["deliveries"]))
    sent = groups(case.records["deliveries"], "publisher", "topic")
    assert {(row["publisher"], row["topic"]): row["sent"] for row in found} == {
        key: sum(each["messages"] for each in some) for key, some in sent.items()
    }
    assert any(row["sent"] > row["messages"] for row in found)


def test_delivery_gaps_name_subscriber_and_topic(case: Case) -> None:
    found = rows(analytics.delivery_gaps(case.tables["deliveries"]))
    expected = [each for each in case.records["deliveries"] if each["missed"] or each["missed_early"]]
    assert expected
    assert sorted(row["conn_id"] for row in found) == sorted(each["conn_id"] for each in expected)
    missed = [(row["missed"] or 0) + (row["missed_early"] or 0) for row in found]
    assert missed == sorted(missed, reverse=True)


def test_slow_consumers_closed_their_window(case: Case) -> None:
    found = rows(analytics.slow_consumers(case.tables["stalls"], case.tables["deliveries"]))
    by_receiver = groups(case.records["stalls"], "dst_ip", "dst_port", "conn_id")
    assert {(row["address"], row["port"], row["conn_id"]): row["stalled_ns"] for row in found} == {
        key: sum(each["duration_ns"] for each in some) for key, some in by_receiver.items()
    }
    assert found[0]["messages"] is not None
