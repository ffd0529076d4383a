"""Every analytic against numbers that plain Python takes from JSON lines of the same captures."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.readings import CAPTURES, run
from zmtpscope.spark import analytics, schema

Row = dict[str, Any]

NAMES = [
    "damage/cut-file",
    "damage/holes",
    "damage/midstream-3.0",
    "faults/frame-length-2p63",
    "faults/frame-length-above-32-bits",
    "implementations/jszmq-reqrep",
    "implementations/jupyter",
    "patterns/broker-mixed-versions",
    "patterns/dealer-router-identities",
    "patterns/pubsub",
    "patterns/radio-dish",
    "patterns/reconnect-same-ports",
    "security/curve-4.3.5",
    "security/gssapi",
    "security/mismatch-plain-server-null-client",
    "security/plain-wrong-password",
    "unreachable/host-silent",
    "unreachable/server-down",
    "versions/pubsub-bind2.2.0-conn2.2.0",
    "versions/pubsub-bind3.2.5-conn4.3.5",
]
"""Other patterns, versions, mechanisms and kinds of damage each: read as one capture."""

TABLES = ("messages", "commands", "greetings", "connections", "findings")


class Case(NamedTuple):
    """The same records as tables and as JSON lines."""

    tables: dict[str, DataFrame]
    records: dict[str, list[Row]]


@pytest.fixture(scope="module")
def case(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Case:
    paths = [str(CAPTURES / f"{name}.pcap") for name in NAMES]
    out = tmp_path_factory.mktemp("tables")
    run("export", *paths, "-o", str(out), "--format", "parquet")  # exit code 3: some are cut short
    records = defaultdict(list)
    for line in run("read", "--json", *paths).stdout.splitlines():
        record = json.loads(line)
        records[f"{record['record']}s"].append(record)
    return Case({name: spark.read.parquet(str(out / f"{name}.parquet")) for name in TABLES}, records)


def rows(answer: DataFrame) -> list[Row]:
    """Return the rows, with times in microseconds since 1970."""
    table = answer.toArrow()
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            assert field.type.unit == "us"
            table = table.set_column(index, field.name, table.column(index).cast(pa.int64()))
    found: list[Row] = table.to_pylist()
    return found


def micros(nanoseconds: int | None) -> int | None:
    return None if nanoseconds is None else nanoseconds // 1000


def rank(values: Iterable[int], percent: int) -> int | None:
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * percent / 100) - 1] if ordered else None


def ordered(found: list[Row], by: Callable[[Row], Any]) -> None:
    assert found == sorted(found, key=by)


def nulls_first(*values: Any) -> list[tuple[bool, Any]]:
    return [(value is not None, value) for value in values]


def octets_of(message: Row) -> int:
    sizes = message["sizes"]
    if sizes is None or None in sizes:
        return int(message["length"])
    return min(sum(sizes), message["length"])


def data(case: Case) -> list[Row]:
    found = [each for each in case.records["messages"] if each["kind"] in ("data", "encrypted")]
    assert len(found) < len(case.records["messages"])  # there are subscriptions that are messages
    return found


def groups(records: Iterable[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    found = defaultdict(list)
    for record in records:
        found[tuple(record[key] for key in keys)].append(record)
    return found


def quantiles(lives: list[int]) -> Row:
    of_ranks = {f"p{percent}_ns": rank(lives, percent) for percent in (50, 90, 99)}
    return {"shortest_ns": min(lives, default=None), **of_ranks, "longest_ns": max(lives, default=None)}


# -- messages --------------------------------------------------------------------------------------------------------


def test_throughput_has_every_interval(case: Case) -> None:
    width = 1 << 30
    counts: Counter[int] = Counter()
    octets: Counter[int] = Counter()
    messages = [each for each in data(case) if "10.77." in each["src_ip"]]
    for message in messages:
        counts[message["ts_end_ns"] // width] += 1
        octets[message["ts_end_ns"] // width] += octets_of(message)
    some = case.tables["messages"].where("src_ip like '%10.77.%'")
    found = rows(analytics.throughput(some, width / 1e9))
    intervals = range(min(counts), max(counts) + 1)
    assert len(counts) < len(intervals)
    assert found == [
        {
            "start": at * width // 1000,
            "messages": counts[at],
            "octets": octets[at],
            "messages_per_second": counts[at] / (width / 1e9),
            "octets_per_second": octets[at] / (width / 1e9),
        }
        for at in intervals
    ]


@pytest.mark.slow
def test_a_silence_of_years_costs_two_rows(spark: SparkSession) -> None:
    day = 86_400 * 10**9
    messages = spark.createDataFrame(
        [(10_000 * day, "data"), (0, "data"), (0, "data"), (3 * 10**9, "data")], "ts_ns bigint, kind string"
    ).selectExpr(
        "ts_ns",
        "kind",
        *("cast(null as string) " + name for name in ("conn_id", "socket_type", "topic")),
        *("cast(null as bigint) " + name for name in ("side", "ts_end_ns")),
        "array(5L) sizes",
        "5L length",
    )
    found = rows(analytics.throughput(messages, 1))
    second, end = 10**6, 10_000 * day // 1000
    assert [(row["start"], row["messages"]) for row in found] == [
        *((0, 2), (second, 0), (2 * second, 0), (3 * second, 1)),
        *((4 * second, 0), (end - second, 0), (end, 1)),
    ]


@pytest.mark.parametrize("analytic", [analytics.throughput, analytics.topic_rates])
def test_an_interval_has_some_width(case: Case, analytic: Callable[..., DataFrame]) -> None:
    with pytest.raises(ValueError, match="1e-07 s is too short"):
        analytic(case.tables["messages"], 1e-7)


def sizes_of(messages: list[Row]) -> Row:
    sizes = [octets_of(message) for message in messages]
    return {
        "messages": len(sizes),
        "octets": sum(sizes),
        "smallest": min(sizes),
        **{f"p{percent}": rank(sizes, percent) for percent in (50, 90, 99)},
        "largest": max(sizes),
        "mean": sum(sizes) / len(sizes),
    }


def bucket(size: int) -> tuple[int, int]:
    low = 1 << size.bit_length() - 1 if size else 0
    return low, max(2 * low - 1, 0)


def test_size_distribution(case: Case) -> None:
    found = rows(analytics.size_distribution(case.tables["messages"]))
    expected = []
    for (socket_type,), messages in groups(data(case), "socket_type").items():
        counts = sorted(Counter(bucket(octets_of(message)) for message in messages).items())
        histogram = [{"low": low, "high": high, "messages": count} for (low, high), count in counts]
        expected.append({"socket_type": socket_type, **sizes_of(messages), "histogram": histogram})
    assert None in [row["socket_type"] for row in expected]
    assert found == sorted(expected, key=lambda row: (-row["octets"], nulls_first(row["socket_type"])))


def test_topic_sizes(case: Case) -> None:
    found = rows(analytics.topic_sizes(case.tables["messages"]))
    expected = [
        {"socket_type": socket_type, "topic": topic, **sizes_of(messages)}
        for (socket_type, topic), messages in groups(data(case), "socket_type", "topic").items()
    ]
    assert ("PUB", "a.topic") in [(row["socket_type"], row["topic"]) for row in expected]
    assert found == sorted(expected, key=lambda row: (-row["octets"], nulls_first(row["socket_type"], row["topic"])))


def test_topic_rates(case: Case) -> None:
    width = 10**8
    found = rows(analytics.topic_rates(case.tables["messages"], 0.1))
    expected = []
    for (socket_type, topic), messages in groups(data(case), "socket_type", "topic").items():
        ends = [message["ts_end_ns"] for message in messages]
        busiest, count = min(Counter(end // width for end in ends).items(), key=lambda item: (-item[1], item[0]))
        took = (max(ends) - min(ends)) / 1e9
        expected.append(
            {
                "socket_type": socket_type,
                "topic": topic,
                "messages": len(messages),
                "octets": sum(map(octets_of, messages)),
                "connections": len({(message["conn_id"], message["side"]) for message in messages}),
                "first": micros(min(ends)),
                "last": micros(max(ends)),
                "messages_per_second": (len(messages) - 1) / took if took else None,
                "busiest_start": micros(busiest * width),
                "busiest_messages": count,
            }
        )
    assert max(row["connections"] for row in expected if row["topic"] is not None) > 1
    assert found == sorted(expected, key=lambda row: (-row["messages"], nulls_first(row["socket_type"], row["topic"])))


def test_payload_types(case: Case) -> None:
    for message in data(case):
        message["protocol"] = None if message["payload"] is None else message["payload"]["protocol"]
    found = rows(analytics.payload_types(case.tables["messages"]))
    expected = [
        {
            "kind": kind,
            "protocol": protocol,
            "messages": len(messages),
            "octets": sum(map(octets_of, messages)),
            "connections": len({message["conn_id"] for message in messages}),
            "first": micros(min(message["ts_end_ns"] for message in messages)),
            "last": micros(max(message["ts_end_ns"] for message in messages)),
        }
        for (kind, protocol), messages in groups(data(case), "kind", "protocol").items()
    ]
    assert {"jupyter", "text", None} <= {row["protocol"] for row in expected}
    assert found == sorted(expected, key=lambda row: (-row["messages"], nulls_first(row["kind"], row["protocol"])))


def test_announced_sizes_do_not_count(spark: SparkSession) -> None:
    whole = "conn_id string, side bigint, socket_type string, topic string, ts_ns bigint, ts_end_ns bigint, kind string"
    values = ("c", 0, "PUSH", None, 0, 0, "data")
    sizes = [([2**62, 2**62], 70), ([2**40], 90), ([1, None], 80), ([1, 2], 8), (None, 40), ([0], 2)]
    messages = spark.createDataFrame(
        [(*values, each, length) for each, length in sizes], f"{whole}, sizes array<bigint>, length bigint"
    )
    (found,) = rows(analytics.size_distribution(messages))
    assert (found["octets"], found["smallest"], found["largest"]) == (70 + 90 + 80 + 3 + 40 + 0, 0, 90)
    assert [(each["low"], each["high"]) for each in found["histogram"]] == [(0, 0), (2, 3), (32, 63), (64, 127)]


# -- connections -----------------------------------------------------------------------------------------------------


def listener(connection: Row) -> int:
    if connection["opened_by"] is not None:
        return 1 - int(connection["opened_by"])
    return int(not (connection["port_0"] < 32768 <= connection["port_1"]))


def test_top_talkers(case: Case) -> None:
    peers = defaultdict(list)
    for connection in case.records["connections"]:
        for side in (0, 1):
            port = connection[f"port_{side}"] if listener(connection) == side else None
            identity = connection[f"identity_{side}"] or None
            key = connection[f"ip_{side}"], port, identity, connection[f"socket_type_{side}"]
            peers[key].append((connection, side))
    expected = [
        {
            **dict(zip(("address", "port", "identity", "socket_type"), key, strict=True)),
            "connections": len(sides),
            "messages_sent": sum(connection[f"messages_{side}"] for connection, side in sides),
            "octets_sent": sum(connection[f"bytes_{side}"] for connection, side in sides),
            "messages_received": sum(connection[f"messages_{1 - side}"] for connection, side in sides),
            "octets_received": sum(connection[f"bytes_{1 - side}"] for connection, side in sides),
            "first": micros(min(connection["start_ns"] for connection, _ in sides)),
            "last": micros(max(connection["end_ns"] for connection, _ in sides)),
        }
        for key, sides in peers.items()
    ]
    found = rows(analytics.top_talkers(case.tables["connections"]))
    assert found == sorted(
        expected,
        key=lambda row: (
            -row["octets_sent"] - row["octets_received"],
            nulls_first(row["address"], row["port"], row["identity"], row["socket_type"]),
        ),
    )


def test_connection_lifetimes(case: Case) -> None:
    connections = case.records["connections"]
    whole = Counter((each[f"ip_{listener(each)}"], each[f"port_{listener(each)}"]) for each in connections)
    for each in connections:
        side = listener(each)
        each["address"], each["port"] = each[f"ip_{side}"], each[f"port_{side}"]
    expected = []
    for (address, port, close), lives in groups(connections, "address", "port", "close").items():
        lasted = [each["end_ns"] - each["start_ns"] + (each["idle_ns"] if close == "open" else 0) for each in lives]
        expected.append(
            {
                "address": address,
                "port": port,
                "close": close,
                "connections": len(lives),
                "closed_by_client": sum(each["closed_by"] == 1 - listener(each) for each in lives),
                "closed_by_listener": sum(each["closed_by"] == listener(each) for each in lives),
                "handshake_complete": sum(each["handshake"] == "complete" for each in lives),
                "begun_before": sum(each["opened_by"] is None for each in lives),
                **quantiles(lasted),
            }
        )
    assert {row["close"] for row in expected} >= {"fin", "open"}
    assert max(row["begun_before"] for row in expected)
    found = rows(analytics.connection_lifetimes(case.tables["connections"]))
    assert found == sorted(
        expected,
        key=lambda row: (
            -whole[row["address"], row["port"]],
            *(row["address"], row["port"], -row["connections"], row["close"]),
        ),
    )


def test_handshake_times(case: Case) -> None:
    greeted: defaultdict[str, int] = defaultdict(int)
    for greeting in case.records["greetings"]:
        greeted[greeting["conn_id"]] = max(greeted[greeting["conn_id"]], greeting["ts_ns"])
    ready: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for command in case.records["commands"]:
        if command["name"] == "READY":
            ready[command["conn_id"]].setdefault(command["side"], command["ts_ns"])
    expected = []
    for key, connections in groups(case.records["connections"], "version", "transport", "mechanism").items():
        took, greetings, readies = [], [], []
        for each in connections:
            conn, start = each["conn_id"], each["start_ns"]
            if each["handshake"] == "complete" and each["opened_by"] is not None:
                greetings.append(greeted[conn] - start)
                if conn in ready:
                    readies.append(max(ready[conn].values()) - greeted[conn])
                    took.append(max(ready[conn].values()) - start)
                elif each["mechanism"] is None:
                    took.append(greeted[conn] - start)
        outcomes = Counter(each["handshake"] for each in connections)
        expected.append(
            {
                **dict(zip(("version", "transport", "mechanism"), key, strict=True)),
                "connections": len(connections),
                **{word: outcomes[word] for word in ("complete", "failed", "incomplete", "unseen")},
                "timed": len(took),
                **quantiles(took),
                "greeted_p50_ns": rank(greetings, 50),
                "ready_p50_ns": rank(readies, 50),
            }
        )
    assert {row["mechanism"] for row in expected} >= {"NULL", "PLAIN", "CURVE", "GSSAPI", None}
    assert all(row["timed"] for row in expected if row["version"] == "3.1" and row["complete"])
    tables = case.tables
    found = rows(analytics.handshake_times(tables["connections"], tables["greetings"], tables["commands"]))
    assert found == sorted(
        expected,
        key=lambda row: (-row["connections"], nulls_first(row["version"], row["transport"], row["mechanism"])),
    )


def test_version_inventory(case: Case) -> None:
    connections = {each["conn_id"]: each for each in case.records["connections"]}
    texts = []
    for greeting in case.records["greetings"]:
        connection, side = connections[greeting["conn_id"]], greeting["side"]
        texts.append(
            {
                "address": greeting["src_ip"],
                "port": greeting["src_port"] if listener(connection) == side else None,
                "socket_type": connection[f"socket_type_{side}"],
                "announced": greeting["version_announced"],
                "form": greeting["form"],
                "mechanism": greeting["mechanism"],
                "version": connection["version"],
                "transport": connection["transport"],
                "ts_ns": greeting["ts_ns"],
            }
        )
    keys = [key for key in texts[0] if key != "ts_ns"]
    expected = [
        {
            **dict(zip(keys, key, strict=True)),
            "connections": len(each),
            "first": micros(min(one["ts_ns"] for one in each)),
            "last": micros(max(one["ts_ns"] for one in each)),
        }
        for key, each in groups(texts, *keys).items()
    ]
    assert {"1.0", "2.0", "3.0", "3.1"} <= {row["version"] for row in expected}
    found = rows(analytics.version_inventory(case.tables["connections"], case.tables["greetings"]))
    order = ["version", "announced", "address", "port", *keys[2:]]
    assert found == sorted(expected, key=lambda row: nulls_first(*(row[key] for key in order)))


# -- what is wrong ---------------------------------------------------------------------------------------------------


def test_findings_by_rule(case: Case) -> None:
    shown = ["text", "section", "hint", "conn_id", "file", "packet"]
    expected = []
    for (severity, id_), each in groups(case.records["findings"], "severity", "id").items():
        first = min(each, key=lambda one: (one["ts_ns"], nulls_first(one["file"], one["packet"])))
        expected.append(
            {
                "severity": severity,
                "id": id_,
                "findings": len(each),
                "count": sum(one["count"] or 1 for one in each),
                "connections": len({one["conn_id"] for one in each} - {None}),
                "first": micros(min(one["ts_ns"] for one in each)),
                "last": micros(max(one["ts_ns"] for one in each)),
                **{name: first[name] for name in shown},
            }
        )
    severities = ["error", "warn", "note", "chat"]
    assert {row["severity"] for row in expected} == set(severities)
    found = rows(analytics.findings_by_rule(case.tables["findings"]))
    assert found == sorted(expected, key=lambda row: (severities.index(row["severity"]), -row["findings"], row["id"]))


def test_reconnect_storms(case: Case) -> None:
    found = rows(analytics.reconnect_storms(case.tables["connections"], case.tables["findings"]))
    texts = [each for each in case.records["findings"] if each["id"] == "ZMTP-CONN-10"]
    assert texts
    closed = [row for row in found if row["outcome"] == "closed"]
    for finding in texts:  # of the client's side
        (storm,) = [row for row in closed if (row["address"], row["port"]) == (finding["dst_ip"], finding["dst_port"])]
        mine = [
            each
            for each in case.records["connections"]
            if (each["ip_0"], each["ip_1"], each["port_1"]) == (storm["client"], storm["address"], storm["port"])
        ]
        waits = [after["start_ns"] - before["closed_ns"] for before, after in itertools.pairwise(mine)]
        assert storm == {
            "outcome": "closed",
            "client": finding["src_ip"],
            "address": finding["dst_ip"],
            "port": finding["dst_port"],
            "start": micros(mine[0]["start_ns"]),
            "end": micros(mine[-1]["closed_ns"]),
            "connections": len(mine),
            "mean_wait_ns": sum(waits) // len(waits),
        }
    assert len(closed) == len(texts)
    outcomes = {"ZMTP-CONN-14": "refused", "ZMTP-CONN-15": "not answered", "ZMTP-CONN-16": "never established"}
    attempts = [
        {
            "outcome": outcomes[each["id"]],
            "client": each["src_ip"],
            "address": each["dst_ip"],
            "port": each["dst_port"],
            "start": micros(each["ts_ns"]),
            "end": None,
            "connections": each["count"],
            "mean_wait_ns": None,
        }
        for each in case.records["findings"]
        if each["id"] in outcomes and each["count"] > 6
    ]
    assert "refused" in [row["outcome"] for row in attempts]
    key = lambda row: (row["start"], row["outcome"])  # noqa: E731
    assert [row for row in found if row["outcome"] != "closed"] == sorted(attempts, key=key)
    ordered(found, key)


SECOND = 10**9
CONNECTION = {
    "conn_id": "string",
    **dict.fromkeys(("start_ns", "closed_ns", "opened_by", "closed_by", "port_0", "port_1"), "bigint"),
    **dict.fromkeys(("ip_0", "ip_1", "handshake", "close"), "string"),
}


CLIENTS: dict[str, tuple[Iterable[int], list[tuple[int, int]]]] = {
    "five reconnects are usual": (range(6), []),
    "six are a storm": (range(7), [(0, 6)]),
    "one that goes on": (range(40), [(0, 39)]),
    "two": ([*range(10), *range(1000, 1010)], [(0, 9), (1000, 1009)]),
    "a storm long after a failure": ([0, *range(100, 106)], [(100, 105)]),
    "not within a minute": (range(0, 91, 13), []),
    "waits longer each time": ([0, 1, 2, 3, 7, 15, 31], []),
    "two at a time": ([*range(5), *range(5)], []),
}
"""When each client connects [s], half a second each time, and its storms."""


def test_a_storm_is_six_reconnects_within_a_minute(spark: SparkSession, case: Case) -> None:
    lives = [
        {
            "conn_id": f"{number:016x}",
            "start_ns": start * SECOND,
            "closed_ns": start * SECOND + SECOND // 2,
            "opened_by": 0,
            "closed_by": 1,
            "ip_0": client,
            "port_0": 40_000,
            "ip_1": "10.0.0.1",
            "port_1": 5555,
            "handshake": "complete",
            "close": "rst",
        }
        for client, (starts, _) in CLIENTS.items()
        for number, start in enumerate(starts)
    ]
    table = spark.createDataFrame(lives, ", ".join(f"{name} {type_}" for name, type_ in CONNECTION.items()))
    found = rows(analytics.reconnect_storms(table, case.tables["findings"].limit(0)))
    for client, (_, storms) in CLIENTS.items():
        assert [(row["start"], row["end"], row["connections"]) for row in found if row["client"] == client] == [
            (first * 10**6, last * 10**6 + 500_000, last - first + 1) for first, last in storms
        ], client


# -- how they are made -----------------------------------------------------------------------------------------------

ANALYTICS: dict[Callable[..., DataFrame], tuple[str, ...]] = {
    analytics.throughput: ("messages",),
    analytics.size_distribution: ("messages",),
    analytics.top_talkers: ("connections",),
    analytics.topic_rates: ("messages",),
    analytics.topic_sizes: ("messages",),
    analytics.connection_lifetimes: ("connections",),
    analytics.reconnect_storms: ("connections", "findings"),
    analytics.handshake_times: ("connections", "greetings", "commands"),
    analytics.findings_by_rule: ("findings",),
    analytics.payload_types: ("messages",),
    analytics.version_inventory: ("connections", "greetings"),
}


@pytest.mark.parametrize("analytic", ANALYTICS, ids=lambda analytic: str(analytic.__name__))
def test_nothing_runs_and_no_body_is_read(case: Case, analytic: Callable[..., DataFrame]) -> None:
    tables = [case.tables[name] for name in ANALYTICS[analytic]]
    context = tables[0].sparkSession.sparkContext
    context.setJobGroup("analytics", "none shall run")
    answer = analytic(*tables)
    assert not context.statusTracker().getJobIdsForGroup("analytics")
    plan = answer._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema" in plan
    assert not [word for word in ("bodies", "summary", "fields", "data", "context") if f"{word}:" in plan]


@pytest.mark.slow
def test_empty_tables_give_empty_tables(spark: SparkSession) -> None:
    empty = {name: spark.createDataFrame([], schema(name.removesuffix("s"))) for name in TABLES}
    answers = [analytic(*(empty[name] for name in names)).selectExpr("1") for analytic, names in ANALYTICS.items()]
    assert reduce(DataFrame.union, answers).count() == 0
