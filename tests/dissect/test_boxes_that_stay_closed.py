"""Faulty keys and boxes, and incomplete captures: the expected findings (curve.md 5, 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests import curve_vector as vector
from tests.curve import CLIENT, MORE, SERVER, CurvePeers, Steps, conversation, frame, keys, secret
from tests.dissect.boxes import Found, command, contents, finding, ids, messages, read, read_packets
from tests.traffic import Capture, Packet, record_of
from zmtpscope.curve_keys import Keys
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.stream import decryption, session
from zmtpscope.dissect.stream.session import MAX_KEYS, ROLES, TRIES
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.regime import Framing


def changed(octets: bytes, at: int = -1) -> bytes:
    """Change one octet."""
    damaged = bytearray(octets)
    damaged[at] ^= 1
    return bytes(damaged)


def talk(peers: CurvePeers) -> Steps:
    """Return a handshake and two messages in each direction."""
    steps = peers.handshake()
    for number in (1, 2):
        steps += [(side, peers.messages(side, b"message %d" % number)) for side in (CLIENT, SERVER)]
    return steps


SYN_PACKETS = 3
"""Packets of a conversation before its first step."""

TALKED = [[b"message 1"], [b"message 1"], [b"message 2"], [b"message 2"]]


def lines_of(peers: CurvePeers, label: str, **other: bytes) -> str:
    """Return the line with this label for a connection, with other secrets."""
    for name, value in other.items():
        setattr(peers, name, value)
    return peers.lines(label)


# -- CURVE-12: a line for this connection that opens nothing -----------------------------------------------------------

WRONG = {
    "wrong k": lines_of(CurvePeers(), "SHARED", k=secret("another k")),
    "wrong s'": lines_of(CurvePeers(), "SERVER_TRANSIENT", s_transient=secret("another s'")),
    "wrong K": lines_of(CurvePeers(), "COOKIE_KEY", cookie_key=secret("another K")),
    "c' with the wrong S": lines_of(CurvePeers(), "CLIENT_TRANSIENT with S", S=CurvePeers(s=secret("another s")).S),
    "c' with the wrong S'": lines_of(CurvePeers(), "CLIENT_TRANSIENT")
    + lines_of(CurvePeers(), "SERVER_PUBLIC_TRANSIENT", S_transient=CurvePeers(1).S_transient),
    "c' without any way to S'": CurvePeers().lines("CLIENT_TRANSIENT"),
}


@pytest.mark.parametrize("size", [1, 1 << 30])
@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_line_that_opens_nothing_is_reported_once(text: str, size: int, tmp_path: Path) -> None:
    found = read(talk(CurvePeers()), tmp_path, text, size)
    assert ids(found) == ["CURVE-12"]
    assert finding(found, "CURVE-12")["side"] == CLIENT
    assert contents(found) == [None] * 4


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_line_that_opens_nothing_is_no_matter_where_another_opens_everything(text: str, tmp_path: Path) -> None:
    peers = CurvePeers()
    found = read(talk(peers), tmp_path, text + peers.lines("SHARED"))
    assert ids(found) == []
    assert contents(found) == TALKED


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("steps", [3, 4])
def test_a_line_is_not_blamed_where_its_box_never_arrived(text: str, steps: int, tmp_path: Path) -> None:
    """The server refuses: no captured box could have been opened by k."""
    talk = conversation(CurvePeers().handshake()[:steps])
    talk.close()
    assert "CURVE-12" not in ids(read_packets(talk.packets, tmp_path, text))


def test_a_line_is_blamed_where_the_handshake_alone_was_captured(tmp_path: Path) -> None:
    assert "CURVE-12" in ids(read(CurvePeers().handshake(), tmp_path, WRONG["wrong k"]))


def test_lines_of_other_connections_are_not_blamed(tmp_path: Path) -> None:
    found = read(talk(CurvePeers()), tmp_path, CurvePeers(1).lines("SHARED", "SERVER_TRANSIENT", "COOKIE_KEY"))
    assert ids(found) == []
    assert contents(found) == [None] * 4


def test_a_line_that_opens_hello_is_not_blamed_for_a_lost_welcome(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = [step for step in talk(peers) if b"WELCOME" not in step[1]]
    assert "CURVE-12" not in ids(read(steps, tmp_path, peers.lines("CLIENT_TRANSIENT with S")))


# -- CURVE-13 and CURVE-14: the contents of INITIATE -------------------------------------------------------------------


def talk_with(initiate: Callable[[CurvePeers], bytes]) -> Steps:
    """Return a handshake with another INITIATE, and a message."""
    peers = CurvePeers()
    steps = [*peers.handshake()[:4]]
    peers.nonces[CLIENT] = 1
    steps += [(CLIENT, frame(initiate(peers))), (SERVER, frame(peers.ready(socket_type="ROUTER")))]
    return [*steps, (CLIENT, peers.messages(CLIENT, b"hello"))]


def with_vouch(client: CurvePeers, server: CurvePeers) -> Steps:
    vouch = client.C_transient + server.S
    return talk_with(lambda peers: peers.initiate(vouch, socket_type="DEALER", identity=""))


STRANGER = CurvePeers(1, s=secret("another s"))
BOTH = ("SERVER_TRANSIENT", "SERVER_LONGTERM")


@pytest.mark.parametrize(
    ("client", "server", "labels", "expected"),
    [
        pytest.param(STRANGER, CurvePeers(), BOTH, ["CURVE-13"], id="another client"),
        pytest.param(STRANGER, CurvePeers(), ("SERVER_TRANSIENT",), ["CURVE-13"], id="another client, S not known"),
        pytest.param(STRANGER, CurvePeers(), ("COOKIE_KEY",), ["CURVE-13"], id="another client, s' from the cookie"),
        pytest.param(CurvePeers(), STRANGER, BOTH, ["CURVE-13"], id="another server"),
        pytest.param(CurvePeers(), STRANGER, ("SERVER_TRANSIENT",), [], id="another server, but S is not known"),
        pytest.param(STRANGER, STRANGER, ("SHARED", "SERVER_LONGTERM"), [], id="s' is not known"),
        pytest.param(CurvePeers(), CurvePeers(), BOTH, [], id="as it should be"),
    ],
)
def test_the_vouch_names_client_and_server(
    client: CurvePeers, server: CurvePeers, labels: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    found = read(with_vouch(client, server), tmp_path, CurvePeers().lines(*labels))
    assert ids(found) == expected
    assert contents(found) == [[b"hello"]]
    if expected:
        note, initiate = finding(found, "CURVE-13"), command(found, "INITIATE")
        start = initiate["offset"] + 9 + 113 + 16 + 32
        assert (note["source"], note["side"], note["offset"], note["length"]) == (1, CLIENT, start, 96)


def test_a_vouch_that_does_not_open_vouches_for_no_client(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = talk_with(lambda peers: _with_a_broken_vouch(peers))
    assert ids(read(steps, tmp_path, peers.lines("SERVER_TRANSIENT"))) == ["CURVE-13"]


def _with_a_broken_vouch(peers: CurvePeers) -> bytes:
    """The vouch box was made with a long-term key other than the C before it."""
    peers.C = CurvePeers(c=secret("another c")).C
    return peers.initiate(socket_type="DEALER", identity="")


@pytest.mark.parametrize("size", [1, 1 << 30])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("SERVER_LONGTERM",), ["CURVE-14"]),
        (("CLIENT_TRANSIENT with S",), ["CURVE-14"]),
        (("SHARED", "SERVER_LONGTERM"), ["CURVE-14"]),
        (("SHARED",), []),
    ],
    ids=" and ".join,
)
def test_the_cookie_returns_unchanged(
    labels: tuple[str, ...], expected: list[str], turned: bool, size: int, tmp_path: Path
) -> None:
    """Only an opened WELCOME shows the original cookie, whichever side connects."""
    steps = talk_with(lambda peers: peers.initiate(cookie=changed(peers.cookie), socket_type="DEALER", identity=""))
    steps = [(side ^ turned, octets) for side, octets in steps]
    found = read(steps, tmp_path, CurvePeers().lines(*labels), size)
    assert ids(found) == expected
    if expected:
        note = finding(found, "CURVE-14")
        assert (note["offset"], note["length"]) == (command(found, "INITIATE")["offset"] + 9 + 9, 96)


# -- CURVE-20 and CURVE-25: boxes that do not open ---------------------------------------------------------------------


def test_a_box_that_was_changed_stays_as_it_is(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = peers.handshake()
    bodies = [b"first", b"second", b"third", b"fourth"]
    sealed = [peers.messages(CLIENT, body) for body in bodies]
    sealed[1] = changed(sealed[1])
    found = read([*steps, *((CLIENT, octets) for octets in sealed)], tmp_path, peers.lines("SHARED"))
    assert contents(found) == [[b"first"], None, [b"third"], [b"fourth"]]
    assert [each["source"] for each in messages(found)] == [1, 0, 1, 1]
    assert ids(found) == ["CURVE-20"]
    note, closed = finding(found, "CURVE-20"), messages(found)[1]
    place = ("source", "offset", "packet")
    assert [note[name] for name in place] == [closed[name] for name in place]
    assert note["length"] == len(sealed[1])


def test_a_message_with_a_box_that_was_changed_is_not_complete(tmp_path: Path) -> None:
    """It is unknown whether the closed frame was the last one: later frames may be the end of its message."""
    peers = CurvePeers()
    steps = peers.handshake("REQ", "REP")
    parts = [(b"", MORE), (b"one", MORE), (b"two", 0), (b"", MORE), (b"three", 0)]
    sealed = [build_frame(Framing.V2, peers.message(SERVER, content, flags)) for content, flags in parts]
    sealed[1] = changed(sealed[1])
    found = read([*steps, *((SERVER, octets) for octets in sealed)], tmp_path, peers.lines("SHARED"))
    in_order = sorted(messages(found), key=lambda each: int(each["offset"]))
    note = [(each["bodies"], each["complete"], each["confidence"]) for each in in_order]
    assert note == [
        ([b""], False, "proven"),
        (None, True, "proven"),
        ([b"two"], True, "likely"),
        ([b"", b"three"], True, "proven"),
    ]
    assert ids(found) == ["CURVE-20"]


def test_a_command_behind_a_box_that_was_changed(tmp_path: Path) -> None:
    """The incomplete message was given up, so the command is not inside one; a topic may have been lost."""
    peers = CurvePeers()
    steps = [*peers.handshake("SUB", "PUB"), (CLIENT, build_frame(Framing.V2, peers.message(CLIENT, b"a", MORE)))]
    steps += [(CLIENT, changed(peers.command(CLIENT, "SUBSCRIBE", topic="b")))]
    steps += [(CLIENT, peers.command(CLIENT, "CANCEL", topic="b"))]
    assert ids(read(steps, tmp_path, peers.lines("SHARED"))) == ["CURVE-20"]


@pytest.mark.parametrize("name", ["INITIATE", "READY"])
def test_a_box_of_the_handshake_that_was_changed(name: str, tmp_path: Path) -> None:
    """READY does not open with the key that INITIATE proved. Before READY it is unknown whether INITIATE can be
    opened."""
    peers = CurvePeers()
    steps = [(side, changed(octets) if name.encode() in octets else octets) for side, octets in talk(peers)]
    found = read(steps, tmp_path, peers.lines("SHARED"))
    assert not command(found, name)["decrypted"]
    assert contents(found) == TALKED
    assert ids(found) == (["CURVE-20"] if name == "READY" else [])
    if name == "READY":
        note, ready = finding(found, "CURVE-20"), command(found, "READY")
        assert (note["source"], note["offset"]) == (0, ready["offset"] + 2 + 14)


def test_many_boxes_that_do_not_open_are_counted(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = talk(peers) + [(CLIENT, changed(peers.messages(CLIENT, b"x"))) for _ in range(100)]
    note = [each for each in read(steps, tmp_path, peers.lines("SHARED")) if each.get("id") == "CURVE-20"]
    assert (len(note), sum(each["count"] for each in note)) == (11, 100)


@pytest.mark.parametrize("size", [1, 2, 1 << 30])
@pytest.mark.parametrize("label", ["SHARED", "SERVER_LONGTERM"])
def test_a_message_above_the_limit_is_not_waited_for(
    label: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result does not depend on how many of its octets arrive at once."""
    monkeypatch.setattr(decryption, "LARGEST_BOX", 1033)
    peers = CurvePeers()
    talk = conversation(peers.handshake())
    for body in (b"x" * 1000, b"y" * 1001, b"z"):
        talk.send(CLIENT, peers.messages(CLIENT, body), cuts=(500, 900))
    found = read_packets(talk.packets, tmp_path, peers.lines(label), size, body_limit=10)
    if label == "SERVER_LONGTERM":
        assert ids(found) == []
        return
    assert [each["kind"] for each in messages(found)] == ["data", "encrypted", "data"]
    assert ids(found) == ["CURVE-25"]
    note, closed = finding(found, "CURVE-25"), messages(found)[1]
    assert (note["offset"], note["packet"]) == (closed["offset"], closed["packet"])


