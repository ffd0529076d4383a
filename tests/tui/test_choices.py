"""The worker knows all names that users choose from."""

from __future__ import annotations

from zmtpscope.export.clock import FORMS
from zmtpscope.tui.choices import COLUMN_TITLES, COPY_FORMS, CYCLED_TIMES, TIMES
from zmtpscope.tui.worker import snippets
from zmtpscope.tui.worker.columns import COLUMNS


def test_every_column_format_and_time_can_be_chosen() -> None:
    assert COLUMN_TITLES.keys() == COLUMNS.keys()
    assert COPY_FORMS.keys() == snippets.FORMS.keys()
    assert FORMS.keys() >= TIMES.keys() >= set(CYCLED_TIMES)
