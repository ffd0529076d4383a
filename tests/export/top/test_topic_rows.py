"""The row of each topic, looked up many at a time, is that of a dictionary."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zmtpscope.export.top import topic_rows
from zmtpscope.export.top.counters import Counters
from zmtpscope.export.top.peers import Peer, Topic
from zmtpscope.export.top.topic_rows import TopicRows

SENDERS = [Peer(None, "10.0.0.1", port, "PUB") for port in (5555, 5556)]


Published = list[tuple[int, bytes]]
"""The index of the sender, and the topic, of each message."""


def assert_found(rows: TopicRows, counters: Counters[Topic], published: Published, behind: bytes) -> None:
    data, starts = b"", []
    for _, name in published:
        data += b"\x00"
        starts.append(len(data))
        data += name
    senders, sizes = np.array([sender for sender, _ in published]), np.array([len(name) for _, name in published])
    found = rows.rows(dict(enumerate(SENDERS)), senders, data + behind, np.array(starts), sizes).tolist()
    assert [counters.keys[row] for row in found] == [Topic(SENDERS[sender], name) for sender, name in published]


names = st.binary(max_size=40) | st.sampled_from([b"", b"a", b"a\0", b"a\0\0", b"topic.1", b"topic.12"])
published = st.lists(st.tuples(st.sampled_from([0, 1]), names), min_size=1)


@given(st.lists(published, max_size=6), st.integers(1, 40), st.binary(max_size=50))
def test_rows_match_the_topics(calls: list[Published], least: int, behind: bytes) -> None:
    counters = Counters[Topic]()
    rows = TopicRows(counters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic_rows, "MIN_MESSAGES", least)
        for each in calls:
            assert_found(rows, counters, each, behind)


def test_topics_in_one_place_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_rows, "PLACE_BITS", 1)
    counters = Counters[Topic]()
    rows = TopicRows(counters)
    random = Random(1)
    for _ in range(4):
        published = [(random.randrange(2), b"%d" % random.randrange(20)) for _ in range(200)]
        assert_found(rows, counters, published, bytes(32))


def test_rows_that_have_other_numbers_are_looked_up_anew() -> None:
    counters = Counters[Topic]()
    rows = TopicRows(counters)
    assert_found(rows, counters, [(0, b"a"), (0, b"b")] * 50, bytes(32))
    counters.roll_back(1)
    rows.clear()
    assert_found(rows, counters, [(0, b"b"), (0, b"a")] * 50, bytes(32))
