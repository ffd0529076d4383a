"""A shuffle of captures, for clusters: each file is read once, and each connection by one worker."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from zmtpscope.capture.statistics import FileReports, run_statistics
from zmtpscope.diagnosis.derivation import Derivation, derived_records
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.records import ACROSS, DERIVED
from zmtpscope.spark.balance import file_tasks
from zmtpscope.spark.chunks import DDL, ORDER, Chunk, Kind, batch_of, chunks_of, rows_chunk, rows_of
from zmtpscope.spark.comparing import FactChunks, compare, derive_across, end_chunk, observed_chunks
from zmtpscope.spark.flows import FlowFilter
from zmtpscope.spark.merging import Merger, TakenBlock
from zmtpscope.spark.rows import RowBatches
from zmtpscope.spark.sending import numbers_in, on_workers
from zmtpscope.spark.settings import ReadSettings, one_sentence
from zmtpscope.spark.splitting import Splitter, chunk_size, split
from zmtpscope.spark.storage import check_on_worker, open_again


class Analysed(NamedTuple):
    """The result of the analyser for a block, or for the end of the capture (`block` is None)."""

    batch: Batch
    block: TakenBlock | None


class PartitionAnalysis:
    """The analysis of the connections of one partition. Iterate over `batches` or `batches_and_facts`.

    With a `derivation`, batches also contain derived records about single connections, and the derivation collects the
    data for records about several connections.
    """

    def __init__(
        self,
        flows: FlowFilter,
        chunks: Iterable[Chunk],
        files: Sequence[str],
        options: Options,
        derivation: Derivation | None = None,
    ) -> None:
        self.number = flows.partition
        self._chunks = chunks
        self._files: list[str | None] = [*files]
        self._merger = Merger(flows)
        self._analyser = Analyser(options, comparing=False)
        self._derivation = derivation
        self._ends: list[Chunk] = []

    def batches(self) -> Iterator[Batch]:
        for batch, _ in self._analyse():
            if self._derivation is not None:
                batch.records += derived_records(self._derivation.feed(batch))
            yield batch

    def batches_and_facts(self) -> Iterator[tuple[Batch, list[Chunk]]]:
        """Yield the batches, each with chunks of facts for the last stage, which compares connections."""
        facts = FactChunks()
        for batch, block in self._analyse():
            if self._derivation is not None:
                self._derivation.feed(batch)
            yield batch, facts.add(batch.facts, block)
        if self._derivation is not None:
            yield Batch(self._files), [*observed_chunks(self._derivation)]
        if not self.number:
            yield Batch(self._files), [end_chunk(self._latest, self._reports)]

    @property
    def _latest(self) -> int:
        return max((end.taken for end in self._ends), default=0)

    @property
    def _reports(self) -> list[FileReports]:
        return [pickle.loads(end.octets) for end in sorted(self._ends, key=attrgetter("packet"))]

    def _analyse(self) -> Iterator[Analysed]:
        self._analyser.begin(self._files)
        for chunk in self._chunks:
            for block in self._merger.take(chunk):
                yield from self._take(block)
            if chunk.kind == Kind.END:
                self._ends.append(chunk)
        for block in self._merger.finish():
            yield from self._take(block)
        latest = self._latest
        for batch in self._analyser.finish(last=max(latest, run_statistics(latest, self._reports).end_time())):
            yield Analysed(batch, None)

    def _take(self, block: TakenBlock) -> Iterator[Analysed]:
        for batch in self._analyser.feed(block.segments):
            yield Analysed(batch, block)


SMALL_PARTITION, LARGE_PARTITION = 16 << 20, 256 << 20
"""Octets of captures per partition; the maximum if that needs more partitions than Spark's default."""
MAX_PARTITIONS = 2000
"""Partitions unless the user requests more. Each file has a chunk for each partition."""
OCTETS_IN_A_BATCH, CHUNKS_IN_A_BATCH = 1 << 20, 64
"""Octets and chunks at which a batch is passed to Spark."""
BESIDE_THE_COMPARISON = 8
"""Partitions of the last stage that pass rows on. Findings are few."""


def shuffled(spark: SparkSession, run: Run, columns: list[str]) -> DataFrame:
    made = run.settings.schema(columns)
    analysis, chunks = AnalyserStage(run), run.chunks(spark)
    if not run.settings.compares:
        return chunks.mapInArrow(on_workers(partial(analysis.read, columns=columns)), made)
    reported = chunks.mapInArrow(on_workers(partial(analysis.report, columns=columns)), DDL)
    parts = 1 + min(run.partitions, BESIDE_THE_COMPARISON)
    in_order = reported.repartitionById(parts, "partition").sortWithinPartitions(*ORDER)
    return in_order.mapInArrow(on_workers(partial(ComparisonStage(run).read, columns=columns)), made)


