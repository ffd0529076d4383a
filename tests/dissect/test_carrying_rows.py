"""The octets of a block by direction: compiled and in Python (seam P20)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import twins
from zmtpscope.dissect.records.columns import Int64


@pytest.mark.parametrize("joined", twins("zmtpscope.dissect.fast_path.carrying_rows.joined"))
@given(st.lists(st.lists(st.binary(max_size=9), max_size=4), max_size=5), st.randoms())
def test_octets_are_joined_by_direction(
    joined: Callable[..., list[bytes]], directions: list[list[bytes]], random: Random
) -> None:
    """In any order, and not all of them."""
    rows = [octets for rows_of in directions for octets in rows_of]
    edges = np.cumsum([0, *map(len, rows)])
    bounds = np.cumsum([0, *map(len, directions)])
    chosen = [number for number in range(len(directions)) if random.random() < 0.8]
    first: Int64 = bounds[:-1][chosen]
    last: Int64 = bounds[1:][chosen]
    found = joined(b"".join(rows), edges[:-1], edges[1:], first, last)
    assert found == [b"".join(directions[number]) for number in chosen]
