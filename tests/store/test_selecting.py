"""A store selects the same records as filtering the batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.test_arrow import ODD
from tests.export.test_json_lines import mixed_batches
from tests.filter.test_rows import filters
from tests.store.stores import FILES, json_lines, opened, options_for
from tests.suites import examples
from zmtpscope.dissect import Batch, Options
from zmtpscope.filter import Filter
from zmtpscope.filter.selection import Selection
from zmtpscope.store import Store


@examples(400)
@given(filters(), mixed_batches(), st.sampled_from(ODD), st.none() | st.integers(0, 2_000_000_000))
def test_what_is_selected_is_what_filtering_leaves(
    text: str, batch: Batch, options: Options, start: int | None
) -> None:
    store = Store(options)
    store.append(batch)
    store.first_time = start
    found = Filter(text)
    expected = json_lines([Selection(found, batch, options, start).as_batch()], options)
    assert json_lines([store.batch(store.select(found))], options) == expected


@pytest.mark.parametrize("path", FILES[::5], ids=lambda path: path.stem)
@examples(5)
@given(data=st.data())
def test_the_same_of_captures(path: Path, data: st.DataObject) -> None:
    options = options_for(path)
    store, batches = opened(path, options)
    for _ in range(10):
        found = Filter(data.draw(filters()))
        parts = [Selection(found, batch, options, store.first_time).as_batch() for batch in batches]
        assert json_lines([store.batch(store.select(found))], options) == json_lines(parts, options)
