"""The analyser's invariants for payloads of messages: P1, P5, P6, P9 and P13 of docs/seams.md."""

from __future__ import annotations

import gzip
import json
import pathlib
import pickle
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, TypeVar

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curve import CLIENT, MORE, CurvePeers
from tests.dissect.boxes import read
from tests.dissect.talks import disturbed, packets_of, snapped
from tests.payloads import zre
from tests.peer_octets import hello, message
from tests.rows_by_hand import values_of
from tests.suites import some
from tests.traffic import Capture, Conversation, Packet, records
from tests.twins import twins
from zmtpscope.dissect import Analyser, DecodeAs, Options
from zmtpscope.dissect.records import payload_rows, row_contents
from zmtpscope.dissect.records.details import details
from zmtpscope.export.json_lines import line_of, lines
from zmtpscope.payloads.jupyter import DELIMITER
from zmtpscope.payloads.registry import Registry
from zmtpscope.payloads.shapes import Shapes
from zmtpscope.payloads.side import MAX_UNCLAIMED, SidePayloads
from zmtpscope.records import to_text
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.regime import Framing

Drawn = TypeVar("Drawn")
Draw = Callable[[st.SearchStrategy[Drawn]], Drawn]
Record = dict[str, Any]
Frames = tuple[bytes, ...]

TYPES = [("PUSH", "PULL"), ("PUB", "SUB"), ("DEALER", "ROUTER"), ("REQ", "REP"), ("DEALER", "REP"), ("RADIO", "DISH")]
UUID = b"\x01" + bytes(range(16))

# -- traffic ----------------------------------------------------------------------------------------------------------


def peer(socket_type: str, identity: bytes = b"") -> bytes:
    return hello(socket_type, identity=to_text(identity))


