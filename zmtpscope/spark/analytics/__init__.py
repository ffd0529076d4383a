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

from zmtpscope.spark.analytics.connections import (
    connection_lifetimes,
    handshake_times,
    top_talkers,
    version_inventory,
)
from zmtpscope.spark.analytics.derived import (
    delivery_gaps,
    heartbeat_rtt,
    request_latency,
    slow_consumers,
    subscription_churn,
    topic_fanout,
)
from zmtpscope.spark.analytics.findings import causes, findings_by_rule, reconnect_storms
from zmtpscope.spark.analytics.messages import (
    payload_types,
    size_distribution,
    throughput,
    topic_rates,
    topic_sizes,
)

__all__ = [
    "causes",
    "connection_lifetimes",
    "delivery_gaps",
    "findings_by_rule",
    "handshake_times",
    "heartbeat_rtt",
    "payload_types",
    "reconnect_storms",
    "request_latency",
    "size_distribution",
    "slow_consumers",
    "subscription_churn",
    "throughput",
    "top_talkers",
    "topic_fanout",
    "topic_rates",
    "topic_sizes",
    "version_inventory",
]
