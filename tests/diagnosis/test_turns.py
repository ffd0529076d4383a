"""Turns of the two sides of a connection."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import twins

ORDINALS = st.lists(st.integers(0, 20), min_size=1, max_size=20).map(sorted)


@given(ORDINALS, ORDINALS)
def test_a_turn_ends_at_the_next_message_of_the_other_side(one: list[int], other: list[int]) -> None:
    columns = [(np.array(orders), np.array(orders) * 10) for orders in (one, other)]
    senders = [side for _, side in sorted([(order, 0) for order in one] + [(order, 1) for order in other])]
    for turns_of in twins("zmtpscope.diagnosis.observers.run_summaries.turns_of"):
        turns = turns_of(*columns)
        assert [turn.side for turn in turns for _ in range(turn.begin, turn.end)] == senders
        assert all(earlier.side != later.side for earlier, later in pairwise(turns))
        for side, orders in enumerate((one, other)):
            own = [turn for turn in turns if turn.side == side]
            assert [place for turn in own for place in range(turn.begin, turn.end)] == [*range(len(orders))]
            assert all(turn.first_ns == 10 * orders[turn.begin] for turn in own)
            assert all(turn.last_ns == 10 * orders[turn.end - 1] for turn in own)
