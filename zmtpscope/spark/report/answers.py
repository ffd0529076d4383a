"""Selects the tables of each answer, and the interval width for a capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from zmtpscope.records import SECOND
from zmtpscope.spark import analytics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_INTERVALS = 240
"""Intervals of a plot; more do not improve it."""

INTERVALS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200),
    *(86_400 * days for days in (1, 2, 7, 30, 365)),
)
"""Lengths of intervals in seconds."""

TABLES = (
    *("messages", "commands", "greetings", "connections", "findings", "stalls"),
    *("diagnoses", "requests", "heartbeats", "subscriptions", "topics", "deliveries"),
)

LONGEST_PAUSE = 60 * SECOND
"""Longest pause between two files of one period, unless the period itself is longer."""

Period = tuple[int, int]
"""Start and end, nanoseconds since 1970."""


def answers(tables: Mapping[str, DataFrame], interval: float) -> dict[str, DataFrame]:
    """Return the tables of the report by name, as lazy DataFrames. `interval` (s) is the width of intervals for rates.

    The parameters of an analysis function are the names of the tables that it needs.
    """
    given = {**tables, "interval": interval}
    functions = {name: getattr(analytics, name) for name in analytics.__all__}
    return {
        name: analyse(*(given[parameter] for parameter in signature(analyse).parameters))
        for name, analyse in functions.items()
    }


def periods_of(connections: DataFrame) -> list[Period]:
    """Return the time ranges that the captures cover, in order; consecutive files are one range. Runs a small job."""
    files = connections.groupBy("file").agg(F.min("start_ns").alias("start"), F.max("end_ns").alias("end"))
    found: list[Period] = []
    for start, end in sorted((row["start"], row["end"]) for row in files.collect()):
        if found and start - found[-1][1] <= max(LONGEST_PAUSE, found[-1][1] - found[-1][0]):
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def interval_for(periods: Sequence[Period]) -> float:
    """Return the width of intervals (s) with which a plot of these time ranges has as many intervals as allowed."""
    seconds = sum(end - start for start, end in periods) / SECOND
    return next((width for width in INTERVALS if width * MAX_INTERVALS >= seconds), INTERVALS[-1])
