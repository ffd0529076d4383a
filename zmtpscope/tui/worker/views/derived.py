"""What views have in common that show what records mean together."""

from __future__ import annotations

from zmtpscope.meaning.derivation import Derivation
from zmtpscope.meaning.knowledge import Knowledge
from zmtpscope.meaning.observer import DerivedTable
from zmtpscope.store import Store
from zmtpscope.tui.worker.views.view import Step, View


class DerivedView(View):
    """A view of what is derived from the records that it is fed."""

    step_rows = 2048  # records are made again for it, which takes some microseconds each

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._derivation = Derivation()
        self._knowledge: Knowledge | None = None

    def feed(self, step: Step) -> None:
        """Derive from the next records."""
        self._take(self._derivation.feed(self.store.batch(step.rows)))
        self._knowledge = None

    def _take(self, tables: list[DerivedTable]) -> None:
        """Take derived records of single connections, where the view shows some."""

    @property
    def knowledge(self) -> Knowledge:
        """What is known so far."""
        if self._knowledge is None:
            self._knowledge = self._derivation.knowledge()
        return self._knowledge
