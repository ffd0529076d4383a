"""Socket types of sides whose start was not captured: inferred from evidence, else unknown."""

from __future__ import annotations

import functools
import pathlib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.talks import under_way
from tests.peer_octets import hello, message, ping, subscribe
from tests.readings import CAPTURES, TRUTHS
from tests.traffic import Capture, Conversation, Packet, column, records
from zmtpscope.capture import CaptureProblem, CaptureStatistics, open_captures
from zmtpscope.capture.segments import DATAGRAM, ORDINALS, SegmentBlock
from zmtpscope.dissect import Options
from zmtpscope.dissect.connection import type_inference
from zmtpscope.dissect.tcp.connection import reverse

Found = list[dict[str, Any]]

KINSHIP = {"XPUB": "PUB", "XSUB": "SUB"}
"""These are alike on the wire, so the inferred type is the plain one."""


def found_in(packets: list[Packet], size: int = 1 << 30, **options: Any) -> Found:
    return records(Capture(packets, size), Options(**options))[0]


def types(found: Found) -> set[tuple[int, str | None, str | None]]:
    return {(each["side"], each["socket_type"], each["peer_socket_type"]) for each in found if "parts" in each}


# -- what shows it -----------------------------------------------------------------------------------------------------


def published(talk: Conversation, side: int, rounds: int, *topics: bytes) -> None:
    for number in range(rounds):
        talk.send(side, b"".join(message(topic, b"%s %d" % (topic, number)) for topic in topics))


def subscriber_that_goes_on(change: list[bytes]) -> list[Packet]:
    """A publisher (side 0, since it speaks first), and a subscriber that wants more while the capture runs."""
    talk = Conversation(syn=False, ports=(5555, 50_000))
    published(talk, 0, 4, b"old.one", b"old.two")
    for octets in change:
        talk.send(1, octets)
    published(talk, 0, 4, b"new.one", b"old.two")
    talk.send(0, message(b"new.one in one frame"))
    return talk.packets


COMMANDS = [subscribe(b"x"), subscribe(b"y"), subscribe(b"new.one")]
MESSAGES = [message(b"\1%d" % each) for each in range(12)] + [message(b"\1new.one")]


def topics(found: Found, side: int) -> list[str | None]:
    return [each["topic"] for each in found if each["record"] == "message" and each["side"] == side]


@pytest.mark.parametrize("keeps_records", [True, False])
def test_a_side_that_sends_subscribe_is_a_subscriber_and_the_other_a_publisher(keeps_records: bool) -> None:
    found, analyser = records(Capture(subscriber_that_goes_on(COMMANDS)), Options(records=keeps_records))
    assert analyser.summary.socket_types == {"PUB": 1, "SUB": 1}
    if keeps_records:
        expected = [None] * 8 + ["new.one", "old.two"] * 4 + ["new.one"]
        assert topics(found, 0) == expected
        assert types(found) == {(0, None, None), (0, "PUB", "SUB")}
        assert (found[-1]["socket_type_0"], found[-1]["socket_type_1"]) == ("PUB", "SUB")
        assert {each["confidence"] for each in found if "confidence" in each} == {"likely"}


@pytest.mark.parametrize("keeps_records", [True, False])
def test_messages_after_their_subscription_show_the_types(keeps_records: bool) -> None:
    found, analyser = records(Capture(subscriber_that_goes_on(MESSAGES)), Options(records=keeps_records))
    assert analyser.summary.socket_types == {"PUB": 1, "SUB": 1}
    if keeps_records:
        behind = topics(found, 0)[8:]
        assert behind[:2] == [None, None]  # three are needed
        assert behind[4:] == ["new.one", "old.two"] * 2 + ["new.one"]


@pytest.mark.parametrize("octets", [subscribe(b"new.one"), subscribe(b"a") + subscribe(b"new.one"), ping()])
def test_a_command_that_fills_its_segment_needs_no_others_beside_it(octets: bytes) -> None:
    """A subscription added to a running system is often the only data of a side in a capture."""
    found = found_in(subscriber_that_goes_on([octets]))
    assert [each["name"] for each in found if each["record"] == "command"] == ["PING"] * (octets == ping()) or [
        "SUBSCRIBE"
    ] * octets.count(b"SUBSCRIBE")
    if octets != ping():
        assert topics(found, 0) == [None] * 8 + ["new.one", "old.two"] * 4 + ["new.one"]


