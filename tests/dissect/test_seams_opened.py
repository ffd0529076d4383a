"""The analyser's invariants for opened boxes: P1, P3, P5, P6, P9, P10, P12 and P13 of docs/seams.md."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curve import CLIENT, COMMAND, MORE, SERVER, CurvePeers, frame
from tests.dissect.sealed_talks import LABELS, LOW_ORDER, Steps, Talk, keys_of, sealed_packets, talks
from tests.dissect.talks import disturbed, snapped
from tests.export.test_arrow import table
from tests.export.test_json_lines import OPTIONS
from tests.rows_by_hand import values_of
from tests.strategies import BODIES, SOCKET_TYPES
from tests.suites import examples
from tests.traffic import Capture, Conversation, Packet, records
from tests.zmtp.sides import MANY
from zmtpscope.capture.segments import SYN
from zmtpscope.dissect import Analyser, Batch, MessageTable, Options, Record
from zmtpscope.dissect.records.details import details
from zmtpscope.dissect.stream import arrivals
from zmtpscope.dissect.stream.assembly import FRAME_WEIGHT
from zmtpscope.dissect.stream.session import ALWAYS_TRIED, TRIED_OCTETS, TRIES
from zmtpscope.dissect.tcp.connection import TcpSide
from zmtpscope.export.json_lines import line_of, lines
from zmtpscope.export.tables import by_type
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.details import field_tree
from zmtpscope.zmtp.events import Command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.mechanisms.curve import BOXES
from zmtpscope.zmtp.opened import OpenedReader
from zmtpscope.zmtp.reader import FieldNode
from zmtpscope.zmtp.regime import Framing, Phase

EVERYTHING = Options(frames=True, details=True)
SMALL_BOXES = 400
"""Octets of the largest MESSAGE that is waited for, in tests that reduce the limit."""

Rows = list[dict[str, Any]]


@pytest.fixture(autouse=True, scope="module")
def boxes_are_small() -> Any:
    """Reduce the limit, so that a MESSAGE above it is still small."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("zmtpscope.dissect.stream.decryption.LARGEST_BOX", SMALL_BOXES)
        yield


@st.composite
def captured(draw: Any, **kinds: Any) -> tuple[Talk, list[Packet]]:
    """Draw a conversation and its capture, with packets repeated, reordered, cut and lost."""
    talk = draw(talks(**kinds))
    packets = draw(sealed_packets(talk, draw(st.sampled_from([True, True, True, False]))))
    damage = draw(st.sampled_from(["", "", "disorder", "loss", "snap length"]))
    if damage == "snap length":
        packets = draw(snapped(packets))
    if damage:
        packets = draw(disturbed(packets))
    for at in draw(st.lists(st.integers(0, 60), max_size=3)) if damage == "loss" else ():
        if at < len(packets) and not packets[at].flags & SYN:
            del packets[at]
    return talk, packets


def sealed(body: bytes) -> bytes:
    return build_frame(Framing.V2, body)


def garbled(octets: bytes) -> bytes:
    return octets[:-1] + bytes([octets[-1] ^ 1])


def spoken(steps: Steps, syn: bool = True, cuts: range = range(0)) -> list[Packet]:
    """Make a packet for each step; long ones are cut at `cuts`."""
    talk = Conversation(syn=syn)
    for side, octets in steps:
        talk.send(side, octets, cuts)
    talk.close()
    return talk.packets


def of(found: Rows, *kinds: str) -> Rows:
    return [each for each in found if each["record"] in kinds]


# -- P1 --------------------------------------------------------------------------------------------------------------


@examples(160, least=160)
@given(capture=captured(), data=st.data())
def test_p1_blocks_of_any_size_open_the_same(capture: tuple[Talk, list[Packet]], data: st.DataObject) -> None:
    talk, packets = capture
    given = data.draw(st.sampled_from([replace(EVERYTHING, body_limit=300), Options(), Options(body_limit=100)]))
    options = replace(given, keys=keys_of(talk.text))
    whole, _ = records(Capture(packets), options)
    blocks, _ = records(Capture(packets, data.draw(st.integers(1, 7))), options)
    assert blocks == whole


class Case(NamedTuple):
    """A capture, a key file, and the expected records that show that the case is the intended one."""

    packets: list[Packet]
    text: str
    expected: str
    options: Options = Options()


