"""`readStream.format("zmtp")`: a folder of rotating captures as a stream of rows.

`latestOffset` lists the folder and writes the input of the next micro-batch to the state folder. `read` runs on
workers, for each partition, as often as Spark needs it: once, for each action of a foreachBatch, again after a failure,
never, or partially (`limit`). So a micro-batch does not rely on the state after the previous one: if it is missing, the
worker starts from an older state and reads the files in between again, without yielding their rows.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from zmtpscope.capture import CaptureError
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.dissect.state import StateError
from zmtpscope.records import DERIVED, PLURALS
from zmtpscope.spark.capture_folder import Capture, CaptureFolder, MicroBatch, grown_since, next_micro_batch, path_now
from zmtpscope.spark.flows import FlowFilter
from zmtpscope.spark.partition_state import PartitionState
from zmtpscope.spark.rows import RowBatches
from zmtpscope.spark.sending import SentToWorkers
from zmtpscope.spark.settings import SettingsError, one_sentence
from zmtpscope.spark.state_folder import StateFolder
from zmtpscope.spark.stream_settings import StreamSettings

if TYPE_CHECKING:
    import pyarrow as pa

LOG = logging.getLogger(__name__)

Offset = dict[str, Any]
"""query: name of its state folder; batch: number of micro-batches so far; files: number of files they took."""


@dataclass
class StreamPartition(InputPartition):
    """One partition of a stream (`number` of `count`), and the micro-batches to read: those after number `start` up to
    `end`."""

    end: Offset
    start: int
    number: int
    count: int


class StreamReader(SentToWorkers, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a folder of captures for a streaming query, some files at a time."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._available: list[Capture] | None = None
        """Captures at the start of a query with Trigger.AvailableNow."""
        self._query = secrets.token_hex(8)
        """Name of the query if it starts now."""

    @cached_property
    def settings(self) -> StreamSettings:
        """The parsed options. They are parsed on first use, because Spark 4.3 reports an error in the constructor as a
        missing reader."""
        with one_sentence():
            settings = StreamSettings.parse(self._options)
            settings.read.check_schema(self._schema)
            if settings.read.record in DERIVED:
                raise SettingsError(
                    f"{PLURALS[settings.read.record]} are derived from whole captures, and a stream has no end; read "
                    "them with spark.read, or make them of streamed records"
                )
            return settings

    @cached_property
    def _folder(self) -> CaptureFolder:
        return CaptureFolder(self.settings.path)

    def initialOffset(self) -> Offset:
        # called again by a query that stopped in its first micro-batch, so the name is in the next offset
        return {"query": "", "batch": 0, "files": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self.settings.most_files)

    def prepareForTriggerAvailableNow(self) -> None:
        with one_sentence():
            self._available = self._folder.captures()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        query = start["query"] or self._query
        with one_sentence():
            folder = StateFolder(self.settings.state_location, query)
            batch = self._next(folder.batch(start["batch"]), isinstance(limit, ReadAllAvailable))
            if batch is None:
                return start
            folder.create()
            folder.write_batch(batch)
        return {"query": query, "batch": batch.number, "files": batch.files_so_far}

    def _next(self, before: MicroBatch, takes_all: bool) -> MicroBatch | None:
        settings = self.settings
        if before.partitions not in (0, settings.partitions):
            raise SettingsError(
                f"option partitions: this query began with {before.partitions} and cannot go on with "
                f"{settings.partitions} -> give {before.partitions}, or begin anew with another checkpointLocation"
            )
        batch = next_micro_batch(
            before,
            self._folder.captures() if self._available is None else self._available,
            partitions=settings.partitions,
            growing=settings.growing,
            most_files=None if takes_all else settings.most_files,
            finish=settings.finish,
            skip_grown=settings.skip_grown,
        )
        for capture in () if batch is None else grown_since(before, batch.seen.values()):
            read = before.seen[capture.name].size
            LOG.warning(
                "zmtpscope: %s: octets %d to %d were added later and are left out", capture.path, read, capture.size
            )
        return batch

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        if start["batch"] == end["batch"]:
            return []
        with one_sentence():
            count = self._state_folder(end).batch(end["batch"]).partitions
        return [StreamPartition(end, start["batch"], number, count) for number in range(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StreamPartition)
        with one_sentence(StateError):
            rows = RowBatches(self.settings.read, self._schema.fieldNames())
            yield from rows.convert(self._batches(partition, rows.options))

    def _batches(self, partition: StreamPartition, options: Options) -> Iterator[Batch]:
        """Yield the records of the micro-batches after `partition.start`. Their state is stored even if not all records
        are consumed."""
        folder, settings = self._state_folder(partition.end), self.settings.read
        behind, octets = folder.state(partition.start, partition.number)
        if octets is None:
            state = PartitionState(Analyser(options, comparing=settings.compares))
        else:
            state = PartitionState.load(octets, options)
        flows = FlowFilter(partition.number, partition.count, settings.endpoints)
        take = partial(self._take, state, flows)
        for number in range(behind + 1, partition.start + 1):
            batch = folder.batch(number)
            _refuse_vanished_files(batch)
            _exhaust(take(batch))
        if behind < partition.start:
            folder.write_state(partition.start, partition.number, state.dump())
        end = partition.end["batch"]
        made = chain.from_iterable(take(folder.batch(number)) for number in range(partition.start + 1, end + 1))
        try:
            yield from made
        except GeneratorExit:  # the caller needs no more rows, but the next micro-batch needs the state
            _exhaust(made)
            folder.write_state(end, partition.number, state.dump())
            raise
        folder.write_state(end, partition.number, state.dump())

    def _take(self, state: PartitionState, flows: FlowFilter, batch: MicroBatch) -> Iterator[Batch]:
        """Yield the records of a micro-batch. Raises `CaptureError` for a damaged file if the options request it."""
        settings = self.settings.read
        yield from state.take(batch, settings.span, flows.select)
        settings.refuse(state.problems)
        for problem in state.problems:
            if flows.partition == 0:  # all partitions read the file
                LOG.warning("zmtpscope: batch %d: %s", batch.number, problem)

    def commit(self, end: Offset) -> None:
        with one_sentence():
            folder = self._state_folder(end)
            folder.forget(folder.batch(end["batch"]))

    def _state_folder(self, offset: Offset) -> StateFolder:
        return StateFolder(self.settings.state_location, offset["query"])


def _exhaust(batches: Iterable[Batch]) -> None:
    for _ in batches:
        pass


def _refuse_vanished_files(batch: MicroBatch) -> None:
    """Raise an error if a file of a micro-batch, which is read again to restore its state, no longer exists."""
    for file in batch.files:
        if not os.path.exists(path_now(file.path)):
            raise CaptureError(
                file.path,
                f"is gone, and the state behind it was not kept, since nothing read batch {batch.number} to its end",
                hint="begin anew with another checkpointLocation",
            )
