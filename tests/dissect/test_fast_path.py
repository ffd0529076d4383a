"""Seam P19: records are the same whether connections are read on the fast path, never enter it, or leave it between
any two blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from io import BytesIO
from itertools import islice
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.talks import SECOND, connected, default_command, disturbed
from tests.dissect.test_heartbeats import ping, pong
from tests.dissect.test_outages import again
from tests.payloads.zre import hello as zre_hello
from tests.peer_octets import hello, message, subscribe
from tests.suites import examples, some
from tests.traffic import Capture, Conversation, Packet, record_of, records
from zmtpscope.capture.segments import ORDINALS
from zmtpscope.dissect import Analyser, Options, Summary
from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.fast_path.fast_path import FastPath
from zmtpscope.dissect.fast_path.sessions import STAYS_OUT
from zmtpscope.dissect.fast_path.sides import MAX_HELD, MAX_OPEN, ROLES
from zmtpscope.dissect.options import MIN_KEPT
from zmtpscope.dissect.records.batch import Segments
from zmtpscope.dissect.stream.assembly import FRAME_WEIGHT
from zmtpscope.dissect.tcp.stalls import MAX_APART
from zmtpscope.payloads.registry import Registry
from zmtpscope.payloads.side import SidePayloads
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.regime import Framing

Step = Callable[[Analyser], None]

PAIRS = [
    ("PUSH", "PULL"),
    ("PAIR", "PAIR"),
    ("DEALER", "ROUTER"),
    ("REQ", "REP"),
    ("REQ", "ROUTER"),
    ("DEALER", "REP"),
    ("PUB", "SUB"),
    ("CLIENT", "SERVER"),
]
BODIES = [b"", b"a", b"text of a few words", b"\xc3\xa9t\xc3\xa9", b'{"a": 1}', b"\x81\xa1a\x01", bytes(20), b"x" * 254]
BODIES += [b"\x80\x04K*.", b"x" * 255, b"y" * 256, b"\xff" * 700, b"large" * 1000]
PING = build_frame(Framing.V2, b"\x04PING\0\0", command=True)
ODD = [
    PING,
    default_command("NULL", "READY"),
    default_command("NULL", "ERROR"),
    b"\2\0\0\0\0\0\0\0\1x",
    b"\x08\0",
    b"\1",
    b"\3\0\0\0\0\0\0\x7f\xff",
    b"\xff" * 30,
    message(zre_hello()),
    message(b"", b"1.0", b"1", b"global", b"127.0.0.1", b"", b"NULL"),
    message(b"", b"1.0", b"1", b"200", b"OK", b"", b""),
]
"""Commands, a size in more octets than necessary, a reserved bit, parts of headers, other octets, and messages of
ZRE and ZAP, which need both sides."""
OPTIONS = [
    Options(),
    Options(payloads=Registry()),
    Options(records=False),
    Options(records=False, payloads=Registry()),
    Options(bodies="none"),
    Options(bodies="head", head=5, body_limit=300),
    Options(index=True),
]


def talk(random: Random, number: int, turns: int) -> list[Packet]:
    """Make a connection with messages of both sides, and sometimes other data between them."""
    client, server = random.choice(PAIRS)
    first = random.choice([1000, 2**32 - 500])
    conversation = Conversation(initial=(first, 9000), ports=(50_000 + number, 5555))
    version = random.choice(["3.0", "3.1"])
    conversation.send(0, hello(client, version), cuts=random.sample(range(90), random.randrange(3)))
    conversation.send(1, hello(server, version))
    if server == "SUB" and version == "3.0":
        conversation.send(1, message(b"\1a"))
    elif server == "SUB":
        conversation.send(1, subscribe(b"a"))
    bodies = random.choice([BODIES, BODIES[:3], BODIES[1:7]])
    odd = random.choice([0, 0, 0.02, 0.1])
    for _ in range(turns):
        side = random.randrange(2) if random.random() < 0.3 else 0
        octets = b""
        for _ in range(random.choice([0, 1, 1, 2, 12])):
            frames = [random.choice(bodies) for _ in range(random.choice([1, 1, 2, 3]))]
            octets += message(*([b"", *frames] if client == "REQ" else frames))
        if random.random() < odd:
            octets += random.choice(ODD)
        cuts = random.sample(range(1, len(octets)), min(len(octets) - 1, random.randrange(4))) if octets else []
        conversation.send(side, octets, cuts)
        if random.random() < 0.3:
            conversation.acknowledge(1 - side)
    if random.random() < 0.7:
        conversation.close()
    return conversation.packets


@st.composite
def talks(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Packet]:
    """Draw the packets of some connections, interleaved; a few packets are repeated or late."""
    random = Random(draw(st.integers(0, 1 << 32)))
    waiting = [talk(random, number, draw(st.integers(1, 25))) for number in range(draw(st.integers(1, 5)))]
    if draw(st.booleans()):
        waiting[0] = draw(disturbed(waiting[0]))
    return in_any_order(random, waiting)


def in_any_order(random: Random, waiting: list[list[Packet]]) -> list[Packet]:
    """Interleave the packets of some connections."""
    packets = []
    while waiting:
        packets.append(waiting[random.randrange(len(waiting))].pop(0))
        waiting = [each for each in waiting if each]
    return [replace(packet, time=1_700_000_000_000_000_000 + 1_000_000 * place) for place, packet in enumerate(packets)]


Read = tuple[list[dict[str, Any]], Summary, list[Any]]


def known_of(payloads: SidePayloads) -> tuple[Any, ...]:
    """Return the state of a side's dissectors: the current candidates, and whether they know of a loss."""
    last = None if payloads.last is None else payloads.last.name
    return payloads.unclaimed, payloads.unreadable, last, payloads.has_lost