def with_a_cookie_of_its_own() -> Case:
    """Only HELLO and WELCOME open, and INITIATE returns a cookie other than WELCOME's."""
    peers = CurvePeers()
    steps = [*peers.handshake()[:4], (CLIENT, frame(peers.initiate(cookie=bytes(96), socket_type="DEALER")))]
    return Case(spoken(steps), peers.lines("SERVER_LONGTERM"), "CURVE-14")


def with_a_version_that_is_settled_late() -> Case:
    """The client has sent HELLO before the server has sent its whole version."""
    peers = CurvePeers()
    greeting, welcome = build_greeting_3("CURVE"), frame(peers.welcome())
    steps = [(0, greeting[:11]), (1, build_greeting_3("CURVE") + frame(peers.hello())), (0, greeting[11:] + welcome)]
    return Case(spoken(steps), peers.lines("SERVER_LONGTERM"), "WELCOME")


def with_a_message_larger_than_what_is_waited_for() -> Case:
    peers = CurvePeers()
    steps = peers.handshake()
    steps.append((CLIENT, peers.messages(CLIENT, b"a", bytes(2 * SMALL_BOXES), b"c") + peers.messages(CLIENT, b"d")))
    return Case(
        spoken(steps, cuts=range(0, 2000, 100)), peers.lines("SHARED"), "CURVE-25", Options(body_limit=SMALL_BOXES)
    )


def with_bodies_as_large_as_wanted_in_two_frames() -> Case:
    peers = CurvePeers()
    steps = peers.handshake()
    steps.append((CLIENT, peers.messages(CLIENT, bytes(50), bytes(50))))
    return Case(spoken(steps, cuts=range(0, 400, 10)), peers.lines("SHARED"), "full", Options(body_limit=100))


def with_a_large_box_that_does_not_open_inside_a_message() -> Case:
    peers = CurvePeers()
    first, second = peers.message(CLIENT, b"first", MORE), peers.message(CLIENT, bytes(300))
    steps = [*peers.handshake(), (CLIENT, sealed(first) + garbled(sealed(second)))]
    return Case(spoken(steps, cuts=range(0, 400, 10)), peers.lines("SHARED"), "CURVE-20", Options(body_limit=100))


def with_more_to_say_of_a_box_that_does_not_open() -> Case:
    """The box is also the first message frame, which is known before it is complete."""
    peers = CurvePeers()
    steps = [*peers.handshake(), (CLIENT, garbled(sealed(peers.message(CLIENT, bytes(100)))))]
    return Case(spoken(steps, cuts=range(0, 400, 30)), peers.lines("SHARED"), "CURVE-10")


def with_the_same_said_inside_and_outside() -> Case:
    """Empty commands inside and outside of boxes: more together than are reported one by one."""
    peers = CurvePeers()
    steps = peers.handshake()
    for _ in range(7):
        steps += [(CLIENT, sealed(peers.message(CLIENT, b"", COMMAND))), (CLIENT, b"\x04\0")]
    return Case(spoken(steps), peers.lines("SHARED"), "ZMTP3X-CMD-01")


def with_the_same_said_very_often_inside() -> Case:
    """More empty commands than are handed up one by one, followed by the same outside of boxes."""
    peers = CurvePeers()
    steps = peers.handshake("REQ", "SUB")
    for number in range(14):
        steps += [
            (SERVER, sealed(peers.message(SERVER, b"\1%d" % number, MORE))),
            (SERVER, peers.messages(SERVER, b"")),
        ]
    return Case(spoken(steps), peers.lines("SHARED"), "ZMTP-SUB-06")


def with_a_message_in_front_of_its_socket_type() -> Case:
    """Octets that k opens before INITIATE has arrived: they have another meaning after it."""
    peers = CurvePeers()
    steps = peers.handshake("SUB", "PUB")
    early = [(CLIENT, peers.messages(CLIENT, b"\1early"))] * 2
    return Case(spoken([*steps[:4], *early, *steps[4:]]), peers.lines("SHARED"), "ZMTP3X-CMD-13")


def with_handshakes_amid_traffic() -> Case:
    """Both sides send HELLO after their traffic was opened."""
    peers, others = CurvePeers(), CurvePeers(7)
    steps = [(CLIENT, peers.messages(CLIENT, b"x" * 20)) for _ in range(14)]
    steps += [(SERVER, peers.messages(SERVER, b"y" * 20)) for _ in range(14)]
    steps += [(SERVER, frame(others.hello())), (CLIENT, frame(peers.hello()))]
    return Case(spoken(steps, syn=False), peers.lines(*LABELS) + others.lines("SHARED"), "HELLO")


