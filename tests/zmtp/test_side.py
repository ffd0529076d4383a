"""One side: its events depend neither on chunks nor on the fast path."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import strategies
from tests.peer_octets import command
from tests.strategies import FRAMINGS, Side
from tests.suites import examples
from tests.zmtp.sides import MANY, feed, in_handshake, trees, units
from zmtpscope.zmtp.events import Command, Greeting
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.reader import FieldNode
from zmtpscope.zmtp.regime import Form, Framing
from zmtpscope.zmtp.side import SideReader
from zmtpscope.zmtp.socket_types import PEERS
from zmtpscope.zmtp.units import STORED


class CarefulReader(SideReader):
    """A side reader that reads every unit on the careful path, for comparison."""

    def __init__(self, form: Form, version: str | None) -> None:
        super().__init__(form, version)
        self._openings = None

    def _let_scan(self) -> None:
        self._scanning = False


@MANY
@given(data=st.data(), side=strategies.damaged_sides())
def test_p1_chunks(data: st.DataObject, side: Side) -> None:
    """P1: any chunking of the octets gives the same events, rows and order."""
    cuts = data.draw(strategies.cuts(len(side.octets)))
    assert feed(SideReader(side.form, side.version), side.octets, cuts) == feed(
        SideReader(side.form, side.version), side.octets
    )


@pytest.mark.parametrize("socket_type", PEERS)
def test_p1_frames_of_every_socket_type(socket_type: str) -> None:
    """P1 if a rule of the sender's type examines bodies: they may or may not have arrived."""
    start = build_greeting_3() + command("NULL", "READY", socket_type=socket_type)
    octets = start + b"\1\5\0abcd" + b"\0\1\1" + b"\0\2\0a" + b"\1\1g" + b"\1\0" + b"\0\1x"
    whole = feed(SideReader(Form.GREETING_3, "3.1"), octets)
    assert feed(SideReader(Form.GREETING_3, "3.1"), octets, range(len(start), len(octets))) == whole


def test_p1_an_identity_frame_of_1_0_without_a_length() -> None:
    """The next octets may or may not have arrived: they do not belong to it."""
    octets = b"\0\1h\xff\0\0\1"
    whole = feed(SideReader(Form.FRAMES_1, "1.0"), octets)
    assert feed(SideReader(Form.FRAMES_1, "1.0"), octets, [1]) == whole
    assert whole.findings[0].id == "ZMTP10-FRAME-01"


AFTER_ERROR = Side(
    Form.GREETING_3,
    "3.1",
    build_greeting_3() + command("NULL", "READY") + command("NULL", "ERROR", reason="400") + 2 * b"\0\1a",
)
"""A side that continues in plain frames after ERROR in its traffic: only the first of them is a finding."""


@examples(160, least=160)
@given(side=strategies.damaged_sides())
@example(side=AFTER_ERROR)
def test_p3_scanner(side: Side) -> None:
    """P3: the scanner gives the same rows and octet findings as the careful reader."""
    assert feed(SideReader(side.form, side.version), side.octets) == feed(
        CarefulReader(side.form, side.version), side.octets
    )


@given(framing=st.sampled_from(FRAMINGS), data=st.data())
def test_p3_scanner_of_anything(framing: Framing, data: st.DataObject) -> None:
    """P3 and P1 for arbitrary traffic, from any frame boundary on."""
    octets = data.draw(st.binary(max_size=300))
    assert_fast_path_agrees(octets, framing, data.draw(strategies.cuts(len(octets))), data)


@examples(40, least=40)
@given(framing=st.sampled_from(FRAMINGS), data=st.data())
def test_p3_runs(framing: Framing, data: st.DataObject) -> None:
    """P3 and P1 for frames that repeat, if the run is cut, interrupted or damaged anywhere."""
    octets = data.draw(strategies.runs(framing))
    octets = data.draw(st.just(octets) | strategies.damaged(octets))
    assert_fast_path_agrees(octets, framing, data.draw(st.lists(st.integers(0, len(octets)), max_size=8)), data)