def state_of(analyser: Analyser) -> list[Any]:
    """Return the state of the open connections that decides how they continue."""
    found: list[Any] = []
    for tcp, connection in sorted(analyser.connections.items(), key=lambda each: each[0].number):
        for side, stream in zip(tcp.tcp, connection.streams, strict=True):
            side.leave_plain()
            found.append((side.next, side.delivered, side.captured, side.acknowledged, stream.end, tcp.last))
            assembly, reader = stream.messages.in_clear, stream.reader
            if reader is not None:
                payloads = assembly.payloads and assembly.payloads.side
                found.append((reader.position, reader.message_open, stream.held_octets.joined()))
                found.append((assembly.message_count, assembly.frame_count, assembly.recent_sizes, stream.unit_octets))
                found.append((assembly.carried.rows(), assembly.last_message, stream.arrivals.rows()[-1:]))
                found.append(known_of(payloads) if payloads else (0, 0, None, False))
        if (connection.streams[0].socket_type, connection.streams[1].socket_type) in ROLES:
            requests = vars(connection.rows.requests)
            found.append({name: list(value) if name == "open" else value for name, value in requests.items()})
        tcp.resume_plain()
    return found


Position = tuple[int, int, int, int, bytes]


def positions_in(segments: Segments) -> Iterator[Position]:
    """Yield the side, stream offset, length, packet and octets of each segment, none of which is in a file."""
    places, octets = iter(segments.places.T.tolist()), BytesIO(segments.octets)
    for side, begin, count in segments.runs.T.tolist():
        for length, packet, *_ in islice(places, count):
            yield side, begin, length, packet, octets.read(length) if packet else b""
            begin += length


def read(packets: list[Packet], size: int, options: Options, step: Step) -> Read:
    """Return all records and the summary of a run over blocks of `size` packets, and the state of connections before
    its end; `step` is called after each block."""
    capture, analyser = Capture(packets, size), Analyser(options)
    analyser.begin(capture.files)
    found: list[dict[str, Any]] = []
    positions: list[Position] = []

    def take(batches: Any) -> None:
        for batch in batches:
            positions.extend(position for segments in batch.segments for position in positions_in(segments))
            found.extend(record_of(item, index, options) for item, index in batch.in_order())

    for block in capture:
        take(analyser.feed(block))
        step(analyser)
    assert analyser.fast_path.sessions.sides or not analyser.fast_path.sessions.slots
    analyser.release_all()
    state, budget = state_of(analyser), analyser.sink.budget
    held = budget.held, budget.memberships, budget.subscriptions
    take(analyser.finish())
    assert budget.held == budget.memberships == budget.subscriptions == 0
    known = {record["conn"] for record in found}
    index = sorted(position for position in positions if position[0] >> 1 in known)
    return found, analyser.summary, [*state, held, index]


