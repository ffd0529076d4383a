"""Contents of boxes of CURVE connections, and faults of boxes and keys (curve.md 3 to 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.curve import CLIENT, COMMAND, MORE, SERVER, CurvePeers, conversation, keys
from tests.dissect.boxes import command, contents, finding, ids, messages, read, read_packets
from tests.traffic import Capture, Packet, records
from zmtpscope.dissect import Options
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.regime import Framing


def inner(peers: CurvePeers, side: int, content: bytes, flags: int = 0) -> bytes:
    """Return one MESSAGE with these flags and contents, framed as by libzmq."""
    return build_frame(Framing.V2, peers.message(side, content, flags))


def changed(octets: bytes, at: int = -1) -> bytes:
    damaged = bytearray(octets)
    damaged[at] ^= 1
    return bytes(damaged)


# -- habits, flags and commands inside ---------------------------------------------------------------------------------


def test_commands_by_flag_2_are_noted_once_a_direction(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = peers.handshake()
    for side in (CLIENT, SERVER, CLIENT, SERVER):
        steps.append((side, peers.command(side, "PING", ttl_ms=100)))
    found = read(steps, tmp_path, peers.lines("SHARED"))
    noted = [(each["side"], each["source"]) for each in found if each.get("id") == "CURVE-11"]
    assert noted == [(CLIENT, 1), (SERVER, 1)]


def test_messages_are_no_commands(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = [*peers.handshake(), (CLIENT, peers.messages(CLIENT, b"\x04PING\0\0", b"x"))]
    found = read(steps, tmp_path, peers.lines("SHARED"))
    assert "CURVE-11" not in [each.get("id") for each in found]
    assert contents(found) == [[b"\x04PING\0\0", b"x"]]


@pytest.mark.parametrize("flags", [0x80, 0x04])
def test_reserved_flags_inside_are_reported_and_ignored(flags: int, tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = [
        *peers.handshake(),
        (CLIENT, inner(peers, CLIENT, b"strange", flags)),
        (CLIENT, inner(peers, CLIENT, b"x")),
    ]
    found = read(steps, tmp_path, peers.lines("SHARED"))
    assert contents(found) == [[b"strange"], [b"x"]]
    assert ids(found) == ["CURVE-17"]
    note = finding(found, "CURVE-17")
    assert (note["source"], note["offset"], note["length"]) == (1, messages(found)[0]["offset"] + 2 + 32, 1)


def test_a_command_inside_continues_in_no_other_frame(tmp_path: Path) -> None:
    peers = CurvePeers()
    ping = build_command("CURVE", "PING", {"ttl_ms": 100})
    steps = [*peers.handshake(), (CLIENT, inner(peers, CLIENT, ping, COMMAND | MORE))]
    found = read(steps, tmp_path, peers.lines("SHARED"))
    note = finding(found, "ZMTP3X-FRAME-02")
    assert (note["side"], note["source"], note["length"]) == (CLIENT, 1, 1)
    assert command(found, "PING")["ttl_ms"] == 100


def test_flags_that_are_known_are_not_remarked(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = [*peers.handshake(), (CLIENT, peers.messages(CLIENT, b"a", b"b") + peers.command(CLIENT, "PING"))]
    assert ids(read(steps, tmp_path, peers.lines("SHARED"))) == []


@pytest.mark.parametrize("between", [True, False])
def test_a_command_between_the_frames_of_a_message(between: bool, tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = peers.handshake()
    parts = [(b"first", MORE), (b"last", 0)]
    ping = build_command("CURVE", "PING", {"ttl_ms": 0})
    parts.insert(1 if between else 2, (ping, COMMAND))
    steps += [(CLIENT, inner(peers, CLIENT, content, flags)) for content, flags in parts]
    found = read(steps, tmp_path, peers.lines("SHARED"))
    assert contents(found) == [[b"first", b"last"]]
    assert ids(found) == (["ZMTP3X-FRAME-07"] if between else [])


COMMANDS: list[tuple[str, dict[str, Any], str]] = [
    ("SUBSCRIBE", {"topic": "weather"}, "SUB"),
    ("CANCEL", {"topic": ""}, "SUB"),
    ("PING", {"ttl_ms": 3000, "context": b"ctx"}, "PUSH"),
    ("PONG", {"context": b"ctx"}, "PUSH"),
    ("JOIN", {"group": "g"}, "DISH"),
    ("LEAVE", {"group": "g"}, "DISH"),
    ("ERROR", {"reason": "no"}, "PUSH"),
]


@pytest.mark.parametrize(("name", "fields", "type_"), COMMANDS, ids=[name for name, _, _ in COMMANDS])
def test_commands_inside(name: str, fields: dict[str, Any], type_: str, tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = [*peers.handshake(type_, "XPUB"), (CLIENT, peers.command(CLIENT, name, **fields))]
    note = command(read(steps, tmp_path, peers.lines("SHARED")), name)
    assert {key: note[key] for key in fields} == fields
    assert (note["decrypted"], note["source"], note["side"]) == (True, 1, CLIENT)


def test_an_unknown_command_inside(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = [*peers.handshake(), (CLIENT, inner(peers, CLIENT, b"\x05DANCE1234", COMMAND))]
    found = read(steps, tmp_path, peers.lines("SHARED"))
    assert command(found, "DANCE")["data"] == b"1234"
    assert ids(found) == ["ZMTP3X-CMD-05"]


@pytest.mark.parametrize(
    "content",
    [
        b"\x07MESSAGE" + bytes(8),
        b"\x07MESSAGE" + bytes(7),
        b"\x07MESSAGE",
        b"\x05READY" + bytes(24) + b"\x0bSocket-Type\0\0\0\x03PUB",
        b"\x05HELLO" + bytes(194),
        b"\x07WELCOME" + bytes(160),
        b"\x08INITIATE" + bytes(248) + b"\x08Identity\0\0\0\x01A",
    ],
    ids=lambda content: f"{content[1:9]!r} of {len(content)}",
)
def test_a_step_of_the_handshake_inside_a_box_means_nothing(content: bytes, tmp_path: Path) -> None:
    """It is a command in the wrong place, as if unencrypted: reported, and without effect."""
    peers = CurvePeers()
    steps = [*peers.handshake(), (CLIENT, inner(peers, CLIENT, content, COMMAND))]
    steps.append((CLIENT, peers.messages(CLIENT, b"goes on")))
    found = read(steps, tmp_path, peers.lines("SHARED"))
    inside = next(each for each in found if each["record"] == "command" and each["offset"] > 500)
    assert inside["decrypted"]
    assert not {"socket_type", "identity", "metadata", "client_key", "nonce"} & {key for key, v in inside.items() if v}
    assert ids(found) == ["ZMTP3X-CMD-11" if content[1:].startswith(b"MESSAGE") else "ZMTP3X-CMD-07"]
    assert contents(found) == [[b"goes on"]]


def test_a_command_without_octets_inside(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = [*peers.handshake(), (CLIENT, inner(peers, CLIENT, b"", COMMAND))]
    assert ids(read(steps, tmp_path, peers.lines("SHARED"))) == ["ZMTP3X-CMD-01"]


def test_rules_of_socket_types_hold_inside(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = [*peers.handshake("PULL", "PUSH"), (CLIENT, peers.messages(CLIENT, b"a PULL that sends"))]
    steps.append((SERVER, peers.messages(SERVER, b"a PUSH that sends")))
    found = read(steps, tmp_path, peers.lines("SHARED"))
    assert ids(found) == ["PIPELINE-01"]
    note = finding(found, "PIPELINE-01")
    assert (note["side"], note["source"], note["offset"]) == (CLIENT, 1, messages(found, CLIENT)[0]["offset"])


def test_subscriptions_inside_are_counted(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = peers.handshake("SUB", "PUB")
    for name, topic in (("SUBSCRIBE", "a"), ("SUBSCRIBE", "b"), ("SUBSCRIBE", "a"), ("CANCEL", "b"), ("CANCEL", "c")):
        steps.append((CLIENT, peers.command(CLIENT, name, topic=topic)))
    found = read(steps, tmp_path, peers.lines("SHARED"))
    assert ids(found) == ["ZMTP-SUB-04", "ZMTP-SUB-02"]


def test_subscriptions_of_3_0_are_messages_inside(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = peers.handshake("SUB", "PUB", version="3.0")
    steps += [(CLIENT, peers.messages(CLIENT, b"\1topic")), (CLIENT, peers.messages(CLIENT, b"\0topic"))]
    steps.append((SERVER, peers.messages(SERVER, b"\1topic", b"news")))
    found = read(steps, tmp_path, peers.lines("SHARED"))
    note = [(each["kind"], each["topic"], each["decrypted"]) for each in messages(found)]
    assert note == [("subscribe", "topic", True), ("cancel", "topic", True), ("data", "\x01topic", True)]
    assert ids(found) == []


# -- framing, roles, nonces --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_commands", [False, True])
@pytest.mark.parametrize("body", [b"", b"x", b"y" * 300])
def test_both_ways_to_frame_a_message(in_commands: bool, body: bytes, tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = peers.handshake()
    steps += [(side, peers.messages(side, b"", body, in_commands=in_commands)) for side in (CLIENT, SERVER)]
    found = read(steps, tmp_path, peers.lines("SHARED"))
    assert contents(found) == [[b"", body], [b"", body]]
    assert ids(found) == []


def test_nonces_of_libzmq_4_0(tmp_path: Path) -> None:
    """Its nonces are little-endian and begin at 0: the box opens with the octets as sent."""
    peers = CurvePeers(old=True)
    steps = peers.handshake(version="3.0")
    for number in range(260):
        steps += [(side, peers.messages(side, b"%d" % number)) for side in (CLIENT, SERVER)]
    found = read(steps, tmp_path, peers.lines("CLIENT_TRANSIENT with S"))
    for side in (CLIENT, SERVER):
        assert contents(found, side) == [[b"%d" % number] for number in range(260)]
    assert ids(found) == []


@pytest.mark.parametrize("label", ["SHARED", "CLIENT_TRANSIENT with S", "SERVER_TRANSIENT", "COOKIE_KEY"])
def test_the_server_may_be_the_one_that_connects(label: str, tmp_path: Path) -> None:
    """The side that sends HELLO is the client, not the side that opened the connection."""
    peers = CurvePeers()
    steps = [*peers.handshake(), (CLIENT, peers.messages(CLIENT, b"from the client"))]
    steps.append((SERVER, peers.messages(SERVER, b"from the server")))
    found = read([(1 - side, octets) for side, octets in steps], tmp_path, peers.lines(label))
    assert contents(found, 1) == [[b"from the client"]]
    assert contents(found, 0) == [[b"from the server"]]
    (connection,) = [each for each in found if each["record"] == "connection"]
    assert connection["security_server"] == 0


def long_talk(peers: CurvePeers) -> list[Packet]:
    """Return messages of all sizes, several in one packet and one in several packets, in both directions at once."""
    talk = conversation(peers.handshake("DEALER", "ROUTER"))
    for number in range(12):
        for side in (CLIENT, SERVER):
            octets = peers.messages(side, b"%d" % number, b"", b"x" * 40 * number)
            octets += peers.command(side, "PING", ttl_ms=100) + peers.messages(side, b"y" * number)
            talk.send(side, octets, cuts=range(0, len(octets), 97))
    talk.close()
    return talk.packets


@pytest.mark.parametrize("label", ["SHARED", "CLIENT_TRANSIENT with S", "SERVER_LONGTERM"])
@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("options", [{}, {"frames": True}, {"bodies": "none"}, {"bodies": "head", "head": 3}], ids=str)
def test_p1_what_opens_does_not_depend_on_blocks(
    label: str, size: int, options: dict[str, Any], tmp_path: Path
) -> None:
    peers = CurvePeers()
    packets, lines = long_talk(peers), peers.lines(label)
    whole = read_packets(packets, tmp_path, lines, **options)
    assert read_packets(packets, tmp_path, lines, size, **options) == whole
    assert len(messages(whole)) == (48 if label != "SERVER_LONGTERM" else 120)


def test_bodies_as_they_are_asked_for(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = [*peers.handshake(), (CLIENT, peers.messages(CLIENT, b"abcdef", b"gh"))]
    lines = peers.lines("SHARED")
    (none,) = messages(read(steps, tmp_path, lines, bodies="none"))
    (head,) = messages(read(steps, tmp_path, lines, bodies="head", head=3))
    assert (none["bodies"], none["sizes"], none["parts"]) == (None, [6, 2], 2)
    assert (head["bodies"], head["sizes"], head["bodies_kept"]) == ([b"abc", b"gh"], [6, 2], "head")


def test_what_is_only_counted_is_counted_inside(tmp_path: Path) -> None:
    peers = CurvePeers()
    packets = long_talk(peers)
    note, counted = [
        records(Capture(packets), Options(keys=keys(tmp_path, peers.lines("SHARED")), records=wanted))
        for wanted in (True, False)
    ]
    assert counted[0] == []
    assert counted[1].summary == note[1].summary
    summary = counted[1].summary
    assert (summary.messages, summary.frames, summary.commands["PING"]) == (48, 96, 24)
    assert summary.socket_types == {"DEALER": 1, "ROUTER": 1}
    assert summary.body_octets == sum(sum(each["sizes"]) for each in messages(note[0]))


def test_frame_records_are_the_decrypted_ones(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = [*peers.handshake(), (CLIENT, peers.messages(CLIENT, b"a", b"b" * 300))]
    frames = [each for each in read(steps, tmp_path, peers.lines("SHARED"), frames=True) if each["record"] == "frame"]
    note = [(each["source"], each["flags"], each["more"], each["long"], each["size"]) for each in frames]
    assert note == [(1, 1, True, False, 1), (1, 0, False, True, 300)]