def test_p1_findings_about_closed_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decryption, "LARGEST_BOX", 1033)
    peers = CurvePeers()
    talk = conversation(peers.handshake())
    for number, body in enumerate((b"x" * 1000, b"y" * 1001, b"z", b"Y" * 3000, b"Z")):
        talk.send(CLIENT, changed(peers.messages(CLIENT, body), -(number % 2)), cuts=(500, 900))
        talk.send(SERVER, peers.messages(SERVER, b"a", body), cuts=(500, 900))
    talk.close()
    whole = read_packets(talk.packets, tmp_path, peers.lines("SHARED"), body_limit=10)
    for size in (1, 2, 3, 5):
        assert read_packets(talk.packets, tmp_path, peers.lines("SHARED"), size, body_limit=10) == whole


@pytest.mark.parametrize("size", [1, 2, 1 << 30])
def test_a_message_that_is_given_up_ends_where_its_last_frame_did(size: int, tmp_path: Path) -> None:
    """Commands and the closed box arrived in between, any time ago."""
    peers = CurvePeers()
    steps = [*peers.handshake(), (CLIENT, build_frame(Framing.V2, peers.message(CLIENT, b"first", MORE)))]
    steps += [(CLIENT, peers.command(CLIENT, "PING", ttl_ms=100)) for _ in range(5)]
    steps.append((CLIENT, changed(peers.messages(CLIENT, b"last"))))
    found = read(steps, tmp_path, peers.lines("SHARED"), size)
    (given_up,) = [each for each in messages(found) if not each["complete"]]
    assert given_up["packet"] == given_up["packet_end"] == SYN_PACKETS + 6 + 1
    assert given_up["ts_ns"] == given_up["ts_end_ns"]