@pytest.mark.parametrize(
    "octets", [subscribe(b"a")[:-1], subscribe(b"a") + b"x", b"GET " + subscribe(b"a"), ping()[:-1]]
)
def test_octets_that_contain_a_command_show_no_type(octets: bytes) -> None:
    talk = Conversation(syn=False)
    talk.send(0, octets)
    talk.send(1, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert found_in(talk.packets) == []


def test_the_announced_type_of_one_side_implies_the_other() -> None:
    talk = Conversation(syn=False, ports=(50_000, 5555))
    talk.send(0, hello("SUB")[64:] + subscribe(b"") + subscribe(b"x"))
    published(talk, 1, 4, b"a.b", b"c")
    found = found_in(talk.packets)
    assert types(found) == {(1, "PUB", "SUB")}
    assert topics(found, 1) == ["a.b", "c"] * 4


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_later_announcement_does_not_revise_an_inferred_type(size: int) -> None:
    """A PAIR is known as the peer of one until its own READY is read, wherever blocks end."""
    talk = Conversation(syn=False)
    for side, octets in (
        (0, message(b"")),
        (1, hello("PAIR")[64:] + message(b"one")),
        (0, hello("PAIR")[64:] + message(b"two")),
        (1, message(b"three")),
    ):
        for octet in octets:
            talk.send(side, bytes([octet]))
    whole = found_in(talk.packets)
    assert types(whole) == {(0, "PAIR", "PAIR"), (1, "PAIR", "PAIR")}
    assert found_in(talk.packets, size) == whole


def test_subscriptions_behind_it_are_read() -> None:
    packets = subscriber_that_goes_on([*MESSAGES])
    talk = Conversation(syn=False, ports=(5555, 50_000))
    talk.time, talk.next, talk.packets = packets[-1].time, [packets[-1].sequence + len(packets[-1].payload), 0], packets
    last = [packet for packet in packets if packet.side == 1][-1]
    talk.next[1] = last.sequence + len(last.payload)
    talk.send(1, message(b"\1more") + message(b"\0new.one"))
    talk.send(0, message(b"more in one frame"))
    found = found_in(talk.packets)
    assert [(each["kind"], each["topic"]) for each in found if each["record"] == "message"][-3:] == [
        ("subscribe", "more"),
        ("cancel", "new.one"),
        ("data", "more"),
    ]


@given(st.data())
def test_it_makes_no_difference_where_blocks_end(data: st.DataObject) -> None:
    change = data.draw(st.sampled_from([COMMANDS, MESSAGES]))
    cuts = data.draw(st.lists(st.integers(0, 30), max_size=4))
    packets = subscriber_that_goes_on(change)
    for cut in cuts:
        packets = packets[:cut] + packets[cut + 1 :]  # lost
    options = {"frames": data.draw(st.booleans())}
    whole = found_in(packets, **options)
    assert found_in(packets, data.draw(st.integers(1, 12)), **options) == whole


@given(packets=under_way(), size=st.integers(1, 9))
def test_any_traffic_gives_the_same_type_in_blocks_and_without_records(packets: list[Packet], size: int) -> None:
    whole, analyser = records(Capture(packets))
    assert found_in(packets, size) == whole
    assert analyser.sink.budget.held == 0
    _, counting = records(Capture(packets, size), Options(records=False))
    assert counting.summary.socket_types == analyser.summary.socket_types


def test_what_is_remembered_is_bounded_and_counted_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_inference, "MAX_HEADS", 7)
    assert types(found_in(subscriber_that_goes_on(COMMANDS))) == {(0, None, None), (0, "PUB", "SUB")}
    found, analyser = records(Capture(subscriber_that_goes_on(MESSAGES)))
    assert types(found) == {(0, None, None), (1, None, None)}
    assert analyser.sink.budget.held == 0


# -- what does not -----------------------------------------------------------------------------------------------------


def talk_of(*rounds: tuple[list[bytes], list[bytes]]) -> list[Packet]:
    talk = Conversation(syn=False)
    for own in rounds:
        for side, octets in enumerate(own):
            for each in octets:
                talk.send(side, each)
    return talk.packets


SILENT = {
    "PUSH of few kinds of tasks": [([message(b"task.%d" % (n % 3), b"%d" % n)], []) for n in range(60)],
    "acknowledged by number": [([message(b"chunk%d" % n, b"x")], [message(b"\1chunk%d" % n)]) for n in range(60)],
    "acknowledged by name": [([message(b"file.mp4", b"%d" % n)], [message(b"\1file.mp4")]) for n in range(60)],
    "acknowledged now and then": [
        ([message(b"file.mp4", b"%d" % (10 * n + part)) for part in range(10)], [message(b"\1file.mp4")])
        for n in range(20)
    ],
    "asked for again and again": [([message(b"\1status")], [message(b"status %d" % n)]) for n in range(60)],
    "asked for once each": [([message(b"\1key%d" % n)], [message(b"key%d" % n, b"value")]) for n in range(60)],
    "asked for all at once": [
        ([message(b"\1key%d" % n) for n in range(30)], [message(b"key%d" % n, b"value") for n in range(30)])
    ],
    "yes and no": [([message(b"question", b"%d" % n)], [message(b"\1")]) for n in range(60)],
    "requests": [([message(b"", b"\1a%d" % n)], [message(b"", b"a%d" % n)]) for n in range(60)],
    "who asks says other things": [
        ([message(b"\1name"), message(b"hello")], [message(b"name", b"%d" % n)]) for n in range(60)
    ],
    "heartbeats": [([message(b"name", b"%d" % n)], [ping()]) for n in range(60)],
}


