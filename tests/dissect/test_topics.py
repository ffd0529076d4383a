"""The topic of published messages: the first of several frames, or a subscription of the other side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curve import CLIENT, SERVER, CurvePeers, Steps, keys
from tests.peer_octets import command, hello, message
from tests.readings import CAPTURES, read
from tests.traffic import Capture, Conversation, Packet, records
from tests.zws import message_frames, ready, request, response
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records import topics
from zmtpscope.records import from_text, to_text
from zmtpscope.zmtp.greeting import build_greeting_2
from zmtpscope.zmtp.trie import NODE_COST, Trie

LARGEST = topics.LARGEST_TOPIC

Change = tuple[str, bytes]
"""SUBSCRIBE or CANCEL, and the topic."""


class Way(NamedTuple):
    """How a SUB that connects (side 0) and a PUB talk."""

    opening: Steps
    change: Callable[[str, bytes], bytes]
    publish: Callable[..., bytes]
    keys: str = ""


def marked(name: str, topic: bytes) -> bytes:
    """A subscription as it travels in a message."""
    return bytes([name == "SUBSCRIBE"]) + topic


def version_3(version: str, types: tuple[str, str]) -> Way:
    def change(name: str, topic: bytes) -> bytes:
        if version == "3.0":
            return message(marked(name, topic))
        return command("NULL", name, topic=to_text(topic))

    return Way([(side, hello(types[side], version)) for side in (0, 1)], change, message)


def version_2() -> Way:
    opening = [(0, build_greeting_2("SUB")), (1, build_greeting_2("PUB"))]
    return Way(opening, lambda name, topic: message(marked(name, topic)), message)


def boxes() -> Way:
    peers = CurvePeers()
    return Way(
        peers.handshake("SUB", "PUB"),
        lambda name, topic: peers.command(CLIENT, name, topic=to_text(topic)),
        lambda *frames: peers.messages(SERVER, *frames),
        peers.lines("CLIENT_TRANSIENT with S"),
    )


def websocket() -> Way:
    opening = [(0, request()), (1, response()), (0, ready(True, "SUB")), (1, ready(False, "PUB"))]
    return Way(
        opening,
        lambda name, topic: message_frames(True, marked(name, topic)),
        lambda *frames: message_frames(False, *frames),
    )


WAYS: dict[str, Callable[[], Way]] = {
    "2.0": version_2,
    "3.0": lambda: version_3("3.0", ("SUB", "PUB")),
    "3.1": lambda: version_3("3.1", ("SUB", "PUB")),
    "3.1 XSUB XPUB": lambda: version_3("3.1", ("XSUB", "XPUB")),
    "CURVE": boxes,
    "ZWS": websocket,
}


def packets_of(
    way: Way, steps: Sequence[Change | tuple[bytes, ...]], ports: tuple[int, int] = (50_000, 5555)
) -> list[Packet]:
    """Return a connection with a packet for each change and each message, in this order."""
    talk = Conversation(ports=ports)
    for side, octets in way.opening:
        talk.send(side, octets)
    for step in steps:
        if isinstance(step[0], str):
            talk.send(0, way.change(*step))  # type: ignore[arg-type]
        else:
            talk.send(1, way.publish(*step))
    talk.close()
    return talk.packets


def published(packets: list[Packet], size: int = 1 << 30, options: Options | None = None) -> list[bytes | None]:
    """Return the topic of each message of the publisher, read in blocks of `size` packets."""
    found = [each for each in records(Capture(packets, size), options)[0] if each["record"] == "message"]
    topics_of_rows = [each["topic"] for each in found if each["side"] == 1 and each["kind"] == "data"]
    return [None if topic is None else from_text(topic) for topic in topics_of_rows]


def expected(steps: Sequence[Change | tuple[bytes, ...]]) -> list[bytes | None]:
    """Return the topics in the plainest way."""
    open_: Counter[bytes] = Counter()
    topics_of_rows: list[bytes | None] = []
    for name, *rest in steps:
        if isinstance(name, str):
            (topic,) = rest
            open_[topic] += 1 if name == "SUBSCRIBE" else -1 if open_[topic] else 0
            open_ = +open_
        elif rest:
            topics_of_rows.append(name)
        else:
            topics_of_rows.append(max((topic for topic in open_ if name.startswith(topic)), key=len, default=None))
    return topics_of_rows


NAMES = st.binary(max_size=3) | st.text("ab", max_size=6).map(str.encode) | st.sampled_from([b"", b"a", b"ab", b"b\0"])
CHANGES = st.tuples(st.sampled_from(["SUBSCRIBE", "SUBSCRIBE", "CANCEL"]), NAMES)
MESSAGES = st.tuples(st.builds(bytes.__add__, NAMES, st.sampled_from([b"", b"b", b"ab c", b"\\\xff"]))) | st.tuples(
    NAMES, st.just(b"content")
)
STEPS = st.lists(CHANGES | MESSAGES, max_size=12) | st.builds(
    lambda some, many, more: [*some, *many * 20, *more],
    st.lists(CHANGES, max_size=4),
    st.lists(MESSAGES, max_size=3),
    st.lists(CHANGES | MESSAGES, max_size=4),
)


@pytest.mark.parametrize("way", WAYS)
@given(steps=STEPS, size=st.integers(1, 9))
def test_the_longest_subscription_in_force_is_the_topic(
    way: str, steps: list[Change | tuple[bytes, ...]], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = WAYS[way]()
    packets = packets_of(made, steps)
    folder = tmp_path_factory.getbasetemp()
    options = Options(keys=keys(folder, made.keys)) if made.keys else Options()
    assert published(packets, options=options) == expected(steps)
    assert published(packets, size, Options(keys=keys(folder, made.keys)) if made.keys else None) == expected(steps)


@given(steps=STEPS, few=st.sampled_from([0, 1 << 20]))
def test_few_topics_are_compared_as_columns_with_the_same_result(
    steps: list[Change | tuple[bytes, ...]], few: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(topics, "FEW", few)
        patched.setattr(topics, "MIN_ROWS", 0)
        assert published(packets_of(WAYS["3.1"](), steps)) == expected(steps)


@pytest.mark.parametrize("way", ["3.0", "3.1"])
def test_a_message_without_a_subscription_has_no_topic(way: str) -> None:
    """Its body is content, and not a topic."""
    steps: list[Change | tuple[bytes, ...]] = [(b"secret plans",), ("SUBSCRIBE", b"b"), (b"a",), (b"bc",), (b"",)]
    assert published(packets_of(WAYS[way](), steps)) == [None, None, b"b", None]


def test_a_first_frame_whose_message_is_cut_off_is_no_message_of_one_frame() -> None:
    made = version_3("3.1", ("SUB", "PUB"))
    steps: list[Change | tuple[bytes, ...]] = [("SUBSCRIBE", b""), (b"prices", b"5")]
    talk = Conversation(ports=(50_000, 5555))
    for side, octets in made.opening:
        talk.send(side, octets)
    talk.send(0, made.change("SUBSCRIBE", b""))
    talk.send(1, made.publish(b"prices", b"5")[:4])  # the capture ends within the first of two frames
    assert published(talk.packets) == [None]
    assert published(packets_of(made, steps)) == [b"prices"]


def test_topics_do_not_depend_on_whether_bodies_are_kept() -> None:
    steps: list[Change | tuple[bytes, ...]] = [("SUBSCRIBE", b"to"), (b"topic content",), (b"other", b"content")]
    packets = packets_of(WAYS["3.1"](), steps)
    for options in (Options(), Options(bodies="none"), Options(bodies="head", head=1), Options(body_limit=1)):
        assert published(packets, options=options) == [b"to", b"other"]


def test_a_long_frame_is_no_topic() -> None:
    steps: list[Change | tuple[bytes, ...]] = [("SUBSCRIBE", b"a" * size) for size in (1, LARGEST, LARGEST + 1)]
    steps += [(b"a" * (LARGEST + 2),), (b"b" * LARGEST, b""), (b"b" * (LARGEST + 1), b"")]
    assert published(packets_of(WAYS["3.1"](), steps)) == [b"a" * LARGEST, b"b" * LARGEST, None]


def test_only_so_many_subscriptions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "LARGEST_MEMORY", 100 * NODE_COST)
    names = [b"%04d" % number for number in range(200)]
    steps: list[Change | tuple[bytes, ...]] = [("SUBSCRIBE", name) for name in names]
    topics_of_rows = published(packets_of(WAYS["3.1"](), [*steps, *((name + b" content",) for name in names)]))
    known = len(topics_of_rows) - topics_of_rows.count(None)
    assert 20 < known < 100
    assert topics_of_rows == [*names[:known], *[None] * (200 - known)]


def test_the_subscriptions_of_all_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "ALL_MEMORY", 300 * NODE_COST)
    steps: list[Change | tuple[bytes, ...]] = [("SUBSCRIBE", b"%03d" % number) for number in range(100)]
    ends, begins = [], []
    for number in range(8):
        packets = packets_of(WAYS["3.1"](), [*steps, (b"000",)], (50_000 + number, 5555))
        begins += packets[:-3]
        ends += packets[-3:]
    analyser = Analyser(Options())
    topics_of_rows, most = [], 0
    for block in Capture([*begins, *ends], 7):
        for batch in analyser.feed(block):
            topics_of_rows += [run.topic(0) for run in batch.by_sender()]
        most = max(most, analyser.sink.budget.subscriptions)
    list(analyser.finish())
    assert 250 * NODE_COST < most <= 300 * NODE_COST
    assert topics_of_rows[0] == b"000"
    assert topics_of_rows[-1] is None
    assert analyser.sink.budget.subscriptions == 0


def test_subscriptions_count_as_what_is_held_as_long_as_the_connection_is_open() -> None:
    steps: list[Change | tuple[bytes, ...]] = [("SUBSCRIBE", b"%03d" % number) for number in range(100)]
    packets = packets_of(WAYS["3.1"](), [*steps, (b"x",)])[:-3]
    analyser = Analyser(Options())
    for block in Capture(packets, 50):
        list(analyser.feed(block))
    # the reader remembers them for its findings, too
    assert 99 * NODE_COST < analyser.sink.budget.held < 300 * NODE_COST
    list(analyser.finish())
    assert analyser.sink.budget.held == 0


def test_each_message_costs_as_many_steps_as_its_topic_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as many as there are subscriptions, and no more octets than the longest of them has."""
    looked: list[int] = []
    monkeypatch.setattr(Trie, "longest_prefix_of", lambda trie, name: looked.append(len(name)) or None, raising=True)
    names = [b"%05d" % number for number in range(3000)]
    talk = Conversation()
    way = WAYS["3.1"]()
    for side, octets in way.opening:
        talk.send(side, octets)
    talk.send(0, b"".join(way.change("SUBSCRIBE", name) for name in names))
    talk.send(1, b"".join(message(name + b" content") for name in names))
    published(talk.packets)
    assert looked == [5] * 3000  # no topic is longer


@pytest.mark.parametrize("version", ["3.2.5", "4.0.10", "4.3.5"])
def test_topics_of_real_publishers(version: str) -> None:
    """They send `t2 single` in one frame to a subscriber of `t2`."""
    reading = read(CAPTURES / "versions" / f"pubsub-bind{version}-conn{version}.pcap")
    topics_of = {frames: record["topic"] for record, frames in reading.messages()}
    assert topics_of[b"t2 single",] == "t2"