def test_p1_a_closed_message_with_outer_more_is_reported_with_its_last_octet(tmp_path: Path) -> None:
    """It is a separate message for any outer flags, and does not wait for another frame."""
    peers = CurvePeers()
    talk = conversation(peers.handshake())
    talk.send(CLIENT, build_frame(Framing.V2, peers.message(CLIENT, b"hello"), more=True), cuts=(30,))
    talk.send(SERVER, peers.messages(SERVER, b"later"))
    talk.send(CLIENT, peers.messages(CLIENT, b"next"))
    whole = read_packets(talk.packets, tmp_path, "# nothing\n")
    assert read_packets(talk.packets, tmp_path, "# nothing\n", 1) == whole


# -- losses, and captures that begin inside a connection ---------------------------------------------------------------


def without_start(steps: Steps, skipped: int = 6, sides: tuple[int, ...] = (CLIENT, SERVER)) -> list[Packet]:
    """Return the packets of a capture that begins after some steps, with one or both directions."""
    packets = conversation(steps).packets[SYN_PACKETS + skipped :]
    return [packet for packet in packets if packet.side in sides]


def traffic(peers: CurvePeers, count: int = 40) -> Steps:
    steps = peers.handshake()
    for number in range(count):
        steps += [(side, peers.messages(side, b"message", b"%03d" % number)) for side in (CLIENT, SERVER)]
        steps.append((CLIENT, peers.command(CLIENT, "PING", ttl_ms=100)))
    return steps


