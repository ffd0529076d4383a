"""Replies are matched at once as they would be one by one."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zmtpscope.meaning.observers.matching import NOBODY, asked_anew, newest_first, oldest_first

Events = list[tuple[int, bool]]
EVENTS = st.lists(st.tuples(st.sampled_from([0, 7, -7]), st.booleans()), max_size=24)
"""Key, and whether it is a reply."""


def one_by_one(events: Events, which: int) -> list[int]:
    """The numbers of the requests that replies answer, the first (0) or the last (-1) that is open; the newest one
    makes those in front of it forgotten."""
    waiting: dict[int, list[int]] = defaultdict(list)
    answered = []
    for number, (key, is_reply) in enumerate(events):
        if is_reply:
            answered.append(waiting[key].pop(which) if waiting[key] else NOBODY)
        else:
            answered.append(NOBODY)
            waiting[key] = [number] if which else [*waiting[key], number]
    return answered


def columns(events: Events) -> tuple[np.ndarray, np.ndarray]:
    return np.array([key for key, _ in events], np.int64), np.array([is_reply for _, is_reply in events], np.bool_)


@given(EVENTS)
def test_who_keeps_to_the_order_answers_the_oldest_request(events: Events) -> None:
    assert oldest_first(*columns(events)).tolist() == one_by_one(events, 0)


@given(EVENTS)
def test_who_asks_anew_is_answered_for_the_newest_request_only(events: Events) -> None:
    assert newest_first(*columns(events)).tolist() == one_by_one(events, -1)


@given(EVENTS)
def test_each_request_is_answered_or_asked_anew_or_the_last_of_its_key(events: Events) -> None:
    keys, is_reply = columns(events)
    answered, anew = set(newest_first(keys, is_reply).tolist()), asked_anew(keys, is_reply)
    for number, (key, reply) in enumerate(events):
        if not reply:
            is_last = all(other != key for other, _ in events[number + 1 :])
            assert (number in answered) + (anew[number] != NOBODY) + is_last == 1
