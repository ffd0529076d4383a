"""Statistics equal a plain count of the lines of `read --json`, for any division into batches."""

from __future__ import annotations

import json
import math
import pathlib
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.peer_octets import GREETING, message, ready
from tests.readings import CAPTURE_FILES, CAPTURES, read
from tests.traffic import Capture, Conversation
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.statistics.report import Look, sparkline, table
from zmtpscope.export.statistics.rows import lines_of
from zmtpscope.export.statistics.statistics import KINDS, Statistics
from zmtpscope.export.statistics.tally import Pairs, Sizes

SECOND = 1_000_000_000


def rows_of(capture: Any, interval: int = SECOND, most: int = 1000) -> list[dict[str, Any]]:
    statistics, analyser = Statistics(KINDS, interval, most_rows=most), Analyser(Options(bodies="none"))
    first = latest = None
    for batch in analyser.run(capture):
        first = capture.statistics.first_time if first is None else first
        statistics.feed(batch, batch.records, first or 0)
    latest = capture.statistics.last_time or 0
    return [json.loads(line) for line in lines_of(statistics, latest, None)]


def statistics_of(capture: Any) -> Statistics:
    statistics = Statistics(KINDS, SECOND)
    for batch in Analyser(Options(bodies="none")).run(capture):
        statistics.feed(batch, batch.records, capture.statistics.first_time)
    return statistics


@pytest.mark.parametrize("width", [60, 80, 132, None])
def test_tables_fit_a_terminal(width: int | None) -> None:
    hostile = publications([b"\x1b[2J" * 9, "\u4e16\u754c".encode() * 40, b"x" * 5000, b"a\tb\n"])
    for capture in (hostile, open_captures([str(CAPTURES / "patterns/xpub-xsub.pcap")])):
        statistics = statistics_of(capture)
        for kind in KINDS[1:]:
            lines = list(table(statistics, kind, capture.statistics, Look(width, is_unicode=True), None, ""))
            assert len(lines) > 1
            assert all(cell_len(line) <= (width or 1000) for line in lines)
            assert not any(safe_text(line) != line for line in lines)


