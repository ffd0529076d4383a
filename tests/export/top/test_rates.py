"""Messages counted by topic, connection and peer, against a plain count of the lines of `read --json`."""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.peer_octets import cancel, hello, message, subscribe
from tests.readings import CAPTURE_FILES, CAPTURES, read
from tests.suites import some
from tests.traffic import Capture, Conversation
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC
from zmtpscope.export.top import columns, rates
from zmtpscope.export.top.counters import RECEIVED, SENT, SENT_OCTETS
from zmtpscope.export.top.peers import Topic
from zmtpscope.export.top.rates import KINDS, Rates
from zmtpscope.export.top.rows import interval_rows, lines, total_rows
from zmtpscope.payloads.registry import Registry
from zmtpscope.records import from_text, to_text

SECOND, MILLISECOND = 1_000_000_000, 1_000_000
PATTERNS = sorted(CAPTURES.glob("patterns/*.pcap"))


def rows_by_kind(capture: Any, interval: int | None, most: int = 1000) -> dict[str, list[dict[str, Any]]]:
    """The JSON lines of each kind, interval by interval; rows sorted, so that their order does not matter."""
    rates = Rates(interval, most)
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}

    def note(ended: Any) -> None:
        for each in ended:
            for kind in KINDS:
                rows = interval_rows(rates, kind, (each.end_ns - each.start_ns) / SECOND)
                found[kind] += map(json.loads, sorted(lines(rows, kind, each)))

    for batch in Analyser(Options(bodies="none")).run(capture):
        note(rates.feed(batch))
    note(rates.finish())
    return found


def counted(path: pathlib.Path, interval: int) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
    """Messages by interval and topic, by interval, connection and side, and octets by interval and topic; record by
    record."""
    topics, connections, octets = Counter[Any](), Counter[Any](), Counter[Any]()
    latest = 0
    for record in read(path).of("message"):
        latest = max(latest, record["ts_end_ns"])
        if record["kind"] in ("subscribe", "cancel"):
            continue
        start = latest // interval * interval
        topic = None if record["topic"] is None else to_text(from_text(record["topic"])[:LONGEST_TOPIC])
        topics[start, topic] += 1
        connections[start, record["conn"], record["side"]] += 1
        if record["complete"] and record["sizes"] is not None:
            octets[start, topic] += sum(record["sizes"])
        else:
            octets[start, topic] += 1 << 60  # not to be compared
    return topics, connections, octets


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_counts_match_the_records(path: pathlib.Path) -> None:
    found = rows_by_kind(open_captures([str(path)]), SECOND)
    topics, connections, octets = counted(path, SECOND)
    by_topic, octets_by_topic = Counter[Any](), Counter[Any]()
    for line in found["topic"]:
        by_topic[line["start_ns"], line["topic"]] += line["messages"]
        octets_by_topic[line["start_ns"], line["topic"]] += line["octets"]
    assert by_topic == topics
    whole = {key for key, value in octets.items() if value < 1 << 60}
    assert {key: octets_by_topic[key] for key in whole} == {key: octets[key] for key in whole}
    by_side = Counter[Any]()
    for line in found["connection"]:
        for side in (0, 1):
            by_side[line["start_ns"], line["conn"], side] += line[f"messages_{side}"]
    assert +by_side == connections
    for name in ("messages_sent", "messages_received"):
        assert sum(line[name] for line in found["peer"]) == sum(topics.values())


@pytest.mark.parametrize("path", some(PATTERNS, 2), ids=lambda path: path.stem)
@pytest.mark.parametrize("most", [3, 1000])
def test_nothing_depends_on_what_is_read_at_a_time(path: pathlib.Path, most: int) -> None:
    whole, small = (
        rows_by_kind(open_captures([str(path)], block_size=size), 20 * MILLISECOND, most) for size in (1 << 21, 300)
    )
    assert whole == small