def assert_fast_path_agrees(octets: bytes, framing: Framing, cuts: list[int], data: st.DataObject) -> None:
    version = "1.0" if framing is Framing.V1 else data.draw(st.sampled_from(["2.0", "3.1", None]))
    readers = (kind.midstream(framing, offset=7, version=version) for kind in (SideReader, SideReader, CarefulReader))
    whole, chunks, careful = readers
    transcript = feed(whole, octets)
    assert transcript == feed(chunks, octets, cuts)
    assert transcript == feed(careful, octets)


@MANY
@given(side=strategies.damaged_sides(), offset=st.integers(0, 2**40))
def test_p5_leaves_tile_the_units(side: Side, offset: int) -> None:
    """P5: the leaves of a unit's tree tile its octets, and each group covers exactly its children."""
    transcript = feed(SideReader(side.form, side.version, offset=offset), side.octets)
    stop = offset + len(side.octets)
    for unit, tree in zip(units(transcript, transcript.regimes), trees(transcript, side.octets, offset), strict=True):
        at = unit.start
        for leaf in tree.leaves():
            assert leaf.start == at
            at += leaf.length
            assert all((bit.start, bit.length) == (leaf.start, leaf.length) for bit in leaf.children)
        assert at == min(unit.stop, stop)
        assert_groups_hold_their_children(tree)


def assert_groups_hold_their_children(node: FieldNode) -> None:
    if node.value is None and node.children:
        assert node.start == node.children[0].start
        assert node.length == sum(child.length for child in node.children)
        for child in node.children:
            assert_groups_hold_their_children(child)


@MANY
@given(side=strategies.damaged_sides())
def test_p6_tree_and_event_agree(side: Side) -> None:
    """P6: all values of an event are also in the tree of its unit."""
    transcript = feed(SideReader(side.form, side.version), side.octets)
    events = {event.start: event for event in transcript.events if isinstance(event, Greeting | Command)}
    for tree in trees(transcript, side.octets):
        event = events.get(tree.start)
        if event is not None:
            assert_values(event, list(tree.leaves()))


EVENT_FIELDS = {
    "mechanism": "zmtp.mechanism",
    "as_server": "zmtp.as_server",
    "topic": "zmtp.subscription.topic",
    "group": "zmtp.group",
    "reason": "zmtp.error.reason",
    "context": "zmtp.ping.context",
    "username": "plain.username",
    "password": "plain.password",
    "client_key": "curve.client_transient",
    "version": "curve.version",
    "nonce": "curve.nonce.short",
    "token_size": "gssapi.token_length",
}
"""Event fields that are one field of the tree, by its name; an empty one is no field of the tree."""


def assert_values(event: Greeting | Command, leaves: list[FieldNode]) -> None:
    values = {leaf.name: leaf.value for leaf in leaves}
    for name, where in EVENT_FIELDS.items():
        if event.fields.get(name):
            assert values[where] == event.fields[name]
    if "ttl_ms" in event.fields:
        assert values["zmtp.ping.ttl"] == event.fields["ttl_ms"] // 100
    if isinstance(event, Greeting):
        if event.fields.get("identity"):
            assert event.fields["identity"] in (values.get("zmtp2.identity"), values.get("zmtp1.body"))
        return
    name = values.get("zmtp.command.name", values.get("zmtp.command.name_padded"))
    if not event.fields.get("mangled"):
        assert (event.fields.get("name") or None) == name
    properties = [leaf.value for leaf in leaves if leaf.name == "zmtp.metadata.value"]
    assert [each["value"] for each in event.fields.get("metadata", ())] == properties[
        : len(event.fields.get("metadata", ()))
    ]


