"""The last stage: compare the connections of all partitions, with the same result as a run without partitions.

The second stage reports facts about connections (`dissect/records/facts.py`). Each is a row with its position among all
packets, by which Spark sorts the facts of all partitions. Derived records about single connections are made in the
partition that reads the connection, all others here.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from zmtpscope.capture.packets import LATEST
from zmtpscope.capture.segments import ORDINALS
from zmtpscope.capture.statistics import FileReports, run_statistics
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.diagnosis.deriving import last_records
from zmtpscope.dissect import Batch, Options
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.findings.comparison import Comparison
from zmtpscope.dissect.records.facts import Fact, ZreBeacon
from zmtpscope.spark.chunks import Chunk, Kind
from zmtpscope.spark.merging import TakenBlock

FACTS_AT_ONCE = 1 << 12

CONNECTIONS_IN_A_CHUNK = 1000


class Place(NamedTuple):
    """The position of a fact among all packets: after a packet, or before it if only the passing of time decided the
    fact."""

    taken: int
    packet: int
    is_behind: bool


AT_THE_END = Place(LATEST, LATEST, True)


def place_of(fact: Fact, block: TakenBlock) -> Place:
    """Return the position of a fact that the analyser reported for `block`."""
    if isinstance(fact, ZreBeacon):
        packet = fact.arrival.packet
        datagram = int((block.segments.datagrams.packets == packet).argmax())
        return Place(int(block.taken_datagrams[datagram]), packet, True)
    row, is_behind = divmod(fact.arrival.ordinal - block.segments.ordinal + 1, ORDINALS)
    return Place(int(block.taken[row]), int(block.segments.packets[row]), bool(is_behind))


class FactChunks:
    """Converts the facts of one partition to chunks of numbered rows."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, facts: Iterable[Fact], block: TakenBlock | None) -> list[Chunk]:
        """Return chunks with the facts that the analyser reported for `block`; None: at the end of the capture."""
        chunks = []
        for fact in facts:
            place = AT_THE_END if block is None else place_of(fact, block)
            octets = pickle.dumps((place.is_behind, fact), pickle.HIGHEST_PROTOCOL)
            chunks.append(Chunk(0, place.taken, place.packet, Kind.FACT, self._count, b"", b"", octets))
            self._count += 1
        return chunks


def end_chunk(latest: int, reports: Sequence[FileReports]) -> Chunk:
    """Return a chunk with the latest time of all packets (`latest`), and the report of each file, for example its
    damage."""
    return Chunk(0, latest, LATEST, Kind.END, 0, b"", b"", pickle.dumps(reports))


def compare(chunks: Iterable[Chunk], files: list[str], options: Options) -> Iterator[Batch]:
    """Yield the records that result from the facts of all partitions, which must be sorted."""
    names: list[str | None] = [*files]
    comparison = Comparison(options, names)
    latest = 0
    reports: Sequence[FileReports] = ()
    waiting: list[Fact] = []
    ordinal = 0
    for _, group in groupby(chunks, _packet_of):
        facts = []
        for chunk in group:
            if chunk.kind == Kind.END:
                latest, reports = chunk.taken, pickle.loads(chunk.octets)
            else:
                facts.append((chunk.rows, *pickle.loads(chunk.octets)))
        ordinal += ORDINALS
        for _, is_behind, fact in sorted(facts, key=itemgetter(0)):
            decided = ordinal if is_behind else ordinal - 1
            waiting.append(fact._replace(arrival=fact.arrival._replace(ordinal=decided)))
        if len(waiting) >= FACTS_AT_ONCE:
            yield Batch(names, records=comparison.evaluate(waiting))
            waiting = []
    records = comparison.evaluate(waiting)
    statistics = run_statistics(latest, reports)
    problems = [problem for report in reports for problem in report.problems]
    end = Arrival(ordinal + ORDINALS, 0, max(latest, statistics.end_time()))
    records += comparison.finish(end, statistics.dropped(), problems, statistics.set_back())
    yield Batch(names, records=records)


def _packet_of(chunk: Chunk) -> tuple[int, int]:
    return chunk.taken, chunk.packet


def observed_chunks(derivation: Derivation) -> Iterator[Chunk]:
    """Yield the observations of one partition's connections as chunks."""
    known = derivation.knowledge()
    findings, forgotten, left_out = known.findings, known.forgotten, known.left_out
    for begin in range(0, max(1, len(known.connections)), CONNECTIONS_IN_A_CHUNK):
        connections = known.connections[begin : begin + CONNECTIONS_IN_A_CHUNK]
        part = Knowledge(connections, findings, known.first_ns, known.last_ns, forgotten, left_out)
        octets = pickle.dumps(part, pickle.HIGHEST_PROTOCOL)
        yield Chunk(0, LATEST, LATEST, Kind.OBSERVED, len(connections), b"", b"", octets)
        findings, forgotten, left_out = (), 0, 0


def derive_across(chunks: Iterable[Chunk], files: list[str], options: Options) -> Iterator[Batch]:
    """Yield the records about several connections, from the facts and observations of all partitions."""
    derivation = Derivation()

    def facts() -> Iterator[Chunk]:
        for chunk in chunks:
            if chunk.kind == Kind.OBSERVED:
                derivation.adopt(pickle.loads(chunk.octets))
            else:
                yield chunk

    for batch in list(compare(facts(), files, options)):  # findings, which are few: all connections follow them
        derivation.feed(batch)
    yield Batch([*files], records=[*last_records(derivation)])