def with_a_command_in_clear_amid_traffic() -> Case:
    """A command that both sides may send does not reveal the role that was found when the traffic was opened."""
    peers = CurvePeers()
    steps = [(SERVER, peers.messages(SERVER, b"y" * 20)) for _ in range(14)]
    steps += [(SERVER, frame(build_command("CURVE", "PING", {"ttl_ms": 0, "context": b""})))]
    steps += [(SERVER, peers.messages(SERVER, b"behind"))]
    return Case(spoken(steps, syn=False), peers.lines("SHARED"), "CURVE-09")


CASES = [
    with_a_cookie_of_its_own,
    with_a_version_that_is_settled_late,
    with_a_message_larger_than_what_is_waited_for,
    with_bodies_as_large_as_wanted_in_two_frames,
    with_a_large_box_that_does_not_open_inside_a_message,
    with_more_to_say_of_a_box_that_does_not_open,
    with_the_same_said_inside_and_outside,
    with_the_same_said_very_often_inside,
    with_a_message_in_front_of_its_socket_type,
    with_handshakes_amid_traffic,
    with_a_command_in_clear_amid_traffic,
]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__.removeprefix("with_"))
def test_p1_packets_one_by_one_open_the_same_as_all_at_once(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zmtpscope.dissect.stream.messages.HEAD_KEPT", 20)
    monkeypatch.setattr("zmtpscope.dissect.stream.assembly.HEAD_KEPT", 20)
    monkeypatch.setattr("zmtpscope.dissect.stream.runs.HEAD_KEPT", 20)
    case = make()
    options = replace(case.options, keys=keys_of(case.text))
    whole, _ = records(Capture(case.packets), options)
    words = {str(each.get(name)) for each in whole for name in ("id", "name", "bodies_kept")}
    assert case.expected in words
    for size in (1, 2, 5):
        assert records(Capture(case.packets, size), options)[0] == whole


# -- roles -----------------------------------------------------------------------------------------------------------


def test_boxes_of_a_side_open_whose_handshake_was_lost() -> None:
    peers = CurvePeers()
    steps = peers.handshake()
    steps += [(SERVER, peers.messages(SERVER, b"%d" % number)) for number in range(15)]
    packets = spoken(steps)
    (welcome, ready) = (
        at for at, packet in enumerate(packets) if packet.side == SERVER and b"\x04" in packet.payload[:2]
    )
    captured = [packet for at, packet in enumerate(packets) if at not in (welcome, ready)]
    found, analyser = records(Capture(captured), Options(keys=keys_of(peers.lines("SHARED"))))
    assert [each["bodies"] for each in of(found, "message")][-1] == [b"14"]
    assert analyser.summary.findings["error", "CURVE-20"] == 0


def test_a_command_that_anybody_may_send_changes_no_role() -> None:
    case = with_a_command_in_clear_amid_traffic()
    found, _ = records(Capture(case.packets), Options(keys=keys_of(case.text)))
    assert of(found, "message")[-1]["bodies"] == [b"behind"]


def test_messages_of_another_mechanism_are_no_boxes() -> None:
    """Both sides announce another mechanism: GSSAPI's MESSAGE is not CURVE's, and uses up no attempt."""
    peers = CurvePeers()
    token = build_frame(Framing.V2, build_command("GSSAPI", "MESSAGE", {"token": bytes(60)}), command=True)
    steps = peers.handshake()
    steps[1] = SERVER, build_greeting_3("GSSAPI") + token * 5
    del steps[3], steps[-1]
    steps.append((CLIENT, peers.messages(CLIENT, b"x")))
    found, analyser = records(Capture(spoken(steps)), Options(keys=keys_of(peers.lines("SHARED"))))
    assert [each["bodies"] for each in of(found, "message") if each["side"] == CLIENT] == [[b"x"]]
    assert not {"CURVE-12", "CURVE-20"} & {id_ for _, id_ in analyser.summary.findings}


def test_a_cancel_amid_traffic_proves_nothing() -> None:
    """Its SUBSCRIBE may have been sent before the capture began."""
    peers = CurvePeers()
    steps = [(CLIENT, peers.messages(CLIENT, b"x" * 20)) for _ in range(14)]
    steps.append((CLIENT, peers.command(CLIENT, "CANCEL", topic="A")))
    found, analyser = records(Capture(spoken(steps, syn=False)), Options(keys=keys_of(peers.lines("SHARED"))))
    assert [each["topic"] for each in of(found, "command")] == ["A"]
    assert analyser.summary.findings["warn", "ZMTP-SUB-02"] == 0


def test_findings_that_are_counted_inside_of_boxes_have_their_source() -> None:
    case = with_the_same_said_very_often_inside()
    found, _ = records(Capture(case.packets), Options(keys=keys_of(case.text)))
    words = [each for each in of(found, "finding") if each["id"] == "ZMTP-SUB-06"]
    assert [each["source"] for each in words] == [1] * 11
    assert sum(each["count"] for each in words) == 14


# -- P3 --------------------------------------------------------------------------------------------------------------


class CarefulReader(OpenedReader):
    """Reads every box on the careful path, for comparison."""

    @property
    def _plain(self) -> bool:
        return False

    @_plain.setter
    def _plain(self, value: bool) -> None:
        pass


@given(
    socket_type=st.none() | SOCKET_TYPES | st.just("ODD"),
    inside=st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 1, 2, 3]) | st.integers(0, 255), BODIES), max_size=12),
    version=st.sampled_from(["3.0", "3.1", None]),
    lost=st.integers(0, 12),
)
def test_p3_the_quick_way_reads_what_the_careful_one_does(
    socket_type: str | None, inside: list[tuple[int, bytes]], version: str | None, lost: int
) -> None:
    data, rows = b"", []
    for flags, body in inside:
        unit = sealed(b"\x07MESSAGE" + bytes(24) + bytes([flags]) + body)
        header = len(unit) - 33 - len(body)
        rows.append((1000 + len(data), 1000 + len(data) + header, len(unit) - header))
        data += unit
    readers = OpenedReader(Framing.V2, version), CarefulReader(Framing.V2, version)
    for reader in readers:
        reader._learn({"socket_type": socket_type}, 1000)
        reader.read_messages(data, 1000, rows[:lost])
        reader.lose()
        reader.read_messages(data, 1000, rows[lost:])
    quick, careful = readers
    assert quick.frames.rows() == careful.frames.rows()
    assert quick.events == careful.events
    assert (quick.repeats, quick.message_open) == (careful.repeats, careful.message_open)
    assert len(quick.frames) + sum(isinstance(event, Command) for event in quick.events) == len(inside)


