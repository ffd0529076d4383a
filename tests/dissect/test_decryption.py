"""CURVE connections with known keys: which boxes open, and their records (curve.md 5, 8)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import curve_vector as vector
from tests.curve import CLIENT, COMMAND, SERVER, CurvePeers, Steps, conversation, frame, keys
from tests.dissect.boxes import Found, command, contents, ids, messages, read, read_packets
from tests.traffic import Capture, records
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.details import details
from zmtpscope.zmtp import z85
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.metadata import build_metadata
from zmtpscope.zmtp.reader import FieldNode

# -- curve.md 5: what an analyser can open -----------------------------------------------------------------------------

HANDSHAKE = {"HELLO", "WELCOME", "INITIATE", "READY"}
MESSAGES = {"MESSAGE of the client", "MESSAGE of the server"}
EVERYTHING = HANDSHAKE | MESSAGES
WITH_K = {"INITIATE", "READY"} | MESSAGES
WITH_S = {"HELLO", "WELCOME"}


def opened(found: Found) -> set[str]:
    """Return the names of commands and messages from boxes; all others were reported encrypted."""
    decrypted = {each["name"] for each in found if each["record"] == "command" and each["decrypted"]}
    for each in messages(found):
        assert (each["kind"] == "data") == each["decrypted"] == (each["source"] == 1)
        if each["decrypted"]:
            decrypted.add(f"MESSAGE of the {'client' if each['side'] == CLIENT else 'server'}")
    for each in found:
        if each["record"] == "command":
            assert each["source"] == each["decrypted"]
    return decrypted


def talk(peers: CurvePeers) -> Steps:
    steps = peers.handshake()
    return [*steps, (CLIENT, peers.messages(CLIENT, b"hello")), (SERVER, peers.messages(SERVER, b"part-1", b"part-2"))]


def in_one_order(names: Collection[str]) -> str:
    return " and ".join(sorted(names))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("SHARED",), WITH_K),
        (("CLIENT_TRANSIENT with S",), EVERYTHING),
        (("CLIENT_TRANSIENT",), set()),
        (("CLIENT_TRANSIENT", "SERVER_PUBLIC"), EVERYTHING),
        (("CLIENT_TRANSIENT", "SERVER_LONGTERM"), EVERYTHING),
        (("CLIENT_TRANSIENT", "SERVER_PUBLIC_TRANSIENT"), WITH_K),
        (("SERVER_TRANSIENT",), WITH_K),
        (("SERVER_TRANSIENT", "SERVER_LONGTERM"), EVERYTHING),
        (("SERVER_PUBLIC_TRANSIENT",), set()),
        (("SERVER_PUBLIC_TRANSIENT", "SERVER_LONGTERM"), WITH_S),
        (("COOKIE_KEY",), WITH_K),
        (("COOKIE_KEY", "SERVER_LONGTERM"), EVERYTHING),
        (("SERVER_LONGTERM",), WITH_S),
        (("SERVER_PUBLIC",), set()),
        (("SERVER_LONGTERM", "SHARED"), EVERYTHING),
    ],
    ids=in_one_order,
)
def test_boxes_that_the_keys_open(labels: tuple[str, ...], expected: set[str], tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = talk(peers)
    found = read(steps, tmp_path, peers.lines(*labels))
    assert opened(found) == expected
    assert len(messages(found)) == (2 if expected >= MESSAGES else 3)
    assert {each["name"] for each in found if each["record"] == "command"} == HANDSHAKE


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("SHARED",), WITH_K),
        (("CLIENT_TRANSIENT with S",), {"HELLO"}),
        (("CLIENT_TRANSIENT with S", "SERVER_PUBLIC_TRANSIENT"), {"HELLO"} | WITH_K),
        (("SERVER_TRANSIENT",), WITH_K),
        (("COOKIE_KEY",), WITH_K),
        (("SERVER_LONGTERM",), {"HELLO"}),
    ],
    ids=in_one_order,
)
def test_boxes_that_the_keys_open_without_a_captured_welcome(
    labels: tuple[str, ...], expected: set[str], tmp_path: Path
) -> None:
    """INITIATE contains the cookie again; only WELCOME contains S'."""
    peers = CurvePeers()
    packets = conversation(talk(peers)).packets
    (welcome,) = [packet for packet in packets if b"WELCOME" in packet.payload]
    cut = replace(welcome, payload=welcome.payload[:30], cut=len(welcome.payload) - 30)
    packets[packets.index(welcome)] = cut
    assert opened(read_packets(packets, tmp_path, peers.lines(*labels))) == expected


def test_the_long_term_keys_of_both_sides_reveal_no_traffic(tmp_path: Path) -> None:
    peers = CurvePeers()
    long_term = f"CURVE_SERVER_LONGTERM {peers.C.hex()} {peers.c.hex()}\n"
    found = read(talk(peers), tmp_path, peers.lines("SERVER_LONGTERM") + long_term)
    assert opened(found) == WITH_S


