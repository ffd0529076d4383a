"""`zmtpscope.spark.ingest`: workers write all records of captures as Parquet tables.

Each attempt of a task writes its parts of the tables under unique names, in a folder beside the tables. At the end the
driver removes the parts of other attempts, and moves the rest into the tables (`appending.py`).
"""

from __future__ import annotations

import pickle
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyarrow.fs import FileSelector, FileSystem, FileType
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.functions import expr

from zmtpscope.capture import CaptureError
from zmtpscope.dissect import Batch, Options
from zmtpscope.export.arrow import arrow_batch, held_schema
from zmtpscope.export.parquet import ParquetRows
from zmtpscope.export.tables import by_type
from zmtpscope.filter import Filter
from zmtpscope.records import DERIVED, PLURALS, RECORDS
from zmtpscope.spark.appending import NOTES, STAGING, captures_now, finish, new_ones, note, noted, put_in_place
from zmtpscope.spark.chunks import DDL, ORDER, Chunk, Kind, batch_of, chunks_of
from zmtpscope.spark.comparing import compare
from zmtpscope.spark.reading import Paths, find_captures
from zmtpscope.spark.rows import selected
from zmtpscope.spark.scan import records_apart
from zmtpscope.spark.schemas import TIME, column_names, schema
from zmtpscope.spark.sending import numbers_in, on_workers
from zmtpscope.spark.sessions import register
from zmtpscope.spark.settings import NUMBERS_OF_CONNECTIONS, ReadSettings, SettingsError, one_sentence
from zmtpscope.spark.shuffle import AnalyserStage, Run
from zmtpscope.spark.storage import check_on_worker, locate

TABLES = tuple(record for record in RECORDS if record != "frame" and record not in DERIVED)
"""Frames are left out, because there are at least as many as messages, and derived records, because they need all
connections."""
MODES = ("error", "overwrite", "append")

WRITTEN = pa.schema([("record", pa.string()), ("name", pa.string()), ("rows", pa.int64()), ("octets", pa.int64())])
WRITTEN_DDL = "record string, name string, rows long, octets long"


class Written(NamedTuple):
    """What `ingest` wrote for a table: path, number of rows, and octets of all its files."""

    path: str
    rows: int
    octets: int


def ingest(
    spark: SparkSession,
    paths: Paths,
    out: str | Path,
    *,
    mode: str = "error",
    **options: Any,
) -> dict[str, Written]:
    """Write all records of capture files, globs and directories into the folder `out`, which all workers can access.

    Each record type except frames becomes a Parquet table (`messages.parquet`, a folder with a file per partition).
    Returns the tables by name. Options are those of `read` except `record` and `columns`. `mode` "overwrite" replaces
    existing tables. "append" adds captures that the tables do not contain yet, each once, even after a driver was
    killed. Only one `ingest` at a time may write into a folder. Raises `FileExistsError`, `SettingsError`, and the
    errors of `read`.
    """
    for name in ("record", "columns"):
        if name in options:
            raise SettingsError(f"option {name}: ingest writes all records with all columns")
    if mode not in MODES:
        raise SettingsError(f"mode: {mode!r} is not error, overwrite or append")
    settings = ReadSettings.parse(options)
    register(spark)
    found = find_captures(paths, settings.lookup)
    found.warn()
    files = found.files
    filesystem, root = locate(out)
    finish(filesystem, root)
    known = noted(filesystem, root) if mode == "append" else []
    if mode == "error" or (mode == "append" and not known):
        _refuse_to_overwrite(filesystem, root)
    captures = new_ones(captures_now(files), known)
    if not captures:
        return {PLURALS[record]: _written(out, record, []) for record in TABLES}
    run = Run.of(spark, {capture.path: files[capture.path] for capture in captures}, settings)
    staging = f"{root}/{STAGING}{secrets.token_hex(8)}"
    for record in TABLES:
        filesystem.create_dir(f"{staging}/{_folder(record)}")
    try:
        stage = WriterStage(run, str(out), staging)
        written_parts = (
            run.numbers(spark).mapInArrow(on_workers(stage.write_files), DDL)
            if settings.per_file
            else run.chunks(spark).mapInArrow(on_workers(stage.write), DDL)
        )
        reported = written_parts.repartitionById(1, "partition")
        parts = reported.sortWithinPartitions(*ORDER).mapInArrow(on_workers(stage.compare), WRITTEN_DDL).collect()
        written = {record: [part for part in parts if part.record == record] for record in TABLES}
        for record, some in written.items():
            _remove_all_but({part.name for part in some}, filesystem, f"{staging}/{_folder(record)}")
        if mode == "error":
            _refuse_to_overwrite(filesystem, root)
        if mode == "overwrite":
            _remove_tables(filesystem, root)
        note(filesystem, root, staging, captures)
    except BaseException:
        with suppress(OSError):
            filesystem.delete_dir(staging)
        raise
    put_in_place(filesystem, root, staging)
    return {PLURALS[record]: _written(out, record, some) for record, some in written.items()}


