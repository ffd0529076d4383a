"""Derived records: about single connections in the partition that reads the connection, all others in the last
stage."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator

from zmtpscope.capture.packets import LATEST
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.diagnosis.deriving import last_records
from zmtpscope.dissect import Batch, Options
from zmtpscope.spark.chunks import Chunk, Kind
from zmtpscope.spark.comparing import compare

CONNECTIONS_IN_A_CHUNK = 1000


def observed_chunks(derivation: Derivation) -> Iterator[Chunk]:
    """Yield what the derivation of one partition observed, as chunks."""
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