def test_the_long_term_key_of_the_server_shows_which_server_the_client_wanted(tmp_path: Path) -> None:
    peers, stranger = CurvePeers(), CurvePeers(s=bytes(range(32)))
    found = read(talk(peers), tmp_path, stranger.lines("SERVER_LONGTERM") + peers.lines("SERVER_LONGTERM"))
    assert command(found, "HELLO")["server_longterm_key"] == z85.encode(peers.S)
    assert command(found, "WELCOME")["server_key"] == peers.S_transient
    assert ids(found) == []


def test_the_key_of_another_server_opens_nothing_and_is_nothing_to_remark(tmp_path: Path) -> None:
    found = read(talk(CurvePeers()), tmp_path, CurvePeers(s=bytes(range(32))).lines("SERVER_LONGTERM"))
    assert opened(found) == set()
    assert "server_longterm_key" not in {name for name, value in command(found, "HELLO").items() if value}
    assert ids(found) == []


def test_decrypted_units_replace_the_sealed_ones(tmp_path: Path) -> None:
    """The same frames have the same offsets without keys and with them."""
    peers = CurvePeers()
    steps = [*peers.handshake(), (CLIENT, peers.messages(CLIENT, b"one")), (SERVER, peers.messages(SERVER, b"two"))]
    without, _ = records(Capture(conversation(steps).packets))
    found = read(steps, tmp_path, peers.lines("CLIENT_TRANSIENT with S"))

    def places(found: Found) -> list[tuple[Any, ...]]:
        names = ("record", "side", "offset", "length", "packet", "packet_end")
        return [tuple(each.get(name) for name in names) for each in found if each["record"] in ("command", "message")]

    def offsets(found: Found) -> list[tuple[Any, ...]]:
        return [place[:3] for place in places(found)]

    assert offsets(found) == offsets(without)
    assert [each["packet"] for each in messages(found)] == [each["packet"] for each in messages(without)]


# -- curve.md 8: the vector --------------------------------------------------------------------------------------------


def test_the_peers_of_the_vector_make_its_octets() -> None:
    """The input of the other tests agrees with the specification."""
    peers = CurvePeers.of_the_vector()
    assert (vector.SERVER.public, vector.CLIENT.public) == (peers.S, peers.C)
    assert (peers.S_transient, peers.C_transient) == (vector.SERVER_TRANSIENT.public, vector.CLIENT_TRANSIENT.public)
    assert (peers.k, peers.cookie) == (vector.SHARED, vector.COOKIE)
    assert peers.hello() == vector.HELLO
    assert peers.welcome() == vector.WELCOME
    assert peers.initiate(socket_type="DEALER", identity="") == vector.INITIATE
    assert peers.ready(socket_type="ROUTER") == vector.READY
    assert peers.message(CLIENT, b"hello") == vector.CLIENT_MESSAGE
    assert peers.message(SERVER, b"part-1", flags=1) == vector.SERVER_MESSAGE
    assert peers.message(SERVER, b"part-2").hex().endswith("c0e884260e0f9bd2ab345d80b14d260e8a64a3b1ff8218")
    ping = peers.message(CLIENT, build_command("CURVE", "PING", {"ttl_ms": 0}), COMMAND)
    assert ping.hex().endswith("054a4e9b5fb2488c1654c14e38ea4a43b6978bd72be161ec")


def talk_of_the_vector() -> Steps:
    """Return its octets, framed as in the vectors of tests/vectors.json."""
    sealed = [bytes.fromhex(vector.HEX[f"V-CURVE-0{number}"]) for number in range(1, 9)]
    hello, welcome, initiate, ready, message, _, first_part, ping = sealed
    second_part = "074d4553534147450000000000000003c0e884260e0f9bd2ab345d80b14d260e8a64a3b1ff8218"
    greetings = CurvePeers().handshake()[:2]
    handshake = [(CLIENT, hello), (SERVER, welcome), (CLIENT, initiate), (SERVER, ready)]
    parts = first_part + frame(bytes.fromhex(second_part))
    return [*greetings, *handshake, (CLIENT, message), (SERVER, parts), (CLIENT, ping)]


