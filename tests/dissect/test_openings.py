"""Connections that open like earlier ones: their records are the same as on the slow path (seam P19), and the slow
path does not read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.talks import SECOND, default_command
from tests.dissect.test_fast_path import OPTIONS, keep, read, read_to_the_end, release, without_fast_path
from tests.dissect.test_heartbeats import ping
from tests.peer_octets import cancel, hello, message, ready, subscribe
from tests.suites import some
from tests.traffic import Capture, Conversation, Packet
from tests.twins import twins
from zmtpscope.capture.segments import FIN, SYN
from zmtpscope.dissect import Analyser, Options, budget
from zmtpscope.dissect.fast_path import openings, plain_frames, segment_runs
from zmtpscope.dissect.fast_path.known import KnownConnection
from zmtpscope.dissect.fast_path.openings import FEWEST_IN_VAIN, MAX_AHEAD, MAX_LOST, Simulation
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.facts import ConnectionFact
from zmtpscope.dissect.records.record_writer import MAX_WRITTEN
from zmtpscope.dissect.tcp import flows
from zmtpscope.payloads.registry import Registry
from zmtpscope.records import to_text
from zmtpscope.zmtp.events import FrameColumns
from zmtpscope.zmtp.greeting import build_greeting_1, build_greeting_2, build_greeting_3
from zmtpscope.zmtp.scanner import is_part_of_header, scan_2
from zmtpscope.zmtp.trie import NODE_COST

LIBZMQ = (10, 11, 64)
"""Places at which libzmq cuts its greeting."""


def greets(socket_type: str, version: str = "3.1", identity: str = "") -> bytes:
    """Return greeting and READY of a NULL peer, with an identity if it has one."""
    return hello(socket_type, version, identity=identity or None)


EVERYTHING = subscribe(b"")


FAULTY = ready("PUSH", ("no name!", "x"))
"""A READY with a property whose name is not allowed."""

OTHERS: list[Callable[[Random], tuple[bytes, bytes]]] = [
    lambda random: (greets("PUSH", "3.0"), greets("PULL", "3.1")),
    lambda random: (greets("DEALER", identity=random.choice(["a", "b", "c", "\\x01d", "\\x00e"])), greets("ROUTER")),
    lambda random: (greets("REQ"), greets("REP")),
    lambda random: (greets("PAIR"), greets("PAIR")),
    lambda random: (greets("PUSH"), greets("SUB")),
    lambda random: (build_greeting_3("NULL") + FAULTY, greets("PULL")),
    lambda random: (greets("PUSH"), build_greeting_3("PLAIN", as_server=True)),
    lambda random: (greets("PUSH"), greets("PULL") + default_command("NULL", "ERROR")),
    lambda random: (
        build_greeting_3("PLAIN") + default_command("PLAIN", "HELLO"),
        build_greeting_3("PLAIN", as_server=True),
    ),
    lambda random: (build_greeting_2("PUSH"), greets("PULL")),
    lambda random: (build_greeting_1(), build_greeting_1()),
    lambda random: (random.randbytes(30), greets("PULL")),
    lambda random: (greets("PUSH")[: random.randrange(1, 90)], greets("PULL")),
]
"""Other openings of both sides: other handshakes, and octets that are none."""


ALIKE = [
    (greets("PUSH"), greets("PULL")),
    (greets("PUB"), greets("SUB") + EVERYTHING),
    (greets("XPUB"), greets("SUB") + subscribe(b"early") + subscribe(b"x")),
    (greets("DEALER", "3.0"), greets("ROUTER")),
    (greets("DEALER", identity="name 0"), greets("ROUTER")),
    (greets("REQ"), greets("REP")),
    (greets("REQ"), greets("ROUTER", "3.0")),
]


def connection(random: Random, number: int, opening: tuple[bytes, bytes], cuts: tuple[int, ...]) -> list[Packet]:
    """Make a connection with this opening, often slightly different, and mostly with data that the fast path can
    read."""
    talk = Conversation(initial=(random.choice([1000, 2**32 - 70]), 9000), ports=(50_000 + number, 5555))
    early = message(b"early")[: random.choice([0, 0, 0, 0, 0, 3, 7])]
    if random.random() < 0.2:
        opening = random.choice(OTHERS)(random)
    coalesced = b"" if random.random() < 0.7 else message(b"at once")
    client, server = opening
    client = client.replace(b"name 0", b"name %d" % random.randrange(10))
    for begin, end in zip((0, *cuts), (*cuts, len(client) + 99), strict=True):
        talk.send(0, client[begin:end] + (early if end > len(client) else b""))
        if random.random() < 0.05:
            talk.wait(random.choice([SECOND // 2, 2 * SECOND, 4 * SECOND]))
        talk.send(1, server[begin:end] + (coalesced if end > len(server) else b""))
        if random.random() < 0.3:
            talk.acknowledge(0)
    talk.send(0, message(b"early")[len(early) :] if early else b"")
    if b"REQ" in client:
        ask(talk, random)
    for _ in range(random.choice([0, 1, 1, 3]) if b"REQ" not in client or random.random() < 0.1 else 0):
        octets = b"".join(message(*[b"x" * random.randrange(300)] * random.choice([1, 1, 2])) for _ in range(3))
        talk.send(0, octets, random.sample(range(len(octets)), random.randrange(3)))
    if random.random() < 0.1:
        talk.send(random.randrange(2), random.choice([default_command("NULL", "READY"), b"\x08\0", b"\1", b"\0\5ab"]))
    how = random.random()
    if how < 0.6:
        first = random.randrange(2)
        talk.add(first, FIN | 0x10)
        if random.random() < 0.3:
            talk.acknowledge(1 - first)
        if random.random() < 0.1:
            talk.send(first, message(b"behind its own"))
        if random.random() < 0.2:
            talk.send(1 - first, message(b"behind the FIN"))
        talk.add(1 - first, FIN | 0x10)
        if random.random() < 0.5:
            talk.acknowledge(first)
    elif how < 0.75:
        talk.reset(random.randrange(2))
    packets = talk.packets
    if random.random() < 0.1:
        del packets[random.randrange(len(packets))]
    if random.random() < 0.1:
        packets.insert(random.randrange(len(packets)), random.choice(packets))
    return packets


def ask(talk: Conversation, random: Random) -> None:
    """Add requests and replies, which mostly alternate."""
    disorder = random.choice([0, 0, 0.1])
    for _ in range(random.choice([1, 2, 5])):
        for side in (0, 1):
            frames = [b"", b"x" * random.randrange(300)]
            if random.random() < disorder:
                frames = random.choice([frames[1:], [b"ab", *frames], [b""], [*frames, b"", b"y"]])
            octets = message(*frames) * (2 if random.random() < disorder else 1)
            if random.random() >= disorder:
                talk.send(side, octets, random.sample(range(len(octets)), random.randrange(2)))


@st.composite
def alike(draw: Callable[[st.SearchStrategy[Any]], Any], fewest: int, most: int) -> list[Packet]:
    """Draw the packets of connections that mostly open alike, interleaved or one after the other; some ports are
    reused."""
    random = Random(draw(st.integers(0, 1 << 32)))
    opening = random.choice(ALIKE)
    if random.random() < 0.2:
        opening = random.choice(OTHERS)(random)
    cuts = random.choice([(), LIBZMQ, LIBZMQ, (64,), (64, len(greets("SUB")))])
    count = draw(st.integers(fewest, most))
    waiting = [connection(random, random.choice([number, number, 0]), opening, cuts) for number in range(count)]
    turns_taken = draw(st.sampled_from([1, 3, 100]))
    packets, time = [], 1_700_000_000 * SECOND
    while waiting:
        several = waiting[:turns_taken]
        one = several[random.randrange(len(several))]
        before = one[0].time
        packets.append(replace(one.pop(0), time=time))
        time += min(one[0].time - before, 5 * SECOND) if one else 1000
        waiting = [each for each in waiting if each]
    return packets


@given(packets=alike(2, 12), size=st.integers(1, 40), options=st.sampled_from(OPTIONS), data=st.data())
def test_p19_connections_that_open_alike_are_read_as_each_of_them(
    packets: list[Packet], size: int, options: Options, data: st.DataObject
) -> None:
    released = Random(data.draw(st.integers(0, 1 << 16)))
    expected = without_fast_path(packets, size, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            segment_runs, "scan", data.draw(st.sampled_from(twins("zmtpscope.dissect.fast_path.plain_frames.scan")))
        )
        assert read(packets, size, options, keep) == expected
        assert read(packets, size, options, release) == expected
        assert read(packets, size, options, lambda each: release(each) if released.random() < 0.2 else None) == expected


@given(packets=alike(12, 40), size=st.integers(30, 150), options=st.sampled_from(OPTIONS))
def test_p19_connections_that_are_whole_in_a_block_are_read_as_each_of_them(
    packets: list[Packet], size: int, options: Options
) -> None:
    expected = without_fast_path(packets, size, options)
    assert read(packets, size, options, keep) == expected
    assert read_to_the_end(packets, size, options) == expected[:2]


def many(count: int, opening: Callable[[int], tuple[bytes, bytes]], *, closed: bool = True) -> list[Packet]:
    """Make connections one after the other, with three messages each."""
    packets = []
    for number in range(count):
        start = (1_700_000_000 + number) * SECOND
        talk = Conversation(initial=(1000 + number, 9000), ports=(40_000 + number, 5555), start=start)
        client, server = opening(number)
        for begin, end in zip((0, *LIBZMQ), (*LIBZMQ, 999), strict=True):
            talk.send(0, client[begin:end])
            talk.send(1, server[begin:end])
        talk.send(0, message(b"one") + message(b"two", b"and more") + message(b"three"))
        if closed:
            talk.close()
        packets += talk.packets
    return packets


def pushing(_: int) -> tuple[bytes, bytes]:
    return greets("PUSH"), greets("PULL")


def otherwise_read(packets: list[Packet], monkeypatch: pytest.MonkeyPatch, size: int = 100) -> int:
    """Count the connections of a run that the slow path reads."""
    found = []
    made = Analyser._read
    monkeypatch.setattr(Analyser, "_read", lambda analyser, tcp, block: (found.append(tcp), made(analyser, tcp, block)))
    analyser = Analyser(Options(records=False))
    for _ in analyser.run(Capture(packets, size)):
        pass
    assert analyser.summary.connections == analyser.summary.handshakes["complete"] > 0
    return len(set(found))


@pytest.mark.parametrize("size", [7, 100, 1 << 30])
def test_connections_that_open_alike_are_read_on_the_fast_path_alone(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    assert otherwise_read(many(40, pushing), monkeypatch, size) == 0


@pytest.mark.parametrize("size", [7, 1 << 30])
def test_records_of_equal_openings_share_their_fields(size: int) -> None:
    """Outputs can then format them once."""
    found: dict[tuple[str, int | None, int], list[dict[str, Any]]] = {}
    for batch in Analyser(OPTIONS[0]).run(Capture(many(40, pushing), size)):
        for record in batch.records:
            if record.type in ("greeting", "command"):
                assert record.stream is not None
                found.setdefault((record.type, record.stream.side, record.own["offset"]), []).append(record.own)
    assert len(found) == 4
    for fields in found.values():
        assert len(fields) == 40
        assert all(each == fields[0] for each in fields)
        assert len(set(map(id, fields))) <= openings.FEWEST_ALIKE


def repeat_syns(packets: list[Packet], places: tuple[int, ...]) -> list[Packet]:
    """Repeat the SYN of every second connection before its packets with these numbers, each time two seconds later."""
    repeated, number, seen, late = [], 0, 0, 0
    for packet in packets:
        if packet.flags == SYN:
            syn, number, seen = packet, number + 1, 0
        again = places.count(seen) if number % 2 else 0
        repeated += [replace(syn, time=packet.time + late)] * again
        late += 2 * SECOND * again
        repeated.append(replace(packet, time=packet.time + late))
        seen += 1
    return repeated


@pytest.mark.parametrize(("places", "expected"), [((1,), 0), ((1, 1), 0), ((2,), 0), ((3,), 20)])
def test_a_syn_may_be_repeated_before_anything_else(
    places: tuple[int, ...], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener with a full queue drops many SYNs."""
    packets = repeat_syns(many(40, pushing), places)
    assert otherwise_read(packets, monkeypatch, 1 << 30) == expected


