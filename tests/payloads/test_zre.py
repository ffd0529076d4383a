"""Messages of ZRE nodes: layouts, names, and rules about their order (zre.md 4, 5, 7 and 8)."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.payloads.reading import ABOUT, assert_tiled, claimed, dissected, leaves_of
from tests.payloads.zre import UUID, command, hello, join, leave, ping, shout, string, whisper
from zmtpscope.findings import FINDINGS
from zmtpscope.payloads.api import Claim, Payload, Settings
from zmtpscope.payloads.radio import Radio
from zmtpscope.payloads.zre.beacon import Beacon
from zmtpscope.payloads.zre.commands import COMMANDS
from zmtpscope.payloads.zre.messages import Zre

Vector = dict[str, Any]

VECTORS: list[Vector] = json.loads((pathlib.Path(__file__).parent.parent / "vectors.json").read_text())["vectors"]
OURS = [vector for vector in VECTORS if vector["transport"] in ("zmtp-frame", "udp")]
CONTENT_FRAMES = "ZRE-13"
"""A finding about the whole message; the vectors contain only the first frame."""

NODE = ABOUT._replace(identity=b"\x01" + UUID)
NODE_1 = ABOUT._replace(identity=UUID)


def node() -> Zre:
    return Zre(Settings())


def findings_of(*messages: tuple[bytes, ...], after_loss: int | None = None) -> list[str]:
    """Return the findings about a side that sends these messages; before the one numbered `after_loss` some may be
    lost."""
    payload = node()
    made = [
        dissected(payload, *message, about=NODE, after_loss=place == after_loss)
        for place, message in enumerate(messages)
    ]
    return [finding.id for each in made for finding in each.findings]


def reader_of(vector: Vector) -> Payload:
    if vector["transport"] == "udp":
        return (Radio if vector["version"] == "udp-radio" else Beacon)(Settings())
    payload = node()
    if vector["state"] != "start":
        payload.node_state.began = True
    return payload


@pytest.mark.parametrize("vector", OURS, ids=lambda vector: vector["id"])
def test_vector(vector: Vector) -> None:
    """Fields and findings have the octets of the vector."""
    octets = bytes.fromhex(vector["hex"])
    made = dissected(reader_of(vector), octets, about=ABOUT, trees=True)
    wanted = [(field["name"], field["start"], field["length"], field["value"]) for field in vector["expect"]["fields"]]
    found = [leaf for leaf in assert_tiled(made, octets) if leaf.name != "payload.unread"]
    assert [(leaf.name, leaf.start, leaf.length) for leaf in found] == [entry[:3] for entry in wanted]
    for leaf, entry in zip(found, wanted, strict=True):
        assert entry[3] in (leaf.value, octets[leaf.start : leaf.start + leaf.length].hex())
    errors = [(each["id"], each["severity"], each["start"], each["length"]) for each in vector["expect"]["errors"]]
    expected = [
        (each.id, each.severity or FINDINGS[each.id].severity, each.start, each.length)
        for each in made.findings
        if each.id != CONTENT_FRAMES
    ]
    assert expected == errors


def test_there_are_vectors_of_every_kind() -> None:
    """The file was found and is the intended one."""
    assert {vector["version"] for vector in OURS} >= {"zre-1", "zre-2", "zre-beacon-1", "zre-beacon-3", "udp-radio"}


def test_hello_is_reported_with_everything_in_it() -> None:
    made = dissected(Zre, hello("alice", ("GLOBAL", "chat"), status=2, headers={"X-ROLE": "boss"}), about=NODE)
    assert made.fields == {
        "command": "HELLO",
        "version": 2,
        "sequence": 1,
        "endpoint": "tcp://10.0.0.2:50000",
        "groups": ["GLOBAL", "chat"],
        "status": 2,
        "name": "alice",
        "headers": {"X-ROLE": "boss"},
        "node": UUID.hex().upper(),
    }
    assert made.summary == "node alice says HELLO, at tcp://10.0.0.2:50000, in groups GLOBAL, chat, X-ROLE=boss"


def test_a_node_is_named_as_it_has_named_itself() -> None:
    payload = node()
    assert dissected(payload, whisper(1), b"hi", about=NODE).summary == "node 000102 whispers: hi"
    dissected(payload, hello("alice"), about=NODE)
    shouted = dissected(payload, shout(2, "CHAT"), b"hello all", about=NODE)
    assert shouted.summary == "node alice shouts to group CHAT: hello all"
    assert shouted.fields["content"] == ["hello all"]
    assert (shouted.fields["name"], shouted.fields["node"]) == ("alice", UUID.hex().upper())


@pytest.mark.parametrize(
    ("octets", "words"),
    [
        (join(2, "CHAT", 1), "node alice joins group CHAT"),
        (leave(2, "CHAT", 1), "node alice leaves group CHAT"),
        (ping(2), "node alice sends PING (2)"),
        (command(7, 2), "node alice answers with PING-OK (2)"),
        (command(8, 2, string("CHAT") + string("0123456789")), "node alice nominates 012345 as leader of group CHAT"),
        (command(9, 2, string("CHAT") + string("0123456789")), "node alice announces 012345 as leader of group CHAT"),
        (command(10, 2), "node alice leaves (GOODBYE)"),
    ],
)
def test_every_command_is_a_sentence(octets: bytes, words: str) -> None:
    payload = node()
    dissected(payload, hello(), about=NODE)
    assert dissected(payload, octets, about=NODE).summary == words


def test_version_1_keeps_its_layout_for_the_whole_connection() -> None:
    """A sequence number of 0x0200 looks like the version octet of version 2 (zre.md 5)."""
    payload = node()
    groups = b"\x01" + string("CHAT")
    rest = string("10.0.0.1") + (50_000).to_bytes(2, "big") + groups + b"\x01" + b"\x01" + string("X-K=v")
    result = dissected(payload, command(1, 1, rest, version=1), about=NODE_1)
    assert result.fields["endpoint"] == "tcp://10.0.0.1:50000"
    assert result.fields["headers"] == {"X-K": "v"}
    payload.node_state.sequence = 0x01FF
    later = dissected(payload, command(6, 0x0200, version=1), about=NODE_1)
    assert (later.fields["command"], later.fields["sequence"]) == ("PING", 0x0200)
    assert [finding.id for finding in later.findings] == ["ZRE-16"]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([(hello(),), (whisper(2), b"x"), (ping(3),)], []),
        ([(whisper(1), b"x")], ["ZRE-03"]),
        ([(hello(sequence=7),)], ["ZRE-04"]),
        ([(hello(),), (ping(3),)], ["ZRE-07"]),
        ([(hello(),), (ping(2),), (ping(2),)], ["ZRE-07"]),
        ([(hello(status=1),), (join(2, "A", 2),), (leave(3, "A", 3),)], []),
        ([(hello(status=255),), (join(2, "A", 0),)], []),
        ([(hello(status=1),), (join(2, "A", 3),)], ["ZRE-10"]),
        ([(hello(groups=("A",), status=1),), (join(2, "A", 2),)], ["ZRE-18"]),
        ([(hello(),), (leave(2, "A", 1),)], ["ZRE-18"]),
        ([(hello(),), (shout(2, "A"),)], ["ZRE-13"]),
        ([(hello(),), (whisper(2), b"1", b"2")], ["ZRE-13"]),
        ([(hello(),), (command(42, 2),)], ["ZRE-15"]),
        ([(hello(),), (ping(2) + b"more",)], ["ZRE-20"]),
        ([(hello(),), (b"no ZRE at all",), (ping(2),)], ["ZRE-01"]),
        ([(hello(),), (command(6, 9, version=9),), (ping(2),)], ["ZRE-02"]),
    ],
)
def test_commands_of_a_node(messages: list[tuple[bytes, ...]], expected: list[str]) -> None:
    assert findings_of(*messages) == expected


@pytest.mark.parametrize(("before", "after"), [(65_535, 0), (65_534, 0)])
def test_sequence_numbers_wrap_where_zyre_and_pyre_wrap(before: int, after: int) -> None:
    payload = node()
    dissected(payload, hello(), about=NODE)
    payload.node_state.sequence = before
    assert [finding.id for finding in dissected(payload, ping(after), about=NODE).findings] == ["ZRE-05"]


def test_losses_of_the_capture_are_no_findings_about_a_node() -> None:
    assert findings_of((hello(),), (ping(9),), after_loss=1) == []
    assert findings_of((ping(9),), (ping(10),), after_loss=0) == []
    assert findings_of((hello(status=1),), (join(9, "A", 5),), (join(10, "B", 6),), after_loss=1) == []


def test_an_identity_that_is_no_uuid_is_reported_once() -> None:
    payload = node()
    about = ABOUT._replace(identity=b"alice")
    made = [dissected(payload, octets, about=about) for octets in (hello(), ping(2))]
    assert [[finding.id for finding in each.findings] for each in made] == [["ZRE-08"], []]


def test_counts_that_cannot_be_true_cost_nothing() -> None:
    """2^32 groups in a frame of 40 octets: nothing is allocated, and the fields before them are shown."""
    octets = command(1, 1, string("tcp://10.0.0.1:50000") + b"\xff\xff\xff\xff" + bytes(10))
    made = dissected(Zre, octets, about=NODE)
    assert made.fields["endpoint"] == "tcp://10.0.0.1:50000"
    assert [finding.id for finding in made.findings] == ["ZRE-06"]


def test_only_zre_is_claimed() -> None:
    assert claimed(Zre, hello()) is Claim.YES
    assert claimed(Zre, ping(7), about=NODE) is Claim.YES
    assert claimed(Zre, b"\xaa\xa1\x63\x02\x00\x01") is Claim.NO
    assert claimed(Zre, b"\xaa\xa1") is Claim.NO
    assert claimed(Zre, hello(), about=NODE._replace(socket_type="PUB")) is Claim.NO


def test_after_hello_every_message_is_claimed() -> None:
    payload = node()
    assert claimed(payload, b"something else") is Claim.NO
    dissected(payload, hello(), about=NODE)
    assert claimed(payload, b"something else") is Claim.YES


def commands() -> st.SearchStrategy[bytes]:
    """Draw commands of any version: complete, cut, changed or with further octets."""
    texts = st.text(max_size=20)
    rest = st.one_of(
        st.binary(max_size=30),
        st.builds(lambda text, status: string(text) + bytes([status]), texts, st.integers(0, 255)),
    )
    whole = st.one_of(
        st.builds(command, st.integers(0, 12), st.integers(0, 65_535), rest, version=st.sampled_from([1, 2, 3, 9])),
        st.builds(
            hello,
            texts,
            st.lists(texts, max_size=3).map(tuple),
            sequence=st.integers(0, 3),
            status=st.integers(0, 255),
            endpoint=texts,
            headers=st.dictionaries(texts, texts, max_size=3),
        ),
    )
    return st.builds(lambda octets, cut: octets[: len(octets) - cut], whole, st.integers(0, 10)) | st.binary(
        max_size=60
    )


@given(
    messages=st.lists(st.lists(commands(), min_size=1, max_size=3).map(tuple), max_size=8),
    losses=st.sets(st.integers(0, 8)),
)
def test_no_message_raises_and_trees_tile(messages: list[tuple[bytes, ...]], losses: set[int]) -> None:
    """Seams P5, P6 and P9: with trees, fields and findings are the same."""
    plain, with_trees = node(), node()
    for place, frames in enumerate(messages):
        lost = place in losses
        one = dissected(plain, *frames, about=NODE, after_loss=lost)
        other = dissected(with_trees, *frames, about=NODE, after_loss=lost, trees=True)
        assert one.protocol == "zre", one.findings
        assert (one.fields, one.summary, one.findings) == (other.fields, other.summary, other.findings)
        assert_shown(other.fields or {}, dict(leaves_of(other, frames)))


def assert_shown(fields: dict[str, Any], shown: dict[str, Any]) -> None:
    """Seam P6: the tree shows the record's values under the same names."""
    for name in ("version", "sequence", "endpoint", "status"):
        if name in fields and f"zre.{name}" in shown:
            assert shown[f"zre.{name}"] == fields[name]
    if "command" in fields and fields["command"] in {each.name for each in COMMANDS.values()}:
        assert COMMANDS[shown["zre.command"]].name == fields["command"]


@given(octets=st.binary(max_size=80) | st.binary(max_size=60).map(lambda rest: b"ZRE\x01" + rest))
@pytest.mark.parametrize("kind", [Beacon, Radio])
def test_no_datagram_raises_and_trees_tile(kind: type[Payload], octets: bytes) -> None:
    claimed(kind, octets)
    made = dissected(kind, octets, trees=True)
    assert made.protocol == kind.name
    assert_tiled(made, octets)