# -- P5 and P6 -------------------------------------------------------------------------------------------------------


def assert_tiles(tree: FieldNode, start: int, stop: int) -> None:
    at = start
    for leaf in tree.leaves():
        assert leaf.start == at
        assert all((bit.start, bit.length) == (leaf.start, leaf.length) for bit in leaf.children)
        at += leaf.length
    assert at == stop


LEAVES = {
    "topic": "zmtp.subscription.topic",
    "group": "zmtp.group",
    "context": "zmtp.ping.context",
    "client_key": "curve.client_transient",
    "server_key": "curve.server_transient",
    "nonce": "curve.nonce.short",
    "name": "zmtp.command.name",
    "reason": "zmtp.error.reason",
}


@MANY
@given(capture=captured(), data=st.data())
def test_p5_and_p6_trees_of_decrypted_units_tile_them_and_equal_the_records(
    capture: tuple[Talk, list[Packet]], data: st.DataObject
) -> None:
    talk, packets = capture
    options = replace(EVERYTHING, keys=keys_of(talk.text + CurvePeers(0).lines("SHARED")))
    for batch in Analyser(options).run(Capture(packets, data.draw(st.integers(1, 9)))):
        for item, index in batch.in_order():
            for place, detail in enumerate(details(item, index)):
                stop = detail.offset + len(detail.octets)
                assert_tiles(detail.tree, detail.offset, stop)
                if isinstance(item, Record) and item.type == "leftover":  # octets that were not parsed have no parts
                    continue
                regime = item.unit.regime if isinstance(item, Record) and item.unit else item.regime  # type: ignore[union-attr]
                cut = data.draw(st.integers(0, len(detail.octets)))
                inside = isinstance(item, MessageTable) and place > 0
                part = field_tree(regime, detail.octets[:cut], detail.offset, inside=inside)
                assert_tiles(part, detail.offset, detail.offset + cut)
                leaves = {leaf.name: leaf.value for leaf in detail.tree.leaves()}
                if isinstance(item, Record) and item.values.get("decrypted"):
                    assert_says_the_same(item.values, detail.tree)
                elif isinstance(item, MessageTable) and item.source:
                    number = int(item.first[index]) + place
                    assert leaves["curve.message.flags"] == int(item.flags[number]) & 0xFF
                    body = item.head(number) or b""
                    assert leaves.get("zmtp.body", body) == body


