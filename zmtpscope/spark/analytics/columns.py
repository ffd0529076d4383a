"""Expressions over columns of records, shared by several answers."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from zmtpscope.dissect.identity import FIRST_EPHEMERAL

PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}


def listening_side() -> Column:
    """Return the side that accepted the connection. If the start was not captured: the side whose port is not
    ephemeral, otherwise side 1."""
    by_ports = (F.col("port_0") < FIRST_EPHEMERAL) & (F.col("port_1") >= FIRST_EPHEMERAL)
    return F.coalesce(1 - F.col("opened_by"), F.when(by_ports, F.lit(0)).otherwise(F.lit(1)))


def of_side(side: Column, name: str) -> Column:
    """Return the name of a column for one side: `ip_0` for the name `ip` and side 0."""
    return F.when(side == 0, F.col(f"{name}_0")).otherwise(F.col(f"{name}_1"))


def quantiles(name: str) -> list[Column]:
    """Return columns for an aggregation: minimum, percentiles and maximum of the duration `name`."""
    return [
        F.min(name).alias("shortest_ns"),
        *(F.percentile_approx(name, percent / 100).alias(f"{which}_ns") for which, percent in PERCENTILES.items()),
        F.max(name).alias("longest_ns"),
    ]


def timestamp(nanoseconds: Column) -> Column:
    return F.timestamp_micros(F.call_function("div", nanoseconds, F.lit(1000)))


def sums(*names: str) -> list[Column]:
    """Return columns for an aggregation: the sum of each of these columns, under the same name."""
    return [F.sum(name).alias(name) for name in names]


def ends(first: str, last: str | None = None) -> tuple[Column, Column]:
    """Return columns for an aggregation: the earliest time as `first_ns` and the latest as `last_ns`, of one column or
    of two."""
    return F.min(first).alias("first_ns"), F.max(last or first).alias("last_ns")


def span() -> tuple[Column, Column]:
    """Return columns that convert `first_ns` and `last_ns` to timestamps, `first` and `last`."""
    return timestamp(F.col("first_ns")).alias("first"), timestamp(F.col("last_ns")).alias("last")
