"""Peers and their connections: traffic, lifetimes, handshakes and versions."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from zmtpscope.spark.analytics.columns import ends, listening_side, of_side, quantiles, span, sums


def top_talkers(connections: DataFrame) -> DataFrame:
    """Return the traffic of each peer, most octets first.

    Columns: `address`; `port` if the peer listens, null if it connects, because each connection has another port;
    `identity` and `socket_type`; `connections`; `messages_sent`, `octets_sent`, `messages_received`, `octets_received`,
    including subscriptions sent as messages; `first` and `last` packet of its connections.
    """
    keys = ["address", "port", "identity", "socket_type"]
    listener = listening_side()
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
            *sums(*counts),
            *ends("start_ns", "end_ns"),
        )
    )
    return peers.select(*keys, "connections", *counts, *span()).orderBy(
        F.desc(F.col("octets_sent") + F.col("octets_received")), *keys
    )


def connection_lifetimes(connections: DataFrame) -> DataFrame:
    """Return durations and ends of connections for each listening endpoint, endpoints with most connections first.

    Columns: `address` and `port` of the endpoint; `close` (fin, rst, open, reused, evicted); `connections`;
    `closed_by_client` and `closed_by_listener`, by the first FIN or RST; `handshake_complete`; `begun_before` the
    capture; `shortest_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `longest_ns` from the first packet to the last, or to the end
    of the capture for open connections. Open connections, and connections begun before the capture, lasted longer.
    """
    keys = ["address", "port", "close"]
    listener, open_for = listening_side(), F.when(F.col("close") == "open", F.col("idle_ns"))
    lives = connections.select(
        of_side(listener, "ip").alias("address"),
        of_side(listener, "port").alias("port"),
        "close",
        (F.col("closed_by") == 1 - listener).alias("closed_by_client"),
        (F.col("closed_by") == listener).alias("closed_by_listener"),
        (F.col("handshake") == "complete").alias("handshake_complete"),
        F.col("opened_by").isNull().alias("begun_before"),
        (F.col("end_ns") - F.col("start_ns") + F.coalesce(open_for, F.lit(0))).alias("life_ns"),
    )
    flags = ["closed_by_client", "closed_by_listener", "handshake_complete", "begun_before"]
    counted = lives.groupBy(*keys).agg(
        F.count("*").alias("connections"), *(F.count_if(flag).alias(flag) for flag in flags), *quantiles("life_ns")
    )
    whole = F.sum("connections").over(Window.partitionBy("address", "port"))
    return (
        counted.withColumn("whole", whole)
        .orderBy(F.desc("whole"), "address", "port", F.desc("connections"), "close")
        .drop("whole")
    )


def handshake_times(connections: DataFrame, greetings: DataFrame, commands: DataFrame) -> DataFrame:
    """Return outcomes and durations of handshakes for each version and mechanism, most connections first.

    Columns: `version` in force (null: none was agreed), `transport`, `mechanism`; `connections`; number of handshakes
    that were `complete`, `failed`, `incomplete`, `unseen`; `timed`: number of complete handshakes that were captured
    from the SYN on. For these: `shortest_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `longest_ns` from the SYN to the last READY
    (1.0 and 2.0: to the later greeting); `greeted_p50_ns`, the median time from the SYN to the later greeting;
    `ready_p50_ns`, the median time from there to the last READY.
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
            *quantiles("took_ns"),
            F.percentile_approx("greeted_ns", 0.5).alias("greeted_p50_ns"),
            F.percentile_approx("ready_ns", 0.5).alias("ready_p50_ns"),
        )
        .orderBy(F.desc("connections"), *keys)
    )


def version_inventory(connections: DataFrame, greetings: DataFrame) -> DataFrame:
    """Return protocol version and security of each peer, oldest version first.

    Columns: `address`; `port` if it listens, null if it connects; `socket_type`; from its greetings `announced`
    version, `form`, `mechanism`; `version` in force (null: none was agreed), `transport`; `connections`; `first` and
    `last` greeting.
    """
    keys = ["address", "port", "socket_type", "announced", "form", "mechanism", "version", "transport"]
    sides = connections.select(
        "conn_id", "version", "transport", "socket_type_0", "socket_type_1", listening_side().alias("listener")
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
        .withColumn("socket_type", of_side(F.col("side"), "socket_type"))
    )
    return (
        each.groupBy(*keys)
        .agg(F.count("*").alias("connections"), *ends("ts_ns"))
        .select(*keys, "connections", *span())
        .orderBy("version", "announced", "address", "port", *keys[2:])
    )