@dataclass(frozen=True)
class Run:
    """The plan of a shuffle: the files, how to read them, and the number of partitions for their connections."""

    files: list[str]
    tasks: list[range]
    """Files that each task of the first stage reads."""
    partitions: int
    settings: ReadSettings

    @staticmethod
    def of(spark: SparkSession, files: Mapping[str, int], settings: ReadSettings) -> Run:
        """Plan a run over capture files, given with their sizes."""
        sizes = [*files.values()]
        tasks = max(int(spark.conf.get("spark.sql.shuffle.partitions") or 1), 1)
        octets = sum(sizes)
        usual = max(tasks, octets // LARGE_PARTITION)
        partitions = settings.partitions or min(1 + octets // SMALL_PARTITION, usual, MAX_PARTITIONS)
        return Run([*files], file_tasks(sizes, tasks), partitions, settings)

    def numbers(self, spark: SparkSession) -> DataFrame:
        """Return a DataFrame of the task numbers, one per partition, for the stage that reads files."""
        return spark.range(len(self.tasks), numPartitions=len(self.tasks))

    def chunks(self, spark: SparkSession) -> DataFrame:
        """Return a DataFrame of the chunks of all files, by partition and in order."""
        chunks = self.numbers(spark).mapInArrow(on_workers(SplitStage(self).read), DDL)
        return chunks.repartitionById(self.partitions, "partition").sortWithinPartitions(*ORDER)


@dataclass(frozen=True)
class SplitStage:
    """The first stage: divides files into chunks. Its input rows are task numbers."""

    run: Run

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with one_sentence():
            check_on_worker(self.run.files)
            for task in numbers_in(batches):
                yield from _batches(chain.from_iterable(map(self.chunks, self.run.tasks[task])))

    def chunks(self, index: int) -> Iterator[Chunk]:
        """Yield the chunks of the file with this index. Raises `CaptureError` for a damaged file if the options request
        it."""
        run, reports = self.run, FileReports()
        file = open_again(run.files[index], run.settings.span, reports)
        if file is not None:
            file.index = index
        splitter = Splitter(run.partitions, chunk_size(len(run.files)), run.settings.endpoints)
        yield from split(file, index, splitter, reports)
        run.settings.refuse(reports.problems)


@dataclass(frozen=True)
class AnalyserStage:
    """The second stage: analyses the connections of a partition. Its input rows are the chunks of the partition, in
    order."""

    run: Run

    def read(self, batches: Iterable[pa.RecordBatch], columns: list[str]) -> Iterator[pa.RecordBatch]:
        with one_sentence():
            rows = RowBatches(self.run.settings, columns)
            partitions = self.partitions(batches, rows.options)
            yield from rows.convert(batch for partition in partitions for batch in partition.batches())

    def report(self, batches: Iterable[pa.RecordBatch], columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield rows with the records, and rows with the facts that the last stage compares."""
        with one_sentence():
            rows = RowBatches(self.run.settings, columns)
            for partition in self.partitions(batches, rows.options):
                place = 1 + partition.number % BESIDE_THE_COMPARISON
                for batch, facts in partition.batches_and_facts():
                    found = facts + [rows_chunk(place, each) for each in rows.add(batch)]
                    if found:
                        yield batch_of(found)
                yield batch_of([rows_chunk(place, each) for each in rows.finish()])

    def partitions(self, batches: Iterable[pa.RecordBatch], options: Options) -> Iterator[PartitionAnalysis]:
        for partition, some in groupby(chunks_of(batches), attrgetter("partition")):
            flows = FlowFilter(partition, self.run.partitions, self.run.settings.endpoints)
            derivation = Derivation() if self.run.settings.record in DERIVED else None
            yield PartitionAnalysis(flows, some, self.run.files, options, derivation)


@dataclass(frozen=True)
class ComparisonStage:
    """The last stage: one task compares the facts of all partitions; the other tasks pass rows on unchanged."""

    run: Run

    def read(self, batches: Iterable[pa.RecordBatch], columns: list[str]) -> Iterator[pa.RecordBatch]:
        with one_sentence():
            rows = RowBatches(self.run.settings, columns)
            for partition, some in groupby(chunks_of(batches), attrgetter("partition")):
                if partition:
                    for chunk in some:
                        yield from rows_of(chunk)
                else:
                    last_stage = derive_across if self.run.settings.record in ACROSS else compare
                    yield from rows.convert(last_stage(some, self.run.files, rows.options))


def _batches(chunks: Iterable[Chunk]) -> Iterator[pa.RecordBatch]:
    waiting: list[Chunk] = []
    octets = 0
    for chunk in chunks:
        waiting.append(chunk)
        octets += len(chunk.octets) + len(chunk.table)
        if octets >= OCTETS_IN_A_BATCH or len(waiting) >= CHUNKS_IN_A_BATCH:
            yield batch_of(waiting)
            waiting, octets = [], 0
    if waiting:
        yield batch_of(waiting)
