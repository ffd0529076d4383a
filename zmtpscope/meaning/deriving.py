"""Batches in, the same with derived records out: for whoever writes records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zmtpscope.dissect import Batch, Record
from zmtpscope.meaning.across.records import across_records
from zmtpscope.meaning.derivation import Derivation, derived_records
from zmtpscope.meaning.diagnose import diagnose
from zmtpscope.meaning.diagnosis_records import diagnosis_records


class Deriving:
    """Adds to the batches of one run, in order, what is derived from them."""

    def __init__(self) -> None:
        self.derivation = Derivation()
        self._files: list[str | None] = []

    def add_to(self, batch: Batch) -> None:
        """Put what has become decidable of single connections into a batch."""
        self._files = batch.files
        batch.records += derived_records(self.derivation.feed(batch))

    def last(self) -> Batch:
        """What is about several connections; no batch comes any more."""
        return Batch(self._files, records=[*last_records(self.derivation)])


def last_records(derivation: Derivation) -> Iterator[Record]:
    """The records about several connections, behind all that was fed."""
    knowledge, ordinal = derivation.knowledge(), derivation.end_ordinal
    yield from across_records(knowledge, ordinal)
    yield from diagnosis_records(diagnose(knowledge), ordinal)


def with_derived(batches: Iterable[Batch]) -> Iterator[Batch]:
    """All batches of a run with derived records in them, and one more behind."""
    deriving = Deriving()
    for batch in batches:
        deriving.add_to(batch)
        yield batch
    yield deriving.last()
