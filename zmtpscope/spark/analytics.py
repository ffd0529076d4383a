"""Questions that operators ask of captures, each a function from tables to a table.

They take DataFrames of the records that docs/records.md lists (of `zmtpscope.spark.read`, of Parquet or JSON lines that
`zmtpscope export` wrote) and give lazy DataFrames: nothing runs, nothing is collected, and of the tables only the
columns that an answer needs are read, never bodies. Filter the tables first to ask about a part:
`throughput(messages.where("topic like 'prices.%'"))`.

Columns that several answers have: `messages` and `octets` count messages and the octets in their frames, headers not
counted; subscriptions and cancellations are no messages, and of what stayed sealed, or was cut off, the octets are
those that are there, headers counted. `start`, `end`, `first`, `last` are times as TIMESTAMP, in whole microseconds;
what ends in `_ns` is a duration in nanoseconds. Percentiles are values that occurred (nearest rank); of durations they
are exact up to 10,000 values, and within a ten thousandth of the ranks beyond. Null is unknown and stays a row of its
own.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from zmtpscope.dissect.findings.endpoints import GROWTH, MINUTE, RECONNECTS
from zmtpscope.export.top.peers import FIRST_EPHEMERAL
from zmtpscope.findings import SEVERITIES
from zmtpscope.records import SECOND

LONGEST_SILENCE = 100_000
"""Intervals without messages in a row that are rows; of a longer silence only the first and the last one is, since one
wrong clock may put thirty years into a capture."""

PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}

MEASURED_WAITS = 3
"""So many waits at the beginning and at the end of a storm are compared: ZMTP-CONN-10."""

ATTEMPTS = {"ZMTP-CONN-14": "refused", "ZMTP-CONN-15": "not answered", "ZMTP-CONN-16": "never established"}
"""Findings that each stand for the attempts of a client at an endpoint, and what became of these."""


def throughput(messages: DataFrame, interval: float = 1.0) -> DataFrame:
    """How much was said, in each interval from the first message to the last; intervals without messages are there.

    `interval` is in seconds; intervals begin at whole multiples of it since 1970. A message counts where its last octet
    came. Columns: `start`, `messages`, `octets`, `messages_per_second`, `octets_per_second`; in the order of time. At
    most 100,000 empty intervals follow one another; of a longer silence only the first and the last one is a row.
    """
    width = _nanoseconds(interval)
    counted = _data(messages).groupBy(_bucket(width).alias("bucket")).agg(*_sums())
    later = F.lead("bucket").over(Window.partitionBy(F.lit(0)).orderBy("bucket"))  # one partition, few rows
    first_empty, last_empty = F.col("bucket") + 1, F.col("later") - 1
    empty = (
        F.when(F.col("later").isNull() | (first_empty > last_empty), F.array().cast("array<bigint>"))
        .when(last_empty - first_empty >= LONGEST_SILENCE, F.array(first_empty, last_empty))
        .otherwise(F.sequence(first_empty, last_empty))
    )
    filled = counted.withColumn("later", later).select(
        "bucket", "messages", "octets", F.explode(F.concat(F.array("bucket"), empty)).alias("at")
    )
    there = F.col("at") == F.col("bucket")
    rows = filled.select(
        "at",
        F.when(there, F.col("messages")).otherwise(F.lit(0)).alias("messages"),
        F.when(there, F.col("octets")).otherwise(F.lit(0)).alias("octets"),
    ).orderBy("at")
    seconds = width / SECOND
    return rows.select(
        _timestamp(F.col("at") * width).alias("start"),
        "messages",
        "octets",
        (F.col("messages") / seconds).alias("messages_per_second"),
        (F.col("octets") / seconds).alias("octets_per_second"),
    )


def size_distribution(messages: DataFrame) -> DataFrame:
    """How large messages are, for each socket type that sends them.

    Columns: `socket_type`; `messages`, `octets`; `smallest`, `p50`, `p90`, `p99`, `largest` and `mean` size [octets];
    `histogram`: an array of `{low, high, messages}`, sizes from `low` to `high` octets, where `low` is 0 or a power of
    two and `high` the last size below the next one; empty buckets are left out. Most octets first.
    """
    sizes = _distinct_sizes(messages, ["socket_type"])
    return _with_sizes(sizes, ["socket_type"], histogram=True)


def topic_sizes(messages: DataFrame) -> DataFrame:
    """How large the messages of each topic are.

    Columns: `socket_type` of the sender and `topic`, null where there is none or it is not known; `messages`,
    `octets`; `smallest`, `p50`, `p90`, `p99`, `largest` and `mean` size [octets]. Most octets first.
    """
    keys = ["socket_type", "topic"]
    return _with_sizes(_distinct_sizes(messages, keys), keys, histogram=False)


def topic_rates(messages: DataFrame, interval: float = 1.0) -> DataFrame:
    """How often each topic is sent. A message to three subscribers is three messages, as on the wire.

    Columns: `socket_type` of the sender and `topic`, null where there is none or it is not known; `messages`, `octets`,
    `connections` that carried it; `first` and `last` message; `messages_per_second` between these two, null where they
    are one moment; `busiest_start` and `busiest_messages` of the interval (of `interval` seconds) with the most. Most
    messages first.
    """
    width, keys = _nanoseconds(interval), ["socket_type", "topic"]
    each = (
        _data(messages)
        .groupBy(*keys, "conn_id", "side", _bucket(width).alias("bucket"))
        .agg(*_sums(), F.min("ended_ns").alias("first_ns"), F.max("ended_ns").alias("last_ns"))
    )
    place = F.row_number().over(Window.partitionBy(*keys, "conn_id", "side").orderBy("bucket"))
    in_intervals = (
        each.withColumn("is_first", (place == 1).cast("bigint"))
        .groupBy(*keys, "bucket")
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("octets").alias("octets"),
            F.sum("is_first").alias("connections"),
            F.min("first_ns").alias("first_ns"),
            F.max("last_ns").alias("last_ns"),
        )
    )
    busiest = F.max(F.struct("messages", (-F.col("bucket")).alias("before")))  # of equal ones the first
    rates = in_intervals.groupBy(*keys).agg(
        F.sum("messages").alias("messages"),
        F.sum("octets").alias("octets"),
        F.sum("connections").alias("connections"),
        F.min("first_ns").alias("first_ns"),
        F.max("last_ns").alias("last_ns"),
        busiest.alias("busiest"),
    )
    took = (F.col("last_ns") - F.col("first_ns")) / SECOND
    return rates.select(
        *keys,
        "messages",
        "octets",
        "connections",
        *_span("first_ns", "last_ns"),
        F.when(took > 0, (F.col("messages") - 1) / took).alias("messages_per_second"),
        _timestamp(-F.col("busiest.before") * width).alias("busiest_start"),
        F.col("busiest.messages").alias("busiest_messages"),
    ).orderBy(F.desc("messages"), *keys)


def payload_types(messages: DataFrame) -> DataFrame:
    """What rides in messages, by the name of the payload dissector that claims it.

    Columns: `kind` (data, or encrypted: it stayed sealed) and `protocol` (null: nothing claims it); `messages`,
    `octets`, `connections`; `first` and `last` message. Most messages first.
    """
    keys = ["kind", "protocol"]
    each = (
        _data(messages, "kind", F.col("payload.protocol").alias("protocol"))
        .groupBy(*keys, "conn_id")
        .agg(*_sums(), F.min("ended_ns").alias("first_ns"), F.max("ended_ns").alias("last_ns"))
    )
    types = each.groupBy(*keys).agg(
        F.sum("messages").alias("messages"),
        F.sum("octets").alias("octets"),
        F.count("*").alias("connections"),
        F.min("first_ns").alias("first_ns"),
        F.max("last_ns").alias("last_ns"),
    )
    return types.select(*keys, "messages", "octets", "connections", *_span("first_ns", "last_ns")).orderBy(
        F.desc("messages"), *keys
    )


def top_talkers(connections: DataFrame) -> DataFrame:
    """Who sends and receives how much: the peers, as far as their connections show them.

    Columns: `address`; `port` where the peer listens, null where it connects, since every connection has another port;
    `identity` and `socket_type`; `connections`; `messages_sent`, `octets_sent`, `messages_received`, `octets_received`,
    subscriptions that travel as messages counted; `first` and `last` packet of its connections. Most octets first.
    """
    keys = ["address", "port", "identity", "socket_type"]
    listener = _listener()
    sides = [
        F.struct(
            F.col(f"ip_{side}").alias("address"),
            F.when(listener == side, F.col(f"port_{side}")).alias("port"),
            F.nullif(F.col(f"identity_{side}"), F.lit("")).alias("identity"),
            F.col(f"socket_type_{side}").alias("socket_type"),
            F.col(f"messages_{side}").alias("messages_sent"),
            F.col(f"bytes_{side}").alias("octets_sent"),
            F.col(f"messages_{1 - side}").alias("messages_received"),
            F.col(f"bytes_{1 - side}").alias("octets_received"),
        )
        for side in (0, 1)
    ]
    counts = ["messages_sent", "octets_sent", "messages_received", "octets_received"]
    peers = (
        connections.select("start_ns", "end_ns", F.explode(F.array(*sides)).alias("peer"))
        .select("peer.*", "start_ns", "end_ns")
        .groupBy(*keys)
        .agg(
            F.count("*").alias("connections"),
            *(F.sum(count).alias(count) for count in counts),
            F.min("start_ns").alias("first_ns"),
            F.max("end_ns").alias("last_ns"),
        )
    )
    return peers.select(*keys, "connections", *counts, *_span("first_ns", "last_ns")).orderBy(
        F.desc(F.col("octets_sent") + F.col("octets_received")), *keys
    )


def connection_lifetimes(connections: DataFrame) -> DataFrame:
    """How long connections lasted, and how they ended, for each listening endpoint.

    Columns: `address` and `port` that was connected to; `close` (fin, rst, open, reused, evicted); `connections`;
    `closed_by_client` and `closed_by_listener`, by the first FIN or RST; `handshake_complete`; `begun_before` the
    capture; `shortest_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `longest_ns` from first to last packet, of open ones to the
    end of the capture: they, and those that began before it, lasted longer. Endpoints with most connections first.
    """
    keys = ["address", "port", "close"]
    listener, open_for = _listener(), F.when(F.col("close") == "open", F.col("idle_ns"))
    lives = connections.select(
        _of_side(listener, "ip").alias("address"),
        _of_side(listener, "port").alias("port"),
        "close",
        (F.col("closed_by") == 1 - listener).alias("closed_by_client"),
        (F.col("closed_by") == listener).alias("closed_by_listener"),
        (F.col("handshake") == "complete").alias("handshake_complete"),
        F.col("opened_by").isNull().alias("begun_before"),
        (F.col("end_ns") - F.col("start_ns") + F.coalesce(open_for, F.lit(0))).alias("life_ns"),
    )
    flags = ["closed_by_client", "closed_by_listener", "handshake_complete", "begun_before"]
    counted = lives.groupBy(*keys).agg(
        F.count("*").alias("connections"), *(F.count_if(flag).alias(flag) for flag in flags), *_quantiles("life_ns")
    )
    whole = F.sum("connections").over(Window.partitionBy("address", "port"))
    return (
        counted.withColumn("whole", whole)
        .orderBy(F.desc("whole"), "address", "port", F.desc("connections"), "close")
        .drop("whole")
    )


def handshake_times(connections: DataFrame, greetings: DataFrame, commands: DataFrame) -> DataFrame:
    """How handshakes came out and how long they took, for each version and mechanism.

    Columns: `version` in force (null: none was agreed), `transport`, `mechanism`; `connections`; how many handshakes
    were `complete`, `failed`, `incomplete`, `unseen`; `timed`: of how many complete ones the whole was captured; of
    these, from the SYN to the last READY, in 1.0 and 2.0 to the later greeting: `shortest_ns`, `p50_ns`, `p90_ns`,
    `p99_ns`, `longest_ns`; and the medians of its parts: `greeted_p50_ns` from the SYN to the later greeting,
    `ready_p50_ns` from there to the last READY. Most connections first.
    """
    keys = ["version", "transport", "mechanism"]
    greeted = greetings.groupBy("conn_id").agg(F.max("ts_ns").alias("greeted_ns"))
    ready = (
        commands.where(F.col("name") == "READY")
        .groupBy("conn_id", "side")
        .agg(F.min("ts_ns").alias("ready_ns"))
        .groupBy("conn_id")
        .agg(F.max("ready_ns").alias("ready_ns"))
    )
    done = F.coalesce("ready_ns", F.when(F.col("mechanism").isNull(), F.col("greeted_ns")))
    is_timed = (F.col("handshake") == "complete") & F.col("opened_by").isNotNull()
    handshakes = (
        connections.join(greeted, "conn_id", "left")
        .join(ready, "conn_id", "left")
        .select(
            *keys,
            "handshake",
            F.when(is_timed, done - F.col("start_ns")).alias("took_ns"),
            F.when(is_timed, F.col("greeted_ns") - F.col("start_ns")).alias("greeted_ns"),
            F.when(is_timed, F.col("ready_ns") - F.col("greeted_ns")).alias("ready_ns"),
        )
    )
    outcomes = ["complete", "failed", "incomplete", "unseen"]
    return (
        handshakes.groupBy(*keys)
        .agg(
            F.count("*").alias("connections"),
            *(F.count_if(F.col("handshake") == outcome).alias(outcome) for outcome in outcomes),
            F.count("took_ns").alias("timed"),
            *_quantiles("took_ns"),
            F.percentile_approx("greeted_ns", 0.5).alias("greeted_p50_ns"),
            F.percentile_approx("ready_ns", 0.5).alias("ready_p50_ns"),
        )
        .orderBy(F.desc("connections"), *keys)
    )


def reconnect_storms(connections: DataFrame, findings: DataFrame) -> DataFrame:
    """Clients that come again and again: who, to which endpoint, from when to when, how often.

    `outcome` says what becomes of their connections. closed: more than five reconnects within a minute, each behind the
    end of the connection before, which failed or was closed by the other side, without waiting longer each time: the
    condition of ZMTP-CONN-10, which is said once for a client and endpoint; here each storm is a row, from its first to
    its last connection. refused, not answered, never established: more than five attempts, as ZMTP-CONN-14, 15 and 16
    count them; of these the end is not known, and 20 pairs are told apart. Columns: `outcome`; `client` address;
    `address` and `port` of the endpoint; `start` of the first connection and `end` of the last; `connections`;
    `mean_wait_ns` from the end of a connection to the next. In the order of time.
    """
    pair = ["client", "address", "port"]
    return _storms(connections, pair).union(_attempts(findings)).orderBy("start", "outcome", *pair)


def _storms(connections: DataFrame, pair: Sequence[str]) -> DataFrame:
    """Connections that fail or are closed by the other side, again and again."""
    listener = _listener()
    failed = (F.col("closed_by") == listener) | (F.col("handshake") != "complete")
    has_ended = F.col("close").isin("fin", "rst") & F.col("closed_ns").isNotNull()
    lives = connections.where(F.col("opened_by").isNotNull() & has_ended & failed).select(
        _of_side(1 - listener, "ip").alias("client"),
        _of_side(listener, "ip").alias("address"),
        _of_side(listener, "port").alias("port"),
        "start_ns",
        "closed_ns",
        "conn_id",
    )
    in_order = Window.partitionBy(*pair).orderBy("closed_ns", "start_ns", "conn_id")
    waits = lives.withColumn("wait_ns", F.col("start_ns") - F.lag("closed_ns").over(in_order))
    # connections of two clients, or of one that did not wait, are no reconnects
    follows = F.coalesce(F.col("wait_ns") >= 0, F.lit(False))
    runs = waits.withColumn("run", F.sum((~follows).cast("bigint")).over(in_order))
    of_run = Window.partitionBy(*pair, "run").orderBy("closed_ns", "start_ns", "conn_id")
    first_waits = F.sum("wait_ns").over(of_run.rowsBetween(1 - RECONNECTS, MEASURED_WAITS - RECONNECTS))
    last_waits = F.sum("wait_ns").over(of_run.rowsBetween(1 - MEASURED_WAITS, 0))
    within = F.col("start_ns") - F.lag("start_ns", RECONNECTS - 1).over(of_run) <= MINUTE
    has_enough = F.row_number().over(of_run) > RECONNECTS
    judged = runs.withColumn("is_storm", has_enough & within & (last_waits <= GROWTH * first_waits))
    in_storm, goes_on = (
        F.coalesce(F.max("is_storm").over(of_run.rowsBetween(0, most)), F.lit(False))
        for most in (RECONNECTS, RECONNECTS - 1)  # the second: with the connection before
    )
    members = judged.withColumn("in_storm", in_storm).withColumn(
        "begins", F.when(goes_on & (F.col("wait_ns") <= MINUTE), 0).otherwise(1)
    )
    return (
        members.withColumn("storm", F.sum("begins").over(of_run))
        .where("in_storm")
        .groupBy(*pair, "run", "storm")
        .agg(
            F.min("start_ns").alias("start_ns"),
            F.max("closed_ns").alias("end_ns"),
            F.count("*").alias("connections"),
            F.sum(F.col("closed_ns") - F.col("start_ns")).alias("lived_ns"),
        )
        .where(F.col("connections") >= RECONNECTS)  # not the one that failed long before
        .withColumn("waits_ns", F.col("end_ns") - F.col("start_ns") - F.col("lived_ns"))
        .select(
            F.lit("closed").alias("outcome"),
            *pair,
            _timestamp(F.col("start_ns")).alias("start"),
            _timestamp(F.col("end_ns")).alias("end"),
            "connections",
            F.expr("waits_ns div (connections - 1)").alias("mean_wait_ns"),
        )
    )


def _attempts(findings: DataFrame) -> DataFrame:
    """Connections that were never established, again and again, in the columns of `_storms`."""
    words = [F.lit(word) for id_and_outcome in ATTEMPTS.items() for word in id_and_outcome]
    is_of_one = F.contains("text", F.concat("src_ip", F.lit(" tried ")))  # else what is beyond 20 pairs, in one
    return findings.where(F.col("id").isin(*ATTEMPTS) & (F.col("count") > RECONNECTS)).select(
        F.create_map(*words)[F.col("id")].alias("outcome"),
        F.when(is_of_one, F.col("src_ip")).alias("client"),
        F.when(is_of_one, F.col("dst_ip")).alias("address"),
        F.when(is_of_one, F.col("dst_port")).alias("port"),
        _timestamp(F.col("ts_ns")).alias("start"),
        F.lit(None).cast("timestamp").alias("end"),
        F.col("count").alias("connections"),
        F.lit(None).cast("bigint").alias("mean_wait_ns"),
    )


def findings_by_rule(findings: DataFrame) -> DataFrame:
    """What was found, a row for each rule and severity, the worst first.

    Columns: `severity`, `id`; `findings`: how many; `count`: how often, repeats counted; `connections`; `first` and
    `last`; and of the first one `text`, `section`, `hint`, `conn_id`, `file`, `packet`, where to look.
    """
    keys = ["severity", "id"]
    shown = ["text", "section", "hint", "conn_id", "file", "packet"]
    first = F.min(F.struct("ts_ns", "file", "packet", "conn_id", "text", "section", "hint")).alias("shown")
    each = findings.groupBy(*keys, "conn_id").agg(
        F.count("*").alias("findings"),
        F.sum(F.coalesce("count", F.lit(1))).alias("count"),
        F.count_if(F.col("conn_id").isNotNull()).alias("of_connection"),
        F.max("ts_ns").alias("last_ns"),
        first,
    )
    rules = each.groupBy(*keys).agg(
        F.sum("findings").alias("findings"),
        F.sum("count").alias("count"),
        F.count("conn_id").alias("connections"),
        F.max("last_ns").alias("last_ns"),
        F.min("shown").alias("shown"),
    )
    rank = F.array_position(F.array(*(F.lit(severity) for severity in SEVERITIES)), F.col("severity"))
    return rules.orderBy(rank, F.desc("findings"), "id").select(
        *keys,
        "findings",
        "count",
        "connections",
        _timestamp(F.col("shown.ts_ns")).alias("first"),
        _timestamp(F.col("last_ns")).alias("last"),
        *(f"shown.{name}" for name in shown),
    )


def version_inventory(connections: DataFrame, greetings: DataFrame) -> DataFrame:
    """Who speaks which version, and with which security.

    Columns: `address`; `port` where it listens, null where it connects; `socket_type`; what its greetings say:
    `announced` version, `form`, `mechanism`; what came of it: `version` in force (null: none was agreed), `transport`;
    `connections`; `first` and `last` greeting. The oldest version first.
    """
    keys = ["address", "port", "socket_type", "announced", "form", "mechanism", "version", "transport"]
    sides = connections.select(
        "conn_id", "version", "transport", "socket_type_0", "socket_type_1", _listener().alias("listener")
    )
    said = greetings.select(
        "conn_id",
        "side",
        "ts_ns",
        F.col("src_ip").alias("address"),
        F.col("src_port").alias("src_port"),
        F.col("version_announced").alias("announced"),
        "form",
        "mechanism",
    )
    each = (
        said.join(sides, "conn_id", "left")
        .withColumn("port", F.when(F.col("listener") == F.col("side"), F.col("src_port")))
        .withColumn("socket_type", _of_side(F.col("side"), "socket_type"))
    )
    return (
        each.groupBy(*keys)
        .agg(F.count("*").alias("connections"), F.min("ts_ns").alias("first_ns"), F.max("ts_ns").alias("last_ns"))
        .select(*keys, "connections", *_span("first_ns", "last_ns"))
        .orderBy("version", "announced", "address", "port", *keys[2:])
    )


# -- what they share -----------------------------------------------------------------------------------------------


def _data(messages: DataFrame, *more: Column | str) -> DataFrame:
    """The messages that are no subscriptions: what answers need of them, `ended_ns` and `octets`, no bodies."""
    # what a message announces may be far more than is there, or than a number can hold
    announced = F.aggregate("sizes", F.lit(0).cast("bigint"), lambda total, size: F.try_add(total, size))
    return messages.where(F.col("kind").isin("data", "encrypted")).select(
        "conn_id",
        "side",
        "socket_type",
        "topic",
        F.coalesce("ts_end_ns", "ts_ns").alias("ended_ns"),
        F.least(announced, "length").alias("octets"),
        *more,
    )


def _sums() -> tuple[Column, Column]:
    return F.count("*").alias("messages"), F.sum("octets").alias("octets")


def _distinct_sizes(messages: DataFrame, keys: Sequence[str]) -> DataFrame:
    """How many messages of each size, `keys` apart."""
    return _data(messages).groupBy(*keys, "octets").agg(F.count("*").alias("messages"))


def _with_sizes(sizes: DataFrame, keys: Sequence[str], *, histogram: bool) -> DataFrame:
    """Percentiles, and the histogram, of sizes that were counted: no value is looked at more than once."""
    of_keys = Window.partitionBy(*keys)
    ranked = sizes.withColumn("upto", F.sum("messages").over(of_keys.orderBy("octets"))).withColumn(
        "whole", F.sum("messages").over(of_keys)
    )
    low = F.when(F.col("octets") > 0, F.expr("shiftleft(1L, length(bin(octets)) - 1)")).otherwise(F.lit(0))
    buckets = (
        ranked.withColumn("low", low)
        .groupBy(*keys, "low")
        .agg(
            F.sum("messages").alias("messages"),
            F.sum(F.col("octets") * F.col("messages")).alias("octets"),
            F.min("octets").alias("smallest"),
            *(_at_rank(percent).alias(name) for name, percent in PERCENTILES.items()),
            F.max("octets").alias("largest"),
        )
    )
    bucket = F.struct("low", F.greatest(F.col("low") * 2 - 1, F.lit(0)).alias("high"), "messages")
    with_histogram = [F.sort_array(F.collect_list(bucket)).alias("histogram")] if histogram else []
    return (
        buckets.groupBy(*keys)
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("octets").alias("octets"),
            F.min("smallest").alias("smallest"),
            *(F.min(name).alias(name) for name in PERCENTILES),
            F.max("largest").alias("largest"),
            (F.sum("octets") / F.sum("messages")).alias("mean"),
            *with_histogram,
        )
        .orderBy(F.desc("octets"), *keys)
    )


def _at_rank(percent: int) -> Column:
    """The smallest size up to which there are so many of the messages; null where it is in an earlier bucket."""
    return F.min(F.when(F.col("upto") * 100 >= F.col("whole") * percent, F.col("octets")))


def _quantiles(name: str) -> list[Column]:
    """Smallest, percentiles and largest of a duration."""
    return [
        F.min(name).alias("shortest_ns"),
        *(F.percentile_approx(name, percent / 100).alias(f"{which}_ns") for which, percent in PERCENTILES.items()),
        F.max(name).alias("longest_ns"),
    ]


def _listener() -> Column:
    """The side that was connected to; of connections whose begin was not captured the one with a port that systems do
    not give to those who connect, else side 1."""
    by_ports = (F.col("port_0") < FIRST_EPHEMERAL) & (F.col("port_1") >= FIRST_EPHEMERAL)
    return F.coalesce(1 - F.col("opened_by"), F.when(by_ports, F.lit(0)).otherwise(F.lit(1)))


def _of_side(side: Column, name: str) -> Column:
    """`ip` of side 0 is in `ip_0`, and so on."""
    return F.when(side == 0, F.col(f"{name}_0")).otherwise(F.col(f"{name}_1"))


def _timestamp(nanoseconds: Column) -> Column:
    return F.timestamp_micros(F.call_function("div", nanoseconds, F.lit(1000)))


def _span(first: str, last: str) -> tuple[Column, Column]:
    return _timestamp(F.col(first)).alias("first"), _timestamp(F.col(last)).alias("last")


def _nanoseconds(interval: float) -> int:
    """Raises `ValueError` if there is less than a microsecond in it."""
    width = round(interval * SECOND)
    if width < 1000:
        raise ValueError(f"an interval of {interval} s is too short; give 0.000001 or more")
    return width


def _bucket(width: int) -> Column:
    """Which interval a message is in, counted since 1970."""
    return F.expr(f"ended_ns div {width}")  # / would be of floating point