TEXTS = st.text(st.sampled_from('ab "\\{[\x00é\n\x7f'), max_size=12).map(str.encode)
OBJECTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
PLAIN = st.recursive(
    st.none() | st.integers(-(2**63), 2**63) | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
BODIES = st.one_of(
    TEXTS,
    OBJECTS.map(lambda made: json.dumps(made).encode()),
    PLAIN.map(pickle.dumps),
    PLAIN.map(msgpack.packb),
    st.binary(max_size=20),
    st.integers(200, 1000).map(lambda size: b'["' + b"x" * size + b'"]'),
    st.sampled_from([b"", b"[" * 70 + b"]" * 70, b'{"a":1}\n{"b":2}']),
)
GZIPPED = BODIES.map(lambda body: gzip.compress(body, mtime=0))
PACKED = st.one_of(GZIPPED, BODIES.map(zlib.compress), GZIPPED.map(lambda packed: packed[:-9]))


def jupyter(kind: str, content: bytes) -> Frames:
    header = json.dumps({"msg_type": kind, "msg_id": "1"}).encode()
    return b"peer", DELIMITER, b"", header, b"{}", b"{}", content


@st.composite
def zre_talks(draw: Draw) -> list[Frames]:
    commands: list[Frames] = [(zre.hello("alice", ("A",)),)]
    for sequence in range(2, draw(st.integers(2, 12))):
        number = sequence + draw(st.sampled_from([0, 0, 0, 1]))
        kinds = [
            zre.ping(number),
            zre.join(number, "B", 1),
            zre.leave(number, "A", 2),
            zre.whisper(number),
            b"\xaa\xa1",
        ]
        first = draw(st.sampled_from([*kinds, b"not ZRE", zre.command(9, number)[: draw(st.integers(0, 6))]]))
        commands.append((first, draw(BODIES)) if draw(st.booleans()) else (first,))
    return commands


@st.composite
def numbered(draw: Draw) -> list[Frames]:
    """Draw messages of a publisher with sequence numbers, some of which are missing."""
    size, order = draw(st.sampled_from([(4, "little"), (8, "big")]))
    commands: list[Frames] = []
    number = draw(st.sampled_from([0, 7, 2 ** (8 * size) - 4]))
    for _ in range(draw(st.integers(1, 20))):
        number = (number + draw(st.sampled_from([1, 1, 1, 1, 1, 2, 5, -3]))) % 2 ** (8 * size)
        octets = number.to_bytes(size, order)  # type: ignore[arg-type]
        topic, body = draw(st.sampled_from([b"A", b"A", b"B"])), draw(BODIES)
        commands.append((topic, body, octets) if size == 4 else (topic, octets, body))
        if draw(st.integers(0, 3)) == 0:
            commands.append((b"\xff" + draw(st.binary(max_size=9)),))
    return commands


ZAP = (b"", b"1.0", b"7", b"global", b"10.0.0.7", b"", b"PLAIN", b"bob", b"hunter2")
SAID = st.one_of(
    st.lists(st.one_of(BODIES, PACKED).map(lambda body: (body,)), max_size=20),
    st.lists(st.lists(BODIES, min_size=1, max_size=4).map(tuple), max_size=20),
    st.lists(st.tuples(st.just(b""), BODIES), max_size=10),
    st.lists(
        st.sampled_from([ZAP, ZAP[1:], jupyter("input_reply", b'{"value":"x"}'), jupyter("x", b"no")]), max_size=5
    ),
    zre_talks(),
    numbered(),
    st.builds(
        lambda count, rest: [(b"\xff\xfe",)] * count + rest,
        st.integers(MAX_UNCLAIMED - 2, MAX_UNCLAIMED + 2),
        numbered(),
    ),
)


@st.composite
def talks(draw: Draw) -> list[Packet]:
    """Draw a connection with messages of one kind or of several on both sides. The capture may lack some."""
    types = draw(st.sampled_from(TYPES))
    streams = []
    for socket_type in types:
        kinds = draw(st.lists(SAID, min_size=1, max_size=2))
        commands = [frames for kind in kinds for frames in kind]
        if draw(st.booleans()):
            commands = draw(st.permutations(commands)) if len(commands) < 30 else commands
        identity = draw(st.sampled_from([b"", UUID, b"x"]))
        streams.append(peer(socket_type, identity) + b"".join(message(*frames) for frames in commands))
    packets = draw(packets_of(*streams, syn=draw(st.sampled_from([True, True, True, False]))))
    packets = draw(disturbed(draw(snapped(packets))))
    if draw(st.booleans()):
        lost = draw(st.sets(st.integers(5, 40), max_size=3))
        packets = [packet for place, packet in enumerate(packets) if place not in lost]
    return packets


GIVEN: list[Record] = [
    {},
    {"bodies": "none"},
    {"bodies": "head", "head": 3},
    {"body_limit": 20},
    {"decode_as": (DecodeAs("tcp.port", 5555, payload=("json", None)),)},
    {"decode_as": (DecodeAs("topic", b"A", payload=("sequence", None)), DecodeAs("topic", b"", payload=("zre", None)))},
    {"decode_as": (DecodeAs("conn", 1, "3.1", payload=("zre", None)),)},
    {"only": "json"},
    {"only": "text"},
    {"only": "sequence"},
    {"show_secrets": True},
]


def options(given: Record, **more: Any) -> Options:
    rest = {name: value for name, value in given.items() if name != "only"}
    return Options(payloads=Registry(given.get("only")), **rest, **more)


# -- P1 ---------------------------------------------------------------------------------------------------------------


@given(packets=talks(), given=st.sampled_from(GIVEN), size=st.integers(1, 9), details=st.booleans())
def test_p1_blocks_of_any_size_give_the_same_records(
    packets: list[Packet], given: Record, size: int, details: bool
) -> None:
    whole, first = records(Capture(packets), options(given, details=details))
    blocks, second = records(Capture(packets, size), options(given, details=details))
    assert blocks == whole
    assert first.summary.findings == second.summary.findings


@given(packets=talks(), given=st.sampled_from(GIVEN), size=st.integers(1, 9))
def test_p1_blocks_of_any_size_count_the_same(packets: list[Packet], given: Record, size: int) -> None:
    summaries = [
        records(Capture(packets, each), options(given, records=False))[1].summary.findings for each in (size, 1 << 30)
    ]
    assert summaries[0] == summaries[1]


def in_packets(
    types: tuple[str, str], commands: list[Frames], together: int, lost: tuple[int, ...] = ()
) -> list[Packet]:
    """Return the packets of a connection with these messages, `together` in a packet; some packets are lost."""
    talk = Conversation()
    talk.send(0, peer(types[0], UUID))
    talk.send(1, peer(types[1]))
    for number, low in enumerate(range(0, len(commands), together)):
        talk.send(0, b"".join(message(*frames) for frames in commands[low : low + together]))
        if number in lost:
            del talk.packets[-1]
    talk.close()
    return talk.packets


def counted(numbers: Iterable[int], between: Frames = ()) -> list[Frames]:
    """Return numbered messages of two topics, sometimes with another message after them."""
    commands: list[Frames] = []
    for number in numbers:
        commands.append((b"AB"[number % 2 :][:1], b"body", (number // 2).to_bytes(4, "little")))
        commands += [between] * (bool(between) and number % 5 == 0)
    return commands


def with_a_hole(*parts: list[Frames]) -> list[Packet]:
    """Return the packets of a publisher whose first, large message lacks its middle."""
    talk = Conversation()
    talk.send(0, peer("PUB"))
    talk.send(1, peer("SUB"))
    talk.send(0, message(b"large", b"x" * 3000), cuts=(1000, 2000))
    del talk.packets[-2]
    for frames in (frames for part in parts for frames in part):
        talk.send(0, message(*frames))
        talk.acknowledge(1)
    talk.close()
    return talk.packets


def at_the_edge(filling: bytes, before: int) -> list[Frames]:
    """Return messages that no dissector claims, and some that one does, around the limit after which the side is
    left alone."""
    return [
        *[(filling,)] * before,
        (b'{"a":1}',),
        *[(filling,)] * (MAX_UNCLAIMED + 1),
        (b'{"a":2}',),
        (b"plain text",),
    ]


ODD = [7, 8, 9, 10, 14, 15, 16, 17, 30, 31, 5, 6, 7, 8]
LONG: dict[str, Callable[[], list[Packet]]] = {
    "numbers with gaps": lambda: in_packets(("PUB", "SUB"), counted([*range(20), *ODD, *range(90, 120)]), 7),
    "numbers, and others between": lambda: in_packets(("PUB", "SUB"), counted([*range(90), *ODD], (b"\xff",)), 5),
    "numbers, and losses": lambda: in_packets(("PUB", "SUB"), counted(range(120)), 3, (14, 15, 16, 30)),
    "numbers, others, and losses": lambda: in_packets(
        ("PUB", "SUB"), counted(range(150), (b"\xff" * 20,)), 3, (12, 13, 24, 36)
    ),
    "gaps behind a hole": lambda: with_a_hole(counted(range(20)), counted(ODD), counted(range(90, 120))),
    "a number that is not looked at": lambda: in_packets(
        ("PUB", "SUB"), [*counted(range(20)), (b"A", b"x" * 70_000, bytes([10, 0, 0, 0])), *counted(range(22, 40))], 1
    ),
    "numbers behind what is cut": lambda: in_packets(
        ("PUB", "SUB"), counted(range(90), (b"x" * 100, b"y")), 1, (30, 32)
    ),
    "left alone": lambda: in_packets(("PUSH", "PULL"), at_the_edge(b"\xff\xfe", 10), 9),
    "just not left alone": lambda: in_packets(("PUSH", "PULL"), at_the_edge(b"\xff\xfe", 0)[: -MAX_UNCLAIMED // 2], 9),
    "left alone behind text": lambda: in_packets(("PUSH", "PULL"), at_the_edge(b"some text", 10), 9),
    "just not left alone behind text": lambda: in_packets(
        ("PUSH", "PULL"), [*at_the_edge(b"some text", 0)[2:], (b'{"a":3}',)], 9
    ),
    "left alone for long": lambda: in_packets(
        ("PUSH", "PULL"), [*[(b"\xff\xfe",)] * (MAX_UNCLAIMED + 20), (b'{"a":4}',)], 9
    ),
    "JSON between what nobody claims": lambda: in_packets(
        ("PUSH", "PULL"), [*[*[(b"\xff\xfe",)] * 200, (b'{"a":5}',)] * 3, (pickle.dumps([1]),), (b'{"a":6}',)], 9
    ),
    "a node": lambda: in_packets(
        ("DEALER", "ROUTER"), [(zre.hello(),), *((zre.ping(2 + n + n // 3),) for n in range(40))], 6, (5,)
    ),
    "pickles": lambda: in_packets(("PUSH", "PULL"), [(pickle.dumps([n]),) for n in range(40)], 6),
}


@pytest.mark.parametrize("what", LONG)
@pytest.mark.parametrize("given", some([GIVEN[0], *GIVEN[3:6]], 2), ids=str)
@pytest.mark.parametrize("makes_records", [True, False], ids=["records", "counted"])
def test_p1_long_connections(what: str, given: Record, makes_records: bool) -> None:
    packets = LONG[what]()
    whole, first = records(Capture(packets), options(given, records=makes_records))
    assert first.summary.messages
    for size in some((1, 2, 3, 5, 8, 13, 40), 3):
        blocks, second = records(Capture(packets, size), options(given, records=makes_records))
        assert blocks == whole
        assert second.summary.findings == first.summary.findings


ASKED_ROWS = "zmtpscope.dissect.records.row_contents.asked_rows"

# -- the same messages, dissected in other ways -----------------------------------------------------------------------


@given(packets=talks(), given=st.sampled_from(GIVEN))
def test_p6_field_trees_change_nothing_that_is_reported(packets: list[Packet], given: Record) -> None:
    quick, first = records(Capture(packets), options(given))
    careful, second = records(Capture(packets), options(given, details=True))
    assert careful == quick
    assert first.summary.findings == second.summary.findings


@given(packets=talks(), given=st.sampled_from(GIVEN))
def test_text_that_is_recognised_for_whole_runs_is_what_the_dissector_of_text_reads(
    packets: list[Packet], given: Record
) -> None:
    def carefully(run: Any, first: Any, last: Any, starts: Any, known: Any) -> Any:
        return known & False

    with pytest.MonkeyPatch.context() as patch:
        # then no message is examined carefully after many unclaimed ones
        patch.setattr("zmtpscope.payloads.side.MAX_UNCLAIMED", 1 << 30)
        quick, _ = records(Capture(packets), options(given))
        patch.setattr(payload_rows, "asked_rows", twins(ASKED_ROWS)[-1])
        patch.setattr(row_contents, "plain_texts", carefully)
        careful, _ = records(Capture(packets), options(given))
    assert careful == quick


@given(packets=talks(), given=st.sampled_from(GIVEN), makes_records=st.booleans())
def test_reading_octets_alone_equals_reading_the_message(
    packets: list[Packet], given: Record, makes_records: bool
) -> None:
    """The fast way, for messages that one dissector recognises by their octets (`at_once`), gives the same results
    as the other ways."""
    quick, first = records(Capture(packets), options(given, records=makes_records))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SidePayloads, "dissect_at_once", lambda self, candidates, octets, size: None)
        patch.setattr(SidePayloads, "recognises_json", False)
        careful, second = records(Capture(packets), options(given, records=makes_records))
    assert careful == quick
    assert first.summary.findings == second.summary.findings


@st.composite
def pushed(draw: Draw) -> list[Packet]:
    commands = draw(st.lists(st.one_of(BODIES, PACKED), min_size=1, max_size=10))
    return draw(packets_of(peer("PUSH", b"") + b"".join(map(message, commands)), peer("PULL", b"")))


@given(packets=pushed() | talks(), given=st.sampled_from(GIVEN), makes_records=st.booleans())
def test_dissectors_are_the_same_message_by_message_and_as_columns(
    packets: list[Packet], given: Record, makes_records: bool
) -> None:
    """The first octet decides which dissectors may claim a message: one message at a time if that is compiled,
    otherwise as columns."""
    found = []
    for asked_rows in twins(ASKED_ROWS):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(payload_rows, "asked_rows", asked_rows)
            found.append(records(Capture(packets), options(given, records=makes_records)))
    (one, first), (other, second) = found[0], found[-1]
    assert one == other
    assert first.summary.findings == second.summary.findings


@given(packets=talks())
def test_dissectors_of_rows_are_the_dissectors_of_each_row(packets: list[Packet]) -> None:
    """Compare the shapes of a run of messages with those of single messages."""

    seen: list[tuple[int, int]] = []
    shapes_of_rows = row_contents.shapes_of_rows

    def compared(shapes: Shapes, first_of: Any, run: Any, first: Any, last: Any, starts: Any) -> Any:
        columns = shapes_of_rows(shapes, first_of, run, first, last, starts)
        known = row_contents.contents(run, 1 << 24)[3]
        rows = np.flatnonzero(known)
        if len(rows):
            messages = row_contents.RowMessages(run, rows, first[rows])
            seen.extend(
                (columns[row], shapes.of(messages.message(place, after_loss=False)[0], run.socket_type))
                for place, row in enumerate(rows.tolist())
            )
        return columns

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payload_rows, "asked_rows", twins(ASKED_ROWS)[-1])
        patch.setattr(row_contents, "shapes_of_rows", compared)
        records(Capture(packets), options({}))
    assert [quick for quick, _ in seen] == [careful for _, careful in seen]


def of_payloads(id_: str) -> bool:
    return id_.startswith(("PAYLOAD-", "ZRE-", "PICKLE-", "JUPYTER-", "SEQUENCE-", "ZAP-", "RADIO-"))


def without_payloads(found: list[Record]) -> list[Record]:
    kept = [record for record in found if record["record"] != "zre_pair" and not of_payloads(record.get("id") or "")]
    return [record | {"payload": None} if record["record"] == "message" else record for record in kept]


@given(packets=talks())
def test_without_payloads_all_else_is_the_same(packets: list[Packet]) -> None:
    with_payloads, _ = records(Capture(packets), options({"show_secrets": True}))
    without, _ = records(Capture(packets), Options(show_secrets=True))
    assert without == without_payloads(with_payloads)


NOT_JUDGED = ("PAYLOAD-01", "PAYLOAD-02", "PAYLOAD-03", "PAYLOAD-05")
"""Findings that also occur if findings are not evaluated: more fields or levels than are read. Counting does not
read."""


@given(packets=talks(), given=st.sampled_from(GIVEN))
def test_counting_counts_the_findings_of_a_full_read(packets: list[Packet], given: Record) -> None:
    _, full = records(Capture(packets), options(given))
    _, quiet = records(Capture(packets, 5), options(given, records=False))

    def judged(analyser: Analyser) -> Counter[tuple[str, str]]:
        found = analyser.summary.findings
        return Counter({key: count for key, count in found.items() if key[1] not in NOT_JUDGED})

    assert judged(quiet) == judged(full)
    for key, count in quiet.summary.findings.items():
        assert count <= full.summary.findings[key]
    assert quiet.summary.messages == full.summary.messages


# -- P5, P9, P12, P13 -------------------------------------------------------------------------------------------------


@given(packets=talks(), given=st.sampled_from(GIVEN), size=st.integers(1, 9))
def test_p5_leaves_tile_every_frame_and_every_packed_part(packets: list[Packet], given: Record, size: int) -> None:
    for batch in Analyser(options(given, details=True, frames=True)).run(Capture(packets, size)):
        for item, index in batch.in_order():
            for detail in details(item, index):
                at = detail.offset
                for leaf in detail.tree.leaves():
                    assert leaf.start == at
                    at += leaf.length
                assert at == detail.offset + len(detail.octets)


def of_noise(seed: int, most: int) -> Iterator[Frames]:
    """Yield messages that begin like payloads and continue with noise."""
    noise = Random(seed)
    heads = [b"{", b"[", b"\x80\x04", b"\x1f\x8b\x08\0", b"\x78\x9c", b"\xaa\xa1", b"\x81", b"\xa1", b"\xb5", b"1.0"]
    for _ in range(noise.randrange(most)):
        yield tuple(
            noise.choice([*heads, b"", *ZAP, DELIMITER, zre.hello()]) + noise.randbytes(noise.choice([0, 0, 1, 9, 60]))
            for _ in range(noise.choice([1, 1, 2, 3, 6, 9]))
        )


@given(seed=st.integers(0, 1 << 32), types=st.sampled_from(TYPES), given=st.sampled_from(GIVEN), data=st.data())
def test_p9_p13_nothing_that_rides_inside_raises_or_is_lost(
    seed: int, types: tuple[str, str], given: Record, data: st.DataObject
) -> None:
    streams = [
        peer(each, UUID) + b"".join(message(*frames) for frames in of_noise(seed + side, 30))
        for side, each in enumerate(types)
    ]
    packets = data.draw(disturbed(data.draw(packets_of(streams[0], streams[1]))))
    asked = options(given, frames=True)
    analyser = Analyser(asked)
    for batch in analyser.run(Capture(packets, 7)):
        made = list(lines(batch, asked))
        assert made == [line_of(values) for values in values_of(batch, asked)]
    assert analyser.summary.sums.hold(), analyser.summary.sums
    assert not [id_ for _, id_ in analyser.summary.findings if id_ == "PAYLOAD-01"]


# -- larger than examples ---------------------------------------------------------------------------------------------


def published(*commands: Frames, types: tuple[str, str] = ("PUB", "SUB")) -> Conversation:
    """Return a connection on which one side sends these messages, one per packet."""
    talk = Conversation()
    talk.send(0, peer(types[0]))
    talk.send(1, peer(types[1]))
    for frames in commands:
        talk.send(0, message(*frames))
    return talk


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("limit", [1 << 16, 1 << 20, 16 << 20])
def test_p1_large_messages(limit: int, size: int) -> None:
    """The messages take many packets, around the limits for bodies and for dissection."""
    talk = Conversation()
    talk.send(0, peer("PUSH"))
    talk.send(1, peer("PULL"))
    for octets in ((1 << 16) - 20, 1 << 16, 1 << 20, (1 << 20) - 20):
        body = b'["' + b"x" * (octets - 4) + b'"]'
        sent = message(body) + message(gzip.compress(body)) + message(b'{"a":1}', body)
        talk.send(0, sent, cuts=range(0, len(sent), 60_000))
    talk.close()
    given = {"body_limit": limit}
    whole, _ = records(Capture(talk.packets), options(given))
    blocks, _ = records(Capture(talk.packets, size), options(given))
    assert blocks == whole
    payloads = [record["payload"] is not None for record in whole if record["record"] == "message"]
    assert payloads.count(True) == {1 << 16: 6, 1 << 20: 10, 16 << 20: 12}[limit]


BY_TOPIC = {"decode_as": (DecodeAs("topic", b"A", payload=("sequence", None)),)}


@pytest.mark.parametrize("given", [{}, BY_TOPIC], ids=["claimed", "forced"])
def test_a_loss_is_reported_to_each_dissector_that_keeps_state(given: Record) -> None:
    """After the loss another dissector is asked first. Numbers that the capture lacks must still not be reported as
    missing."""
    counted = [(b"A", b"body", number.to_bytes(4, "little")) for number in range(40)]
    talk = published(*counted[:20], (b"\xff\xfe",), *counted[20:])
    talk.close()
    lost = [message(*frames) for frames in counted[12:20]]
    talk.packets = [packet for packet in talk.packets if packet.payload not in lost]
    found, _ = records(Capture(talk.packets), options(given))
    assert any(record["record"] == "gap" for record in found)
    assert sum((record.get("payload") or {}).get("protocol") == "sequence" for record in found) > 20
    assert [record["text"] for record in found if record.get("id") == "SEQUENCE-01"] == []


@pytest.mark.parametrize("size", [1, 7])
def test_numbers_in_closed_boxes_are_not_missing(size: int, tmp_path: pathlib.Path) -> None:
    """The numbers of a publisher are encrypted; the boxes of three messages do not open."""
    peers = CurvePeers()
    steps = peers.handshake("PUB", "SUB")
    for number in range(30):
        sealed = [
            peers.message(CLIENT, body, flag)
            for body, flag in ((b"A", MORE), (b"body", MORE), (number.to_bytes(4, "little"), 0))
        ]
        if number in (12, 13, 20):
            sealed = [box[:-1] + bytes([box[-1] ^ 1]) for box in sealed]
        steps.append((CLIENT, b"".join(build_frame(Framing.V2, box) for box in sealed)))
    found = read(steps, tmp_path, peers.lines("SHARED"), size, payloads=Registry())
    assert sum((record.get("payload") or {}).get("protocol") == "sequence" for record in found) > 15
    assert sum(record.get("id") == "CURVE-20" for record in found) == 9
    assert not any(record.get("id") == "SEQUENCE-01" for record in found)
    assert found == read(steps, tmp_path, peers.lines("SHARED"), payloads=Registry())


def test_counting_continues_for_messages_of_routers() -> None:
    """Each message of a ROUTER that no dissector claims breaks a rule of ZRE."""
    talk = Conversation()
    talk.send(0, peer("DEALER", UUID))
    talk.send(1, peer("ROUTER"))
    talk.send(0, message(zre.hello()))
    for _ in range(2 * MAX_UNCLAIMED):
        talk.send(1, message(b"\xff\xfe"))
    talk.close()
    for size in (1 << 30, 1):
        for makes_records in (True, False):
            _, analyser = records(Capture(talk.packets, size), options({}, records=makes_records))
            assert analyser.summary.findings["error", "ZRE-09"] == 2 * MAX_UNCLAIMED


@pytest.mark.parametrize("forced", [(), (DecodeAs("topic", b"none", payload=("json", None)),)])
def test_text_is_recognised_after_any_number_of_other_messages(forced: tuple[DecodeAs, ...]) -> None:
    talk = published(*[(b"\xff\xfe",)] * (MAX_UNCLAIMED + 10), (b"plain text",), types=("PUSH", "PULL"))
    talk.close()
    for size in (1, 1 << 30):
        found, _ = records(Capture(talk.packets, size), options({"decode_as": forced}))
        (last,) = [record for record in found if record["record"] == "message"][-1:]
        assert last["payload"] == {"protocol": "text", "summary": "plain text", "fields": None}


# -- delimiters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", [("DEALER", "ROUTER"), ("ROUTER", "DEALER"), ("DEALER", "DEALER"), ("PAIR", "PAIR")])
@pytest.mark.parametrize("size", [1, 100])
def test_a_payload_is_recognised_after_an_empty_delimiter(types: tuple[str, str], size: int) -> None:
    """DEALER and ROUTER applications, such as zerorpc and pushpin, send the delimiter of REQ themselves."""
    packets = in_packets(
        types, [(b"", b'{"call":"add"}'), (b"", b"\x82\xa1a\x01\xa1b\x02"), (b"",), (b"x", b"", b"{}")], 1
    )
    found, _ = records(Capture(packets, size), options({}))
    payloads = [each["payload"] or {} for each in found if each["record"] == "message"]
    assert [each.get("protocol") for each in payloads] == ["json", "messagepack", None, "json"]
    assert [each.get("fields") for each in payloads[:2]] == [{"call": "add"}, {"a": 1, "b": 2}]