@pytest.mark.parametrize("label", ["SHARED", "CLIENT_TRANSIENT with S", "SERVER_TRANSIENT", "COOKIE_KEY"])
def test_the_vector_is_read_as_specified(label: str, tmp_path: Path) -> None:
    found = read(talk_of_the_vector(), tmp_path, CurvePeers.of_the_vector().lines(label))
    initiate = command(found, "INITIATE")
    assert initiate["client_longterm_key"] == z85.encode(vector.CLIENT.public)
    assert build_metadata({"socket_type": "DEALER", "identity": ""}) == vector.CLIENT_METADATA
    decrypted = {each["name"]: each["value"] for each in initiate["metadata"]}
    assert decrypted == {"Socket-Type": "DEALER", "Identity": ""}
    assert (command(found, "READY")["socket_type"], initiate["socket_type"]) == ("ROUTER", "DEALER")
    assert contents(found, CLIENT) == [[b"hello"]]
    assert contents(found, SERVER) == [[b"part-1", b"part-2"]]
    ping = command(found, "PING")
    assert (ping["decrypted"], ping["ttl_ms"], ping["context"]) == (True, 0, b"")
    assert ids(found) == []
    (connection,) = [each for each in found if each["record"] == "connection"]
    assert (connection["socket_type_0"], connection["socket_type_1"]) == ("DEALER", "ROUTER")
    assert (connection["identity_0"], connection["messages_0"], connection["messages_1"]) == ("", 1, 1)
    assert connection["handshake"] == "complete"


# -- field trees -------------------------------------------------------------------------------------------------------


def trees(talk: Steps, folder: Path, text: str) -> dict[str, FieldNode]:
    """Return the field trees of commands and messages by name of the command or body of the message; each tiles its
    octets."""
    found: dict[str, FieldNode] = {}
    for batch in Analyser(Options(keys=keys(folder, text), details=True)).run(Capture(conversation(talk).packets)):
        for item, index in batch.in_order():
            for detail in details(item, index):
                leaves = list(detail.tree.leaves())
                ends = [leaf.start + leaf.length for leaf in leaves]
                assert [leaf.start for leaf in leaves] == [detail.offset, *ends[:-1]]
                assert ends[-1] == detail.offset + len(detail.octets)
                values = {leaf.name: leaf.value for leaf in leaves}
                found[str(values.get("zmtp.body", values.get("zmtp.command.name")))] = detail.tree
    return found


def leaves(tree: FieldNode) -> list[tuple[str, Any]]:
    """Return (name, value) of the leaves after nonce and name of the command."""
    every = [(leaf.name, leaf.value) for leaf in tree.leaves()]
    return every[[name for name, _ in every].index("curve.box.authenticator") + 1 :]


def test_the_fields_of_opened_commands(tmp_path: Path) -> None:
    """Each box is a group: its authenticator, and its contents as separate fields."""
    peers = CurvePeers.of_the_vector()
    found = trees(talk_of_the_vector(), tmp_path, peers.lines("CLIENT_TRANSIENT with S"))
    (box,) = [node for node in found["INITIATE"].children if node.name == "curve.initiate.box"]
    assert (box.value, box.children[0].name, box.children[0].length) == (None, "curve.box.authenticator", 16)
    assert leaves(found["HELLO"]) == [("curve.hello.signature", bytes(64))]
    cookie = [("curve.cookie.nonce", vector.COOKIE[:16]), ("curve.cookie.box", vector.COOKIE[16:])]
    assert leaves(found["WELCOME"]) == [("curve.server_transient", vector.SERVER_TRANSIENT.public), *cookie]
    vouch = [("curve.vouch.nonce", bytes(range(0xC0, 0xD0)))]
    assert leaves(found["INITIATE"])[:2] == [("curve.client_longterm", vector.CLIENT.public), *vouch]
    assert leaves(found["INITIATE"])[2][0] == "curve.vouch.box"
    metadata = [(name, value) for name, value in leaves(found["INITIATE"])[3:] if name.startswith("zmtp.metadata")]
    assert [value for _, value in metadata if isinstance(value, str)] == ["Socket-Type", "DEALER", "Identity", ""]
    assert "ROUTER" in [value for _, value in leaves(found["READY"])]


def test_the_fields_of_opened_messages(tmp_path: Path) -> None:
    peers = CurvePeers.of_the_vector()
    found = trees(talk_of_the_vector(), tmp_path, peers.lines("SHARED"))
    assert leaves(found["b'hello'"]) == [("curve.message.flags", 0), ("zmtp.body", b"hello")]
    assert leaves(found["b'part-1'"]) == [("curve.message.flags", 1), ("zmtp.body", b"part-1")]
    (flags,) = [leaf for leaf in found["PING"].leaves() if leaf.name == "curve.message.flags"]
    assert [(bit.name, bit.value) for bit in flags.children] == [
        ("curve.message.flags.more", 0),
        ("curve.message.flags.command", 1),
        ("curve.message.flags.reserved", 0),
    ]
    assert ("zmtp.ping.ttl", 0) in leaves(found["PING"])


def test_fields_of_a_unit_that_stays_closed_are_the_same_without_keys(tmp_path: Path) -> None:
    names = [leaf.name for leaf in trees(talk_of_the_vector(), tmp_path, "# nothing\n")["INITIATE"].leaves()]
    assert names[-2:] == ["curve.nonce.short", "curve.initiate.box"]
