"""The view of topics: a tree of topics with their last values."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.readings import CAPTURES
from tests.tui.worker.views.fed import cells, opened_whole, store_of, view_of_capture
from zmtpscope.tui.requests import Sort, Wanted
from zmtpscope.tui.worker.views import topics
from zmtpscope.tui.worker.views.last_values import members_changed
from zmtpscope.tui.worker.views.topic_counts import MESSAGES, TopicCounts
from zmtpscope.tui.worker.views.topic_tree import Node, nodes_of, separator_of


def test_messages_of_each_topic_equal_the_received_ones() -> None:
    truth = json.loads((CAPTURES / "patterns/pubsub.truth.json").read_text())
    received = Counter(topic for topic, _ in truth["received"])
    table = view_of_capture("topics", "patterns/pubsub.pcap").table()
    assert cells(table, "topic", "messages") == [(f'"{name}"', str(count)) for name, count in sorted(received.items())]
    assert cells(table, "last", "change") == [("late", "changed")] * 3
    assert cells(table, "subscribers") == [("2",), ("2",), ("1",)]


def test_receivers_are_below_a_topic() -> None:
    table = opened_whole(view_of_capture("topics", "patterns/pubsub.pcap"))
    assert cells(table, "topic", "from", "messages")[:3] == [
        ('"a.topic"', "PUB 127.0.0.1:5630", "7"),
        ("to SUB 127.0.0.1", "PUB 127.0.0.1:5630", "3"),
        ("to SUB 127.0.0.1", "PUB 127.0.0.1:5630", "4"),
    ]


def test_topics_with_a_common_prefix_are_a_tree() -> None:
    table = opened_whole(view_of_capture("topics", "implementations/jupyter.pcap"))
    shown = [(row.depth, *names) for row, names in zip(table.rows, cells(table, "topic", "messages"), strict=True)]
    place = shown.index((0, '"stream."', "6"))
    assert shown[place + 1 : place + 3] == [(1, '"stderr"', "4"), (1, '"stdout"', "2")]


def test_a_text_keeps_rows_that_contain_it_and_their_ancestors() -> None:
    view = view_of_capture("topics", "implementations/jupyter.pcap")
    found = view.table(Wanted(containing="STDERR"))
    assert [(row.depth, row.cells[0]) for row in found.rows] == [(0, '"stream."'), (1, '"stderr"')]
    assert view.table(Wanted(containing="nothing of the kind")).rows == ()


def test_numbers_show_their_difference() -> None:
    table = view_of_capture("topics", "patterns/xpub-xsub.pcap").table()
    assert ('"beta"', "4", "+2") in cells(table, "topic", "last", "change")


@pytest.mark.parametrize(
    ("before", "last", "change"),
    [
        ({"price": 1.5, "state": "up"}, {"price": 1.25, "state": "up"}, "price -0.25"),
        ({"price": 1, "state": "up"}, {"price": 2, "state": "down"}, "price +1, state"),
        ({"price": 1}, {"price": 10**400}, "price"),
        ({"price": 1}, {"price": float("nan")}, "price"),
        ({"a\x1b": 1}, {"a\x1b": "b"}, "a\\x1b"),
        (dict.fromkeys("abcde", 0), dict.fromkeys("abcde", 1), "a +1, b +1, c +1 …"),
        ({}, {"price": 1}, ""),
    ],
)
def test_named_members_that_differ_are_shown(before: dict[str, Any], last: dict[str, Any], change: str) -> None:
    assert members_changed(before, last) == change


def test_topics_are_sorted_by_octets_on_request() -> None:
    table = view_of_capture("topics", "patterns/pubsub.pcap").table(Wanted(Sort("octets", descending=True)))
    assert cells(table, "topic")[0] == ('"b.topic"',)


@pytest.mark.parametrize(
    ("topics", "separator", "labels"),
    [
        ([b"a/b/c", b"a/b/d", b"x"], b"/", [b"a/b/", b"x"]),
        ([b"a/b/c", b"a/b/d", b"a/b", b"a"], b"/", [b"a", b"a/"]),
        ([b"prices.EUR", b"prices.USD", b"news"], b".", [b"news", b"prices."]),
        ([b"10.0.0.1:80", b"10.0.0.1:81", b"10.0.0.2:80"], b".", [b"10.0.0."]),
        ([b"one", b"two/x"], None, [b"one", b"two/x"]),
        ([b"/", b"//", b"///"], b"/", [b"/"]),
        ([], None, []),
    ],
)
def test_the_separator_is_in_most_topics(topics: list[bytes], separator: bytes | None, labels: list[bytes]) -> None:
    assert separator_of(topics) == separator
    assert [node.label for node in nodes_of(sorted(topics), separator)] == labels


def test_every_topic_is_in_the_tree_once() -> None:
    topics = sorted(
        {b"/".join(str(n // d).encode() for d in (27, 9, 3, 1)) for n in range(60)} | {b"0", b"0/", b"//", b""}
    )

    def below(nodes: list[Node]) -> list[bytes]:
        found: list[bytes] = []
        for node in nodes:
            found += below(nodes_of(node.topics, b"/", node.prefix)) if node.is_group else node.topics
        return found

    assert sorted(below(nodes_of(topics, b"/"))) == topics


def test_messages_of_topics_beyond_the_limit_are_counted() -> None:
    store, counts = store_of(CAPTURES / "damage/holes.pcap"), TopicCounts(most=10)
    for messages in store.messages(range(len(store))):
        counts.count(messages, None)
    assert len(counts.keys) == 10
    assert int(counts.columns[MESSAGES].sum()) + counts.left_out == sum(map(len, store.messages(range(len(store)))))


def test_of_too_many_topics_the_most_frequent_have_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAX_LINES", 2)
    table = view_of_capture("topics", "patterns/pubsub.pcap").table()
    assert cells(table, "topic", "messages") == [
        ('"a.topic"', "7"),
        ('"b.topic"', "8"),
        ("and 1 more with fewer messages", ""),
    ]