def read_to_the_end(packets: list[Packet], size: int, options: Options) -> tuple[list[dict[str, Any]], Any]:
    """All records and the summary of a run; connections that are open at its end are on the fast path until then."""
    found, analyser = records(Capture(packets, size), options)
    budget = analyser.sink.budget
    assert budget.held == budget.memberships == budget.subscriptions == 0
    return found, analyser.summary


def keep(analyser: Analyser) -> None:
    """Leave connections on the fast path."""


def release(analyser: Analyser) -> None:
    """Release all connections. They are read on the slow path in the next block, and may return after it."""
    analyser.release_all()
    assert not analyser.fast_path.sessions.slots
    assert not analyser.fast_path.sessions.sides


def now_and_then(random: Random, share: float) -> Step:
    """Release connections after this share of the blocks."""
    return lambda analyser: release(analyser) if random.random() < share else None


@given(packets=talks(), size=st.integers(1, 12), options=st.sampled_from(OPTIONS), data=st.data())
@examples(40, least=40)
def test_p19_output_is_the_same_with_and_without_the_fast_path(
    packets: list[Packet], size: int, options: Options, data: st.DataObject
) -> None:
    random = Random(data.draw(st.integers(0, 1 << 16)))
    without = without_fast_path(packets, size, options)
    assert without_fast_path(packets, len(packets), options)[:2] == without[:2]
    assert read(packets, size, options, keep) == without
    assert read(packets, size, options, release) == without
    assert read(packets, size, options, now_and_then(random, 0.3)) == without


def asking(random: Random, number: int) -> list[Packet]:
    """Make a REQ and its server, which mostly alternate."""
    conversation = Conversation(ports=(50_000 + number, 5555))
    conversation.send(0, hello("REQ"))
    conversation.send(1, hello(random.choice(["REP", "ROUTER"])))
    odd = random.choice([0, 0, 0.05, 0.2])
    for _ in range(random.randrange(12)):
        for side in (0, 1):
            frames = [b"", b"asked" * random.choice([1, 1, 30])]
            octets = message(*frames)
            if random.random() < odd:
                octets = random.choice(
                    [b"", octets * 2, message(b"no delimiter"), message(b"id", *frames), message(b"")]
                )
            if octets:
                conversation.send(side, octets, random.sample(range(1, len(octets)), random.randrange(2)))
    if random.random() < odd:
        conversation.packets[-1], conversation.packets[-2] = conversation.packets[-2], conversation.packets[-1]
    if random.random() < 0.6:
        conversation.close()
    return conversation.packets


@given(
    seed=st.integers(0, 1 << 32),
    size=st.integers(1, 12),
    is_written=st.booleans(),
    released=st.sampled_from([0, 0.2, 1]),
)
def test_p19_requests_are_matched_with_replies_in_whichever_blocks_they_arrive(
    seed: int, size: int, is_written: bool, released: float
) -> None:
    random = Random(seed)
    packets = in_any_order(random, [asking(random, number) for number in range(random.randrange(1, 6))])
    options = Options(records=is_written, payloads=Registry() if random.random() < 0.5 else None)
    assert read(packets, size, options, now_and_then(random, released)) == without_fast_path(packets, size, options)


TOPICS = [b"", b"a", b"ab", b"b", b"topic", b"x" * 70]


