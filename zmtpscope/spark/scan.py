"""The work of one partition in a scan, for which it reads capture files itself.

In a shared scan, each partition reads all files, and analyses the connections whose key hashes to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from zmtpscope.capture import reopen_captures
from zmtpscope.capture.captures import Captures
from zmtpscope.capture.merge import read_merged
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.capture.statistics import FileReports
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.records import DERIVED
from zmtpscope.spark.flows import FlowFilter
from zmtpscope.spark.rows import RowBatches
from zmtpscope.spark.settings import ReadSettings
from zmtpscope.spark.storage import check_on_worker, open_again

BLOCK_SIZE = 1 << 20
"""Size of blocks if one partition reads all flows."""
LARGE_BLOCK_SIZE = 4 << 20
"""Size of blocks if several partitions share the flows. The cost of a block depends mostly on its connections, and a
partition analyses only some of them."""


def scan(
    files: list[str], settings: ReadSettings, columns: Sequence[str], flows: FlowFilter
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one partition: the records of the connections that `flows` selects. Raises `CaptureError`."""
    check_on_worker(files)
    rows = RowBatches(settings, columns)
    block_size = BLOCK_SIZE if flows.partitions == 1 else LARGE_BLOCK_SIZE
    captures = reopen_captures(files, settings.span, block_size=block_size)
    analyser = Analyser(rows.options, comparing=settings.compares)
    yield from rows.convert(_with_derived(_analysed(analyser, captures, settings, flows), settings))


def scan_apart(files: Sequence[str], settings: ReadSettings, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files that are read as separate captures. Raises `CaptureError`."""
    rows = RowBatches(settings, columns)
    for file in files:
        records = records_apart(file, settings, rows.options, compares=settings.compares)
        yield from rows.convert(_with_derived(records, settings))


def records_apart(file: str, settings: ReadSettings, options: Options, *, compares: bool) -> Iterator[Batch]:
    """Yield the records of a file or URI, read as a separate capture. `compares`: also records that compare
    connections.

    Raises `CaptureError`.
    """

    def read(reports: FileReports) -> Iterator[PacketBlock]:
        opened = open_again(file, settings.span, reports)
        return read_merged([] if opened is None else [opened], BLOCK_SIZE, reports)

    flows = FlowFilter(0, 1, settings.endpoints)
    yield from _analysed(Analyser(options, comparing=compares), Captures([file], read, None), settings, flows)


def _analysed(analyser: Analyser, captures: Captures, settings: ReadSettings, flows: FlowFilter) -> Iterator[Batch]:
    analyser.begin(captures.files)
    for block in captures:
        yield from analyser.feed(flows.select(block))
        if settings.fails and captures.problems:
            break
    settings.refuse(captures.problems)
    yield from analyser.finish_captures(captures)


def _with_derived(batches: Iterator[Batch], settings: ReadSettings) -> Iterator[Batch]:
    if settings.record not in DERIVED:
        return batches
    from zmtpscope.diagnosis.deriving import with_derived  # a fifth of a worker's imports

    return with_derived(batches)
