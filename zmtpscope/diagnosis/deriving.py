"""Add derived records to batches: for single connections at once, and at the end those about several, and diagnoses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from zmtpscope.diagnosis.across.deliveries import topic_and_delivery_records
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.peers import peers
from zmtpscope.diagnosis.derivation import Derivation, derived_records
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.diagnosis.diagnosis import Diagnosis, Explained
from zmtpscope.diagnosis.observers.observer import derived
from zmtpscope.dissect import Batch, Record


class Deriving:
    """Adds derived records to the batches of one run. Pass the batches in order."""

    def __init__(self) -> None:
        self.derivation = Derivation()
        self._files: list[str | None] = []

    def add_to(self, batch: Batch) -> None:
        """Add derived records about single connections to a batch."""
        self._files = batch.files
        batch.records += derived_records(self.derivation.feed(batch))

    def last(self) -> Batch:
        """Return a batch with the derived records about several connections, at the end of a run."""
        return Batch(self._files, records=[*last_records(self.derivation)])


def last_records(derivation: Derivation) -> Iterator[Record]:
    knowledge, ordinal = derivation.knowledge(), derivation.end_ordinal
    yield from across_records(knowledge, ordinal)
    yield from diagnosis_records(diagnose(knowledge), ordinal)


def with_derived(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield all batches with derived records, then one more batch."""
    deriving = Deriving()
    for batch in batches:
        deriving.add_to(batch)
        yield batch
    yield deriving.last()


def across_records(knowledge: Knowledge, ordinal: int) -> Iterator[Record]:
    """Yield `peer`, `topic` and `delivery` records; `ordinal` is the position of the end of the capture."""
    for peer in peers(knowledge):
        yield peer.record(ordinal)
    yield from topic_and_delivery_records(knowledge, ordinal)


def diagnosis_records(found: Sequence[Explained], ordinal: int) -> Iterator[Record]:
    """Yield the record of each diagnosis, followed by its consequences; `ordinal` is the position of the end of the
    capture."""
    for explained in found:
        cause = explained.diagnosis
        yield _record(cause, None, ordinal)
        for consequence in explained.consequences:
            yield _record(consequence, f"{cause.rule} {cause.subject}", ordinal)


def _record(diagnosis: Diagnosis, because_of: str | None, ordinal: int) -> Record:
    first = diagnosis.evidence[0].moment
    evidence: list[dict[str, Any]] = [
        {"ts_ns": ns, "file": file, "packet": packet, "ref": ref, "text": text}
        for (ns, file, packet), text, ref in diagnosis.evidence
    ]
    return derived(
        "diagnosis",
        ordinal,
        first,
        conn_id=min(diagnosis.conn_ids) if len(diagnosis.conn_ids) == 1 else None,
        rule=diagnosis.rule,
        severity=diagnosis.severity,
        text=diagnosis.text,
        hint=diagnosis.hint,
        subject=diagnosis.subject,
        certainty=diagnosis.certainty,
        evidence=evidence,
        count=diagnosis.count,
        last_ns=diagnosis.last_ns or first.ns,
        because_of=because_of,
    )