def publishing(random: Random, number: int) -> list[Packet]:
    """Make a publisher and a subscriber, which receives the topics of its subscriptions, sometimes more or less."""
    conversation = Conversation(ports=(50_000 + number, 5555))
    version = random.choice(["3.0", "3.1"])
    types = random.choice([("SUB", "PUB"), ("SUB", "XPUB"), ("XSUB", "PUB"), ("XSUB", "XPUB")])
    for side in (0, 1):
        conversation.send(side, hello(types[side], version))

    def subscribe(topic: bytes, *, cancels: bool = False) -> None:
        marked = message((b"\0" if cancels else b"\1") + topic)
        named = build_frame(Framing.V2, (b"\6CANCEL" if cancels else b"\x09SUBSCRIBE") + topic, command=True)
        conversation.send(0, named if version == "3.1" else marked)

    subscribed = random.sample(TOPICS, random.choice([0, 1, 1, 1, 2, 3]))
    for topic in subscribed:
        subscribe(topic)
    odd = random.choice([0, 0, 0.05, 0.3])
    for _ in range(random.randrange(25)):
        if random.random() < odd / 4:
            subscribe(random.choice(TOPICS), cancels=random.random() < 0.5)
        octets = b""
        for _ in range(random.choice([1, 1, 3, 20])):
            topic = random.choice(TOPICS if random.random() < odd or not subscribed else subscribed)
            more = random.choice([[], [b"body"], [b"body", b"more"], [b"l" * 300], [b'{"a": 1}']])
            octets += message(topic + random.choice([b"", b"c", b"\xff"]), *more)
        conversation.send(1, octets, random.sample(range(1, len(octets)), random.randrange(2)))
    if random.random() < 0.6:
        conversation.close()
    return conversation.packets


@given(
    seed=st.integers(0, 1 << 32),
    size=st.integers(1, 12),
    options=st.sampled_from(OPTIONS),
    released=st.sampled_from([0, 0.2, 1]),
)
@examples(40, least=25)
def test_p19_topics_are_found_in_whichever_blocks_messages_arrive(
    seed: int, size: int, options: Options, released: float
) -> None:
    random = Random(seed)
    packets = in_any_order(random, [publishing(random, number) for number in range(random.randrange(1, 5))])
    assert read(packets, size, options, now_and_then(random, released)) == without_fast_path(packets, size, options)


WORDS = message(b"", b"words")


def beating(random: Random) -> list[Packet]:
    """Make a connection with heartbeats, most of them answered, and sometimes longer silence than they allow."""
    conversation = Conversation(ports=(50_000, 5555))
    for side, socket_type in enumerate(random.choice([("DEALER", "ROUTER"), ("REQ", "REP"), ("PUSH", "PULL")])):
        conversation.send(side, hello(socket_type, "3.1"))
    for number in range(random.randrange(1, 20)):
        side = random.randrange(2) if random.random() < 0.5 else 0
        if random.random() < 0.3:
            octets = random.choice([b"", WORDS]) + ping(b"%d" % number, random.choice([0, 500, 2000]))
            cut = random.choice([0, 0, 3])
            conversation.send(side, octets + WORDS[:cut])
            if random.random() < 0.9:
                conversation.send(1 - side, pong(b"%d" % number))
            conversation.wait(random.choice([0, 0, 4 * SECOND]))
            if cut:
                conversation.send(side, WORDS[cut:])
        else:
            conversation.send(side, WORDS * random.choice([1, 2]))
        conversation.wait(random.choice([0, 0, SECOND, 2 * SECOND, 4 * SECOND]))
    if random.random() < 0.7:
        conversation.close()
    return conversation.packets


@given(
    seed=st.integers(0, 1 << 32),
    size=st.integers(1, 6),
    options=st.sampled_from(OPTIONS),
    released=st.sampled_from([0, 0.2, 1]),
)
@examples(100, least=40)
def test_p19_heartbeats_are_matched_in_whichever_blocks_they_arrive(
    seed: int, size: int, options: Options, released: float
) -> None:
    random = Random(seed)
    packets = beating(random)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zmtpscope.dissect.fast_path.sessions.STAYS_OUT", 0)
        found = read(packets, size, options, now_and_then(random, released))
    assert found == without_fast_path(packets, size, options)


def without_fast_path(packets: list[Packet], size: int, options: Options, step: Step = keep) -> Read:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zmtpscope.dissect.fast_path.fast_path.FastPath.adopt", lambda fast_path, connection: None)
        patch.setattr("zmtpscope.dissect.fast_path.openings.Openings.behind", lambda *_: None)
        return read(packets, size, options, step)