def _written(out: str | Path, record: str, parts: Sequence[Any]) -> Written:
    place = f"{str(out).rstrip('/')}/{_folder(record)}"
    return Written(place, sum(part.rows for part in parts), sum(part.octets for part in parts))


def tables(spark: SparkSession, out: str | Path) -> dict[str, DataFrame]:
    """Return the tables in a folder written by `ingest` or `zmtpscope export` (Parquet or JSON lines), by name, with
    the columns of `read`.

    Raises `FileNotFoundError` if there are none.
    """
    filesystem, root = locate(out)
    found: dict[str, DataFrame] = {}
    for record in RECORDS:
        for suffix in ("parquet", "jsonl"):
            name = f"{PLURALS[record]}.{suffix}"
            info = filesystem.get_file_info(f"{root}/{name}")
            if info.type == FileType.NotFound:
                continue
            columns = None
            if suffix == "parquet" and info.is_file:  # from an export with selected columns
                with filesystem.open_input_file(info.path) as file:
                    columns = pq.read_schema(file).names
            reader = spark.read.schema(schema(record, columns))
            # the default file system may be another one, and Hadoop calls s3 s3a
            place = f"file:{root}" if filesystem.type_name == "local" else re.sub("(?i)^s3n?:", "s3a:", str(out))
            found[PLURALS[record]] = _with_time(record, _opened(reader, f"{place.rstrip('/')}/{name}"))
            break
    if not found:
        raise FileNotFoundError(
            f"{out}: contains no tables; zmtpscope.spark.ingest and zmtpscope export --format parquet write them"
        )
    return found


def _opened(reader: DataFrameReader, place: str) -> DataFrame:
    try:
        return reader.parquet(place) if place.endswith(".parquet") else reader.json(place)
    except Py4JJavaError as error:
        if "ClassNotFoundException" not in str(error):
            raise
        hint = "start Spark with one: --packages org.apache.hadoop:hadoop-aws:VERSION for s3a"
        raise CaptureError(place, "Spark has no connector for this file system", hint=hint) from None


def _with_time(record: str, frame: DataFrame) -> DataFrame:
    """Add the column `time`, which the files of a table do not contain."""
    if "ts_ns" not in frame.columns:
        return frame
    time = expr("timestamp_micros(ts_ns div 1000)").alias(TIME, metadata=schema(record, [TIME])[TIME].metadata)
    place = frame.columns.index("ts_ns") + 1
    return frame.select(*frame.columns[:place], time, *frame.columns[place:])