@pytest.mark.parametrize("size", [1, 1 << 30])
@pytest.mark.parametrize("sides", [(CLIENT, SERVER), (CLIENT,), (SERVER,)], ids=str)
def test_a_shared_key_opens_a_capture_that_begins_inside(sides: tuple[int, ...], size: int, tmp_path: Path) -> None:
    peers = CurvePeers()
    packets = without_start(traffic(peers), sides=sides)
    text = "".join(CurvePeers(seed).lines("SHARED") for seed in range(1, 20)) + peers.lines("SHARED")
    found = read_packets(packets, tmp_path, text, size)
    for side in range(len(sides)):
        assert contents(found, side) == [[b"message", b"%03d" % number] for number in range(40)]
    pings = [each for each in found if each["record"] == "command"]
    assert len(pings) == (40 if CLIENT in sides else 0)
    assert not {"CURVE-12", "CURVE-20"} & set(ids(found))
    (connection,) = [each for each in found if each["record"] == "connection"]
    assert connection["security_server"] == (SERVER if CLIENT in sides else 0)


def test_an_unencrypted_command_does_not_confuse_the_roles(tmp_path: Path) -> None:
    """Inside a connection only the boxes show which side is the server."""
    peers = CurvePeers()
    steps = traffic(peers)
    clear = frame(b"\x05ERROR\x02no")
    steps.insert(60, (CLIENT, clear))
    steps.insert(61, (SERVER, clear))
    found = read_packets(without_start(steps), tmp_path, peers.lines("SHARED"))
    assert "CURVE-20" not in ids(found)
    assert None not in contents(found)


