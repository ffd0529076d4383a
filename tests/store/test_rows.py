"""A store restores its batches: whole, in parts, and in any order."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.test_arrow import ODD
from tests.export.test_json_lines import mixed_batches
from tests.rows_by_hand import values_of
from tests.store.stores import FILES, SMALLEST_BLOCK, json_lines, opened, options_for
from tests.suites import examples
from zmtpscope.dissect import Batch, Options
from zmtpscope.store import Store


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_all_records_of_a_capture_are_restored(path: Path) -> None:
    options = options_for(path)
    store, batches = opened(path, options)
    expected = json_lines(batches, options)
    assert store.problem is None
    assert len(store) == len(expected)
    assert json_lines([store.batch(slice(None))], options) == expected


@pytest.mark.parametrize("path", FILES[::3], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_some_records_of_a_capture_are_restored_in_any_order(path: Path) -> None:
    options, random = options_for(path), Random(path.stem)
    store, batches = opened(path, options, block_size=SMALLEST_BLOCK)
    expected = json_lines(batches, options)
    for _ in range(30):
        some = sorted(random.sample(range(len(store)), min(len(store), random.choice((1, 2, 5, 50)))))
        assert json_lines([store.batch(some)], options) == [expected[row] for row in some]


@examples(200)
@given(st.lists(mixed_batches(), min_size=1, max_size=3), st.sampled_from(ODD), st.data())
def test_any_batch_is_restored(batches: list[Batch], options: Options, data: st.DataObject) -> None:
    for batch in batches:
        store = Store(options)
        store.append(batch)
        expected = json_lines([batch], options)
        assert json_lines([store.batch(range(len(store)))], options) == expected
        some = data.draw(st.sets(st.integers(0, len(store) - 1)) if len(store) else st.just(set()))
        assert json_lines([store.batch(sorted(some))], options) == [expected[row] for row in sorted(some)]
        for row, values in enumerate(values_of(batch, options)):
            assert store.row(row) == values


def test_rows_are_numbered_as_lists_are() -> None:
    store, _ = opened(FILES[0])
    assert store.row(-1) == store.row(len(store) - 1)
    with pytest.raises(IndexError, match="from 0 to"):
        store.row(len(store))
