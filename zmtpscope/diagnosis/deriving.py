"""Add derived records to batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zmtpscope.diagnosis.across.records import across_records
from zmtpscope.diagnosis.derivation import Derivation, derived_records
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.diagnosis.diagnosis_records import diagnosis_records
from zmtpscope.dissect import Batch, Record


class Deriving:
    """Adds derived records to the batches of one run, in order."""

    def __init__(self) -> None:
        self.derivation = Derivation()
        self._files: list[str | None] = []

    def add_to(self, batch: Batch) -> None:
        """Add everything newly decided about single connections to a batch."""
        self._files = batch.files
        batch.records += derived_records(self.derivation.feed(batch))

    def last(self) -> Batch:
        """Return a last batch with the records about several connections."""
        return Batch(self._files, records=[*last_records(self.derivation)])


def last_records(derivation: Derivation) -> Iterator[Record]:
    """Yield the records about several connections, after all input."""
    knowledge, ordinal = derivation.knowledge(), derivation.end_ordinal
    yield from across_records(knowledge, ordinal)
    yield from diagnosis_records(diagnose(knowledge), ordinal)


def with_derived(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield all batches of a run with derived records, then one more batch."""
    deriving = Deriving()
    for batch in batches:
        deriving.add_to(batch)
        yield batch
    yield deriving.last()