def test_subscribers_are_the_ones_that_could_get_a_message() -> None:
    path = CAPTURES / "patterns/pubsub.pcap"
    truth = json.loads(path.with_suffix(".truth.json").read_text())
    rows = {line["topic"]: line for line in rows_by_kind(open_captures([str(path)]), None)["topic"]}
    subscribed = [topic for kind, topic in truth["subscriptions"] if kind == "subscribe"]
    assert sorted(subscribed) == ["", "a", "b"]  # by two sockets
    assert {topic: line["subscribers"] for topic, line in rows.items()} == {"a.topic": 2, "b.topic": 2, "c.topic": 1}


# -- scripted connections ----------------------------------------------------------------------------------------------


def talk(*acts: tuple[int, bytes], types: tuple[str, str] = ("SUB", "PUB"), **more: Any) -> Conversation:
    conversation = Conversation(**more)
    conversation.send(0, hello(types[0], identity=more.pop("identity", "")))
    conversation.send(1, hello(types[1]))
    for side, octets in acts:
        conversation.send(side, octets)
    return conversation


def rates_of(packets: list[Any], interval: int | None = None, most: int = 1000) -> Rates:
    rates = Rates(interval, most)
    for batch in Analyser(Options(bodies="none")).run(Capture(packets)):
        list(rates.feed(batch))
    list(rates.finish())
    return rates


def totals(rates: Rates, kind: str) -> dict[str, int]:
    return {row.name: row.counts.messages for row in total_rows(rates, kind, 1.0, 1.0)}


def subscribers(rates: Rates) -> dict[str, int | None]:
    return {row.name: row.subscribers for row in total_rows(rates, "topic", 1.0, 1.0)}


def test_a_peer_that_reconnects_is_one_row() -> None:
    packets = []
    for port in (50_000, 50_001, 50_002):
        one = talk((0, subscribe(b"a")), (1, message(b"a", b"1")), ports=(port, 5555), start=port * SECOND)
        one.close()
        packets += one.packets
    rates = rates_of(packets)
    assert totals(rates, "peer") == {"10.0.0.2 SUB": 3, "10.0.0.1:5555 PUB": 3}
    assert totals(rates, "topic") == {'"a"': 3}
    assert list(totals(rates, "connection")) == [
        f"{conn} 10.0.0.2:{port} SUB > 10.0.0.1:5555 PUB" for conn, port in enumerate((50_000, 50_001, 50_002), 1)
    ]


def test_a_peer_is_named_by_its_identity() -> None:
    one = Conversation()
    one.send(0, hello("DEALER", identity="worker-1"))
    one.send(1, hello("ROUTER"))
    one.send(0, message(b"ready"))
    assert totals(rates_of(one.packets), "peer") == {'"worker-1" DEALER': 1, "10.0.0.1:5555 ROUTER": 1}


@pytest.mark.parametrize(
    ("ports", "peers"),
    [
        ((5555, 50_000), {"10.0.0.2:5555", "10.0.0.1"}),  # the listener was seen first
        ((50_000, 5555), {"10.0.0.2", "10.0.0.1:5555"}),
        ((50_000, 50_001), {"10.0.0.2", "10.0.0.1:50001"}),
        ((5555, 5556), {"10.0.0.2", "10.0.0.1:5556"}),
    ],
)
def test_a_peer_that_connects_has_no_port_in_its_name(ports: tuple[int, int], peers: set[str]) -> None:
    one = Conversation(syn=False, ports=ports)
    for _ in range(5):
        one.send(0, message(b"some", b"message"))
        one.acknowledge(1)
    assert set(totals(rates_of(one.packets), "peer")) == peers


def test_a_password_is_no_value_that_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "SHOWN_FRAMES", 20)
    request = (b"", b"1.0", b"7", b"global", b"10.0.0.7", b"", b"PLAIN", b"bob", b"s3cr3t")
    one = talk((0, message(*request)), types=("REQ", "REP"))
    for payloads, shown in ((Registry(), False), (None, True)):
        rates = Rates(None)
        for batch in Analyser(Options(bodies="none", payloads=payloads)).run(Capture(one.packets)):
            list(rates.feed(batch))
        (last,) = {str(rates.topics.last[1]), str(rates.connections.last[1])}
        assert ("s3cr3t" in last) is shown


