"""What answers have in common: expressions over columns of records."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from zmtpscope.dissect.identity import FIRST_EPHEMERAL

PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}


def listening_side() -> Column:
    """The side that was connected to; of connections whose begin was not captured the one with a port that systems do
    not give to those who connect, else side 1."""
    by_ports = (F.col("port_0") < FIRST_EPHEMERAL) & (F.col("port_1") >= FIRST_EPHEMERAL)
    return F.coalesce(1 - F.col("opened_by"), F.when(by_ports, F.lit(0)).otherwise(F.lit(1)))


def of_side(side: Column, name: str) -> Column:
    """`ip` of side 0 is in `ip_0`, and so on."""
    return F.when(side == 0, F.col(f"{name}_0")).otherwise(F.col(f"{name}_1"))


def quantiles(name: str) -> list[Column]:
    """Smallest, percentiles and largest of a duration."""
    return [
        F.min(name).alias("shortest_ns"),
        *(F.percentile_approx(name, percent / 100).alias(f"{which}_ns") for which, percent in PERCENTILES.items()),
        F.max(name).alias("longest_ns"),
    ]


def timestamp(nanoseconds: Column) -> Column:
    return F.timestamp_micros(F.call_function("div", nanoseconds, F.lit(1000)))


def span(first: str, last: str) -> tuple[Column, Column]:
    return timestamp(F.col(first)).alias("first"), timestamp(F.col(last)).alias("last")