SESSIONS = [
    lambda random: talk(random, 0, random.randrange(1, 9)),
    lambda random: asking(random, 0),
    lambda random: publishing(random, 0),
]


@given(seed=st.integers(0, 1 << 32), kind=st.sampled_from(SESSIONS), options=st.sampled_from(OPTIONS))
def test_p19_a_session_can_be_handed_over_at_every_ordinal(
    seed: int, kind: Callable[[Random], list[Packet]], options: Options
) -> None:
    """The slow path resumes with the state that it would have had, and ends with equal records."""
    packets = in_any_order(Random(seed), [kind(Random(seed))])
    states: list[Any] = []
    expected = without_fast_path(packets, 1, options, lambda analyser: states.append(deepcopy(state_of(analyser))))

    def hand_over(place: int, analyser: Analyser) -> None:
        """Hand the session over after the packet at `place`."""
        if analyser.next_ordinal == ORDINALS * (place + 1):
            release(analyser)
            assert state_of(analyser) == states[place]

    for place in some(range(len(packets)), 2):
        assert read(packets, 1, options, partial(hand_over, place)) == expected


def messages_read(conversation: Conversation, options: Options = OPTIONS[0], size: int = 3) -> tuple[int, int]:
    """Count the messages of a run, and how many of them the fast path had counted before the end; -1 if the
    connection was gone."""
    capture, analyser = Capture(conversation.packets, size), Analyser(options)
    analyser.begin(capture.files)
    for block in capture:
        list(analyser.feed(block))
    counted = analyser.fast_path.messages if analyser.fast_path.sessions.connections else -1
    list(analyser.finish())
    return analyser.summary.messages, counted


def session(client: str = "PUSH", server: str = "PULL") -> Conversation:
    """Return two sides after their handshake."""
    conversation = connected(client, server)
    conversation.acknowledge(0)
    return conversation


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair != ("PUB", "SUB")])
def test_sessions_under_way_are_read_on_the_fast_path(pair: tuple[str, str]) -> None:
    conversation = session(*pair)
    for _ in range(9):
        conversation.send(0, message(b"", b"asked"))
        if pair[0] != "PUSH":
            conversation.send(1, message(b"", b"answered"))
    messages, counted = messages_read(conversation)
    assert messages == (9 if pair[0] == "PUSH" else 18)
    assert counted == messages


def test_a_reply_is_read_on_the_fast_path_whose_request_arrived_in_front_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zmtpscope.dissect.fast_path.openings.Openings.behind", lambda *_: None)
    conversation = session("REQ", "REP")
    conversation.send(0, message(b"", b"asked"))
    before = len(conversation.packets)
    for side in (1, 0, 1):
        conversation.send(side, message(b"", b"words"))
    capture, analyser = Capture(conversation.packets, before), Analyser(Options())
    analyser.begin(capture.files)
    for block in capture:
        list(analyser.feed(block))
    assert analyser.fast_path.messages == 3
    assert read(conversation.packets, before, Options(), keep) == without_fast_path(
        conversation.packets, before, Options()
    )


@pytest.mark.parametrize("other_command", [b"\x09SUBSCRIBEb", b"\6CANCELa", b"\4JOINa"], ids=str)
def test_a_connection_that_sends_more_than_its_opening_is_released(other_command: bytes) -> None:
    conversation = session("PUB", "SUB")
    conversation.send(1, subscribe(b"a"))
    for number in range(20):
        conversation.send(0, message(b"a", b"b"))
        if number == 10:
            conversation.send(1, build_frame(Framing.V2, other_command, command=True))
    for size in (1, 3, 100):
        assert read(conversation.packets, size, Options(), keep) == without_fast_path(
            conversation.packets, size, Options()
        )


def test_a_subscriber_that_joins_groups_has_no_topics() -> None:
    conversation = session("SUB", "PUB")
    conversation.send(0, build_frame(Framing.V2, b"\4JOINa", command=True))
    for _ in range(9):
        conversation.send(1, message(b"a word"))
    assert read(conversation.packets, 4, Options(), keep) == without_fast_path(conversation.packets, 4, Options())


