"""Details of a record equal the lines of `read -V -x`, at any time, without secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.store.stores import FILES, SMALLEST_BLOCK, opened, options_for
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.export.clock import Clock
from zmtpscope.export.text import Look, detail_lines


def shown(path: Path, options: Options) -> list[list[str]]:
    """The lines under that of each record, in the order of records, as a run shows them that was asked for details."""
    look = Look(Clock("e", lambda: None), tree=True, hex=True)
    found = []
    for batch in Analyser(replace(options, details=True, index=False)).run(open_captures([str(path)])):
        found += [list(detail_lines(item, index, look, options)) for item, index in batch.in_order()]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_details_match_a_run_with_details(path: Path) -> None:
    options, random = options_for(path), Random(path.stem)
    expected = shown(path, options_for(path))
    store, _ = opened(path, options, block_size=random.choice((SMALLEST_BLOCK, 1 << 16)))
    assert len(store) == len(expected)
    rows = random.sample(range(len(store)), min(len(store), 60))
    for row in rows:
        assert store.detail(row) == expected[row], row
