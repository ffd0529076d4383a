"""Replies are matched with requests by their envelopes, in the order in which they were captured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.export.test_json_lines import message_runs
from tests.suites import examples
from tests.twins import twins
from zmtpscope.diagnosis.observers.matching import MessageRow, OpenRequests, by_captured
from zmtpscope.dissect import MessageTable

ASKER, REPLIER = 0, 1
MESSAGES = st.lists(
    st.tuples(st.sampled_from([(), (b"one",), (b"two",)]), st.sampled_from([ASKER, REPLIER]), st.integers(0, 9)),
    max_size=24,
)
"""Envelope, side, and how long after the one before it was captured."""


def rows_of(messages: Iterable[tuple[Any, int, int]]) -> list[MessageRow]:
    rows, captured = [], 0
    for number, (key, side, later) in enumerate(messages):
        captured += later
        rows.append(MessageRow(number, captured, side, key, captured, 1, number, 9, 4, 0, key, False, None, 0))
    return rows


def pairs_of(pair: Any, rows: list[MessageRow], *, in_order: bool) -> list[tuple[int, int]]:
    paired, _ = pair(OpenRequests(), rows, ASKER, in_order)
    return [(request.offset, reply.offset) for request, reply in zip(paired.requests, paired.replies, strict=True)]


def one_by_one(rows: list[MessageRow], which: int) -> list[tuple[int, int]]:
    """Match in the plainest way: a reply answers the first (0) or the last (-1) open request; after the last, earlier
    ones are forgotten."""
    waiting: dict[Any, list[int]] = {}
    answered = []
    for row in rows:
        same = waiting.setdefault(row.key, [])
        if row.side == ASKER:
            waiting[row.key] = [row.offset] if which else [*same, row.offset]
        elif same:
            answered.append((same.pop(which), row.offset))
    return answered


PAIRS = twins("zmtpscope.diagnosis.observers.matching.pair")


@given(MESSAGES)
def test_a_peer_that_keeps_to_the_order_answers_the_oldest_request(messages: Any) -> None:
    rows = rows_of(messages)
    for pair in PAIRS:
        assert pairs_of(pair, rows, in_order=True) == one_by_one(rows, 0)


@given(MESSAGES)
def test_a_peer_that_asks_anew_is_answered_for_the_newest_request_only(messages: Any) -> None:
    rows = rows_of(messages)
    for pair in PAIRS:
        assert pairs_of(pair, rows, in_order=False) == one_by_one(rows, -1)


@given(MESSAGES)
def test_each_request_is_answered_or_asked_anew_or_the_last_of_its_envelope(messages: Any) -> None:
    rows = rows_of(messages)
    for pair in PAIRS:
        waiting = OpenRequests()
        answered = {request.offset for request in pair(waiting, rows, ASKER, False)[0].requests}
        last = {row.key: row.offset for row in rows if row.side == ASKER}
        anew = {waiting.rows[number].offset for number in waiting.anew}
        for row in rows:
            if row.side == ASKER:
                is_last = row.offset == last[row.key]
                assert (row.offset in answered) + (row.offset in anew) + (is_last and row.offset not in answered) == 1


def test_a_reply_that_was_read_late_answers_the_newest_request_before_it() -> None:
    first, late, second = rows_of([((), ASKER, 1), ((), REPLIER, 1), ((), ASKER, 1)])
    for pair in PAIRS:
        waiting = OpenRequests()
        pair(waiting, [first, second], ASKER, False)
        paired, early = pair(waiting, [late], ASKER, False)
        assert (paired.requests, paired.replies, paired.late, early) == ([first], [late], [False], [])
        assert [*waiting.rows.values()] == [second]


@given(MESSAGES, st.randoms(use_true_random=False), st.booleans(), st.integers(1, 24))
def test_a_side_that_was_read_later_is_matched_the_same_for_every_caller(
    messages: Any, random: Any, in_order: bool, size: int
) -> None:
    rows = rows_of(messages)
    random.shuffle(rows)
    found = []
    for pair in (PAIRS[0], PAIRS[-1]):
        waiting, early, steps = OpenRequests(), list[MessageRow](), []
        for begin in range(0, len(rows), size):
            block = sorted([*early, *rows[begin : begin + size]], key=by_captured)
            paired, early = pair(waiting, block, ASKER, in_order)
            steps.append((paired, early, {**waiting.rows}, {**waiting.anew}, {**waiting.by_key}))
        found.append((steps, waiting.given_up(50), waiting.oldest(len(waiting)), waiting.by_key))
    assert found[0] == found[1]


@examples(300, least=300)
@given(message_runs(), st.integers(0, 5), st.booleans(), st.integers(0, 60) | st.just(1 << 20))
def test_messages_with_an_envelope_are_the_same_for_every_caller(
    run: MessageTable, captured: int, addressed: bool, kept: int
) -> None:
    run.change(data=run.data[:kept])  # as if the capture or the options had cut the octets
    finders = twins("zmtpscope.diagnosis.observers.matching.enveloped")
    one, other = ([row._replace(run=None) for row in finders[n](run, 1, captured, addressed)] for n in (0, -1))
    assert one == other
    assert all(row.captured >= captured for row in one)
    assert not addressed or all(row.envelope for row in one)
    makers = twins("zmtpscope.diagnosis.observers.matching.content_of")
    for row in one:
        contents = [make(run, row.row, is_work) for is_work in (False, row.is_nested) for make in makers]
        assert len({*contents[: len(makers)]}) == len({*contents[len(makers) :]}) == 1
