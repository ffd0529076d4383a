"""Several analysers, each with the flows of one partition, and the comparison of their facts."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

from tests.traffic import record_of
from zmtpscope.capture.segments import ORDINALS, SegmentBlock
from zmtpscope.dissect import Analyser, Batch, Options, Summary
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.findings.comparison import Comparison
from zmtpscope.dissect.records.facts import Fact, ZreBeacon
from zmtpscope.spark.flows import FlowFilter

Record = dict[str, Any]

NUMBERS = ("conn", "conn_0", "conn_1")
"""Fields that only a single run can fill."""


def rows_of(batches: Iterable[Batch], options: Options) -> list[Record]:
    """Return all records, without the fields that only a single run can fill."""
    return [without(record_of(item, index, options)) for batch in batches for item, index in batch.in_order()]


def without(record: Record) -> Record:
    return {name: value for name, value in record.items() if name not in NUMBERS}


class Worker:
    """Analyses one of several partitions of all flows; `places` are the places of all packets of the run."""

    def __init__(self, partition: int, partitions: int, options: Options, places: dict[int, int]) -> None:
        self.flows = FlowFilter(partition, partitions, ())
        self.places = places
        self.options = options
        self.analyser = Analyser(options, comparing=False)
        self.analyser.begin([None])
        self.rows: list[Record] = []
        self.facts: list[Fact] = []

    def take(self, block: SegmentBlock) -> None:
        """Process the next block of all packets; packets of other partitions are ignored."""
        part = self.flows.select(block)
        part.latest = max((*part.times.tolist(), *part.datagrams.times.tolist()), default=0)

        def rank(fact: Fact) -> int:
            if isinstance(fact, ZreBeacon):
                return self.places[fact.arrival.packet]
            row, is_late = divmod(fact.arrival.ordinal - part.ordinal + 1, ORDINALS)
            return self.places[int(part.packets[row])] - (not is_late)

        self._add(self.analyser.feed(part), rank)

    def finish(self, last: int) -> None:
        self._add(self.analyser.finish(last=last), lambda fact: 2 * len(self.places) + ORDINALS)

    def _add(self, batches: Iterator[Batch], rank: Callable[[Fact], int]) -> None:
        for batch in batches:
            self.rows += rows_of([batch], self.options)
            for fact in batch.facts:
                self.facts.append(fact._replace(arrival=fact.arrival._replace(ordinal=rank(fact))))


def compared(
    blocks: list[SegmentBlock], partitions: int, options: Callable[[], Options]
) -> tuple[list[Record], Summary]:
    """Return all records of `partitions` workers and of the comparison of their facts, and the summary of the
    comparison."""
    packets = [packet for block in blocks for packet in block.rows().packets.tolist()]
    places = {packet: ORDINALS * place for place, packet in enumerate(packets)}
    workers = [Worker(partition, partitions, options(), places) for partition in range(partitions)]
    last = max((block.latest for block in blocks), default=0)
    for worker in workers:
        for block in blocks:
            worker.take(block)
        worker.finish(last)
    facts: list[Fact] = [fact for worker in workers for fact in worker.facts]
    comparison = Comparison(options(), [None])
    records = comparison.evaluate(pickle.loads(pickle.dumps(facts)))
    records += comparison.finish(Arrival(2 * len(places) + ORDINALS, 0, last))
    rows = [row for worker in workers for row in worker.rows]
    return rows + [without(record.values) for record in records], comparison.summary


def assert_is_one_run(blocks: list[SegmentBlock], partitions: int, options: Callable[[], Options]) -> None:
    """The workers and the comparison give the same records as one analyser. `options` are created for each, because
    keys remember queries."""
    analyser = Analyser(options())
    analyser.begin([None])
    # copies, because an analyser corrects the times of its blocks
    rows, counted = compared(deepcopy(blocks), partitions, options)
    whole = [row for block in deepcopy(blocks) for row in rows_of(analyser.feed(block), analyser.options)]
    whole += rows_of(analyser.finish(), analyser.options)
    assert sorted(map(repr, rows)) == sorted(map(repr, whole))
    assert counted.attempts == analyser.summary.attempts
    assert counted.tried == analyser.summary.tried