@dataclass(frozen=True)
class WriterStage:
    """The second stage: writes tables, and returns the names of the files."""

    run: Run
    out: str
    staging: str

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Analyse chunks of a partition and write its tables. Yield the files written, and facts for the last stage."""
        with one_sentence():
            options = self.run.settings.export_options()
            for partition in AnalyserStage(self.run).partitions(batches, options):
                parts = self._parts(f"part-{partition.number:05}", options)
                for batch, facts in partition.batches_and_facts():
                    parts.add(batch)
                    if facts:
                        yield batch_of(facts)
                yield batch_of([written_chunk(each) for each in parts.finish()])

    def write_files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the tables of files, each of which is a capture of its own. Yields the files written, for the last
        stage."""
        with one_sentence():
            check_on_worker(self.run.files)
            settings, options = self.run.settings, self.run.settings.export_options()
            for task in numbers_in(batches):
                parts = self._parts(f"part-{task:05}", options)
                for index in self.run.tasks[task]:
                    for records in records_apart(self.run.files[index], settings, options, compares=True):
                        parts.add(records)
                yield batch_of([written_chunk(each) for each in parts.finish()])

    def compare(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the records that result from the facts of all partitions. Yield all files written, also of earlier
        stages."""
        with one_sentence():
            options = self.run.settings.export_options()
            parts = self._parts("part-of-all", options)
            parts.open(TABLES)  # so that each table has a file even without rows
            written: list[Part] = []
            for batch in compare(_facts(batches, written), self.run.files, options):
                parts.add(batch)
            written += parts.finish()
            columns = zip(*written, strict=True)
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=WRITTEN)

    def _parts(self, name: str, options: Options) -> Parts:
        filter = self.run.settings.parsed_filter()
        return Parts(locate(self.out)[0], self.staging, f"{name}-{secrets.token_hex(8)}.parquet", options, filter)


def _facts(batches: Iterable[pa.RecordBatch], written: list[Part]) -> Iterator[Chunk]:
    for chunk in chunks_of(batches):
        if chunk.kind == Kind.WRITTEN:
            written.append(pickle.loads(chunk.octets))
        else:
            yield chunk


def written_chunk(part: Part) -> Chunk:
    """Return a chunk that reports a written file to the last stage."""
    return Chunk(0, -1, 0, Kind.WRITTEN, part.rows, b"", b"", pickle.dumps(part))


class Part(NamedTuple):
    """A file of a table: its record type, name, number of rows, and size in octets."""

    record: str
    name: str
    rows: int
    octets: int


class Parts:
    def __init__(self, filesystem: FileSystem, folder: str, name: str, options: Options, filter: Filter | None) -> None:
        self._filesystem = filesystem
        self._folder = folder
        self._name = name
        self._options = options
        self._filter = filter
        self._files: dict[str, tuple[pa.NativeFile, ParquetRows]] = {}

    def open(self, records: Iterable[str]) -> None:
        """Open a file for each of these record types, unless it is open."""
        for record in records:
            if record not in self._files:
                sink = self._filesystem.open_output_stream(f"{self._folder}/{_folder(record)}/{self._name}")
                self._files[record] = sink, ParquetRows(sink, record, column_names(record))

    def add(self, batch: Batch) -> None:
        for record, part in by_type(selected(batch, self._filter, self._options)):
            self.open((record,))
            self._files[record][1].add(_without_numbers(part, record, self._options))

    def finish(self) -> Iterator[Part]:
        """Write buffered rows, close the files, and yield them."""
        for record, (sink, rows) in self._files.items():
            rows.close()
            octets = sink.tell()
            sink.close()
            yield Part(record, self._name, rows.rows, octets)


def _without_numbers(batch: Batch, record: str, options: Options) -> pa.RecordBatch:
    """Return rows of a record type with `conn` set to null, because connection numbers differ between workers."""
    whole = held_schema(record, column_names(record))
    made = [name for name in whole.names if name not in NUMBERS_OF_CONNECTIONS]
    rows = arrow_batch(batch, record, held_schema(record, made), options)
    arrays = [rows.column(field.name) if field.name in made else pa.nulls(rows.num_rows, field.type) for field in whole]
    return pa.RecordBatch.from_arrays(arrays, schema=whole)


def _folder(record: str) -> str:
    return f"{PLURALS[record]}.parquet"


def _refuse_to_overwrite(filesystem: FileSystem, root: str) -> None:
    for info in filesystem.get_file_info([f"{root}/{_folder(record)}" for record in TABLES]):
        if info.type != FileType.NotFound:
            raise FileExistsError(
                f'{info.path}: exists; use mode="overwrite" to replace it, or mode="append" to add to it'
            )


def _remove_all_but(names: set[str], filesystem: FileSystem, folder: str) -> None:
    for info in filesystem.get_file_info(FileSelector(folder)):
        if info.base_name not in names:
            filesystem.delete_file(info.path)


def _remove_tables(filesystem: FileSystem, root: str) -> None:
    """Remove the tables and the notes about their captures."""
    for info in filesystem.get_file_info([f"{root}/{name}" for name in (NOTES, *map(_folder, TABLES))]):
        if info.type != FileType.NotFound:
            (filesystem.delete_dir if info.type == FileType.Directory else filesystem.delete_file)(info.path)
