from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import named_captures
from zmtpscope.cli.export import DIRECTORY, write_tables
from zmtpscope.cli.parameters import READ_FILES, command, flag, options
from zmtpscope.cli.terminal import already_exists, missing_extra, notify
from zmtpscope.option_texts import Body
from zmtpscope.records import PLURALS, RECORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zmtpscope.cli.captures import Run

LOG = Path(__file__).with_name("spark-log.properties")

SESSION = {
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.shuffle.partitions": "1",
}
"""Spark settings for a report on one machine: short run, small results, no log, and timestamps that all Parquet
readers support."""


@command(short_help="Write an HTML report about captures, with Spark.")
@options(*READ_FILES, DIRECTORY)
@flag("--force", help="Overwrite an existing report.")
def analyze(**given: Any) -> int:
    """Write a report about capture FILEs to DIR: problems, message counts by peer and topic, and how connections opened
    and closed. DIR gets index.html, a page without scripts or network access, and a Parquet file for each of its
    tables. The files appear only when all of them are complete.

    This command runs on Spark and needs the extra `report`: pip install 'zmtpscope[report]'."""
    paths, directory = named_captures(given), given["directory"]
    try:
        from zmtpscope.export.files import check_replaceable
        from zmtpscope.spark.report.answers import TABLES, answers, interval_for, periods_of
        from zmtpscope.spark.report.page import FILES, About, workspace, write_report
    except ImportError as error:
        raise missing_extra("analyze", "report", error) from None
    try:
        check_replaceable(directory, (directory / name for name in FILES), force=given["force"])
    except FileExistsError as error:
        raise already_exists(error.filename) from None
    with workspace(directory) as work:
        run = _write_tables(work, given, TABLES)
        with _spark() as spark:
            tables = {name: spark.read.parquet(str(work / f"{name}.parquet")) for name in TABLES}
            periods = periods_of(tables["connections"])
            interval = interval_for(periods)
            about = About(paths, interval, [str(problem) for problem in run.captures.problems], periods)
            written = write_report(answers(tables, interval), directory, about, work)
    notify(f"zmtpscope: {written[0]}, and {len(written) - 1} tables beside it")
    return run.exit_code()


def _write_tables(directory: Path, given: dict[str, Any], names: Sequence[str]) -> Run:
    """Write all tables as Parquet, without bodies; return the finished run, which knows the problems of the
    captures."""
    records = [record for record, plural in PLURALS.items() if plural in names]
    columns = {
        record: tuple(field.name for field in RECORDS[record].fields if field.name != "bodies") for record in records
    }
    fixed = {"format_": "parquet", "body": Body("none", None), "show_secrets": False, "force": False}
    run, _ = write_tables({**given, **fixed, "directory": directory}, columns)
    return run


@contextmanager
def _spark() -> Iterator[SparkSession]:
    """Return a Spark session in a context, which closes it at the end unless it existed before."""
    from pyspark.sql import SparkSession

    from zmtpscope.spark import session
    from zmtpscope.spark.java import JavaError

    is_ours = SparkSession.getActiveSession() is None
    try:
        spark = session(SESSION)
    except JavaError as error:
        raise click.ClickException(str(error)) from None
    try:
        yield spark
    finally:
        if is_ours:
            spark.stop()
