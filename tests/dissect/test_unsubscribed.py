"""Messages that were published without a subscription (ZMTP-SUB-05), or sent to a group that the other side had not
joined (ZMTP31-GROUP-06)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given

from tests.curve import keys
from tests.dissect.talks import SECOND, Steps, connected, played
from tests.dissect.test_findings import command
from tests.dissect.test_topics import STEPS, WAYS, Change, Way
from tests.peer_octets import message
from tests.suites import examples, some
from tests.traffic import Capture, Conversation, Packet, records
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.findings import unsubscribed
from zmtpscope.dissect.findings.unsubscribed import HEAD, MAX_CANCELLED, MAX_WAITING
from zmtpscope.dissect.records import topics

IDS = ("ZMTP-SUB-05", "ZMTP31-GROUP-06")
"""Octets of a side, and seconds between them."""


def subscribe(topic: str) -> tuple[int, bytes]:
    return 0, command("SUBSCRIBE", topic=topic)


def cancel(topic: str) -> tuple[int, bytes]:
    return 0, command("CANCEL", topic=topic)


def publish(*frames: bytes) -> tuple[int, bytes]:
    return 1, message(*frames)


def join(group: str) -> tuple[int, bytes]:
    return 0, command("JOIN", group=group)


def leave(group: str) -> tuple[int, bytes]:
    return 0, command("LEAVE", group=group)


def talk_of(steps: Steps, types: tuple[str, str] = ("SUB", "PUB"), *, closed: bool = True) -> Conversation:
    return played(*types, steps, closed=closed)


def reported(packets: Sequence[Packet], options: Options | None = None, size: int | None = None) -> list[int]:
    """Return the packets of messages with these findings, which are the same for all sizes of blocks, and counted
    equally if no records are made."""
    whole, _ = records(Capture(packets), options)
    for each in some((1, 2, 5), 2) if size is None else (size,):
        assert records(Capture(packets, each), options)[0] == whole
    found = [each for each in whole if each["record"] == "finding" and each["id"] in IDS]
    counting = Analyser(replace(options or Options(), records=False))
    for _ in counting.run(Capture(packets, size or 1)):  # type: ignore[arg-type]
        pass
    counted = Counter({id_: count for (_, id_), count in counting.summary.findings.items() if id_ in IDS})
    for each in found:
        counted[each["id"]] -= each["count"]
        assert each["severity"] == ("note" if each["id"] == "ZMTP-SUB-05" else "warn")
    assert set(counted.values()) <= {0}
    return [each["packet"] for each in found if each["count"] == 1]


FIRST = 6

TOPICS: list[tuple[str, Steps, list[int]]] = [
    ("nothing was subscribed to", [publish(b"welcome")], [FIRST]),
    ("another topic", [subscribe("a"), publish(b"a"), publish(b"b"), publish(b"ab")], [FIRST + 2]),
    ("several frames", [subscribe("a"), publish(b"b", b"a"), publish(b"ab", b"")], [FIRST + 1]),
    ("a part of the topic", [subscribe("abc"), publish(b"ab")], [FIRST + 1]),
    ("everything", [subscribe(""), publish(b""), publish(b"a", b"b")], []),
    ("everything, until it is cancelled", [subscribe(""), cancel(""), 1.5, publish(b"")], [FIRST + 2]),
    ("a cancel that was under way", [subscribe("a"), cancel("a"), 0.9, publish(b"ab")], []),
    ("a subscription that was captured late", [publish(b"ab"), 0.9, subscribe("a")], []),
    ("a subscription that comes too late", [publish(b"ab"), 1.1, subscribe("a")], [FIRST]),
    ("another subscription that was captured late", [publish(b"ab"), 0.9, subscribe("b")], [FIRST]),
    ("one of two is left", [subscribe("a"), subscribe("a"), cancel("a"), 1.5, publish(b"a")], []),
    ("many", [*[subscribe(f"topic {number}") for number in range(50)], publish(b"topic 7"), publish(b"topic")], [57]),
]


@pytest.mark.parametrize("case", TOPICS, ids=lambda case: case[0])
def test_a_message_that_matches_no_subscription(case: tuple[str, Steps, list[int]]) -> None:
    _, steps, expected = case
    assert reported(talk_of([*steps, 2.0]).packets) == expected


GROUPS: list[tuple[str, Steps, list[int]]] = [
    ("nothing was joined", [publish(b"a", b"")], [FIRST]),
    ("another group", [join("a"), publish(b"b", b"")], [FIRST + 1]),
    ("a group is no prefix", [join("a"), publish(b"ab", b"")], [FIRST + 1]),
    ("in many messages", [join("a"), (1, message(b"ab", b"") * 20)], [FIRST + 1] * 10),
    ("the group", [join("a"), publish(b"a", b"")], []),
    ("a group that was left", [join("a"), leave("a"), 1.5, publish(b"a", b"")], [FIRST + 2]),
    ("a group that was just left", [join("a"), leave("a"), 0.9, publish(b"a", b"")], []),
    ("a group that is joined at once", [publish(b"a", b""), 0.9, join("a")], []),
    (
        "many",
        [*[join(f"group {number}") for number in range(20)], publish(b"group 7", b""), publish(b"group", b"")],
        [27],
    ),
]


@pytest.mark.parametrize("case", GROUPS, ids=lambda case: case[0])
def test_a_message_of_a_group_that_was_not_joined(case: tuple[str, Steps, list[int]]) -> None:
    _, steps, expected = case
    assert reported(talk_of([*steps, 2.0], ("DISH", "RADIO")).packets) == expected


def expected(steps: Sequence[Change | tuple[bytes, ...]]) -> list[int]:
    """Return the indices of the steps that publish messages without a matching subscription."""
    open_: Counter[bytes] = Counter()
    found = []
    for place, (name, *rest) in enumerate(steps):
        if isinstance(name, str):
            (topic,) = rest
            open_[topic] += 1 if name == "SUBSCRIBE" else -1 if open_[topic] else 0
            open_ = +open_
        elif not any(name.startswith(topic) for topic in open_):
            found.append(place)
    return found


def packets_of(way: Way, steps: Sequence[Change | tuple[bytes, ...]]) -> tuple[list[Packet], int]:
    """Return the packets of a connection with one step every 2 s, and the number of packets before them."""
    talk = Conversation()
    for side, octets in way.opening:
        talk.send(side, octets)
    before = len(talk.packets)
    for step in steps:
        talk.wait(2 * SECOND)
        if isinstance(step[0], str):
            talk.send(0, way.change(*step))  # type: ignore[arg-type]
        else:
            talk.send(1, way.publish(*step))
    talk.wait(2 * SECOND)
    talk.close()
    return talk.packets, before


def test_a_group_that_a_subscriber_joins_hides_no_message() -> None:
    """JOIN has no effect for a SUB; the result must not depend on whether it arrived in the same block as the
    messages."""
    assert reported(talk_of([publish(b"A1"), publish(b"A2"), join("A"), publish(b"A3")]).packets) == [6, 7, 9]


@pytest.mark.parametrize("way", WAYS)
@examples(40)
@given(steps=STEPS)
def test_exactly_the_unmatched_messages_are_reported(
    way: str, steps: list[Change | tuple[bytes, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = WAYS[way]()
    packets, before = packets_of(made, steps)
    options = Options(keys=keys(tmp_path_factory.getbasetemp(), made.keys)) if made.keys else Options()
    wrong = [before + 1 + place for place in expected(steps)]
    assert reported(packets, options, 3)[:10] == wrong[:10]


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_messages_in_several_packets_are_judged_alike_where_they_are_only_counted(cut: int) -> None:
    """Their first octets are kept also if messages are only counted."""
    talk = connected("SUB", "PUB", version="3.0")
    for side, octets in ((0, message(b"\1topic")), (1, message(b"topic 1", b"") + message(b"top", b""))):
        talk.send(side, octets, range(cut, len(octets), cut))
    talk.wait(2 * SECOND)
    talk.close()
    assert len(reported(talk.packets, size=1)) == 1


# -- cases without findings --------------------------------------------------------------------------------------------


def test_what_is_silent_when_the_capture_ends_may_still_subscribe() -> None:
    steps = [subscribe("a"), publish(b"b")]
    assert reported(talk_of([*steps, 0.5], closed=False).packets) == []
    assert reported(talk_of([*steps, 0.5]).packets) == [FIRST + 1]
    later = [*steps, 1.5, publish(b"a")]
    assert reported(talk_of(later, closed=False).packets) == [FIRST + 1]


@pytest.mark.parametrize("types", [("SUB", "PUB"), ("XSUB", "XPUB")])
@pytest.mark.parametrize("closed", [True, False])
def test_a_packet_that_was_not_captured_accuses_no_peer(types: tuple[str, str], closed: bool) -> None:
    steps: list[tuple[int, bytes] | float] = []
    for topic in ("a", "b", "c"):
        steps += [subscribe(topic), 1.5, publish(topic.encode()), publish(topic.encode(), b"more"), 1.5]
    talk = talk_of(steps, types, closed=closed)
    talk.acknowledge(0)
    packets = talk.packets
    for lost in some(range(3, len(packets)), 2):
        assert reported(packets[:lost] + packets[lost + 1 :]) == []
        cut = replace(packets[lost], payload=packets[lost].payload[:3], cut=max(0, len(packets[lost].payload) - 3))
        assert reported([*packets[:lost], cut, *packets[lost + 1 :]]) == []
    assert reported(packets[5:]) == []


def test_a_subscription_that_waited_behind_a_hole() -> None:
    """It was captured in time, but read only after the octets before it."""
    talk = talk_of([subscribe("a"), subscribe("b"), publish(b"b"), 3.0, publish(b"b"), 2.0])
    late = talk.packets[5]
    packets = [*talk.packets[:5], *talk.packets[6:8], replace(late, time=late.time + 2 * SECOND), *talk.packets[8:]]
    assert reported(packets) == []


def test_publishers_of_1_0_filter_nothing() -> None:
    """libzmq 2 sends everything to all subscribers."""
    made = WAYS["2.0"]()
    packets, _ = packets_of(made, [("SUBSCRIBE", b"a"), (b"b",)])
    assert len(reported(packets)) == 1
    talk = Conversation()
    talk.send(0, b"\1\0")
    talk.send(1, b"\1\0")
    talk.send(0, b"\3\0\1a")
    talk.send(1, b"\2\0b")
    talk.close()
    assert reported(talk.packets) == []


def test_incompatible_sockets_are_reported() -> None:
    assert reported(talk_of([publish(b"b"), 2.0], ("PULL", "PUB")).packets) == []


def test_a_subscription_of_several_frames_may_be_taken_as_one() -> None:
    """Other implementations than libzmq may accept it; its topic is uncertain (ZMTP-SUB-06)."""
    steps = [subscribe("a"), (0, message(b"\1b", b"more")), publish(b"b"), 2.0]
    assert reported(talk_of(steps, ("XSUB", "XPUB")).packets) == []


def test_a_long_topic_is_compared_as_far_as_it_is_remembered() -> None:
    topic = "a" * (HEAD + 10)
    steps = [publish(topic.encode()[: HEAD + 1]), 0.5, subscribe(topic), publish(b"a"), 2.0]
    assert reported(talk_of(steps).packets) == [FIRST + 2]


def test_a_topic_that_is_too_large_to_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "LARGEST_TOPIC", 100)
    assert reported(talk_of([subscribe("b" * 101), publish(b"b"), 2.0]).packets) == []


def test_more_subscriptions_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "LARGEST_MEMORY", 1000)
    steps = [*[subscribe(f"topic {number}") for number in range(5)], publish(b"topic 4"), 2.0]
    assert reported(talk_of(steps).packets) == []


def test_more_messages_than_wait() -> None:
    steps = [subscribe("a"), *[publish(b"b")] * (MAX_WAITING + 10), 2.0, subscribe("b"), publish(b"c"), 2.0]
    found = [each for each in records(Capture(talk_of(steps).packets))[0] if each.get("id") == "ZMTP-SUB-05"]
    assert sum(each["count"] for each in found) == MAX_WAITING + 1
    assert reported(talk_of(steps).packets)[0] == FIRST + 1


def test_more_cancels_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsubscribed, "MAX_CANCELLED", 4)
    assert MAX_CANCELLED > 4
    names = [f"topic {number}" for number in range(6)]
    steps = [*map(subscribe, names), *map(cancel, names)]
    assert reported(talk_of([*steps, publish(b"topic 0"), 2.0]).packets) == []
    assert reported(talk_of([*steps, 1.5, publish(b"topic 0"), 2.0]).packets) == [FIRST + 12]


def test_a_sign_of_life_of_the_subscriber_decides() -> None:
    """If the capture continues after it, all subscriptions that were sent in time are known."""
    steps = [subscribe("a"), publish(b"b"), 1.5, (0, command("PING", ttl_ms=0)), (1, command("PONG"))]
    talk = talk_of(steps, closed=False)
    assert reported(talk.packets) == [FIRST + 1]
    (finding,) = (each for each in records(Capture(talk.packets))[0] if each.get("id") == "ZMTP-SUB-05")
    assert finding["text"].startswith("Published message matches no subscription")
