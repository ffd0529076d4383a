"""Derived records about several connections, written after all input."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.deliveries import topic_and_delivery_records
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.peers import peers
from zmtpscope.dissect import Record


def across_records(knowledge: Knowledge, ordinal: int) -> Iterator[Record]:
    """Yield the `peer`, `topic` and `delivery` records; `ordinal` is the end of the capture."""
    for peer in peers(knowledge):
        yield peer.record(ordinal)
    yield from topic_and_delivery_records(knowledge, ordinal)
