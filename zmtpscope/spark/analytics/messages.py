"""Message counts, sizes, rates and payload types."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from zmtpscope.records import SECOND
from zmtpscope.spark.analytics.columns import PERCENTILES, ends, span, sums, timestamp

LONGEST_SILENCE = 100_000
"""Consecutive rows for intervals without messages. A longer silence has only its first and last interval as rows,
because one wrong clock may put thirty years into a capture."""


def throughput(messages: DataFrame, interval: float = 1.0) -> DataFrame:
    """Return the traffic in each interval from the first message to the last, including intervals without messages.

    `interval` is in seconds; intervals begin at whole multiples of it since 1970. A message counts in the interval of
    its last octet. Columns: `start`, `messages`, `octets`, `messages_per_second`, `octets_per_second`. Of a silence
    longer than 100,000 intervals, only the first and the last interval are rows.
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
        timestamp(F.col("at") * width).alias("start"),
        "messages",
        "octets",
        (F.col("messages") / seconds).alias("messages_per_second"),
        (F.col("octets") / seconds).alias("octets_per_second"),
    )


def size_distribution(messages: DataFrame) -> DataFrame:
    """Return the distribution of message sizes for each sending socket type, most octets first.

    Columns: `socket_type`; `messages`, `octets`; `smallest`, `p50`, `p90`, `p99`, `largest` and `mean` size [octets];
    `histogram`: an array of `{low, high, messages}` for sizes from `low` (0 or a power of two) to `high` (the last size
    before the next power of two), without empty buckets.
    """
    sizes = _distinct_sizes(messages, ["socket_type"])
    return _with_sizes(sizes, ["socket_type"], histogram=True)


def topic_sizes(messages: DataFrame) -> DataFrame:
    """Return message sizes by topic, most octets first.

    Columns: `socket_type` of the sender; `topic`, null if there is none or it is unknown; `messages`, `octets`;
    `smallest`, `p50`, `p90`, `p99`, `largest` and `mean` size [octets].
    """
    keys = ["socket_type", "topic"]
    return _with_sizes(_distinct_sizes(messages, keys), keys, histogram=False)


def topic_rates(messages: DataFrame, interval: float = 1.0) -> DataFrame:
    """Return message rates by topic, most messages first. A message to three subscribers counts three times, as on the
    wire.

    Columns: `socket_type` of the sender; `topic`, null if there is none or it is unknown; `messages`, `octets`,
    `connections` that carried it; `first` and `last` message; `messages_per_second` between these two, null if their
    times are equal; `busiest_start` and `busiest_messages` of the interval (of `interval` seconds) with most messages.
    """
    width, keys = _nanoseconds(interval), ["socket_type", "topic"]
    each = (
        _data(messages)
        .groupBy(*keys, "conn_id", "side", _bucket(width).alias("bucket"))
        .agg(*_sums(), *ends("ended_ns"))
    )
    place = F.row_number().over(Window.partitionBy(*keys, "conn_id", "side").orderBy("bucket"))
    in_intervals = (
        each.withColumn("is_first", (place == 1).cast("bigint"))
        .groupBy(*keys, "bucket")
        .agg(
            *sums("messages", "octets"),
            F.sum("is_first").alias("connections"),
            *ends("first_ns", "last_ns"),
        )
    )
    busiest = F.max(F.struct("messages", (-F.col("bucket")).alias("before")))  # the first of equal ones
    rates = in_intervals.groupBy(*keys).agg(
        *sums("messages", "octets", "connections"),
        *ends("first_ns", "last_ns"),
        busiest.alias("busiest"),
    )
    took = (F.col("last_ns") - F.col("first_ns")) / SECOND
    return rates.select(
        *keys,
        "messages",
        "octets",
        "connections",
        *span(),
        F.when(took > 0, (F.col("messages") - 1) / took).alias("messages_per_second"),
        timestamp(-F.col("busiest.before") * width).alias("busiest_start"),
        F.col("busiest.messages").alias("busiest_messages"),
    ).orderBy(F.desc("messages"), *keys)


def payload_types(messages: DataFrame) -> DataFrame:
    """Return message counts by payload dissector, most messages first.

    Columns: `kind` (data, or encrypted: it was not decrypted) and `protocol` (null: no dissector claims it);
    `messages`, `octets`, `connections`; `first` and `last` message.
    """
    keys = ["kind", "protocol"]
    each = (
        _data(messages, "kind", F.col("payload.protocol").alias("protocol"))
        .groupBy(*keys, "conn_id")
        .agg(*_sums(), *ends("ended_ns"))
    )
    types = each.groupBy(*keys).agg(
        *sums("messages", "octets"),
        F.count("*").alias("connections"),
        *ends("first_ns", "last_ns"),
    )
    return types.select(*keys, "messages", "octets", "connections", *span()).orderBy(F.desc("messages"), *keys)


def _data(messages: DataFrame, *more: Column | str) -> DataFrame:
    """Return the messages without subscriptions, with the columns that answers need: no bodies, but `ended_ns`,
    `octets` and `more`."""
    # a message may announce far more octets than exist, or than a number can hold
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
    return _data(messages).groupBy(*keys, "octets").agg(F.count("*").alias("messages"))


def _with_sizes(sizes: DataFrame, keys: Sequence[str], *, histogram: bool) -> DataFrame:
    """Add percentiles, and with `histogram` the histogram, to a table of sizes with their counts by `keys`.

    Each value is read only once.
    """
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
            *sums("messages", "octets"),
            F.min("smallest").alias("smallest"),
            *(F.min(name).alias(name) for name in PERCENTILES),
            F.max("largest").alias("largest"),
            (F.sum("octets") / F.sum("messages")).alias("mean"),
            *with_histogram,
        )
        .orderBy(F.desc("octets"), *keys)
    )


def _at_rank(percent: int) -> Column:
    """Return a column with the size at this percentile, or null if it is in an earlier bucket."""
    return F.min(F.when(F.col("upto") * 100 >= F.col("whole") * percent, F.col("octets")))


def _nanoseconds(interval: float) -> int:
    """Convert seconds to nanoseconds. Raises `ValueError` for less than a microsecond."""
    width = round(interval * SECOND)
    if width < 1000:
        raise ValueError(f"an interval of {interval} s is too short; use 0.000001 or more")
    return width


def _bucket(width: int) -> Column:
    """Return a column with the number of the interval of a message, counted since 1970. `width` is in nanoseconds."""
    return F.expr(f"ended_ns div {width}")  # / would return a float
