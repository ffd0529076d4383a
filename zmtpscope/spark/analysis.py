"""The second stage: analyses the flows of one partition."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.capture.statistics import FileReports, run_statistics
from zmtpscope.diagnosis.derivation import Derivation, derived_records
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.spark.chunks import Chunk, Kind
from zmtpscope.spark.comparing import FactChunks, end_chunk, observed_chunks
from zmtpscope.spark.flows import FlowFilter
from zmtpscope.spark.merging import Merger, TakenBlock


class Analysed(NamedTuple):
    """What the analyser returned for a block, or for the end of the capture (block None)."""

    batch: Batch
    block: TakenBlock | None


class PartitionAnalysis:
    """The analysis of one partition's flows. Iterate over `batches` or `batches_and_facts`.

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
        """Ends of the files."""

    def batches(self) -> Iterator[Batch]:
        for batch, _ in self._analyse():
            if self._derivation is not None:
                batch.records += derived_records(self._derivation.feed(batch))
            yield batch

    def batches_and_facts(self) -> Iterator[tuple[Batch, list[Chunk]]]:
        """Yield batches, each with its facts for the last stage as chunks."""
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
        """Return the latest time of all packets of the run."""
        return max((end.taken for end in self._ends), default=0)

    @property
    def _reports(self) -> list[FileReports]:
        """Return the reports of all files, in order."""
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