@pytest.mark.parametrize("size", some([1, 3, 5, 8, 50], 4))
@pytest.mark.parametrize("places", [(1,), (1, 1), (2,), (1, 3), (6,)], ids=str)
def test_p19_connections_with_a_repeated_syn_are_read_as_each_of_them(places: tuple[int, ...], size: int) -> None:
    packets = repeat_syns(many(12, pushing, closed=False), places)
    for stop in some((len(packets), -2, -9, -16, -17, -18), 2):  # the last connection may end with any of its SYNs
        assert read(packets[:stop], size, Options(), keep) == without_fast_path(packets[:stop], size, Options())


def test_an_opening_is_learned_at_its_fourth_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most captures have fewer connections, and learning costs twice as much as reading."""
    monkeypatch.setattr(openings, "FEWEST_ALIKE", 4)
    assert otherwise_read(many(40, pushing), monkeypatch) == 3


def test_connections_whose_messages_are_compared_are_read_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert otherwise_read(many(40, lambda _: (greets("DEALER"), greets("REP"))), monkeypatch) == 40


@pytest.mark.parametrize("size", [7, 100, 1 << 30])
@pytest.mark.parametrize("at_once", [True, False], ids=["with READY", "behind it"])
def test_subscribers_are_read_on_the_fast_path_alone(size: int, at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    packets = subscribing(40, EVERYTHING, at_once=at_once)
    assert otherwise_read(packets, monkeypatch, size) == 0


@pytest.mark.parametrize("topics", [[], [b"other"], [b"%d" % number for number in range(40)]], ids=len)
def test_subscribers_of_nothing_or_much_or_something_else_are_read_as_before(
    topics: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    packets = subscribing(40, b"".join(map(subscribe, topics)))
    assert read(packets, 100, Options(), keep) == without_fast_path(packets, 100, Options())
    assert otherwise_read(packets, monkeypatch) == 40


def test_subscriptions_count_while_connections_are_open() -> None:
    def held(packets: list[Packet]) -> list[tuple[int, int, int]]:
        """Return the octets held in all, for topics of readers and for subscriptions, after each block."""
        analyser, capture, found = Analyser(Options()), Capture(packets, 50), []
        analyser.begin(capture.files)
        for block in capture:
            list(analyser.feed(block))
            budget = analyser.sink.budget
            found.append((budget.held, budget.memberships, budget.subscriptions))
        assert analyser.fast_path.sessions.slots
        list(analyser.finish())
        return found

    topics = subscribe(b"one") + subscribe(b"two")
    packets = subscribing(9, topics, closed=False) + subscribing(9, topics, first=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zmtpscope.dissect.fast_path.openings.Openings.behind", lambda *_: None)
        expected = held(packets)
    assert min(expected[-1]) > 0
    assert held(packets) == expected


@pytest.mark.parametrize(("most", "expected"), [(8, 1 + 20), (80, 0)])
def test_where_topics_take_much_room_connections_are_read_as_before(
    most: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of packets then decides which connections get the remaining memory. Four connections are open to the
    end."""
    monkeypatch.setattr(budget, "ALL_MEMBERSHIPS", most * NODE_COST)
    packets = subscribing(4, subscribe(b"one") + subscribe(b"two"), closed=False)
    packets += subscribing(20, subscribe(b"one") + subscribe(b"two"), first=10)
    assert read(packets, 30, Options(), keep) == without_fast_path(packets, 30, Options())
    assert otherwise_read(packets, monkeypatch, 30) == expected