@pytest.mark.parametrize("name", SILENT)
def test_in_doubt_no_type_is_inferred(name: str) -> None:
    found = found_in(talk_of(*SILENT[name]))
    assert {(one, other) for _, one, other in types(found)} == {(None, None)}
    assert {found[-1]["socket_type_0"], found[-1]["socket_type_1"]} == {None}


# -- real captures, their beginnings cut off ---------------------------------------------------------------------------


class Cut:
    """A capture without the first `count` packets of each of its connections."""

    def __init__(self, path: pathlib.Path, count: int, size: int = 1 << 20) -> None:
        self.captures = open_captures([str(path)])
        self.count, self.size = count, size
        self.files = self.captures.files
        self.statistics = CaptureStatistics()
        self.problems: list[CaptureProblem] = []
        self.follow = None

    def __iter__(self) -> Iterator[SegmentBlock]:
        seen = Counter[bytes]()
        ordinal = 0
        for block in self.captures:
            rows = block.rows()
            rows = rows.some((rows.flags & DATAGRAM) == 0)
            keep = []
            for row, flow in enumerate(rows.flows.tolist()):
                key = min(rows.keys[flow], reverse(rows.keys[flow]))
                seen[key] += 1
                if seen[key] > self.count:
                    keep.append(row)
            for begin, end in pairwise([*range(0, len(keep), self.size), len(keep)]):
                some = rows.some(column(keep[begin:end]))
                yield SegmentBlock.from_columns(block.data, some, ordinal, block.latest)
                ordinal += ORDINALS * (end - begin)


Place = tuple[int, tuple[str, int], str]
"""Return packet, sender and content, which identify a message in both readings."""


def types_and_topics(capture: Any) -> tuple[dict[Place, tuple[str | None, str | None]], Found]:
    """Socket type of the sender and topic of each message, and the connections."""
    found, _ = records(capture, Options())
    ends = {
        (each["conn"], side): (each[f"ip_{side}"], each[f"port_{side}"])
        for each in found
        if each["record"] == "connection"
        for side in (0, 1)
    }
    places: dict[Place, tuple[str | None, str | None]] = {}
    for each in found:
        if each["record"] == "message":
            place = each["packet"], ends[each["conn"], each["side"]], f"{each['sizes']} {each['bodies']}"
            places[place] = each["socket_type"], each["topic"]
    return places, [each for each in found if each["record"] == "connection"]


@functools.cache
def whole(path: pathlib.Path) -> tuple[dict[Place, tuple[str | None, str | None]], Found]:
    return types_and_topics(open_captures([str(path)]))


WITH_TYPES = [truth.path for truth in TRUTHS if truth.path.parent.name in ("patterns", "versions", "implementations")]


@pytest.mark.parametrize("path", WITH_TYPES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_capture_without_its_beginning_contradicts_nothing(path: pathlib.Path) -> None:
    truth, connections = whole(path)
    by_end = {
        (each[f"ip_{side}"], each[f"port_{side}"]): each[f"socket_type_{side}"]
        for each in connections
        for side in (0, 1)
    }
    for count in (*range(3, 24), 30, 40):
        found, cut_connections = types_and_topics(Cut(path, count))
        for (packet, end, octets), (socket_type, topic) in found.items():
            if socket_type is not None:
                own = by_end[end]
                assert socket_type in (own, KINSHIP.get(own or ""))
            if topic is not None and (known := truth.get((packet, end, octets))) is not None:
                assert (known[1] or "").startswith(topic)
        for each in cut_connections:
            for side in (0, 1):
                own = by_end[each[f"ip_{side}"], each[f"port_{side}"]]
                assert each[f"socket_type_{side}"] in (None, own, KINSHIP.get(own or ""))


def test_a_subscription_that_arrives_later_shows_topics_of_a_real_capture() -> None:
    path = CAPTURES / "patterns" / "pubsub.pcap"
    truth, _ = whole(path)
    shown = Counter[str | None]()
    for count in range(6, 12):
        for place, (socket_type, topic) in types_and_topics(Cut(path, count))[0].items():
            if socket_type == "PUB":
                assert truth[place] == (socket_type, topic)
                shown[topic] += 1
    assert shown.total() >= 20


@given(count=st.integers(3, 24), size=st.integers(1, 20), path=st.sampled_from(WITH_TYPES))
def test_blocks_of_a_real_capture_make_no_difference(count: int, size: int, path: pathlib.Path) -> None:
    assert types_and_topics(Cut(path, count, size)) == types_and_topics(Cut(path, count))
