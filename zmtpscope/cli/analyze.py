"""`zmtpscope analyze`: captures in, a report out: one page and its tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import (
    NoCapture,
    analyser_options,
    exit_code,
    named_captures,
    say_if_nothing_was_found,
    say_what_cannot_be_used,
    say_what_stayed_closed,
)
from zmtpscope.cli.export import BLOCK_SIZE
from zmtpscope.cli.key_files import given_keys, say_problems
from zmtpscope.cli.messages import is_seen, say
from zmtpscope.cli.parameters import FILES, FORCED, KEYS, MORE_FILES, PACKETS, PAYLOAD, PAYLOAD_FILES
from zmtpscope.option_texts import Body
from zmtpscope.records import RECORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zmtpscope.capture import Captures

LOG = Path(__file__).with_name("spark-log.properties")

SESSION = {
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.shuffle.partitions": "1",
}
"""What a report of one machine wants of Spark: a short life, small answers, silence, and times that all readers of
Parquet know."""


@click.command(short_help="Report what is in captures and what is wrong: a page with plots, and tables.")
@FILES
@MORE_FILES
@click.option(
    "-o",
    "directory",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Write into DIR, which is made when missing.",
)
@PACKETS
@FORCED
@PAYLOAD
@PAYLOAD_FILES
@KEYS
@click.option("--force", is_flag=True, help="Overwrite a report that is there already.")
def analyze(**given: Any) -> int:
    """Report what happened in capture FILEs (as `zmtpscope read` finds it), over all connections: what is wrong, who
    said how much about what, how connections came about and ended. DIR gets index.html, one page that needs neither a
    network nor scripts, and a Parquet file for each table of it; they are complete or not there.

    It runs on Spark and needs the extra report: pip install 'zmtpscope[report]'."""
    paths, directory = named_captures(given), given["directory"]
    try:
        from zmtpscope.spark.report.answers import answers, interval_for
        from zmtpscope.spark.report.page import About
        from zmtpscope.spark.report.writing import check_directory, workspace, write_report
    except ImportError as error:
        missing = (error.name or "a library").partition(".")[0]
        raise click.ClickException(
            f"analyze needs {missing}, of the extra report: pip install 'zmtpscope[report]'"
        ) from None
    try:
        check_directory(directory, force=given["force"])
    except FileExistsError as error:
        raise click.UsageError(f"{error.filename} is there already; --force overwrites it") from None
    with workspace(directory) as work:
        captures = _write_tables(paths, work, given)
        with _spark() as spark:
            tables = {name: spark.read.parquet(str(work / f"{name}.parquet")) for name in TABLES}
            interval = interval_for(tables["connections"])
            about = About(paths, interval, [str(problem) for problem in captures.problems])
            written = write_report(answers(tables, interval), directory, about, work)
    say(f"zmtpscope: {written[0]}, and {len(written) - 1} tables beside it")
    return exit_code(captures)


TABLES = ("messages", "commands", "greetings", "connections", "findings")


def _write_tables(paths: list[str], directory: Path, given: dict[str, Any]) -> Captures:
    """The records of captures as Parquet in a directory, without bodies; the captures, read to their end."""
    # imported here, so that help, usage errors and the other commands stay quick
    from zmtpscope.capture import CaptureError, open_captures
    from zmtpscope.cli.progress import Progress
    from zmtpscope.dissect import Analyser
    from zmtpscope.export.tables import Tables

    keys = given_keys(given)
    said = say_problems(keys)
    options = analyser_options({**given, "body": Body("none", None), "show_secrets": False}, keys=keys)
    records = [name.removesuffix("s") for name in TABLES]
    columns = {
        record: tuple(field.name for field in RECORDS[record].fields if field.name != "bodies") for record in records
    }
    try:
        captures = open_captures(paths, packet_limit=given["packets"], block_size=BLOCK_SIZE)
        analyser = Analyser(options)
        tables = Tables(directory, "parquet", columns, options, force=False)
        with tables, Progress(captures.statistics, paths, is_seen()):
            for batch in analyser.run(captures):
                tables.add(batch)
            tables.commit()
    except CaptureError as error:
        raise NoCapture(str(error)) from error
    say_if_nothing_was_found(analyser.summary, captures)
    say_what_cannot_be_used(options)
    say_what_stayed_closed(analyser.summary, keys)
    say_problems(keys, said)
    return captures


@contextmanager
def _spark() -> Iterator[SparkSession]:
    """A session that ends with the block, unless somebody else made it."""
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