@pytest.mark.parametrize("sides", [(CLIENT, SERVER), (CLIENT,)], ids=str)
@pytest.mark.parametrize("skipped", [0, 6])
def test_foreign_keys_open_nothing_and_cost_little(
    skipped: int, sides: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand keys are tried on the first MESSAGEs, in both roles, and not on thousands of MESSAGEs."""
    peers = CurvePeers()
    steps = peers.handshake()
    steps += [(side, b"".join(peers.messages(side, b"x") for _ in range(5000))) for side in (CLIENT, SERVER)]
    packets = without_start(steps, skipped, sides)
    text = "".join(f"CURVE_SHARED {secret('C', n).hex()} {secret('k', n).hex()}\n" for n in range(1500))
    tries = Counter[bytes]()
    monkeypatch.setattr("zmtpscope.dissect.stream.session.open_box", lambda box, nonce, key: tries.update([box]))
    found = read_packets(packets, tmp_path, text)
    assert len(tries) <= len(sides) * TRIES
    assert bool(tries) == bool(skipped)  # a connection with a captured HELLO is known not to be among them
    assert max(tries.values(), default=0) <= len(ROLES) * MAX_KEYS
    assert not any(each["decrypted"] for each in messages(found))
    assert not [id_ for id_ in ids(found) if id_.startswith("CURVE")]


def test_the_newest_thousand_keys_are_tried(tmp_path: Path) -> None:
    peers = CurvePeers()
    packets = without_start(traffic(peers))
    others = [f"CURVE_SHARED {secret('C', n).hex()} {secret('k', n).hex()}\n" for n in range(1000)]
    newest = read_packets(packets, tmp_path, "".join(others) + peers.lines("SHARED"))
    oldest = read_packets(packets, tmp_path, peers.lines("SHARED") + "".join(others))
    assert [all(each["decrypted"] for each in messages(found)) for found in (newest, oldest)] == [True, False]


@pytest.mark.parametrize("label", ["SHARED", "CLIENT_TRANSIENT with S", "COOKIE_KEY"])
def test_steps_that_were_captured_in_another_order(label: str, tmp_path: Path) -> None:
    """Two directions reach the capture on different ways: a step of the server may be before the step that caused
    it."""
    peers = CurvePeers()
    packets = conversation(talk(peers)).packets
    (hello,) = [packet for packet in packets if b"HELLO" in packet.payload]
    (initiate,) = [packet for packet in packets if b"INITIATE" in packet.payload]
    for packet, ahead in ((hello, 1), (initiate, 3)):
        place = packets.index(packet)
        packets.remove(packet)
        packets.insert(place + ahead, packet)
    for size in (1, 1 << 30):
        found = read_packets(packets, tmp_path, peers.lines(label), size)
        assert contents(found, CLIENT) == [[b"message 1"], [b"message 2"]]
        assert contents(found, SERVER)[-1] == [b"message 2"]
        assert "CURVE-12" not in ids(found)


def test_a_loss_inside_a_message(tmp_path: Path) -> None:
    """The frame with the hole stays closed, and is not reported as changed; a message under way is incomplete."""
    peers = CurvePeers()
    talk = conversation(peers.handshake("DEALER", "REP"))
    octets = peers.messages(SERVER, b"envelope", b"", b"x" * 1000)
    talk.send(SERVER, octets, cuts=(30, 40, 300, 600))
    talk.send(SERVER, peers.messages(SERVER, b"", b"next"))
    lost = next(packet for packet in talk.packets if packet.payload == octets[300:600])
    talk.packets = [replace(packet, payload=b"", cut=300) if packet is lost else packet for packet in talk.packets]
    for size in (1, 1 << 30):
        found = read_packets(talk.packets, tmp_path, peers.lines("SHARED"), size)
        note = [(each["kind"], each["bodies"], each["complete"], each["confidence"]) for each in messages(found)]
        assert note == [
            ("data", [b"envelope", b""], False, "proven"),
            ("encrypted", None, False, "proven"),
            ("data", [b"", b"next"], True, "likely"),
        ]
        assert ids(found) == ["ZMTP-CONN-05"]


# -- lines that are appended during a capture --------------------------------------------------------------------------


def read_while_it_grows(packets: list[Packet], folder: Path, known: Keys, appended: dict[int, str]) -> Found:
    """Return the records if each packet arrives in a block of its own, and lines are appended before some of them."""
    options = Options(keys=known)
    analyser = Analyser(options)
    found: Found = []
    for number, block in enumerate(Capture(packets, 1)):
        with (folder / "test.keys").open("a") as file:
            file.write(appended.get(number, ""))
        for batch in analyser.feed(block):
            found += [record_of(item, index, options) for item, index in batch.in_order()]
    for batch in analyser.finish():
        found += [record_of(item, index, options) for item, index in batch.in_order()]
    return found


@pytest.mark.parametrize("label", ["SHARED", "CLIENT_TRANSIENT with S", "SERVER_TRANSIENT", "COOKIE_KEY"])
@pytest.mark.parametrize("step", [0, 3, 4, 5, 6, 8])
def test_boxes_after_an_appended_line_open(label: str, step: int, tmp_path: Path) -> None:
    """It also opens if the line needs an earlier WELCOME or cookie."""
    peers = CurvePeers()
    packets = conversation(talk(peers)).packets
    appended = {SYN_PACKETS + step: peers.lines(label)}
    found = read_while_it_grows(packets, tmp_path, keys(tmp_path, "# nothing yet\n"), appended)
    assert contents(found) == [body if 6 + at >= step else None for at, body in enumerate(TALKED)]
    assert ids(found) == []


def test_a_line_is_blamed_once_however_often_the_file_grows(tmp_path: Path) -> None:
    other = {number: CurvePeers(number).lines("SHARED") for number in range(1, 13)}
    packets = conversation(talk(CurvePeers())).packets
    found = read_while_it_grows(packets, tmp_path, keys(tmp_path, WRONG["wrong k"]), other)
    assert ids(found) == ["CURVE-12"]


def test_a_line_that_arrives_late_for_a_capture_that_begins_inside(tmp_path: Path) -> None:
    peers = CurvePeers()
    packets = without_start(traffic(peers))
    found = read_while_it_grows(packets, tmp_path, keys(tmp_path, "# nothing yet\n"), {100: peers.lines("SHARED")})
    assert contents(found)[0] is None
    assert contents(found)[-1] == [b"message", b"039"]


def test_a_line_that_is_appended_to_any_of_two_files(tmp_path: Path) -> None:
    """The newest line of the other file was tried before; this must not exclude the lines of this file."""
    peers = CurvePeers()
    (tmp_path / "other.keys").write_text(CurvePeers(1).lines("SHARED"))
    (tmp_path / "test.keys").write_text(CurvePeers(2).lines("SHARED"))
    known = Keys([tmp_path / "other.keys", tmp_path / "test.keys"])
    found = read_while_it_grows(without_start(traffic(peers)), tmp_path, known, {100: peers.lines("SHARED")})
    assert contents(found)[0] is None
    assert contents(found)[-1] == [b"message", b"039"]


def test_lines_that_were_too_many_for_large_messages_are_tried_on_small_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "TRIED_OCTETS", 4000)
    peers = CurvePeers()
    steps = [*peers.handshake(), *((CLIENT, peers.messages(CLIENT, b"x" * 1000)) for _ in range(TRIES))]
    steps += [(CLIENT, peers.messages(CLIENT, b"small")) for _ in range(TRIES)]
    newer = [CurvePeers(number).lines("SHARED") for number in range(1, session.ALWAYS_TRIED + 2)]
    known = keys(tmp_path, peers.lines("SHARED") + "".join(newer[:-1]))
    found = read_while_it_grows(without_start(steps), tmp_path, known, {TRIES: newer[-1]})
    assert contents(found) == [None] * TRIES + [[b"small"]] * TRIES


def test_the_first_message_that_opens_may_be_the_end_of_one(tmp_path: Path) -> None:
    """If the frames before it stay closed, this is unknown, and no rule is applied to the message."""
    peers = CurvePeers()
    steps = peers.handshake("REQ", "REP")
    sealed = [(b"", MORE), (b"one", 0), (b"", MORE), (b"two", 0)]
    steps += [(SERVER, build_frame(Framing.V2, peers.message(SERVER, body, flags))) for body, flags in sealed]
    packets = conversation(steps).packets
    appended = {SYN_PACKETS + 7: peers.lines("SHARED")}
    found = read_while_it_grows(packets, tmp_path, keys(tmp_path, "# nothing yet\n"), appended)
    note = [(each["kind"], each["bodies"], each["confidence"]) for each in messages(found)]
    assert note == [
        ("encrypted", None, "proven"),
        ("data", [b"one"], "likely"),
        ("data", [b"", b"two"], "proven"),
    ]


# -- test vectors that no peer sends -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["V-CURVE-09", "V-CURVE-10"])
def test_a_hello_that_is_wrong(name: str, tmp_path: Path) -> None:
    """With a wrong size it has no box; with another version the box can still be opened."""
    steps = [*CurvePeers().handshake()[:2], (CLIENT, bytes.fromhex(vector.HEX[name]))]
    found = read(steps, tmp_path, CurvePeers.of_the_vector().lines("SERVER_LONGTERM"))
    assert command(found, "HELLO")["decrypted"] == (name == "V-CURVE-10")
    assert ids(found) == ["CURVE-01" if name == "V-CURVE-09" else "CURVE-02"]


def test_a_message_that_is_too_short(tmp_path: Path) -> None:
    peers = CurvePeers.of_the_vector()
    steps = peers.handshake()
    steps.append((CLIENT, bytes.fromhex(vector.HEX["V-CURVE-11"])))
    steps.append((CLIENT, build_frame(Framing.V2, peers.message(CLIENT, b"next"))))
    found = read(steps, tmp_path, peers.lines("SHARED"))
    assert contents(found) == [None, [b"next"]]
    assert "CURVE-20" not in ids(found)
