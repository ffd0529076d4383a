"""The second stage: what an analyser makes of the flows of one partition."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence

from zmtpscope.capture.segments import FILE_SHIFT
from zmtpscope.capture.statistics import FileReports
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.dissect.records.facts import Fact
from zmtpscope.spark.chunks import Chunk, Kind
from zmtpscope.spark.comparing import AT_THE_END, Place, end_chunk, fact_chunk, place_of
from zmtpscope.spark.filters import FlowFilter
from zmtpscope.spark.merging import Merger, TakenBlock


class PartitionAnalysis:
    """The analysis of the flows of one partition: iterate `batches`, and take the facts meanwhile and behind them."""

    def __init__(self, flows: FlowFilter, chunks: Iterable[Chunk], files: Sequence[str], options: Options) -> None:
        self.number = flows.partition
        self._chunks = chunks
        self._merger = Merger(flows)
        self._analyser = Analyser(options, comparing=False)
        self._analyser.begin([*files])
        self._facts: list[Chunk] = []
        self._facts_before = 0

    def batches(self) -> Iterator[Batch]:
        """What the analyser makes of the chunks."""
        latest = 0
        reports: dict[int, FileReports] = {}
        for chunk in self._chunks:
            for block in self._merger.take(chunk):
                yield from self._take(block)
            if chunk.kind == Kind.END:
                latest = max(latest, chunk.taken)
                if chunk.octets:
                    reports[chunk.packet >> FILE_SHIFT] = pickle.loads(chunk.octets)
        for block in self._merger.finish():
            yield from self._take(block)
        for batch in self._analyser.finish(last=latest):
            self._note((fact, AT_THE_END) for fact in batch.facts)
            yield batch
        if reports:
            self._facts.append(end_chunk(latest, [reports[index] for index in sorted(reports)]))

    def _take(self, block: TakenBlock) -> Iterator[Batch]:
        for batch in self._analyser.take(block.segments):
            self._note((fact, place_of(fact, block)) for fact in batch.facts)
            yield batch

    def _note(self, facts: Iterable[tuple[Fact, Place]]) -> None:
        for number, (fact, place) in enumerate(facts, self._facts_before):
            self._facts.append(fact_chunk(fact, place, number))
            self._facts_before = number + 1

    def take_facts(self) -> list[Chunk]:
        """The facts that were reported since they were taken last."""
        facts, self._facts = self._facts, []
        return facts
