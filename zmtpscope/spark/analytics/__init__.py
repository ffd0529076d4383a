"""Analytics: questions of operators about captures, each a function from tables to a table.

Functions take DataFrames of the records in docs/records.md, from `zmtpscope.spark.read`, or from Parquet or JSON lines
that `zmtpscope export` wrote. They return lazy DataFrames, without running a job. Only the columns that an answer needs
are read, never bodies. To ask about a part, filter the tables first: `throughput(messages.where("topic like
'prices.%'"))`.

Columns that several answers share:

- `messages`, `octets`: number of messages, and octets in their frames without headers. Subscriptions and cancellations
  do not count as messages. Of encrypted or incomplete messages, the captured octets count, headers included.
- `start`, `end`, `first`, `last`: times as TIMESTAMP, in whole microseconds. Names that end in `_ns` are durations in
  nanoseconds.
- Percentiles are values that occurred (nearest rank). Percentiles of durations are exact up to 10,000 values, and above
  that within a ten thousandth of the ranks.
- Null means unknown, and has a row of its own.
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
