"""Which tables each answer is made of, and how wide the intervals of a capture are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from zmtpscope.records import SECOND
from zmtpscope.spark import analytics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_INTERVALS = 240
"""More are no better to look at."""

INTERVALS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200),
    *(86_400 * days for days in (1, 2, 7, 30, 365)),
)
"""Seconds."""

TABLES = ("messages", "commands", "greetings", "connections", "findings")
"""What is asked."""


def answers(tables: Mapping[str, DataFrame], interval: float) -> dict[str, DataFrame]:
    """Every answer by its name, not run yet; rates are counted in intervals of so many seconds."""
    messages, commands, greetings, connections, findings = (tables[name] for name in TABLES)
    return {
        "findings_by_rule": analytics.findings_by_rule(findings),
        "reconnect_storms": analytics.reconnect_storms(connections, findings),
        "throughput": analytics.throughput(messages, interval),
        "size_distribution": analytics.size_distribution(messages),
        "top_talkers": analytics.top_talkers(connections),
        "topic_rates": analytics.topic_rates(messages, interval),
        "topic_sizes": analytics.topic_sizes(messages),
        "payload_types": analytics.payload_types(messages),
        "connection_lifetimes": analytics.connection_lifetimes(connections),
        "handshake_times": analytics.handshake_times(connections, greetings, commands),
        "version_inventory": analytics.version_inventory(connections, greetings),
    }


def interval_for(connections: DataFrame) -> float:
    """A width of intervals, in seconds, of which a picture holds as many as there are. Runs a small job."""
    took = connections.agg(F.max("end_ns") - F.min("start_ns")).first()
    seconds = 0.0 if took is None or took[0] is None else took[0] / SECOND
    return next((width for width in INTERVALS if width * MOST_INTERVALS >= seconds), INTERVALS[-1])