@pytest.mark.parametrize("size", [1, 5, 100])
def test_an_error_in_an_opening_may_be_why_the_other_side_closes(size: int) -> None:
    """The finding is ZMTP-CONN-08."""
    packets = []
    for number in range(9):
        talk = Conversation(ports=(40_000 + number, 5555), start=(1_700_000_000 + number) * SECOND)
        talk.send(0, build_greeting_3("NULL") + FAULTY)
        talk.send(1, greets("PULL"))
        talk.send(0, message(b"words"))
        talk.add(1, FIN | 0x10)
        talk.add(0, FIN | 0x10)
        packets += talk.packets
    found = read(packets, size, Options(), keep)
    assert found == without_fast_path(packets, size, Options())
    assert [record.get("id") for record in found[0]].count("ZMTP-CONN-08") == 9


@pytest.mark.parametrize("size", [1, 5, 100])
def test_p19_heartbeats_of_connections_that_open_alike_are_matched(size: int) -> None:
    """After its READY each side gets no answer, and stays silent for longer than it promises."""
    packets = []
    for number in range(9):
        talk = Conversation(ports=(40_000 + number, 5555), start=(1_700_000_000 + 20 * number) * SECOND)
        talk.send(0, greets("DEALER") + ping(ttl_ms=500))
        talk.send(1, greets("ROUTER"))
        talk.wait(4 * SECOND)
        talk.send(0, message(b"words"))
        talk.send(1, message(b"words"))
        talk.close()
        packets += talk.packets
    found = read(packets, size, Options(), keep)
    assert found == without_fast_path(packets, size, Options())
    ids = [record.get("id") for record in found[0]]
    assert ids.count("ZMTP31-PING-04") == ids.count("ZMTP31-PING-06") == 9


