"""How many events there had been before a time is known within bounds, exactly for the first ones and at the end."""

from __future__ import annotations

import pickle
from bisect import bisect_left
from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zmtpscope.diagnosis.observers.timeline import EXACT, MAX_SAMPLES, Timeline

waits = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=400), min_size=1, max_size=12)


def _timeline(batches: list[list[int]]) -> tuple[Timeline, list[int]]:
    timeline, all_times = Timeline(), list(accumulate(wait for batch in batches for wait in batch))
    begin = 0
    for batch in batches:
        timeline.add(np.array(all_times[begin : begin + len(batch)], np.int64))
        begin += len(batch)
    return timeline, all_times


@given(waits, st.integers(-1, 4000))
def test_bounds_hold_for_any_events_in_any_batches(batches: list[list[int]], time: int) -> None:
    timeline, times = _timeline(batches)
    least, most = timeline.before(time)
    true = bisect_left(times, time)
    assert least <= true <= most
    assert most - least < 2 * max(1, len(times) // EXACT)
    if true < EXACT or time > times[-1]:
        assert least == most
    assert len(timeline.samples) <= MAX_SAMPLES
    assert timeline.count == len(times)


@given(waits, st.integers(-1, 4000), st.integers(0, 4000))
def test_bounds_of_a_stretch_hold(batches: list[list[int]], start: int, size: int) -> None:
    timeline, times = _timeline(batches)
    least, most = timeline.between(start, start + size)
    assert least <= bisect_left(times, start + size) - bisect_left(times, start) <= most


@given(waits)
def test_it_is_the_same_in_one_batch_and_as_octets(batches: list[list[int]]) -> None:
    timeline, _ = _timeline(batches)
    assert _timeline([[wait for batch in batches for wait in batch]])[0] == timeline
    assert pickle.loads(pickle.dumps(timeline)) == timeline


def test_bounds_are_as_wide_as_samples_are_apart() -> None:
    timeline, times = _timeline([[1] * 1000])
    found = [timeline.before(time) for time in range(1, 1001)]
    assert all(least <= time - 1 <= most for time, (least, most) in enumerate(found, 1))
    assert {most - least for least, most in found[EXACT : len(times) // 2]} == {timeline.stride - 1}
