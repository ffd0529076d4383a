"""Analytics of derived records: durations of requests and heartbeats, subscriptions, and missed messages.

The tables are from `zmtpscope.spark.read` with these record names, or from `zmtpscope export --derived`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from zmtpscope.spark.analytics.columns import ends, quantiles, span, sums

ASKED = ["address", "port"]
"""Columns of the socket that receives requests."""


def _of_asked() -> list[Column]:
    return [F.col("dst_ip").alias("address"), F.col("dst_port").alias("port")]


def _outcomes(*outcomes: str) -> list[Column]:
    return [F.count_if(F.col("outcome") == outcome).alias(outcome) for outcome in outcomes]


def request_latency(requests: DataFrame) -> DataFrame:
    """Return the latency of replies for each replying socket, longest wait first.

    Columns: `address` and `port` of the replying socket; `socket_type` of the requesting and `peer_socket_type` of the
    replying socket; `requests`; number of requests that were `answered`, `late`, `open` at the end of the capture,
    `unanswered`, `unknown` because octets are missing; `unasked`: replies without a request. For requests with a reply:
    `shortest_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `longest_ns`. For requests without one: `longest_wait_ns`.
    """
    keys = [*ASKED, "socket_type", "peer_socket_type"]
    waits = F.when(F.col("outcome").isin("open", "unanswered"), F.col("waited_ns"))
    asked = requests.select(*_of_asked(), *keys[2:], "outcome", "latency_ns", waits.alias("waits_ns"))
    return (
        asked.groupBy(*keys)
        .agg(
            F.count_if(F.col("outcome") != "unasked").alias("requests"),
            *_outcomes("answered", "late", "open", "unanswered", "unknown", "unasked"),
            *quantiles("latency_ns"),
            F.max("waits_ns").alias("longest_wait_ns"),
        )
        .orderBy(F.desc_nulls_last("longest_wait_ns"), F.desc_nulls_last("p99_ns"), *keys)
    )


def heartbeat_rtt(heartbeats: DataFrame) -> DataFrame:
    """Return the round-trip time of PING and PONG for each pair of peers, most unanswered PINGs first.

    Columns: `asker`, the peer that sends PINGs; `address` and `port` of the other peer; `pings`; number of PINGs that
    were `answered`, `open` at the end of the capture, `unanswered`, `unknown` because octets are missing;
    `shortest_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `longest_ns` from PING to PONG; `first` and `last` PING.
    """
    keys = ["asker", *ASKED]
    pings = heartbeats.select(F.col("src_ip").alias("asker"), *_of_asked(), "outcome", "rtt_ns", "ts_ns")
    return (
        pings.groupBy(*keys)
        .agg(
            F.count("*").alias("pings"),
            *_outcomes("answered", "open", "unanswered", "unknown"),
            *quantiles("rtt_ns"),
            *ends("ts_ns"),
        )
        .withColumns(dict(zip(("first", "last"), span(), strict=True)))
        .drop("first_ns", "last_ns")
        .orderBy(F.desc("unanswered"), F.desc("open"), *keys)
    )


def subscription_churn(subscriptions: DataFrame) -> DataFrame:
    """Return how often each subscriber subscribes and cancels, most subscriptions first.

    Columns: `subscriber`, its address; `address` and `port` of the publisher; `subscriptions`; number of different
    `topics`; number of subscriptions that were `cancelled`, ended with the connection (`closed`) or are `in_force` at
    the end of the capture; `again`: subscriptions to a topic after the first one; `without_messages`: subscriptions
    that no message on the connection matched; `shortest_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `longest_ns`: durations of
    ended subscriptions.
    """
    keys = ["subscriber", *ASKED]
    made = subscriptions.select(
        F.col("src_ip").alias("subscriber"),
        *_of_asked(),
        "topic",
        "ended_by",
        "messages",
        (F.col("until_ns") - F.col("ts_ns")).alias("held_ns"),
    )
    return (
        made.groupBy(*keys)
        .agg(
            F.count("*").alias("subscriptions"),
            F.count_distinct("topic").alias("topics"),
            F.count_if(F.col("ended_by") == "cancel").alias("cancelled"),
            F.count_if(F.col("ended_by") == "close").alias("closed"),
            F.count_if(F.col("ended_by").isNull()).alias("in_force"),
            F.count_if(F.col("messages") == 0).alias("without_messages"),
            *quantiles("held_ns"),
        )
        .withColumn("again", F.col("subscriptions") - F.col("topics"))
        .orderBy(F.desc("subscriptions"), *keys)
    )


def topic_fanout(topics: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Return the number of subscribers of each topic, and the resulting traffic, most sent messages first.

    Columns: `publisher`, `topic`; `messages`: a lower bound of the messages published; `subscribers`; `sent`: messages
    on all connections together; `octets` of each message counted once; `first` and `last` message.
    """
    keys = ["publisher", "topic"]
    sent = deliveries.groupBy(*keys).agg(F.sum("messages").alias("sent"))
    columns: list[Column | str] = [
        *keys,
        "messages",
        "subscribers",
        "sent",
        F.col("bytes").alias("octets"),
        *span(),
    ]
    return topics.join(sent, keys, "left").select(*columns).orderBy(F.desc("sent"), *keys)


def delivery_gaps(deliveries: DataFrame) -> DataFrame:
    """Return subscribers that received fewer messages of a topic than another subscriber of the same publisher, most
    missed messages first.

    Columns: `publisher`, `topic`, `subscriber`; `messages` that it received; lower bounds of the messages that it
    `missed_early`, before its subscription, and `missed` while it was subscribed; number of `siblings` (other
    subscribers compared); `conn_id`; `first` and `last` message received.
    """
    keys = ["publisher", "topic", "subscriber"]
    less = deliveries.where((F.col("missed_early") > 0) | (F.col("missed") > 0))
    columns: list[Column | str] = [
        *keys,
        "messages",
        "missed_early",
        "missed",
        "siblings",
        "conn_id",
        *span(),
    ]
    missed = F.coalesce("missed_early", F.lit(0)) + F.coalesce("missed", F.lit(0))
    return less.orderBy(F.desc(missed), *keys).select(*columns)


def slow_consumers(stalls: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Return receivers whose receive window was closed, and the effects, slowest first.

    Columns: `address` and `port` of the receiver; `conn_id`; `stalls`: how often its window was closed; `stalled_ns` in
    total, `longest_ns`; `window_probes`; `messages` that it received as a subscriber, and a lower bound of those that
    it `missed` compared with other subscribers (null: no subscriber); `first` and `last` time that its window closed.
    """
    keys = [*ASKED, "conn_id"]
    closed = (
        stalls.select(*_of_asked(), "conn_id", "count", "duration_ns", "longest_ns", "window_probes", "ts_ns")
        .groupBy(*keys)
        .agg(
            F.sum("count").alias("stalls"),
            F.sum("duration_ns").alias("stalled_ns"),
            F.max("longest_ns").alias("longest_ns"),
            F.sum("window_probes").alias("window_probes"),
            *ends("ts_ns"),
        )
    )
    got = deliveries.groupBy("conn_id").agg(*sums("messages", "missed"))
    counts = ["stalls", "stalled_ns", "longest_ns", "window_probes", "messages", "missed"]
    return closed.join(got, "conn_id", "left").select(*keys, *counts, *span()).orderBy(F.desc("stalled_ns"), *keys)