@given(side=strategies.damaged_sides(), data=st.data())
def test_p9_nothing_raises(side: Side, data: st.DataObject) -> None:
    """P9: no octets raise an exception, also after a loss."""
    reader = SideReader(side.form, side.version)
    feed(reader, side.octets, over=False)
    reader.resynchronise(len(side.octets) + 10)
    more = data.draw(st.binary(max_size=100))
    reader.read(more, len(side.octets) + 10)
    reader.finish(len(side.octets) + 10 + len(more))


def test_a_huge_size_costs_nothing() -> None:
    """A frame with a size of 2^62 is a row at once, and the reader needs no octets of its body."""
    side = SideReader.midstream(Framing.V2, offset=0, version="3.1", mechanism="NULL")
    side.read(b"\x02\x40" + bytes(7), 0)
    assert side.frames.rows() == [(0, 9, 2**62, 2)]
    assert side.position == 2**62 + 9


def test_a_command_above_the_limit_is_named_and_skipped() -> None:
    """A READY of 2 MiB is not waited for: its header gives the name, the rest is counted."""
    side = in_handshake("3.1", "NULL")
    side.read(b"\x06" + (2 << 20).to_bytes(8, "big") + b"\x05READY" + bytes(300), 0)
    (event,) = side.events
    assert isinstance(event, Command)
    assert event.fields["name"] == "READY"
    assert "ZMTP3X-FRAME-08" in [finding.id for finding in event.findings]
    assert side.position == 9 + (2 << 20)
    assert side.handshake_done


def test_repeated_findings_are_counted() -> None:
    """Ten of a million equal findings are returned; the others are counted."""
    side = SideReader.midstream(Framing.V2, offset=0, version="3.1", mechanism="NULL")
    transcript = feed(side, b"\x80\x00" * 1000)
    assert len(transcript.findings) == STORED
    assert transcript.repeats == {"ZMTP3X-FRAME-01": (1000 - STORED, 1998)}
    assert len(transcript.rows) == 1000


def test_resume_behind_a_loss() -> None:
    """After a loss reading continues at the given boundary, an incomplete message is given up, and the order of
    commands is not checked."""
    side = in_handshake("3.1", "NULL")
    side.resynchronise(500)
    octets = build_frame(Framing.V2, b"part", more=True)
    side.read(octets, 500)
    assert side.frames.rows() == [(500, 502, 4, 1)]
    assert not side.events
    assert side.message_open
    side.resynchronise(600)
    assert not side.message_open


@pytest.mark.parametrize("shift", [0, 56])
def test_curve_nonces_in_either_byte_order(shift: int) -> None:
    """Counters are checked in the byte order of their side: libzmq 4.0 counts little-endian from 0 (curve.md 3)."""

    def nonces(*values: int) -> list[str]:
        side = in_handshake("3.1", "CURVE")
        octets = command("CURVE", "HELLO", client_key=bytes(32), nonce=values[0] << shift, box=bytes(80))
        octets += command("CURVE", "INITIATE", cookie=bytes(96), nonce=values[1] << shift, box=bytes(144))
        for value in values[2:]:
            octets += command("CURVE", "MESSAGE", nonce=value << shift, box=bytes(17))
        return [finding.id for finding in feed(side, octets).findings]

    assert nonces(0, 1, 2, 3) == []
    assert nonces(0, 1, 2, 2) == ["CURVE-07"]
    assert nonces(0, 1, 2, 9) == ["CURVE-08"]


def test_versioned_greeting_before_1_0_frames() -> None:
    """Revision 0: the greeting contains the socket type, and its first 1.0 frame is the identity (D7)."""
    octets = b"\xff" + bytes(7) + b"\1\x7f" + b"\0\2" + b"\3\0me" + b"\3\0\1A"
    transcript = feed(SideReader(Form.VERSIONED_1, "1.0"), octets)
    (greeting, *_) = transcript.events
    assert greeting.stop == 16
    assert isinstance(greeting, Greeting)
    assert greeting.fields == {"version_announced": "0", "socket_type": "SUB", "identity": "me"}
    assert transcript.rows == [(16, 18, 2, 0x200)]