def assert_says_the_same(values: dict[str, Any], tree: FieldNode) -> None:
    leaves = {leaf.name: leaf.value for leaf in tree.leaves()}
    for name, where in LEAVES.items():
        if values[name]:
            assert leaves[where] == values[name]
    properties = [leaf.value for leaf in tree.leaves() if leaf.name == "zmtp.metadata.value"]
    metadata = values["metadata"] or []
    assert [each["value"] for each in metadata] == properties[: len(metadata)]


# -- P9 --------------------------------------------------------------------------------------------------------------


def filled(peers: CurvePeers, name: str, content: bytes) -> bytes:
    """Return INITIATE or READY with `content` in a valid box."""
    nonce = peers.nonce(CLIENT if name == "INITIATE" else SERVER)
    box = peers.seal(content, BOXES[name].prefix + nonce.to_bytes(8))
    return frame(build_command("CURVE", name, {"cookie": peers.cookie, "nonce": nonce, "box": box}))


@given(metadata=st.binary(max_size=60), data=st.data(), swapped=st.booleans())
def test_p9_no_contents_of_valid_boxes_raise(metadata: bytes, data: st.DataObject, swapped: bool) -> None:
    peers = CurvePeers()
    steps = peers.handshake()
    steps[4] = CLIENT, filled(peers, "INITIATE", data.draw(st.binary(min_size=128, max_size=200)))
    steps[5] = SERVER, filled(peers, "READY", metadata)
    if swapped:  # READY from the client, INITIATE from the server
        steps[4:] = [(SERVER, steps[4][1]), (CLIENT, steps[5][1])]
    for _ in range(data.draw(st.integers(0, 8))):
        side = data.draw(st.sampled_from([CLIENT, SERVER]))
        steps.append(
            (side, sealed(peers.message(side, data.draw(st.binary(max_size=40)), data.draw(st.integers(0, 255)))))
        )
    options = replace(EVERYTHING, keys=keys_of(peers.lines(*LABELS)))
    _, analyser = records(Capture(spoken(steps), 3), options)
    assert analyser.summary.sums.hold()


@pytest.mark.parametrize("syn", [True, False])
@pytest.mark.parametrize("client", LOW_ORDER, ids=["zero", "one"])
def test_p9_points_of_low_order_open_nothing(client: bytes, syn: bool) -> None:
    peers = CurvePeers()
    steps = [(side, octets.replace(peers.C_transient, client)) for side, octets in peers.handshake()]
    peers.C_transient = client
    found, _ = records(Capture(spoken(steps, syn=syn)), Options(keys=keys_of(peers.lines(*LABELS))))
    assert not [each for each in of(found, "command") if each["name"] in ("HELLO", "WELCOME") and each["decrypted"]]


def test_p9_a_handshake_whose_mechanism_was_lost_raises_nothing() -> None:
    peers = CurvePeers()
    (_, greeting), *rest = peers.handshake()
    packets = spoken([(CLIENT, greeting[:12]), (CLIENT, greeting[12:]), *rest])
    captured = [packet for packet in packets if packet.payload != greeting[12:]]
    found, analyser = records(Capture(captured), Options(keys=keys_of(peers.lines("SHARED"))))
    assert "HELLO" in {each["name"] for each in of(found, "command")}
    assert analyser.summary.sums.hold()


def kept_octets(analyser: Analyser, side: TcpSide) -> int:
    """Count the octets held for a side, including the state of incomplete frames."""
    connection = analyser.connections.get(analyser.flows.connections[side])
    if connection is None:
        return 0
    stream = connection.streams[side.number]
    frames = sum(assembly.open_frames for assembly in stream.messages.assemblies())
    heads = sum(len(assembly.head.data) for assembly in stream.messages.assemblies() if assembly.head is not None)
    return sum(map(len, stream.held_octets.parts)) + heads + FRAME_WEIGHT * frames


