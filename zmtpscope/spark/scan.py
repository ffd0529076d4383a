"""The shared scan: each partition reads all files, and analyses the flows whose key hashes to it.

A connection that spans files is one connection, and rows are those of one local run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa

from zmtpscope.capture import CaptureError, reopen_captures
from zmtpscope.dissect import Analyser, Batch
from zmtpscope.meaning.deriving import with_derived
from zmtpscope.records import DERIVED
from zmtpscope.spark.flows import FlowFilter
from zmtpscope.spark.rows import RowBatches
from zmtpscope.spark.settings import ReadSettings

BLOCK_SIZE = 1 << 20
"""Octets of a capture at a time, if one partition reads all flows."""
LARGE_BLOCK_SIZE = 4 << 20
"""Otherwise: most of what a block costs depends on its connections, and each partition analyses a part of its data."""


def scan(
    files: list[str], settings: ReadSettings, columns: Sequence[str], flows: FlowFilter
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that one partition makes of these files. Raises `CaptureError`."""
    if not any(map(os.path.exists, files)):
        hint = "captures must lie where every worker can read them"
        raise CaptureError(files[0], "there is no such file on this worker", hint=hint)
    options = settings.dissect_options(columns)
    batches = RowBatches(settings, columns, options)
    analysed = _analysed(Analyser(options, comparing=settings.compares), files, settings, flows)
    for batch in with_derived(analysed) if settings.record in DERIVED else analysed:
        yield from batches.add(batch)
    yield from batches.finish()


def _analysed(analyser: Analyser, files: list[str], settings: ReadSettings, flows: FlowFilter) -> Iterator[Batch]:
    block_size = BLOCK_SIZE if flows.partitions == 1 else LARGE_BLOCK_SIZE
    captures = reopen_captures(files, settings.span, block_size=block_size)
    analyser.begin(captures.files)
    for block in captures:
        yield from analyser.feed(flows.select(block))
        if settings.fails and captures.problems:
            break
    if settings.fails and captures.problems:
        problem = captures.problems[0]
        raise CaptureError(problem.file, problem.text, offset=problem.offset or None)
    statistics = captures.statistics
    set_back, last = statistics.set_back(), statistics.end_time()
    yield from analyser.finish(statistics.dropped(), captures.problems, set_back=set_back, last=last)