def test_a_subscription_counts_until_the_end_of_its_interval() -> None:
    one = talk((0, subscribe(b"a")), (1, message(b"ab", b"1")))
    one.send(0, cancel(b"a"))
    assert subscribers(rates_of(one.packets)) == {'"ab"': 1}
    two = talk((0, subscribe(b"a")), (1, message(b"ab", b"1")), (0, cancel(b"a")))
    two.wait(SECOND)
    two.send(1, message(b"ab", b"2"))
    lines_of = rows_by_kind(Capture(two.packets), SECOND)["topic"]
    assert [line["subscribers"] for line in lines_of] == [1, 0]


def test_a_connection_that_has_gone_subscribes_to_nothing() -> None:
    leaves = talk((0, subscribe(b"")), (1, message(b"a", b"1")))
    leaves.close()
    stays = talk((0, subscribe(b"")), ports=(50_001, 5555), start=leaves.time + SECOND)
    stays.send(1, message(b"a", b"2"))
    found = rows_by_kind(Capture([*leaves.packets, *stays.packets]), SECOND)["topic"]
    assert [line["subscribers"] for line in found] == [1, 1]
    assert [line["messages"] for line in found] == [1, 1]


def test_the_same_subscription_twice_has_to_be_cancelled_twice() -> None:
    one = talk(*[(0, subscribe(b"a"))] * 2, (1, message(b"a", b"1")))
    for _ in range(2):
        one.send(0, cancel(b"a"))
        one.wait(SECOND)
        one.send(1, message(b"a", b"2"))
    found = rows_by_kind(Capture(one.packets), SECOND)["topic"]
    assert [line["subscribers"] for line in found] == [1, 1, 0]


def test_subscriptions_beyond_the_limit_are_counted_as_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    one = talk(*[(0, subscribe(b"%d" % number)) for number in range(5)])
    rates = Rates(None)
    rates.subscriptions.most = 3
    for batch in Analyser(Options(bodies="none")).run(Capture(one.packets)):
        list(rates.feed(batch))
    assert rates.subscriptions.left_out == 2


publications = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([b"%d" % number for number in range(12)]), st.integers(-30, 30)),
    min_size=1,
    max_size=60,
)
"""Which of two publishers publishes which topic, and how many milliseconds the clock is wrong then."""


@given(publications, st.integers(1, 9), st.integers(3, 5))
def test_others_are_the_least_used_for_any_block_size(
    published: list[tuple[int, bytes, int]], size: int, most: int
) -> None:
    talks = [talk(ports=(50_000 + number, 5555 + number)) for number in range(2)]
    packets = [packet for one in talks for packet in one.packets]
    for number, name, wrong in published:
        one = talks[number]
        one.time = max(each.time for each in talks)
        one.send(1, message(name, b"x"))
        packets.append(replace(one.packets[-1], time=one.time + wrong * MILLISECOND))
    whole, cut = (rows_by_kind(Capture(packets, each), 7 * MILLISECOND, most) for each in (1000, size))
    assert whole == cut
    assert sum(line["messages"] for line in whole["topic"]) == len(published)
    found = rates_of(packets, None, most)
    assert len(found.topics) <= most + 1
    assert int(found.topics.total[SENT].sum()) == len(published)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 1)), min_size=1, max_size=40), st.integers(1, 9))
def test_peers_that_were_not_counted_yet_take_no_rows(senders: list[tuple[int, int]], size: int) -> None:
    talks = [talk(ports=(50_000, 5555 + number), types=("PAIR", "PAIR")) for number in range(8)]
    packets = [packet for one in talks for packet in one.packets]
    for number, side in senders:
        talks[number].time = max(each.time for each in talks)
        talks[number].send(side, message(b"a", b"x"))
        packets.append(talks[number].packets[-1])
    whole, cut = (rows_by_kind(Capture(packets, each), 7 * MILLISECOND, 3) for each in (1000, size))
    assert whole == cut


