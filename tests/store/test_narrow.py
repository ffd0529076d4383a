"""A filter gives the same result on packed columns as on each record."""

from __future__ import annotations

import operator
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.stores import FILES, SMALLEST_BLOCK, opened, options_for
from zmtpscope.filter import Filter
from zmtpscope.filter.conditions import Comparison, IsThere, OneOf, Predicate, Within
from zmtpscope.filter.fields import CAPTURE_START, FIELDS
from zmtpscope.filter.writing import literal
from zmtpscope.store.narrow import fitting
from zmtpscope.store.packed import Packed

LIMIT = 2**63
numbers = st.integers(-3, 300) | st.integers(-LIMIT, LIMIT - 1)
others = numbers | st.fractions(-5, 300, max_denominator=4)
compares = st.sampled_from([operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
single = st.just(IsThere()) | st.builds(Comparison, compares, others) | st.builds(Within, others, others)
predicates = single | st.lists(single, min_size=1, max_size=3).map(lambda some: OneOf(tuple(some)))


@given(st.lists(numbers, min_size=1), predicates, st.integers(-5, 5))
def test_numbers_fit_as_they_are(values: list[int], predicate: Predicate, shift: int) -> None:
    found = fitting(Packed.of(np.array(values, np.int64)), predicate, shift)
    assert np.broadcast_to(found, len(values)).tolist() == [predicate(value - shift) for value in values]


@given(st.lists(st.integers(0, 20), min_size=1), st.data())
def test_numbers_fit_at_the_edges(values: list[int], data: st.DataObject) -> None:
    edges = st.sampled_from(values) | st.sampled_from(values).map(lambda value: Fraction(2 * value + 1, 2))
    predicate = Comparison(data.draw(compares), data.draw(edges))
    found = fitting(Packed.of(np.array(values, np.int64)), predicate, 0)
    assert np.broadcast_to(found, len(values)).tolist() == [predicate(value) for value in values]


NAMES = ("size", "sizes", "parts", "packet", "ts_ns", "conn", "src_port", "src_ip", "conn_id", "side", "socket_type")
MORE_NAMES = (
    "version",
    "topic",
    "kind",
    "record",
    "source",
    "decrypted",
    "id",
    "name",
    "mechanism",
    "complete",
    "zmtp.length",
)


@pytest.mark.parametrize("path", FILES[::2], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_filters_of_columns_hold_of_the_records_that_they_find(path: Path) -> None:
    random = Random(path.stem)
    store, _ = opened(path, options_for(path), block_size=SMALLEST_BLOCK)
    records = [store.row(row) | {CAPTURE_START: store.first_time} for row in range(len(store))]
    for name in (*NAMES, *MORE_NAMES):
        field = FIELDS[name]
        values = {each for record in records for each in field.values(record)}
        for value in random.sample(sorted(values), min(len(values), 2)):
            operators = (
                ("==", "!=") if isinstance(value, bool) or field.words or name == "src_ip" else ("<=", ">", "!=")
            )
            text = f"{name} {random.choice(operators)} {literal(field, value)}"
            found = Filter(random.choice(("{}", "not {}", "{} and conn == 1", "{} or size > 3")).format(text))
            expected = [row for row, record in enumerate(records) if found.holds(record)]
            assert store.select(found).tolist() == expected, found.text