NOT_TO_BE_LEARNED = {
    "an error that explains the end": lambda: (
        greets("PUSH"),
        build_greeting_3("NULL") + default_command("NULL", "ERROR"),
    ),
    "the same finding more often than it is told": lambda: (greets("SUB") + cancel(b"x") * 9, greets("PUB")),
}


@pytest.mark.parametrize("opening", NOT_TO_BE_LEARNED)
def test_p19_references_to_one_connection_are_in_records_of_no_other(opening: str) -> None:
    packets = many(12, lambda _: NOT_TO_BE_LEARNED[opening]())
    assert read(packets, 1, Options(), keep) == without_fast_path(packets, 1, Options())


def test_p19_findings_of_an_opening_count_towards_their_limit() -> None:
    """Of twelve more cancellations in the next block, seven are written: ten with the three of the opening."""
    talks = [Conversation(ports=(40_000 + number, 5555)) for number in range(9)]
    for talk in talks:
        talk.send(0, greets("SUB") + subscribe(b"y") + cancel(b"x") * 3)
        talk.send(1, greets("PUB"))
    packets = [packet for talk in talks for packet in talk.packets]
    size = len(packets)
    for talk in talks:
        talk.send(0, cancel(b"x") * 12)
    packets = [*packets, *[packet for talk in talks for packet in talk.packets[size // len(talks) :]]]
    found = read(packets, size, Options(), keep)
    assert found == without_fast_path(packets, size, Options())
    counts = [record["count"] for record in found[0] if record.get("id") == "ZMTP-SUB-02"]
    assert sorted(counts) == [1] * 90 + [5] * 9


def subscribing(
    count: int, commands: bytes, *, first: int = 0, at_once: bool = False, closed: bool = True
) -> list[Packet]:
    """Make connections one after the other on which a SUB sends these commands and a PUB publishes; `at_once`: in
    one packet with its READY."""
    packets = []
    for number in range(first, first + count):
        talk = Conversation(ports=(40_000 + number, 5555), start=(1_700_000_000 + number) * SECOND)
        for side, socket_type in enumerate(("SUB", "PUB")):
            talk.send(side, greets(socket_type)[:64], LIBZMQ)
        talk.send(1, greets("PUB")[64:])
        talk.send(0, greets("SUB")[64:] + commands, [] if at_once else [len(greets("SUB")) - 64])
        talk.send(1, message(b"one") + message(b"two", b"and more"), [4])
        if closed:
            talk.close()
        packets += talk.packets
    return packets


def asking(count: int, server: str, turns: str, *frames: bytes) -> list[Packet]:
    """Make connections one after the other on which a REQ (0) and a `server` (1) send messages of these frames in
    turns."""
    packets = []
    for number in range(count):
        talk = Conversation(ports=(40_000 + number, 5555), start=(1_700_000_000 + number) * SECOND)
        talk.send(0, greets("REQ"))
        talk.send(1, greets(server))
        for turn in turns:
            talk.send(int(turn), message(*frames))
        talk.close()
        packets += talk.packets
    return packets


@pytest.mark.parametrize("server", ["REP", "ROUTER"])
@pytest.mark.parametrize(
    ("turns", "expected"), [("01", 0), ("010101", 0), ("", 0), ("0", 20), ("0011", 20), ("10", 20), ("0110", 20)]
)
def test_requests_and_replies_that_take_turns_are_read_on_the_fast_path(
    server: str, turns: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert otherwise_read(asking(20, server, turns, b"", b"words"), monkeypatch, 1 << 30) == expected


def test_a_reply_may_arrive_in_the_block_behind_that_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    packets = asking(20, "REP", "0101", b"", b"words")
    assert read(packets, 1, Options(), keep) == without_fast_path(packets, 1, Options())
    assert otherwise_read(packets, monkeypatch, 1) <= 3


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_request_without_a_reply_is_reported_where_its_connection_ends_in_another_block(size: int) -> None:
    packets = asking(12, "REP", "010", b"", b"words")
    found = read(packets, size, Options(), keep)
    assert found == without_fast_path(packets, size, Options())
    assert sum(count for (_, id_), count in found[1].findings.items() if id_ == "REQREP-06") == 12


def test_a_newcomer_whose_request_is_not_answered_is_reported() -> None:
    """The whole new connection is in the block after the learned connections."""
    learned_from, more = asking(3, "REP", "01", b"", b"words"), asking(4, "REP", "0", b"", b"words")
    packets = learned_from + more[-len(more) // 4 :]
    found = read(packets, len(learned_from), Options(), keep)
    assert found == without_fast_path(packets, len(learned_from), Options())
    assert "REQREP-06" in [record.get("id") for record in found[0]]


def test_an_opening_behind_which_most_are_lost_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a delimiter in requests, most connections leave the fast path."""
    lost = []
    again = KnownConnection.read_again
    monkeypatch.setattr(KnownConnection, "read_again", lambda *given: (lost.append(given), again(*given))[1])
    otherwise_read(asking(80, "REP", "0101", b"words"), monkeypatch, 1)
    assert len(lost) <= FEWEST_IN_VAIN + MAX_LOST + 80 // MAX_LOST


@pytest.mark.parametrize("frames", [(b"words",), (b"",), (b"address", b"", b"words")], ids=str)
def test_requests_of_another_form_are_judged(frames: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    packets = asking(20, "REP", "01", *frames)
    assert read(packets, 1 << 30, Options(), keep) == without_fast_path(packets, 1 << 30, Options())
    assert otherwise_read(packets, monkeypatch, 1 << 30) == 20


def left_open(count: int, last: str) -> list[Packet]:
    """Connections on which a REQ asks a REP; the last is in this state when the capture ends, much later."""
    packets = []
    for number in range(count):
        talk = Conversation(ports=(40_000 + number, 5555), start=(1_700_000_000 + number) * SECOND)
        talk.send(0, greets("REQ"))
        talk.send(1, greets("REP"))
        for side in (0, 1, 0, 1):
            talk.send(side, message(b"", b"words"))
        if number == count - 1:
            STATES_AT_THE_END[last](talk)
        packets += talk.packets
    return packets + Conversation(ports=(39_999, 5555), start=1_700_000_100 * SECOND).packets


def half(talk: Conversation) -> None:
    """Send the first octets of a message."""
    talk.send(0, message(b"", b"words")[:5])


def acknowledge_more(talk: Conversation) -> None:
    """Acknowledge octets that are not in the capture."""
    talk.send(0, message(b"", b"words"))
    talk.acknowledge(1)
    del talk.packets[-2]


STATES_AT_THE_END: dict[str, Callable[[Conversation], None]] = {
    "whole messages": lambda talk: None,
    "an open request": lambda talk: talk.send(0, message(b"", b"words")),
    "half a header": lambda talk: talk.send(0, b"\1"),
    "a first frame": lambda talk: talk.send(0, message(b"", b"words")[:2]),
    "half a message": half,
    "a FIN of the client": lambda talk: talk.add(0, FIN | 0x10),
    "a FIN of the server": lambda talk: talk.add(1, FIN | 0x10),
    "missing octets": acknowledge_more,
}


@pytest.mark.parametrize("size", [1, 7, 1 << 30])
@pytest.mark.parametrize("last", STATES_AT_THE_END)
@pytest.mark.parametrize("wanted", OPTIONS[:2], ids=["records", "counts"])
def test_p19_connections_may_be_open_at_the_end(last: str, size: int, wanted: Options) -> None:
    packets = left_open(9, last)
    assert read_to_the_end(packets, size, wanted) == without_fast_path(packets, size, wanted)[:2]


def test_a_connection_that_one_side_closed_has_not_failed() -> None:
    """It has not failed before the other side closes, too."""
    analyser = Analyser(Options(), comparing=False)
    capture = Capture(left_open(9, "a FIN of the server"), 1 << 30)
    facts = [fact for batch in analyser.run(capture) for fact in batch.facts]
    assert not [fact for fact in facts if isinstance(fact, ConnectionFact)]


def test_a_connection_that_is_open_at_the_end_is_reported_as_open() -> None:
    analyser = Analyser(Options())
    capture = Capture(many(3, pushing, closed=False), 1 << 30)
    analyser.begin(capture.files)
    for block in capture:
        list(analyser.feed(block))
    assert all(isinstance(each, KnownConnection) for each in analyser.fast_path.sessions.connections.values())
    assert analyser.messages_so_far() == (9, 3)
    (batch,) = analyser.finish()
    assert [record.values["close"] for record in batch.records if record.type == "connection"] == ["open"] * 3


def test_openings_that_never_repeat_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    received = []
    make = Simulation.__init__
    monkeypatch.setattr(Simulation, "__init__", lambda *given: (received.append(given), make(*given))[1])
    packets = many(400, lambda number: (b"client %d" % number + bytes(99), greets("ROUTER")))
    analyser = Analyser(Options(records=False))
    for _ in analyser.run(Capture(packets, 100)):
        pass
    assert analyser.summary.connections == 400
    assert len(received) <= 3 * MAX_AHEAD


def test_where_nothing_opens_in_a_known_way_few_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    take = KnownConnection.take
    monkeypatch.setattr(KnownConnection, "take", lambda *given: (tried.append(given), take(*given))[1])
    packets = many(400, lambda _: (greets("REQ"), greets("REP")))
    assert otherwise_read(packets + many(40, pushing), monkeypatch) < 400 + 2 * MAX_LOST
    assert len(tried) < 40 + 2 * MAX_LOST + 400 / MAX_LOST


NAMED: dict[str, Callable[[int], bytes]] = {
    "text": lambda number: b"client %03d" % number,
    "octets": lambda number: bytes([1 + number, 0xFF, 0, 0x5C]),
    "the same of two at a time": lambda number: b"client %03d" % (number // 2),
    "ZRE": lambda number: b"\1" + number.to_bytes(16, "big"),
}


def naming(of: Callable[[int], bytes]) -> Callable[[int], tuple[bytes, bytes]]:
    """Make connections of DEALERs, each with an identity, to a ROUTER."""
    return lambda number: (greets("DEALER", identity=to_text(of(number))), greets("ROUTER"))


@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("size", [7, 100, 1 << 30])
def test_connections_with_an_identity_each_are_read_on_the_fast_path_alone(
    kind: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert otherwise_read(many(40, naming(NAMED[kind])), monkeypatch, size) == 0


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("size", [1, 7, 100, 1 << 30])
def test_p19_each_connection_has_its_own_identity(kind: str, size: int, closed: bool) -> None:
    """Records and comparisons have the identity of the connection: one identity on two open connections is a finding
    (ZMTP3X-META-15)."""
    packets = many(12, naming(NAMED[kind]), closed=closed)
    found = read(packets, size, Options(), keep)
    assert found == without_fast_path(packets, size, Options())
    identities = [record["identity"] for record in found[0] if record.get("name") == "READY" and record["side"] == 0]
    assert identities == [to_text(NAMED[kind](number)) for number in range(12)]
    are_two = kind.startswith("the same") and not closed
    assert [record.get("id") for record in found[0]].count("ZMTP3X-META-15") == 6 * are_two


@pytest.mark.parametrize("identity", [b"", b"\0ne", b"x" * 64, b"x" * 200])
def test_p19_an_identity_that_rules_judge_is_learned_with_its_octets(identity: bytes) -> None:
    """Some of the last connections have this identity; the others have another one of the same size."""
    packets = many(24, naming(lambda number: identity if number > 12 and number % 2 else b"n" * len(identity)))
    found = read(packets, 100, Options(), keep)
    assert found == without_fast_path(packets, 100, Options())
    assert [record.get("id") for record in found[0]].count("ZMTP3X-META-11") == 6 * identity.startswith(b"\0")


def test_a_server_that_closes_is_noticed_where_connections_open_alike() -> None:
    """The client reconnects at once, and is closed again (ZMTP-CONN-10)."""
    packets = []
    for number in range(12):
        talk = Conversation(ports=(40_000 + number, 5555), start=1_700_000_000 * SECOND + number * 110_000_000)
        talk.send(0, greets("PUSH"), LIBZMQ)
        talk.send(1, greets("PULL"), LIBZMQ)
        talk.add(1, FIN | 0x10)
        talk.add(0, FIN | 0x10)
        packets += talk.packets
    expected = without_fast_path(packets, 30, Options())
    assert read(packets, 30, Options(), keep) == expected
    assert any("ZMTP-CONN-10" in kind for kind in expected[1].findings)


def by_halves(number: int, pause: float = 0.0) -> Conversation:
    """Both sides greet, the second one after a pause, and then shake hands."""
    talk = Conversation(ports=(40_000 + number, 5555), start=(1_700_000_000 + 10 * number) * SECOND)
    talk.send(0, greets("PUSH")[:64])
    talk.wait(int(pause * SECOND))
    talk.send(1, greets("PULL")[:64])
    talk.send(0, greets("PUSH")[64:])
    talk.send(1, greets("PULL")[64:])
    return talk


@pytest.mark.parametrize("pause", [0.4, 4.0])
def test_a_slow_opening_is_read_on_the_slow_path(pause: float) -> None:
    """A side that has sent its greeting and receives nothing for three seconds is then read on the slow path."""
    packets = [packet for number in range(5) for packet in by_halves(number).packets]
    packets += by_halves(6, pause).packets
    expected = without_fast_path(packets, 50, Options())
    assert read(packets, 50, Options(), keep) == expected
    decided = [each["packet"] for each in expected[0] if each["conn"] == 6 and each.get("id") == "ZMTP-CONN-06"]
    last = [number for number, packet in enumerate(packets, 1) if packet.payload][-3:]
    assert decided == [last[0] - (pause > 3)]


def test_the_beginning_of_a_message_amid_the_handshakes_is_not_lost() -> None:
    packets = []
    for number in range(5):
        talk = by_halves(number)
        server = talk.packets.pop()
        talk.next[1] -= len(server.payload)
        talk.send(0, message(b"early")[:3])
        talk.send(1, server.payload)
        talk.send(0, message(b"early")[3:])
        packets += talk.packets
    for size in (1, 4, 50):
        found = read(packets, size, Options(), keep)
        assert found == without_fast_path(packets, size, Options())
        assert found[1].messages == 5


@pytest.mark.parametrize("size", [1, 3, 50])
def test_mechanisms_that_differ_are_found_in_an_opening_that_is_read_again(size: int) -> None:
    """Only the segments of this connection are read again: acknowledgments are between them."""
    talk = Conversation(ports=(40_000, 5555))
    client, server = build_greeting_3("PLAIN"), build_greeting_3("NULL")
    talk.send(1, server[:10])
    talk.send(0, client[:11])
    talk.acknowledge(1)
    talk.acknowledge(1)
    talk.send(1, server[10:])
    talk.send(0, client[11:])
    found = read(talk.packets, size, Options(), keep)
    assert found == without_fast_path(talk.packets, size, Options())
    assert "ZMTP3X-GREETING-05" in [record.get("id") for record in found[0]]
    talk.wait(2 * SECOND)
    talk.send(0, greets("PUSH")[64:])
    found = read(talk.packets, size, Options(), keep)
    assert found == without_fast_path(talk.packets, size, Options())
    assert "ZMTP3X-GREETING-13" in [record.get("id") for record in found[0]]


def known_way(number: int, *, late: bool = False) -> Conversation:
    """Both sides greet and shake hands; the client subscribes to nothing and sends two messages; `late`: the server
    greets first."""
    talk = Conversation(ports=(40_000 + number, 5555), start=(1_700_000_000 + 10 * number) * SECOND)
    for octets in (slice(64), slice(64, 999)):
        for side in (1, 0) if late else (0, 1):
            talk.send(side, greets("PULL" if side else "PUSH")[octets])
    talk.send(0, message(b"one") + message(b"two"))
    return talk


def ends_inside_a_message(talk: Conversation) -> None:
    talk.send(0, message(b"three")[:4])
    talk.close()


def is_acknowledged_beyond_its_end(talk: Conversation) -> None:
    talk.close()
    talk.packets[-2] = replace(talk.packets[-2], acknowledgment=talk.packets[-2].acknowledgment + 9)


def takes_its_time(talk: Conversation) -> None:
    talk.close()
    talk.packets[4:] = [replace(packet, time=packet.time + 4 * SECOND) for packet in talk.packets[4:]]


def hears_the_other_first(talk: Conversation) -> None:
    """The times do not show this order."""
    talk.close()
    packets = known_way(20, late=True).packets + talk.packets[-3:]
    talk.packets[:] = [replace(packet, time=talk.packets[0].time) for packet in packets]


def sends_before_it_may(talk: Conversation) -> None:
    messages = talk.packets.pop()
    talk.packets.insert(-1, messages)
    talk.close()


def says_something_else(talk: Conversation) -> None:
    talk.close()
    packet = talk.packets[3]
    talk.packets[3] = replace(packet, payload=packet.payload[:20] + b"X" + packet.payload[21:])


@pytest.mark.parametrize(
    "change",
    [
        *(ends_inside_a_message, is_acknowledged_beyond_its_end, takes_its_time, hears_the_other_first),
        *(sends_before_it_may, says_something_else, Conversation.close, lambda talk: None),
    ],
)
def test_new_connections_that_differ_later_are_read_on_the_slow_path(
    change: Callable[[Conversation], None],
) -> None:
    """The block after the learned connections contains the whole connection."""
    packets = []
    for number in range(3):
        talk = known_way(number)
        talk.close()
        packets += talk.packets
    talk = known_way(20)
    change(talk)
    size = len(packets)
    assert len(talk.packets) < size
    packets += talk.packets
    assert read(packets, size, Options(), keep) == without_fast_path(packets, size, Options())


def test_late_packets_of_a_connection_that_was_over_at_once_open_no_other() -> None:
    talks = [known_way(number) for number in range(9)]
    for talk in talks:
        talk.close()
    packets = [packet for talk in talks for packet in talk.packets]
    packets += [packet for packet in talks[-1].packets if packet.payload]
    size = 3 * len(talks[0].packets)
    found = read(packets, size, Options(), keep)
    assert found == without_fast_path(packets, size, Options())
    assert found[1].connections == 9
    assert found[1].other_tcp == 0


def test_a_connection_that_was_over_at_once_is_remembered_from_its_end_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that ended longest ago is forgotten, not the one that began longest ago."""
    monkeypatch.setattr(flows, "REMEMBERED_CLOSED", 4)
    learned, within = ([known_way(number) for number in numbers] for numbers in (range(3), (21, 22)))
    around = known_way(20)
    for talk in (*learned, *within, around):
        talk.close()
    packets = [packet for talk in learned for packet in talk.packets]
    size = len(packets)
    packets += around.packets[:-3] + [packet for talk in within for packet in talk.packets] + around.packets[-3:]
    packets += [packet for packet in around.packets if packet.payload]
    found = read(packets, size, Options(), keep)
    assert found == without_fast_path(packets, size, Options())
    assert found[1].other_tcp == 0


@pytest.mark.parametrize("size", [1, 10, 90])
def test_findings_that_were_only_counted_are_reported_at_the_end(size: int) -> None:
    packets = []
    for number in range(8):
        talk = known_way(number)
        for _ in range(MAX_WRITTEN + 5):
            talk.send(0, message(b"\x1f\x8b\x08\0" + b"no gzip" * 4))
        talk.close()
        packets += talk.packets
    options = Options(payloads=Registry())
    found = read(packets, size, options, keep)
    assert found == without_fast_path(packets, size, options)
    assert max(record["count"] for record in found[0] if record["record"] == "finding") == 5


def in_two_blocks(talk: Conversation, first: int, *others: Conversation) -> tuple[list[Packet], int]:
    """Return packets and the size of blocks: three connections to learn from, a block with the `first` packets of
    another one, and a block with the rest of it, except for the last packet, which follows after the `others`."""
    learned = [known_way(number) for number in range(3)]
    for each in (*learned, *others):
        each.close()
    packets = [packet for each in learned for packet in each.packets]
    size = len(packets)
    beside = Conversation(ports=(60_000, 5555)).packets[-1]
    packets += talk.packets[:first] + [beside] * (size - first) + talk.packets[first:-1]
    return packets + [packet for each in others for packet in each.packets] + talk.packets[-1:], size


def test_a_second_fin_does_not_move_the_end_of_a_connection() -> None:
    """Data between the two FINs is before the end."""
    talk = known_way(20)
    talk.add(0, FIN | 0x10)
    first = len(talk.packets)
    talk.add(1, FIN | 0x10)
    talk.add(0, FIN | 0x10)
    packets, size = in_two_blocks(talk, first, known_way(40))
    assert read(packets, size, Options(), keep) == without_fast_path(packets, size, Options())


def test_half_a_message_at_the_end_of_a_connection_is_not_lost() -> None:
    talk = known_way(20)
    first = len(talk.packets)
    talk.send(0, message(b"three")[:4])
    talk.close()
    packets, size = in_two_blocks(talk, first)
    found = read(packets, size, Options(), keep)
    assert found == without_fast_path(packets, size, Options())
    assert not all(record["complete"] for record in found[0] if record["record"] == "message" and record["conn"] == 4)


def test_octets_after_a_fin_are_no_message() -> None:
    packets = []
    for number in range(5):
        talk = by_halves(number)
        talk.add(0, FIN | 0x10)
        talk.send(0, message(b"behind the end"))
        talk.add(1, FIN | 0x10)
        packets += talk.packets
    for size in (1, 2, 50):
        assert read(packets, size, Options(), keep) == without_fast_path(packets, size, Options())


def test_time_alone_ends_an_opening_without_an_answer() -> None:
    """The server sends nothing: after three seconds the version is the client's."""

    def records_of_the_last(ticks: bool) -> list[Any]:
        packets = many(5, pushing)
        talk = Conversation(ports=(50_000, 5555), start=1_700_000_100 * SECOND)
        talk.send(0, greets("PUSH")[:64], LIBZMQ[:2])
        packets += talk.packets
        analyser, found = Analyser(Options()), []
        capture = Capture(packets, 1 << 30)
        analyser.begin(capture.files)
        batches = [batch for block in capture for batch in analyser.feed(block)]
        if ticks:
            batches += analyser.tick(talk.time + 3 * SECOND)
            found = [record.type for batch in batches for record in batch.records if record.values["conn"] == 6]
            assert "greeting" in found
        batches += analyser.finish(last=talk.time + 9 * SECOND)
        return sorted(
            (record.type, record.values["ts_ns"], record.values["packet"])
            for batch in batches
            for record in batch.records
            if record.values["conn"] == 6
        )

    assert records_of_the_last(ticks=True) == records_of_the_last(ticks=False)


def test_records_of_a_known_connection_are_written_once_if_it_is_released() -> None:
    packets = many(3, pushing, closed=False)
    last = packets[-1]
    packets.append(replace(last, sequence=last.sequence + len(last.payload), payload=default_command("NULL", "READY")))
    assert read(packets, 13, Options(), keep) == without_fast_path(packets, 13, Options())


def test_facts_of_an_opening_are_reported_once() -> None:
    """Each fact is reported once even if the connection leaves the fast path later, and another analyser compares all
    connections."""
    packets = many(12, naming(NAMED["text"]), closed=False)
    analyser = Analyser(Options(), comparing=False)
    batches = [batch for step in analyser.steps(Capture(packets, 50)) for batch in step]
    analyser.release_all()
    facts = [fact for batch in [*batches, *analyser.finish()] for fact in batch.facts]
    assert [fact.kind for fact in facts if isinstance(fact, ConnectionFact)] == ["served"] * 12 + ["closed"] * 12


HEADERS = [b"\0\0", b"\0\1a", b"\1\3abc", b"\0\xff" + bytes(255), b"\2" + (256).to_bytes(8) + bytes(256)]
HEADERS += [
    b"\3" + (300).to_bytes(8) + bytes(40),
    b"\2" + (255).to_bytes(8),
    b"\2" + b"\xff" * 8,
    b"\4\0",
    b"\x82",
    b"\2",
]


HEADERS += [bytes([flags]) + (300).to_bytes(8) + bytes(300) for flags in (6, 0x82)]


@pytest.mark.parametrize("scan", twins("zmtpscope.dissect.fast_path.plain_frames.scan"))
@given(streams=st.lists(st.lists(st.sampled_from(HEADERS), max_size=9), min_size=1, max_size=8), data=st.data())
def test_p3_frames_of_many_pieces_match_the_scanner(
    scan: Callable[[list[bytes], Int64], plain_frames.Scanned], streams: list[list[bytes]], data: st.DataObject
) -> None:
    octets = [b"".join(frames) for frames in streams]
    places = [data.draw(st.integers(0, len(frames[0]) if frames else 0)) for frames in streams]
    found = scan(octets, np.array(places, np.int64))
    rows = iter(found.frames.T.tolist())
    for number, (stream, place) in enumerate(zip(octets, places, strict=True)):
        columns = FrameColumns()
        stop = scan_2(stream, place, 0, columns)
        assert [next(rows) for _ in range(found.counts[number])] == list(map(list, columns.rows()))
        assert found.places[number] == min(stop, plain_frames.FARTHEST)
        assert found.is_plain[number] == (stop >= len(stream) or is_part_of_header(stream, stop))
    assert not list(rows)


def test_a_password_is_not_remembered() -> None:
    """Not even a password of a client that sends it to a server which did not ask for it."""
    talks = []
    for number in range(6):
        talk = Conversation(ports=(40_000 + number, 5555))
        talk.send(0, build_greeting_3("PLAIN"))
        talk.send(1, build_greeting_3("NULL"))
        talk.send(0, default_command("PLAIN", "HELLO"))
        talks += talk.packets
    analyser = Analyser(Options(records=False))
    for _ in analyser.run(Capture(talks, 7)):
        pass

    def remembered(step: openings.Step) -> list[Any]:
        return [step.learned, *step.next, *(each for behind in step.next.values() for each in remembered(behind))]

    texts = remembered(analyser.fast_path.openings.first)
    assert len(texts) > 4
    assert "secret" not in str(texts)


def test_steps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openings, "MAX_STEPS", 3)
    analyser = Analyser(Options(records=False))
    for _ in analyser.run(Capture(many(9, pushing), 30)):
        pass
    assert analyser.summary.handshakes["complete"] == 9

    def steps(step: openings.Step) -> int:
        return 1 + len(step.others) + sum(map(steps, step.next.values()))

    assert steps(analyser.fast_path.openings.first) == 1 + 3


def test_records_are_in_order_for_any_reader() -> None:
    """Records of the fast path are between records of other connections, because consumers count by time."""
    known = many(6, pushing)
    others = many(6, lambda _: (greets("REQ"), greets("REP")))
    others = [replace(packet, ports=(packet.ports[0] + 100, 5555)) for packet in others]
    packets = sorted(known + others, key=lambda packet: packet.time)
    for size in (9, 50, 1 << 30):
        for batch in Analyser(Options()).run(Capture(packets, size)):  # type: ignore[arg-type]
            orders = [record.order for record in batch.records]
            assert orders == sorted(orders)
