"""Lines of a store equal the output of `read` at any position, requested in any order."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.store.stores import FILES, opened, options_for
from zmtpscope.export.clock import Clock
from zmtpscope.export.text import Look, TextLines
from zmtpscope.store import lines as store_lines


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_lines_match_a_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, random = options_for(path, frames="many" in path.stem), Random(path.stem)
    monkeypatch.setattr(store_lines, "STEP", random.choice((1, 3, 20)))
    monkeypatch.setattr(store_lines, "MAX_COPIES", random.choice((2, 5, 64)))
    store, batches = opened(path, options)
    text = TextLines(Look(Clock("r", lambda: store.first_time), chat=True), options)
    expected: list[str | None] = [None] * len(store)
    begin = 0
    for batch in batches:
        for number, line in text.lines_in_order(batch):
            expected[begin + number] = line
        begin += sum(1 for _ in batch.in_order())
    for row in random.sample(range(len(store)), min(len(store), 40)):
        assert store.line(row) == expected[row], row
    low, high = sorted((random.randint(0, len(store)), random.randint(0, len(store))))
    assert store.lines(low, high) == expected[low:high]