def test_many_topics_take_no_more_than_the_rows_there_are() -> None:
    often = [(1, message(b"often", b"x"))] * 500
    once = [(1, message(b"%d" % number, b"x")) for number in range(500)]
    acts = [act for pair in zip(often, once, strict=True) for act in pair]
    rates = rates_of(talk(*acts).packets, None, 20)
    assert len(rates.topics) <= 21
    assert len(rates.topics.rows) == len(rates.topics) - 1
    found = totals(rates, "topic")
    assert found['"often"'] == 500
    assert sum(found.values()) == 1000
    assert found[f"({rates.topics.folded} others)"] == 1000 - 500 - (len(rates.topics) - 2)


def test_topics_are_distinguished_by_their_first_octets() -> None:
    long = b"t" * LONGEST_TOPIC
    rates = rates_of(talk((1, message(long + b"1", b"x")), (1, message(long + b"2", b"x"))).packets)
    assert [key for key in rates.topics.keys if key is not None] == [Topic(rates.topics.keys[1].sender, long)]
    assert int(rates.topics.total[SENT, 1]) == 2


def test_an_announced_size_counts_as_far_as_it_arrived() -> None:
    one = talk((1, message(b"a", b"b")[:2] + message(b"a", b"b")[2:]))
    one.send(1, b"\x02" + (1 << 60).to_bytes(8, "big") + b"only this")
    rates = rates_of(one.packets)
    assert int(rates.topics.total[SENT_OCTETS].sum()) == 2 + 9


def test_directions_are_distinguished() -> None:
    one = talk((0, message(b"1")), (1, message(b"22")), (1, message(b"333")), types=("PAIR", "PAIR"))
    rates = rates_of(one.packets)
    assert rates.connections.total[[SENT, RECEIVED], 1].tolist() == [1, 2]
    peers = {str(key): rates.peers.total[[SENT, RECEIVED], row].tolist() for key, row in rates.peers.rows.items()}
    assert peers == {"10.0.0.2 PAIR": [1, 2], "10.0.0.1:5555 PAIR": [2, 1]}


def test_the_busiest_interval_is_that_with_most_messages() -> None:
    one = talk((1, message(b"a", b"1")))
    one.wait(SECOND)
    for _ in range(3):
        one.send(1, message(b"a", b"2"))
    one.wait(SECOND)
    one.send(1, message(b"a", b"3"))
    rates = rates_of(one.packets, SECOND)
    assert rates.topics.busiest[1] == 3
    assert [row.last_value(20) for row in total_rows(rates, "topic", 1.0, 1.0)] == ["3"]


def test_an_interval_without_messages_ends_by_the_clock() -> None:
    one = talk((1, message(b"a", b"1")))
    rates = Rates(SECOND)
    analyser = Analyser(Options(bodies="none"))
    ended = [each for batch in analyser.run(Capture(one.packets)) for each in rates.feed(batch)]
    assert ended == []
    assert list(rates.tick(one.time)) == []
    (interval,) = rates.tick(one.time + SECOND)
    assert interval.start_ns <= one.time < interval.end_ns <= one.time + SECOND
    assert list(rates.finish()) == []


def test_runs_of_short_connections_are_not_kept_for_their_last_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty thousand connections with a message each kept a run each, which takes far more than its data."""
    monkeypatch.setattr(rates, "MAX_HELD", 4 * rates.TABLE_COST)
    counted = Rates(None)
    for batch in Analyser(Options()).run(open_captures([str(CAPTURES / "patterns/pubsub.pcap")], block_size=1)):
        for _ in counted.feed(batch):
            pass
    kept = [last for last in counted.connections.last if isinstance(last, columns.UnreadMessage)]
    assert len({id(last.table) for last in kept}) <= 4