def percentile(sizes: list[int], part: float) -> int:
    return sorted(sizes)[max(0, math.ceil(part * len(sizes)) - 1)]


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: path.stem)
def test_numbers_match_the_records(path: pathlib.Path) -> None:
    records = read(path).records
    messages = [
        record for record in records if record["record"] == "message" and record["kind"] in ("data", "encrypted")
    ]
    sizes, intervals = Counter[int](), Counter[int]()
    by_conn, topics, latest = Counter[int](), Counter[Any](), 0
    for record in messages:
        if record["sizes"] is None:
            break
        latest = max(latest, record["ts_end_ns"])
        sizes[sum(record["sizes"])] += record["complete"]
        intervals[latest // (SECOND // 10)] += 1
        by_conn[record["conn"]] += 1
        topics[None if record["topic"] is None else record["topic"][:LONGEST_TOPIC]] += 1
    else:
        rows = rows_of(open_captures([str(path)]), SECOND // 10)
        (every,) = [row for row in rows if row["by"] == "all"] or [{"messages": 0}]
        assert every["messages"] == len(messages)
        if listed := list(sizes.elements()):
            expected = {f"p{round(100 * part)}": percentile(listed, part) for part in (0.5, 0.9, 0.99)}
            assert every["sizes"] == {"min": min(listed), **expected, "max": max(listed)}
        if messages and all(record["complete"] for record in messages):
            assert every["octets"] == sum(listed)
            assert every["busiest_per_second"] == 10 * max(intervals.values())
            assert sum(every["bars"]) == len(messages)
        assert {
            row["conn"]: row["messages"] for row in rows if row["by"] == "connection" and row["messages"]
        } == by_conn
        found = Counter[Any]()
        for row in rows:
            if row["by"] == "topic":
                found[row["topic"]] += row["messages"]
        assert found == topics
        gaps = [record for record in records if record["record"] == "gap"]
        if every["messages"] or gaps:
            assert (every["gaps"], every["gap_octets"]) == (len(gaps), sum(record["bytes"] for record in gaps))
        types = Counter(record["record"] for record in records if record["record"] not in ("message", "command"))
        assert types == {
            row["type"]: row["messages"]
            for row in rows
            if row["by"] == "type" and row["type"] != "message" and not row["type"].startswith("command ")
        }


@pytest.mark.parametrize("most", [1000, 3])
@pytest.mark.parametrize("name", ["patterns/pubsub", "damage/holes", "network/veth-1500"])
def test_nothing_depends_on_what_is_read_at_a_time(name: str, most: int) -> None:
    for path in sorted(CAPTURES.glob(f"{name}*.pcap*"))[:1]:
        whole = rows_of(open_captures([str(path)]), most=most)
        assert whole == rows_of(open_captures([str(path)], block_size=1 << 10), most=most)


def test_peers_are_named_by_what_was_known_at_their_first_message_for_any_block_size() -> None:
    path = str(CAPTURES / "versions/dealerrouter-bind3.2.5-conn4.3.5.pcap")
    whole, apart = (rows_of(open_captures([path], block_size=size)) for size in (1 << 20, 60))
    assert [row for row in whole if row["by"] == "peer"] == [row for row in apart if row["by"] == "peer"]


def publications(topics: list[bytes], *, size: int = 4) -> Capture:
    talk = Conversation()
    for side, name in ((1, "PUB"), (0, "SUB")):
        talk.send(side, GREETING + ready(name))
    for topic in topics:
        talk.send(1, message(topic, b"x" * size))
    capture = Capture(talk.packets, size=7)
    times = [packet.time for packet in capture.packets]
    capture.statistics.first_time, capture.statistics.last_time = min(times), max(times)
    return capture


def test_rare_keys_are_counted_together() -> None:
    topics = [b"%d" % number for number in range(100)] + [b"often"] * 50
    rows = [row for row in rows_of(publications(topics), most=8) if row["by"] == "topic"]
    assert rows[0]["topic"] == "often"
    assert rows[0]["messages"] == 50
    assert rows[-1]["others"]
    assert sum(row["messages"] for row in rows) == 150
    assert sum(row["octets"] for row in rows) == 100 * 4 + 10 + 2 * 90 + 50 * 9
    assert sum(sum(row["bars"]) for row in rows) == 150
    assert len(rows) <= 9


@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), max_size=40), st.integers(2, 4))
def test_folding_loses_no_message_and_depends_on_no_block(topics: list[bytes], most: int) -> None:
    capture = publications(topics)
    rows = rows_of(capture, most=most)
    assert sum(row["messages"] for row in rows if row["by"] == "topic") == len(topics)
    capture.size = 1 << 30
    assert rows_of(capture, most=most) == rows


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1 << 40), st.integers(1, 3)), max_size=50))
def test_pairs_are_counts(given: list[tuple[int, int, int]]) -> None:
    numbers, values, weights = (
        np.array(column, np.int64) for column in (list(zip(*given, strict=True)) or [[], [], []])
    )
    if not given:
        return
    expected = Counter[tuple[int, int]]()
    for number, value, weight in given:
        expected[number, value] += weight
    found = Pairs.of(numbers, values, weights)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == sorted(
        (*k, c) for k, c in expected.items()
    )


SIZES = st.lists(st.one_of(st.integers(0, 70), st.integers(0, 1 << 39)), min_size=1, max_size=60)


@given(SIZES, SIZES, st.integers(1, 100))
@example([0], [0, 64], 1)
def test_percentiles_are_exact_or_near(one: list[int], other: list[int], most: int) -> None:
    sizes, others = Sizes(most), Sizes(most)
    for size in one:
        sizes.add(size, 2)
    for size in other:
        others.add(size, 1)
    sizes.merge(others)
    every = 2 * one + other
    assert (sizes.least, sizes.most) == (min(every), max(every))
    if len(set(every)) <= most:
        assert sizes.is_exact
    for part, found in zip((0.01, 0.5, 0.99, 1.0), sizes.percentiles(0.01, 0.5, 0.99, 1.0), strict=True):
        expected = percentile(every, part)
        assert found is not None
        assert abs(found - expected) <= (0 if sizes.is_exact else 0.02 * expected)


def test_no_sizes_no_percentiles() -> None:
    assert Sizes().percentiles(0.5) == [None]


def test_sparklines() -> None:
    wide, ascii_only = Look(None, is_unicode=True), Look(None, is_unicode=False)
    assert sparkline([0, 1, 4, 8], 10, wide) == "·▁▄█"
    assert sparkline([0, 1, 4, 8], 2, wide) == "▁█"
    assert sparkline([0, 1, 4, 8], 10, ascii_only) == " .=#"
    assert sparkline([], 10, wide) == ""
    assert sparkline([0, 0], 10, wide) == "··"
