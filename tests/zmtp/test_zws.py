"""One side of ZWS: the properties of ZMTP on TCP, and the additions of WebSocket."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.zmtp.sides import MANY, Transcript, feed
from tests.zws import (
    MASK,
    ZwsSide,
    build_message_zws,
    build_websocket_frame,
    damaged_zws_sides,
    message_frames,
    ready,
    request,
    response,
    zws_sides,
)
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.details import field_tree
from zmtpscope.zmtp.events import ENCRYPTED, SUBSCRIBE, Command, Greeting
from zmtpscope.zmtp.reader import FieldNode
from zmtpscope.zmtp.regime import Form
from zmtpscope.zmtp.websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Unmasking
from zmtpscope.zmtp.zws_side import LARGEST_IN_FRAGMENTS, ZwsReader


def read(side: ZwsSide, cuts: list[int] | None = None) -> tuple[Transcript, bytes]:
    """Findings about a side, and the octets of source 1."""
    reader = side.reader()
    transcript = feed(reader, side.unmasked, cuts or ())
    octets = bytearray(side.unmasked)
    for offset, moved in reader.moves:
        octets[offset : offset + len(moved)] = moved
    return transcript, bytes(octets)


def server(*octets: bytes, chosen: str | None = "NULL") -> ZwsSide:
    name = "ZWS2.0" if chosen is None else f"ZWS2.0/{chosen}"
    return ZwsSide(False, chosen, response(name) + b"".join(octets))


class CarefulReader(ZwsReader):
    """Reads every unit with care, for comparison."""

    def _let_scan(self) -> None:
        self._scanning = False


@MANY
@given(data=st.data(), side=damaged_zws_sides())
def test_p1_chunks(data: st.DataObject, side: ZwsSide) -> None:
    assert read(side, data.draw(strategies.cuts(len(side.octets)))) == read(side)


def read_with_care(side: ZwsSide) -> Transcript:
    """Read without the scanner."""
    form = Form.ZWS_REQUEST if side.client else Form.ZWS_RESPONSE
    return feed(CarefulReader(form, "zws-2.0", side.chosen), side.unmasked)


@MANY
@given(side=damaged_zws_sides())
def test_p3_scanner(side: ZwsSide) -> None:
    assert read_with_care(side) == read(side)[0]


@given(client=st.booleans(), data=st.data())
def test_p3_frames_without_zmtp(client: bool, data: st.DataObject) -> None:
    """Many of each kind, with messages between them and around them."""
    key = MASK if client else b""
    frame = st.builds(
        functools.partial(build_websocket_frame, key=key),
        st.sampled_from([b"", b"\0", b"\1", b"\0x", bytes(125), bytes(126), bytes(300)]),
        st.sampled_from([TEXT, TEXT, BINARY, BINARY, CONTINUATION, 3, 7, PING, 11, 15]),
        final=st.sampled_from([True, True, True, False]),
    )
    repeated = st.lists(st.tuples(st.lists(frame, min_size=1, max_size=3), st.sampled_from([1, 12, 40])), max_size=5)
    octets = b"".join(b"".join(frames) * times for frames, times in data.draw(repeated))
    side = ZwsSide(client, "NULL", (request() if client else response()) + ready(client, "PUSH") + octets)
    transcript = read_with_care(side)
    assert read(side)[0] == transcript
    assert read(side, data.draw(strategies.cuts(len(side.octets))))[0] == transcript


def test_p3_frames_without_zmtp_inside_a_message() -> None:
    text = build_websocket_frame(b"text", TEXT)
    first, last = build_message_zws(b"a", more=True), build_message_zws(b"b")
    side = server(ready(False, "PUSH"), text * 20, first, text, last, text)
    transcript = read_with_care(side)
    assert read(side)[0] == transcript
    assert [between for *_, between in transcript.skipped] == [True] * 20 + [False, True]


def test_p3_runs_of_plain_frames_are_scanned() -> None:
    sizes = [0, 1, 124, 125, 126, 65534, 65535]
    for client in (False, True):
        messages = b"".join(message_frames(client, bytes(size), b"x") for size in sizes) * 3
        side = ZwsSide(client, "NULL", (request() if client else response()) + ready(client, "PUSH") + messages)
        transcript, octets = read(side)
        assert transcript.findings == []
        assert [octets[body : body + size] for _, body, size, _ in transcript.rows] == 3 * [
            body for size in sizes for body in (bytes(size), b"x")
        ]
        assert [flags for *_, flags in transcript.rows] == [1, 0] * len(sizes) * 3


def trees(transcript: Transcript, octets: bytes) -> list[FieldNode]:
    found = []
    for event in transcript.events:
        if isinstance(event, Greeting | Command):
            own = event.octets if isinstance(event, Command) else None
            found.append(field_tree(event.regime, own or octets[event.start : event.stop], event.start))
    for offset, body, size, _ in transcript.rows:
        regime = [each for start, each in transcript.regimes if start <= offset][-1]
        found.append(field_tree(regime, octets[offset : body + size], offset))
    return found


@MANY
@given(side=damaged_zws_sides())
def test_p5_leaves_tile_the_units(side: ZwsSide) -> None:
    transcript, octets = read(side)
    stops = {event.start: event.stop for event in transcript.events if isinstance(event, Greeting | Command)}
    stops |= {offset: body + size for offset, body, size, _ in transcript.rows}
    for tree in trees(transcript, octets):
        at = tree.start
        for leaf in tree.leaves():
            assert leaf.start == at
            at += leaf.length
        assert at == min(stops[tree.start], len(octets))


@MANY
@given(side=zws_sides())
def test_p6_tree_and_event_agree(side: ZwsSide) -> None:
    transcript, octets = read(side)
    events = {event.start: event for event in transcript.events if isinstance(event, Greeting | Command)}
    for tree in trees(transcript, octets):
        values = {leaf.name: leaf.value for leaf in tree.leaves()}
        event = events.get(tree.start)
        if event is None:
            continue
        if event.regime.form is Form.ZWS_IDENTITY:
            assert (event.fields["identity"] or None) == values.get("zws.identity")
        elif isinstance(event, Command) and str(event.fields.get("name")).startswith("WS-"):
            if not event.findings:
                assert event.fields.get("close_code") == values.get("websocket.close.code")
            assert (event.fields.get("context") or None) == values.get("websocket.context")
            assert (event.fields.get("reason") or None) == values.get("websocket.close.reason")
        elif isinstance(event, Command):
            assert (event.fields.get("name") or None) in (
                values.get("zmtp.command.name"),
                values.get("zmtp.command.name_padded"),
            ) or event.fields.get("mangled")


@MANY
@given(
    bodies=st.lists(st.binary(max_size=300), min_size=1, max_size=4),
    key=st.sampled_from([b"", MASK]),
    data=st.data(),
)
def test_p4_messages_that_were_built_are_read(bodies: list[bytes], key: bytes, data: st.DataObject) -> None:
    """In however many WebSocket frames, with pings between them."""
    octets, last = b"", len(bodies) - 1
    for part, body in enumerate(bodies):
        cuts = tuple(sorted(data.draw(st.lists(st.integers(0, len(body) + 1), max_size=4))))
        octets += build_message_zws(body, more=part < last, key=key, cuts=cuts)
    client = bool(key)
    side = ZwsSide(client, "NULL", (request() if client else response()) + ready(client, "PUSH") + octets)
    transcript, source = read(side, data.draw(strategies.cuts(len(side.octets))))
    assert transcript.findings == []
    assert [source[body : body + size] for _, body, size, _ in transcript.rows] == bodies
    assert [flags for *_, flags in transcript.rows] == [1] * last + [0]


@MANY
@given(octets=st.binary(max_size=200), chosen=st.sampled_from([None, "NULL", "CURVE", "FOO"]), client=st.booleans())
def test_p9_nothing_raises(octets: bytes, chosen: str | None, client: bool) -> None:
    for head in (b"", request() if client else response()):
        read(ZwsSide(client, chosen, head + octets))


def test_p9_what_is_waited_for_is_bounded() -> None:
    huge = b"\x82\x7f" + (2**63 - 1).to_bytes(8, "big")
    transcript, _ = read(server(ready(False, "PUSH"), huge + b"\0abc"))
    assert [size for _, _, size, _ in transcript.rows] == [2**63 - 2]
    too_huge = b"\x82\x7f" + (2**63).to_bytes(8, "big")
    reader = server(ready(False, "PUSH"), too_huge).reader()
    assert [finding.id for finding in feed(reader, server(ready(False, "PUSH"), too_huge).octets).findings] == [
        "ZWS-06"
    ]
    assert reader.broken is not None
    fragment = build_websocket_frame(bytes(LARGEST_IN_FRAGMENTS), final=False)
    reader = server().reader()
    transcript = feed(reader, server(ready(False, "PUSH"), fragment).octets)
    assert [finding.id for finding in transcript.findings] == ["ZWS-07"]
    assert reader.opaque
    reader = server().reader()
    reader.read(b"HTTP/1.1 101 " + bytes(20_000), 0)
    assert reader.opaque


def ids(side: ZwsSide) -> list[str]:
    return [finding.id for finding in read(side)[0].findings]


def client(*octets: bytes) -> ZwsSide:
    return ZwsSide(True, "NULL", request() + ready(True, "PUSH") + b"".join(octets))


READY = ready(False, "PUSH")
CASES = {
    "a clean start": (server(READY, message_frames(False, b"a", b"b")), []),
    "no flags octet": (server(READY, build_websocket_frame(b"")), ["ZWS-01"]),
    "flags 03": (server(READY, build_websocket_frame(b"\3\4PING\0\0")), ["ZWS-02"]),
    "flags 04": (server(READY, build_websocket_frame(b"\4a")), ["ZWS-02"]),
    "a text message": (server(READY, build_websocket_frame(b"a", TEXT)), ["ZWS-04"]),
    "a text message in fragments": (
        server(
            READY,
            build_websocket_frame(b"a", TEXT, final=False),
            build_websocket_frame(b"b", CONTINUATION),
            message_frames(False, b"c"),
        ),
        ["ZWS-04"],
    ),
    "compressed": (server(READY, b"\xc2\x02\0a", message_frames(False, b"a")), ["ZWS-05"]),
    "a reserved opcode": (server(READY, build_websocket_frame(b"a", 3)), ["ZWS-06"]),
    "a reserved control opcode": (server(READY, build_websocket_frame(b"a", 12)), ["ZWS-06"]),
    "a server that masks": (server(READY, message_frames(True, b"a")), ["ZWS-06"]),
    "a client that does not": (client(message_frames(False, b"a")), ["ZWS-06"]),
    "a size in a longer form": (server(READY, b"\x82\x7e\0\x02\0a"), ["ZWS-06"]),
    "a ping in fragments": (server(READY, build_websocket_frame(b"a", PING, final=False)), ["ZWS-06"]),
    "a ping that is too large": (server(READY, build_websocket_frame(bytes(126), PING)), ["ZWS-06"]),
    "half a close code": (server(READY, build_websocket_frame(b"\3", CLOSE)), ["ZWS-06"]),
    "a continuation of nothing": (server(READY, build_websocket_frame(b"\0a", CONTINUATION)), ["ZWS-06"]),
    "a message inside of another": (
        server(READY, build_websocket_frame(b"\0a", final=False), message_frames(False, b"b")),
        ["ZWS-06"],
    ),
    "a message inside of a text message": (
        server(READY, build_websocket_frame(b"a", TEXT, final=False), message_frames(False, b"b")),
        ["ZWS-04", "ZWS-06"],
    ),
    "the end inside of a message": (server(READY, build_websocket_frame(b"\0a", final=False)), ["ZMTP3X-FRAME-05"]),
    "the end inside of a multipart message": (server(READY, build_message_zws(b"a", more=True)), ["ZMTP3X-FRAME-06"]),
    "a message before READY": (server(message_frames(False, b"a"), READY), ["ZMTP3X-CMD-09"]),
    "READY in a message frame": (server(READY[:2] + b"\0" + READY[3:]), ["ZMTP3X-CMD-10"]),
    "an identity": (server(message_frames(False, b"me"), chosen=None), []),
    "an identity with MORE": (server(message_frames(False, b"me", b"x"), chosen=None), ["ZWS-08"]),
    "an identity that is too large": (server(message_frames(False, bytes(256)), chosen=None), ["ZWS-08"]),
    "an identity that nobody waits for": (server(message_frames(False, bytes(1 << 17)), chosen=None), ["ZWS-08"]),
}


@pytest.mark.parametrize("name", CASES)
def test_findings(name: str) -> None:
    side, expected = CASES[name]
    assert ids(side) == expected


def test_findings_have_a_place() -> None:
    start = len(server(READY).octets)
    for octets, span in (
        (build_websocket_frame(b""), (start, 2)),
        (build_websocket_frame(b"\4a"), (start + 2, 1)),
        (build_websocket_frame(b"a", TEXT), (start, 2)),
    ):
        (finding,) = read(server(READY, octets))[0].findings
        assert (finding.start, finding.length) == span


def test_the_identity_of_a_side_without_a_mechanism() -> None:
    """jszmq, and libzmq that talks to it: no READY, the first message is the routing id."""
    transcript, _ = read(
        ZwsSide(True, None, request("ZWS2.0") + message_frames(True, b"me") + message_frames(True, b"", b"x"))
    )
    head, identity = transcript.events
    assert isinstance(identity, Greeting)
    assert (head.regime.source, identity.regime.source) == (0, 1)
    assert identity.fields == {"identity": "me"}
    assert len(transcript.rows) == 2


def test_subscriptions_and_sealed_messages_are_known() -> None:
    subscriber = server(ready(False, "SUB"), message_frames(False, b"\1news"), build_message_zws(b"\0ne", cuts=(1, 2)))
    assert [flags for *_, flags in read(subscriber)[0].rows] == [SUBSCRIBE, 0x400]
    sealed = build_command("CURVE", "MESSAGE", {"nonce": 3, "box": bytes(17)})
    rows = read(server(build_message_zws(sealed), build_message_zws(sealed, command=True), chosen="CURVE"))[0].rows
    assert [flags for *_, flags in rows] == [ENCRYPTED, ENCRYPTED | 2]


def test_control_frames_are_reported_wherever_they_are() -> None:
    ping, pong = build_websocket_frame(b"beat", PING), build_websocket_frame(b"beat", PONG)
    fragments = build_websocket_frame(b"\0a", final=False) + ping + build_websocket_frame(b"b", CONTINUATION)
    close = build_websocket_frame(b"\x03\xe9going", CLOSE)
    transcript, octets = read(server(READY, fragments, pong, close))
    _, _, *controls = transcript.events
    assert [event.fields for event in controls if isinstance(event, Command)] == [
        {"size": 4, "name": "WS-PING", "context": b"beat"},
        {"size": 4, "name": "WS-PONG", "context": b"beat"},
        {"size": 7, "name": "WS-CLOSE", "close_code": 1001, "reason": "going"},
    ]
    ((offset, body, size, _),) = transcript.rows
    assert octets[offset:body] == b"\x02\x02" + ping + b"\x80\x01" + b"\0"
    assert octets[body : body + size] == b"ab"


def test_unmasking_is_what_makes_source_1() -> None:
    side = ZwsSide(True, "NULL", request() + message_frames(True, b"hello"))
    assert b"hello" not in side.octets
    assert Unmasking().feed(side.octets).endswith(MASK + b"\0hello")