@pytest.mark.parametrize(
    ("subscription", "left_out"),
    [(subscribe(b"a"), 0), (message(b"\1a"), 3)],
    ids=["a command", "a message"],
)
def test_a_publisher_is_read_on_the_fast_path(subscription: bytes, left_out: int) -> None:
    """From its SYN on if the opening contains the subscriptions; a subscription in a message is not part of it."""
    conversation = session("PUB", "SUB")
    conversation.send(1, subscription)
    for _ in range(40):
        conversation.send(0, message(b"a", b"b"))
    published, counted = messages_read(conversation)
    assert counted == published - left_out


@pytest.mark.parametrize(
    ("octets", "comes_back"),
    [
        (PING, True),
        (b"\2\0\0\0\0\0\0\0\1x", True),
        (b"\x08", True),
        (message(*[b""] * (MAX_OPEN + 3))[:-3], False),
        (message(bytes(2 * MAX_HELD))[: MAX_HELD + 99], False),
        (b"\2" + (2**63 - 1).to_bytes(8) + b"x", False),
    ],
    ids=[
        "a command",
        "a size in too many octets",
        "a reserved bit",
        "many frames",
        "a large message",
        "the largest size",
    ],
)
def test_data_that_is_not_plain_releases_a_connection(octets: bytes, comes_back: bool) -> None:
    conversation = session()
    for _ in range(6):
        conversation.send(0, message(b"plain"))
    assert messages_read(conversation) == (6, 6)
    conversation.send(0, octets)
    assert messages_read(conversation) == (6 if octets in (PING, b"\x08") else 7, 0 if comes_back else -1)


@pytest.mark.parametrize("loses", [True, False], ids=["a hole", "the end"])
def test_data_out_of_order_releases_a_connection(loses: bool) -> None:
    conversation = session()
    for _ in range(6):
        conversation.send(0, message(b"plain"))
    if loses:
        del conversation.packets[-2]
    else:
        conversation.close()
    messages, counted = messages_read(conversation, size=1)
    assert (messages, counted) == ((5, -1) if loses else (6, -1))


