"""`zmtpscope.spark.read`: captures as a DataFrame, for clusters: each file is read once, each connection by one worker.

A task for each file takes its packets apart by flow (`splitting.py`). One shuffle brings all of a flow to one partition
in the order in which the packets were taken, and there an analyser reads them (`merging.py`).
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from zmtpscope.capture import CaptureError
from zmtpscope.capture.files import find_again
from zmtpscope.capture.segments import FILE_SHIFT, SegmentBlock
from zmtpscope.capture.statistics import CaptureStatistics, FileReports
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.spark.chunks import DDL, ORDER, Chunk, Kind, batch_of, chunks_of
from zmtpscope.spark.errors import one_sentence
from zmtpscope.spark.filters import COMPARING, Endpoints, FlowFilter, asked_for
from zmtpscope.spark.merging import Merger
from zmtpscope.spark.paths import find_paths
from zmtpscope.spark.rows import RowBatches
from zmtpscope.spark.schemas import column_names, schema
from zmtpscope.spark.settings import ReadSettings
from zmtpscope.spark.splitting import Splitter, chunk_size, split

Paths = str | Path | Iterable[str | Path]

SMALL_PARTITION, LARGE_PARTITION = 16 << 20, 256 << 20
"""Octets of captures: a partition has no fewer, and no more where there are more of them than Spark shuffles into."""
LARGE_TASK, COST_OF_FILE = 64 << 20, 1 << 18
"""A task reads files until they have so many octets. Opening each costs about as much as reading the second number."""
MOST_PARTITIONS = 2000
"""Unless more are asked for: each file has something for each."""
CHUNKS_IN_A_BATCH = 16


def read(spark: SparkSession, paths: Paths, record: str = "messages", **options: Any) -> DataFrame:
    """The records of one type ("messages", "connections", ...) in capture files, globs and directories.

    The rows are those of `spark.read.format("zmtp")`, and the options are its options. Raises `CaptureError` for a path
    that is no capture, and `SettingsError` for an option that cannot be.
    """
    settings = ReadSettings.parse({"record": record, **options})
    columns = column_names(settings.record, settings.columns)
    run = Run.of(spark, paths, settings)
    stage = partial(AnalyserStage(run).read, columns=columns)
    return run.chunks(spark).mapInArrow(stage, schema(settings.record, columns))


@dataclass(frozen=True)
class Run:
    """The files of a run, how they are read, and how many partitions their flows go to."""

    files: list[str]
    tasks: list[range]
    """Which of the files each task of the first stage reads."""
    partitions: int
    settings: ReadSettings

    @staticmethod
    def of(spark: SparkSession, paths: Paths, settings: ReadSettings) -> Run:
        """The run over these captures. Raises `CaptureError`."""
        files = find_paths([paths] if isinstance(paths, str | Path) else paths)
        sizes = [os.path.getsize(path) for path in files]
        tasks = max(int(spark.conf.get("spark.sql.shuffle.partitions") or 1), 1)
        octets = sum(sizes)
        usual = max(tasks, octets // LARGE_PARTITION)
        partitions = settings.partitions or min(1 + octets // SMALL_PARTITION, usual, MOST_PARTITIONS)
        partitions = 1 if settings.record in COMPARING else partitions
        return Run(files, _tasks(sizes, tasks), partitions, settings)

    def chunks(self, spark: SparkSession) -> DataFrame:
        """All chunks of all files, each in its partition, in order."""
        tasks = spark.range(len(self.tasks), numPartitions=len(self.tasks))
        chunks = tasks.mapInArrow(SplitStage(self).read, DDL)
        return chunks.repartitionById(self.partitions, "partition").sortWithinPartitions(*ORDER)

    @property
    def endpoints(self) -> tuple[Endpoints, ...]:
        """What flows must have to be read."""
        return asked_for(self.settings.ports, self.settings.hosts)


@dataclass(frozen=True)
class SplitStage:
    """What the tasks of the first stage do: rows are numbers of tasks."""

    run: Run

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The chunks of the files."""
        with one_sentence():
            for batch in batches:
                for task in batch.column(0).to_pylist():
                    chunks = chain.from_iterable(map(self.chunks, self.run.tasks[task]))
                    while some := list(islice(chunks, CHUNKS_IN_A_BATCH)):
                        yield batch_of(some)

    def chunks(self, index: int) -> Iterator[Chunk]:
        """Those of one file. Raises `CaptureError` where it is damaged, and that ends the job."""
        run, reports = self.run, FileReports()
        file = next(iter(find_again(run.files[index : index + 1], run.settings.span, reports)), None)
        if file is not None:
            file.index = index
        yield from split(file, index, Splitter(run.partitions, chunk_size(len(run.files)), run.endpoints), reports)
        if run.settings.fails and reports.problems:
            problem = reports.problems[0]
            raise CaptureError(problem.file, problem.text, offset=problem.offset)


@dataclass(frozen=True)
class AnalyserStage:
    """What the tasks of the second stage do: rows are chunks of a partition, in order."""

    run: Run

    def read(self, batches: Iterable[pa.RecordBatch], columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Records as rows."""
        with one_sentence():
            settings = self.run.settings
            options = settings.dissect_options(columns)
            rows = RowBatches(settings.record, columns, options)
            for _, made in self.analysed(batches, options):
                for batch in made:
                    yield from rows.add(batch)
            yield from rows.finish()

    def analysed(self, batches: Iterable[pa.RecordBatch], options: Options) -> Iterator[tuple[int, Iterator[Batch]]]:
        """What the analyser makes of each partition, one after the other."""
        chunks = (chunk for batch in batches for chunk in chunks_of(batch))
        for partition, some in groupby(chunks, _partition_of):
            yield partition, self._analyse(partition, some, options)

    def _analyse(self, partition: int, chunks: Iterable[Chunk], options: Options) -> Iterator[Batch]:
        merger = Merger(FlowFilter(partition, self.run.partitions, self.run.endpoints))
        analyser = Analyser(options)
        analyser.begin(list(self.run.files))
        latest = 0
        reports: dict[int, FileReports] = {}
        for chunk in chunks:
            for block in merger.take(chunk):
                yield from analyser.take(block)
            if chunk.kind == Kind.END:
                latest = max(latest, chunk.taken)
                if chunk.octets:
                    reports[chunk.packet >> FILE_SHIFT] = pickle.loads(chunk.octets)
        for block in merger.finish():
            yield from analyser.take(block)
        end = SegmentBlock(b"", merger.ordinal)
        end.latest = latest
        yield from analyser.take(end)
        yield from analyser.finish(_drops(reports))


def _tasks(sizes: list[int], least: int) -> list[range]:
    """Files of these sizes, in at least so many tasks if they are large enough."""
    costs = [size + COST_OF_FILE for size in sizes]
    share = min(LARGE_TASK, sum(costs) // least)
    tasks, begin, octets = [], 0, 0
    for end, cost in enumerate(costs, 1):
        octets += cost
        if octets >= share or end == len(costs):
            tasks.append(range(begin, end))
            begin, octets = end, 0
    return tasks


def _drops(reports: dict[int, FileReports]) -> dict[str, int]:
    """The packets that were lost in all files, by interface."""
    in_order = [reports[index] for index in sorted(reports)]
    return CaptureStatistics(files=[each for report in in_order for each in report.statistics]).dropped()


def _partition_of(chunk: Chunk) -> int:
    return chunk.partition
