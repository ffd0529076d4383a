"""Problems: findings, diagnoses, and clients that reconnect again and again."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from zmtpscope.dissect.findings.endpoints import GROWTH, MINUTE, RECONNECTS
from zmtpscope.findings import SEVERITIES
from zmtpscope.findings.capturing import ATTEMPTS
from zmtpscope.spark.analytics.columns import listening_side, of_side, sums, timestamp

MEASURED_WAITS = 3
"""Waits compared at the start and at the end of a storm (ZMTP-CONN-10)."""


def findings_by_rule(findings: DataFrame) -> DataFrame:
    """Return the findings by rule and severity, worst first.

    Columns: `severity`, `id`; number of `findings`; `count`, with repeats; `connections`; `first` and `last`; and of
    the first finding `text`, `section`, `hint`, `conn_id`, `file`, `packet`.
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
        *sums("findings", "count"),
        F.count("conn_id").alias("connections"),
        F.max("last_ns").alias("last_ns"),
        F.min("shown").alias("shown"),
    )
    return rules.orderBy(_rank(), F.desc("findings"), "id").select(
        *keys,
        "findings",
        "count",
        "connections",
        timestamp(F.col("shown.ts_ns")).alias("first"),
        timestamp(F.col("last_ns")).alias("last"),
        *(f"shown.{name}" for name in shown),
    )


def causes(diagnoses: DataFrame) -> DataFrame:
    """Return the diagnoses of `zmtpscope check`, worst first.

    Columns: `severity`, `rule`; `text`, the cause, and `hint`, the fix; `certainty`, proven or likely; `count`: how
    often; `first` and `last`; `subject`; `because_of`: rule and subject of the diagnosis that caused this one, or null;
    `conn_id`, `file` and `packet` of the first evidence.
    """
    return diagnoses.orderBy(_rank(), "ts_ns", "rule", "subject").select(
        *("severity", "rule", "text", "hint", "certainty", "count"),
        timestamp(F.col("ts_ns")).alias("first"),
        timestamp(F.col("last_ns")).alias("last"),
        *("subject", "because_of", "conn_id", "file", "packet"),
    )


def _rank() -> Column:
    """Return a column to sort by severity, worst first."""
    return F.array_position(F.array(*(F.lit(severity) for severity in SEVERITIES)), F.col("severity"))


def reconnect_storms(connections: DataFrame, findings: DataFrame) -> DataFrame:
    """Return series of reconnects of a client to an endpoint, in the order of time.

    `outcome` is the fate of the connections. `closed`: more than five reconnects within a minute, each after the end of
    the previous connection, which failed or was closed by the other side, and without growing waits. This is the
    condition of ZMTP-CONN-10, which is reported once for a client and endpoint; here each series is a row. `refused`,
    `not answered`, `never established`: more than five attempts as in ZMTP-CONN-14, 15 and 16; their end is unknown,
    and only 20 pairs of client and endpoint are distinguished.

    Columns: `outcome`; `client` address; `address` and `port` of the endpoint; `start` of the first connection and
    `end` of the last; `connections`; `mean_wait_ns` from the end of a connection to the next one.
    """
    pair = ["client", "address", "port"]
    return _storms(connections, pair).union(_attempts(findings)).orderBy("start", "outcome", *pair)


def _storms(connections: DataFrame, pair: Sequence[str]) -> DataFrame:
    """Return the series of connections that failed or were closed by the other side."""
    listener = listening_side()
    failed = (F.col("closed_by") == listener) | (F.col("handshake") != "complete")
    has_ended = F.col("close").isin("fin", "rst") & F.col("closed_ns").isNotNull()
    lives = connections.where(F.col("opened_by").isNotNull() & has_ended & failed).select(
        of_side(1 - listener, "ip").alias("client"),
        of_side(listener, "ip").alias("address"),
        of_side(listener, "port").alias("port"),
        "start_ns",
        "closed_ns",
        "conn_id",
    )
    in_order = Window.partitionBy(*pair).orderBy("closed_ns", "start_ns", "conn_id")
    waits = lives.withColumn("wait_ns", F.col("start_ns") - F.lag("closed_ns").over(in_order))
    # connections of two clients, or of one that did not wait, are not reconnects
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
        for most in (RECONNECTS, RECONNECTS - 1)  # the second: including the connection before
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
        .where(F.col("connections") >= RECONNECTS)  # not one that failed long before
        .withColumn("waits_ns", F.col("end_ns") - F.col("start_ns") - F.col("lived_ns"))
        .select(
            F.lit("closed").alias("outcome"),
            *pair,
            timestamp(F.col("start_ns")).alias("start"),
            timestamp(F.col("end_ns")).alias("end"),
            "connections",
            F.expr("waits_ns div (connections - 1)").alias("mean_wait_ns"),
        )
    )


def _attempts(findings: DataFrame) -> DataFrame:
    """Return the series of connection attempts that failed, with the columns of `_storms`."""
    words = [F.lit(word) for id_and_outcome in ATTEMPTS.items() for word in id_and_outcome]
    is_of_one = F.contains("text", F.concat("src_ip", F.lit(" tried ")))  # else all attempts beyond 20 pairs, in one
    return findings.where(F.col("id").isin(*ATTEMPTS) & (F.col("count") > RECONNECTS)).select(
        F.create_map(*words)[F.col("id")].alias("outcome"),
        F.when(is_of_one, F.col("src_ip")).alias("client"),
        F.when(is_of_one, F.col("dst_ip")).alias("address"),
        F.when(is_of_one, F.col("dst_port")).alias("port"),
        timestamp(F.col("ts_ns")).alias("start"),
        F.lit(None).cast("timestamp").alias("end"),
        F.col("count").alias("connections"),
        F.lit(None).cast("bigint").alias("mean_wait_ns"),
    )