def interrupted(times: int) -> Conversation:
    """Return a session that a closed window and an outage interrupt this many times, with messages before and after."""
    conversation = session()
    for _ in range(times):
        for _ in range(STAYS_OUT):  # so that it returns in between
            conversation.send(0, message(b"plain"))
            conversation.acknowledge(1)
        conversation.close_window(1)
        conversation.wait(2 * SECOND)
        conversation.open_window(1)
        conversation.send(0, message(b"late"))
        for _ in range(4):
            conversation.wait(SECOND // 2)
            again(conversation, message(b"late"))
        conversation.acknowledge(1)
    for _ in range(2 * STAYS_OUT):
        conversation.send(0, message(b"plain"))
        conversation.acknowledge(1)
    return conversation


def test_a_connection_returns_when_its_stall_or_outage_is_over() -> None:
    messages, counted = messages_read(interrupted(1))
    assert messages == STAYS_OUT + 1 + 2 * STAYS_OUT
    assert counted > 0


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("size", some([1, 3, 7, 20, 1000], 3))
@pytest.mark.parametrize("ends", [True, False])
def test_p19_stalls_and_outages_are_reported_by_connections_that_return(
    size: int, options: Options, *, ends: bool
) -> None:
    conversation = interrupted(MAX_APART + 2)
    if ends:
        conversation.close()
    packets = conversation.packets
    expected = without_fast_path(packets, size, options)
    found = read(packets, size, options, keep)
    assert found == expected
    if options.records:
        stalls, outages = (
            [each for each in found[0] if each["record"] == type_] for type_ in ("stall", "retransmission")
        )
        assert len(stalls) == len(outages) == MAX_APART + 1, "the last two are joined"


def test_octets_cut_off_by_the_snap_length_are_missing() -> None:
    """No later octets show the loss."""
    conversation = session()
    for _ in range(6):
        conversation.send(0, message(b"plain"))
    last = conversation.packets[-1]
    conversation.packets[-1] = replace(last, payload=last.payload[:-3], cut=3)
    for size in (1, 4):
        found = read(conversation.packets, size, Options(), keep)
        assert found == without_fast_path(conversation.packets, size, Options())
        assert found[1].gaps == 1


@pytest.mark.parametrize("beside", [b"", message(b'{"b": 2}')], ids=["alone", "beside JSON"])
def test_messages_that_a_dissector_knows_are_read_on_the_fast_path(beside: bytes) -> None:
    conversation = session("DEALER", "ROUTER")
    for _ in range(6):
        conversation.send(0, message(bytes(9)))
    conversation.send(0, message(b'{"a": 1}'))
    conversation.send(0, beside + message(b"\x80\x04K*.") + beside)
    for options in (Options(records=False, payloads=Registry()), Options(payloads=Registry())):
        count = 10 if beside else 8
        assert messages_read(conversation, options) == (count, count)
        found = read(conversation.packets, 3, options, keep)
        assert found == without_fast_path(conversation.packets, 3, options)
        assert found[1].findings["note", "PICKLE-01"] == 1


@pytest.mark.parametrize(("pair", "may_call"), [(("PUSH", "PULL"), False), (("DEALER", "ROUTER"), True)])
def test_payloads_of_messages_that_cannot_be_calls_are_read_for_findings_only(
    pair: tuple[str, str], may_call: bool
) -> None:
    conversation = session(*pair)
    for body in [b'{"a": 1}', b"text", b"\x80\x04K*."] * 6 + [b'{"a": 1}'] * 3:
        conversation.send(0, message(body))
    every, calls = (
        read(conversation.packets, 12, Options(payloads=Registry(), only_calls=only_calls), keep)
        for only_calls in (False, True)
    )
    assert calls[1].findings == every[1].findings
    assert calls[1].findings["note", "PICKLE-01"]
    of_calls, of_every = (
        [(each["payload"] or {}).get("fields") for each in found if each["record"] == "message"]
        for found in (calls[0], every[0])
    )
    assert {"a": 1} in of_every
    assert (of_calls == of_every) is may_call


@pytest.mark.parametrize("is_written", [True, False])
def test_a_dissector_knows_how_many_messages_it_was_not_asked_about(is_written: bool) -> None:
    """A message that begins like JSON is passed to a dissector; this does not restart the count."""
    conversation = session("DEALER", "ROUTER")
    for body in [bytes(9)] * 200 + [b"{no"] + [bytes(9)] * 60 + [b'{"a": 1}']:
        conversation.send(0, message(body))
    options = Options(records=is_written, payloads=Registry())
    assert read(conversation.packets, 7, options, keep) == without_fast_path(conversation.packets, 7, options)


@pytest.mark.parametrize("filling", [0, 3, 11])
@pytest.mark.parametrize("bodies", [[b'{"a": 1}'], [b"{no", b'{"a": 1}', b"{no"], [b"{no"]], ids=repr)
def test_claims_are_counted_on_the_fast_path_as_if_each_message_was_asked_about(
    bodies: list[bytes], filling: int
) -> None:
    """They are equal even if the side is left alone in the middle of a block."""
    conversation = session("DEALER", "ROUTER")
    for number in range(600):
        body = bodies[number % len(bodies)] if number % (filling + 1) == 0 or number < 9 else bytes(9)
        conversation.send(0, message(body))
        if number in (300, 450):
            conversation.send(0, message(b"\x80\x04K*."))
    for size in (7, 50, 400):
        options = Options(records=False, payloads=Registry())
        assert read(conversation.packets, size, options, keep) == without_fast_path(conversation.packets, size, options)


def test_a_dissector_on_the_fast_path_is_informed_of_a_loss_before_its_message() -> None:
    """The loss is after a message that is too large to be examined; also if claims are only counted."""
    conversation = session("DEALER", "ROUTER")
    for body in [b'{"a": 1}'] * 8 + [b"x" * (MIN_KEPT + 1)] + [b'{"a": 1}'] * 8:
        conversation.send(0, message(body))
    options = Options(records=False, payloads=Registry(), body_limit=MIN_KEPT)
    assert messages_read(conversation, options) == (17, 17)
    found = read(conversation.packets, 3, options, keep)
    assert found == without_fast_path(conversation.packets, 3, options)
    assert (0, 0, "json", True) in found[2]


def test_a_message_of_which_both_sides_have_to_be_known_releases_a_connection() -> None:
    conversation = session("DEALER", "ROUTER")
    for _ in range(6):
        conversation.send(0, message(b'{"a": 1}'))
    assert messages_read(conversation, Options(records=False, payloads=Registry())) == (6, 6)
    conversation.send(0, message(zre_hello()))
    assert messages_read(conversation, Options(records=False, payloads=Registry())) == (7, 0)


def test_what_the_fast_path_holds_counts_with_what_all_connections_hold() -> None:
    conversation = session()
    conversation.send(0, message(b"one", bytes(300)), cuts=(5, 7, 100, 200))
    conversation.send(0, message(b"two"))
    capture, analyser = Capture(conversation.packets, 1), Analyser(Options())
    analyser.begin(capture.files)
    held = []
    for block in capture:
        list(analyser.feed(block))
        here = [*analyser.fast_path.sessions.sides]
        held.append((int(analyser.fast_path.side_states.memory[here].sum()), analyser.sink.budget.held))
    assert all(inside == counted for inside, counted in held[-6:])
    assert [counted for _, counted in held[-6:]] == [
        5 + FRAME_WEIGHT,
        7 + FRAME_WEIGHT,
        100 + 2 * FRAME_WEIGHT,
        200 + 2 * FRAME_WEIGHT,
        0,
        0,
    ]


def test_messages_are_judged_on_the_fast_path() -> None:
    conversation = session("DEALER", "REP")
    for _ in range(6):
        conversation.send(0, message(b"no empty frame"))
    assert messages_read(conversation) == (6, 6)
    _, summary, _ = read(conversation.packets, 3, Options(), keep)
    assert summary.findings["warn", "REQREP-05"] == 6


def test_unknown_messages_are_skipped_if_messages_of_the_other_side_are_known() -> None:
    conversation = session("DEALER", "REP")
    for _ in range(6):
        conversation.send(0, message(b"", bytes(9)))
        conversation.send(1, message(b"", b'{"a": 1}'))
    options = Options(records=False, payloads=Registry())
    _, _, state = read(conversation.packets, 4, options, keep)
    assert [each[:2] for each in state[4::5]] == [(6, 0), (0, 0)]


@pytest.mark.parametrize("size", [1, 3, 4])
@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("speaks_before", [True, False])
def test_commands_of_one_side_determine_the_findings_of_the_other(
    speaks_before: bool, is_written: bool, size: int
) -> None:
    """A PULL announces itself as a ZRE node: other messages do not belong on its connection (ZRE-09)."""
    conversation = session()
    for number in range(20):
        conversation.send(0, message(b"plain"))
        if speaks_before and number == 2:
            conversation.send(1, message(b"plain"))
        if number == 15:
            conversation.send(1, message(zre_hello()))
    conversation.close()
    options = Options(records=is_written, payloads=Registry())
    found = read(conversation.packets, size, options, keep)
    assert found == without_fast_path(conversation.packets, size, options)
    assert found[1].findings["error", "ZRE-09"] == 4


@pytest.mark.parametrize("is_written", [True, False])
def test_a_side_without_claimed_messages_is_left_alone_at_the_same_message(is_written: bool) -> None:
    conversation = session("DEALER", "ROUTER")
    for _ in range(400):
        conversation.send(0, message(bytes(9)))
    conversation.send(0, message(b'{"a": 1}'))
    options = Options(records=is_written, payloads=Registry())
    assert read(conversation.packets, 7, options, keep) == without_fast_path(conversation.packets, 7, options)


def test_a_connection_released_at_once_is_not_adopted_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = session()
    for _ in range(40):
        conversation.send(0, b"\2\0\0\0\0\0\0\0\1x")
    adopted = []
    adopt = FastPath.adopt

    def adopting(fast_path: FastPath, each: ZmtpConnection) -> None:
        adopt(fast_path, each)
        adopted.append(bool(fast_path.sessions.connections))

    monkeypatch.setattr(FastPath, "adopt", adopting)
    messages_read(conversation, size=1)
    assert sum(adopted) <= 1 + 40 / STAYS_OUT