@pytest.mark.parametrize("size", [1 << 20, 1 << 40])
def test_p9_messages_that_never_end_are_held_up_to_the_limits(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("zmtpscope.dissect.stream.decryption.LARGEST_BOX", 1 << 20)
    monkeypatch.setattr("zmtpscope.dissect.budget.ALL_HELD", 1 << 20)
    head = b"\x02" + size.to_bytes(8) + b"\x07MESSAGE" + (3).to_bytes(8)
    text, talks = "", []
    for number in range(50):
        peers = CurvePeers(number)
        text += peers.lines("SHARED")
        talk = Conversation(ports=(50_000 + number, 5555))
        for side, octets in peers.handshake():
            talk.send(side, octets)
        talk.send(CLIENT, peers.messages(CLIENT, b"a", b"b")[:-36] + head)
        for _ in range(10):
            talk.send(CLIENT, bytes(1 << 14))
        talks.append(talk)
    packets = [talk.packets[place] for place in range(len(talks[0].packets)) for talk in talks]
    analyser = Analyser(Options(keys=keys_of(text)))
    most = 0
    for block in Capture(packets, 60):
        for _ in analyser.feed(block):
            pass
        held = sum(kept_octets(analyser, side) for side in analyser.flows.sides.values())
        assert held == analyser.sink.budget.held <= (1 << 20) + (1 << 15)
        most = max(most, held)
    assert most > 1 << 19  # otherwise this would not test the limit
    for _ in analyser.finish():
        pass
    assert analyser.sink.budget.held == 0


@pytest.mark.parametrize("size", [100, 1 << 17])
def test_p9_foreign_keys_are_tried_on_few_messages_and_few_octets(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("zmtpscope.dissect.stream.decryption.LARGEST_BOX", 1 << 24)
    tried: list[int] = []
    monkeypatch.setattr("zmtpscope.dissect.stream.session.open_box", lambda box, nonce, key: tried.append(len(box)))
    peers = CurvePeers()
    steps = [(side, sealed(peers.message(side, bytes(size)))) for side in (0, 1) for _ in range(20)]
    text = "".join(f"CURVE_SHARED {number:064x} {number:064x}\n" for number in range(1200))
    found, _ = records(Capture(spoken([*steps, *steps], syn=False)), Options(keys=keys_of(text)))
    assert len(of(found, "message")) == 80
    assert len(tried) == TRIES * 2 * min(1000, TRIED_OCTETS // tried[0])  # both roles, of the side that sends first
    assert tried[0] < TRIED_OCTETS // ALWAYS_TRIED


def test_p9_steps_of_the_handshake_are_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    monkeypatch.setattr("zmtpscope.dissect.stream.session.open_box", lambda box, nonce, key: tried.append(len(box)))
    peers = CurvePeers()
    steps = [*peers.handshake()[:2], (CLIENT, frame(peers.hello()) * 500), (SERVER, frame(peers.welcome()) * 500)]
    found, _ = records(Capture(spoken(steps)), Options(keys=keys_of(peers.lines("SERVER_LONGTERM"))))
    assert len(of(found, "command")) == 1000
    assert len(tried) == 2 * TRIES


def test_p9_what_is_known_of_packets_is_not_looked_up_anew_for_each_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building a table of all packets of a block for each box that fails would have quadratic cost."""

    rows: list[int] = []
    array = arrivals.np.array
    monkeypatch.setattr(
        arrivals.np,
        "array",
        lambda values, *kind: (
            rows.append(len(values[0])) or array(values, *kind) if isinstance(values, tuple) else array(values, *kind)
        ),
    )
    peers = CurvePeers()
    steps = peers.handshake()
    for number in range(300):  # two boxes that open before each that does not: for a single one no table is built
        octets = sealed(peers.message(CLIENT, b"x"))
        steps.append((CLIENT, garbled(octets) if number % 3 == 2 else octets))
    _, analyser = records(Capture(spoken(steps)), Options(keys=keys_of(peers.lines("SHARED"))))
    assert analyser.summary.findings["error", "CURVE-20"] == 100
    assert sum(rows) < 4 * len(steps)


# -- P10 -------------------------------------------------------------------------------------------------------------


@st.composite
def sent(draw: Any) -> tuple[CurvePeers, list[tuple[int, tuple[bytes, ...], bytes]], list[Packet]]:
    """Draw messages of both sides (side, bodies, octets) after a handshake, and their packets."""
    peers = CurvePeers()
    noise = Random(draw(st.integers(0, 1 << 32)))
    steps, sent_by_step = peers.handshake(), []
    for _ in range(draw(st.integers(5, 30))):
        side = draw(st.sampled_from([CLIENT, CLIENT, SERVER]))
        bodies = tuple(noise.randbytes(draw(st.sampled_from([12, 40, 300]))) for _ in range(draw(st.integers(1, 4))))
        octets = peers.messages(side, *bodies)
        sent_by_step.append((side, bodies, octets))
        steps.append((side, octets))
    width = draw(st.sampled_from([30, 52, 100, 1000]))
    return peers, sent_by_step, spoken(steps, cuts=range(width, 5000, width))


@given(talk=sent(), data=st.data())
def test_p10_a_message_that_lost_a_frame_is_never_proven_whole(talk: Any, data: st.DataObject) -> None:
    peers, sent_by_step, packets = talk
    payloads = [at for at, packet in enumerate(packets) if packet.payload]
    lost = set(data.draw(st.lists(st.sampled_from(payloads), min_size=1, max_size=4)))
    captured = [packet for at, packet in enumerate(packets) if at not in lost]
    text = peers.lines("SHARED")
    found, analyser = records(Capture(captured, data.draw(st.integers(1, 40))), Options(keys=keys_of(text)))
    whole, _ = records(Capture(packets), Options(keys=keys_of(text)))
    assert [(each["side"], tuple(each["bodies"])) for each in of(whole, "message")] == [
        each[:2] for each in sent_by_step
    ]
    real = {(each["side"], each["offset"]): each["bodies"] for each in of(whole, "message")}
    for row in of(found, "message"):
        if row["complete"] and row["decrypted"] and row["confidence"] == "proven":
            assert real[row["side"], row["offset"]] == row["bodies"]
    for side in (CLIENT, SERVER):
        initial = next(packet.sequence for packet in packets if packet.side == side)
        places = [packets[at].sequence - initial - 1 for at in lost if packets[at].side == side]
        first_loss = min(places, default=1 << 40)
        stops = Counter(
            {
                offset: offset + sum(len(b) + (35 if len(b) < 223 else 42) for b in bodies)
                for (sender, offset), bodies in real.items()
                if sender == side
            }
        )
        intact = [offset for offset in sorted(stops) if stops[offset] <= first_loss]
        handshake_lost = any(packets[at].sequence - 1001 < 600 for at in lost if packets[at].side == CLIENT)
        if not handshake_lost and first_loss > 400:
            rows = [row["offset"] for row in of(found, "message") if row["side"] == side and row["complete"]]
            assert [offset for offset in rows if offset < first_loss] == intact
    assert analyser.summary.sums.hold()


def bodies_and_certainty(found: Rows) -> list[tuple[list[bytes] | None, bool, str]]:
    found = sorted(of(found, "message"), key=lambda each: each["offset"])
    return [(each["bodies"], each["complete"], each["confidence"]) for each in found]


def test_p10_behind_a_box_that_did_not_open_the_rest_of_a_message_is_no_message() -> None:
    peers = CurvePeers()
    parts = [peers.message(CLIENT, b"1", MORE), peers.message(CLIENT, b"2", MORE), peers.message(CLIENT, b"3")]
    octets = sealed(parts[0]) + sealed(garbled(parts[1])) + sealed(parts[2]) + peers.messages(CLIENT, b"next")
    found, _ = records(
        Capture(spoken([*peers.handshake(), (CLIENT, octets)])), Options(keys=keys_of(peers.lines("SHARED")))
    )
    assert bodies_and_certainty(found) == [
        ([b"1"], False, "proven"),
        (None, True, "proven"),
        ([b"3"], True, "likely"),
        ([b"next"], True, "proven"),
    ]


@pytest.mark.parametrize("stop", [40 + 30, 40 + 65], ids=["inside", "up to its end"])
def test_p10_a_box_with_a_hole_is_reported_sealed_and_incomplete(stop: int) -> None:
    peers = CurvePeers()
    octets = peers.messages(CLIENT, b"first") + peers.messages(CLIENT, b"1" * 30, b"2")  # 40, 65 and 36 octets
    parts = [octets[:60], octets[60:stop], octets[stop:]]
    packets = spoken([*peers.handshake(), *[(CLIENT, part) for part in parts]])
    captured = [packet for packet in packets if packet.payload != parts[1]]
    found, _ = records(Capture(captured), Options(keys=keys_of(peers.lines("SHARED"))))
    rows = sorted(of(found, "message"), key=lambda each: each["offset"])
    words = [(each["kind"], each["complete"], each["confidence"]) for each in rows]
    assert words == [("data", True, "proven"), ("encrypted", False, "proven"), ("data", True, "likely")]


# -- P12 -------------------------------------------------------------------------------------------------------------


def careful(batch: Batch, options: Options) -> list[bytes]:
    return [line_of(values) for values in values_of(batch, options)]


@given(
    capture=captured(),
    options=st.sampled_from([*OPTIONS, Options(bodies="head", head=0), Options(body_limit=0)]),
    frames=st.booleans(),
    size=st.integers(1, 50),
)
def test_p12_lines_and_tables_of_decrypted_rows_match_the_plain_way(
    capture: tuple[Talk, list[Packet]], options: Options, frames: bool, size: int
) -> None:
    talk, packets = capture
    options = replace(options, frames=frames, keys=keys_of(talk.text + CurvePeers(0).lines("SHARED")))
    for batch in Analyser(options).run(Capture(packets, size)):
        assert list(lines(batch, options)) == careful(batch, options)
        for record, part in by_type(batch):
            values = values_of(part, options)
            assert table(part, record, options) == values


# -- P13 -------------------------------------------------------------------------------------------------------------


@given(capture=captured(), size=st.integers(1, 50))
def test_p13_no_octet_of_a_box_is_lost_and_none_named_twice(capture: tuple[Talk, list[Packet]], size: int) -> None:
    talk, packets = capture
    analyser = Analyser(replace(EVERYTHING, keys=keys_of(talk.text)))
    spans: list[tuple[tuple[int, int | None], int, int, int]] = []
    frames: list[tuple[tuple[int, int | None], int, int, int]] = []
    boxes = 0
    for batch in analyser.run(Capture(packets, size)):
        for item, index in batch.in_order():
            if isinstance(item, MessageTable):
                side = (item.stream.conn, item.stream.side)
                for number in range(int(item.first[index]), int(item.last[index]) + 1):
                    stop = int(item.bodies[number] + item.sizes[number])
                    spans.append((side, int(item.offsets[number]), stop, item.source))
            elif isinstance(item, Record):
                values = item.values
                if values["record"] in ("command", "greeting"):
                    side = (values["conn"], values["side"])
                    spans.append((side, values["offset"], values["offset"] + values["length"], 0))
                    regime = None if item.unit is None else item.unit.regime
                    boxes += regime is not None and regime.opened and regime.phase is Phase.TRAFFIC and is_message(item)
            else:
                side = (item.stream.conn, item.stream.side)
                stop = int(item.bodies[index] + item.sizes[index])
                frames.append((side, int(item.offsets[index]), stop, item.source))
    spans.sort()
    for (one, _, stop, _), (other, start, _, _) in pairwise(spans):
        assert one != other or stop <= start
    assert set(frames) <= set(spans)
    boxes += sum(source for *_, source in spans)
    assert boxes == analyser.summary.opened_boxes
    assert analyser.summary.sums.hold()


def is_message(record: Record) -> bool:
    """Whether a command was in the box of a MESSAGE, and is no step of the handshake."""
    assert record.unit is not None
    return b"\x07MESSAGE" in record.unit.octets[:18]


def test_p13_all_octets_of_honest_boxes_are_reported() -> None:
    peers = CurvePeers()
    steps = peers.handshake("SUB", "XPUB")
    steps += [(CLIENT, peers.messages(CLIENT, b"\1A")), (CLIENT, peers.command(CLIENT, "SUBSCRIBE", topic="B"))]
    steps += [(SERVER, peers.messages(SERVER, b"A", b"", b"x"))]
    found, analyser = records(Capture(spoken(steps)), Options(keys=keys_of(peers.lines("SHARED"))))
    words = [(each["kind"], each["bodies"]) for each in of(found, "message")]
    assert words == [("subscribe", [b"\1A"]), ("data", [b"A", b"", b"x"])]
    assert analyser.summary.opened_boxes == 5
