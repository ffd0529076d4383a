"""Which segments belong to the same flow: exact, whatever the keys are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zmtpscope.capture import flow_keys


def keys_of(length: int) -> st.SearchStrategy[list[bytes]]:
    """Keys that often come again; of some hundred different ones two or more always share a hash."""
    different = st.lists(st.binary(min_size=length, max_size=length), min_size=1, max_size=8)
    numbered = st.integers(1, 2000).map(lambda count: [number.to_bytes(length, "big") for number in range(count)])
    pools = st.one_of(different, numbered)
    return pools.flatmap(lambda pool: st.lists(st.sampled_from(pool), min_size=1, max_size=300))


@pytest.mark.parametrize("length", [12, 36])
@pytest.mark.parametrize("hashes", ["differ", "are all the same"])
@given(data=st.data())
def test_distinct_keys_come_in_order_of_first_appearance(length: int, hashes: str, data: st.DataObject) -> None:
    """Also if somebody chose keys that all have one hash: two flows are never joined."""
    keys = data.draw(keys_of(length))
    with pytest.MonkeyPatch.context() as patch:
        if hashes != "differ":
            patch.setattr(flow_keys, "MULTIPLIERS", np.zeros_like(flow_keys.MULTIPLIERS))
        found, flows = flow_keys.distinct(np.array(keys, f"V{length}"))
    assert found == list(dict.fromkeys(keys))
    assert [found[flow] for flow in flows] == keys
