"""Reading captures that lack octets of a greeting, or begin inside one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.curve import CurvePeers
from tests.curve import conversation as conversation_of
from tests.peer_octets import command, hello, message
from tests.traffic import Capture, Conversation, records
from zmtpscope.dissect import DecodeAs, Options

GREETING = 64
TASKS = [b"task %d" % number for number in range(20)]


def talk(cuts: tuple[int, ...], syn: bool = True) -> Conversation:
    """A PUB and a SUB: the octets up to the messages are cut at `cuts`, then each message is a packet of its own."""
    conversation = Conversation(syn=syn)
    conversation.send(0, hello("PUB"), cuts)
    conversation.send(1, hello("SUB"), cuts)
    for task in TASKS:
        conversation.send(0, message(task))
        conversation.acknowledge(1)
    conversation.close()
    return conversation


def without(conversation: Conversation, lost: dict[int, range]) -> Conversation:
    """The capture lacks the packets of a side that begin in `lost[side]`, an offset into its stream."""
    first = {packet.side: packet.sequence + 1 for packet in reversed(conversation.packets[:2])}
    conversation.packets = [
        packet
        for packet in conversation.packets
        if not packet.payload or packet.sequence - first[packet.side] not in lost.get(packet.side, ())
    ]
    return conversation


def bodies(found: list[dict[str, Any]]) -> list[bytes]:
    return [record["bodies"][0] for record in found if record["record"] == "message"]


@pytest.mark.parametrize("cuts", [(10, 64), (10, 11, 64), (10, 12)])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("size", [1, 1000])
def test_the_other_sides_greeting_shows_the_version(cuts: tuple[int, ...], side: int, size: int) -> None:
    conversation = without(talk(cuts), {side: range(10, GREETING)})
    found, analyser = records(Capture(conversation.packets, size))
    assert bodies(found) == TASKS
    connection = found[-1]
    assert (connection["version"], connection["confidence"]) == ("3.1", "likely")
    assert analyser.summary.sums.hold()


@pytest.mark.parametrize("piece", [1, 9, 10, 11])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("size", [1, 1000])
def test_a_greeting_in_pieces_behind_much_of_the_other_side_is_read(piece: int, side: int, size: int) -> None:
    """If one direction was captured later than the other, its early octets do not wait for the rest of a greeting."""
    conversation = Conversation()
    conversation.send(side, hello("PUSH" if side else "PULL"))
    sent = [message(bytes([number]) * 35_000) for number in range(2)]
    for each in sent:
        conversation.send(side, each)
    conversation.send(1 - side, hello("PULL" if side else "PUSH"), (piece, 12, GREETING))
    conversation.close()
    found, analyser = records(Capture(conversation.packets, size))
    assert [len(body) for body in bodies(found)] == [35_000] * 2
    assert [record["version_announced"] for record in found if record["record"] == "greeting"] == ["3.1", "3.1"]
    assert (found[-1]["version"], found[-1]["handshake"]) == ("3.1", "complete")
    assert not analyser.summary.sums.undissected


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("size", [1, 1000])
def test_the_handshake_of_curve_is_read_behind_a_lost_greeting(side: int, size: int) -> None:
    """Only HELLO shows that the mechanism of the side is CURVE."""
    peers = CurvePeers()
    conversation = without(conversation_of(peers.handshake()), {side: range(GREETING)})
    found, analyser = records(Capture(conversation.packets, size))
    (hello_command,) = [record for record in found if record.get("name") == "HELLO"]
    assert (hello_command["client_key"], hello_command["nonce"]) == (peers.C_transient, 1)
    assert analyser.summary.sums.hold()


@pytest.mark.parametrize("size", [1, 1000])
def test_frames_are_found_where_both_greetings_were_lost(size: int) -> None:
    conversation = without(talk((10, 64)), {0: range(10, 90), 1: range(10, 90)})
    found, analyser = records(Capture(conversation.packets, size))
    assert bodies(found) == TASKS
    assert (found[-1]["version"], found[-1]["handshake"]) == (None, "unseen")
    assert analyser.summary.sums.hold()


@pytest.mark.parametrize("start", range(2, 16))
@pytest.mark.parametrize("behind", [GREETING, GREETING + 27])
def test_a_capture_that_begins_inside_a_greeting_takes_none_of_it_for_frames(start: int, behind: int) -> None:
    """`01 4E`, the minor and the first letter of NULL, begin a frame of 78 octets that ends where the READY of a PUB
    ends."""
    conversation = talk((start, behind))
    conversation.packets = [packet for packet in conversation.packets[3:] if packet.payload[:1] != b"\xff"]
    found, _ = records(Capture(conversation.packets))
    assert bodies(found) == TASKS
    assert [record["name"] for record in found if record["record"] == "command"] == ["READY", "READY"]


def test_octets_after_a_lost_greeting_are_no_greeting() -> None:
    """Nothing was agreed before the hole, so later octets are read as traffic or not at all."""
    conversation = Conversation()
    conversation.send(0, hello("PUB")[:GREETING])
    conversation.send(1, hello("SUB"), (11,))
    del conversation.packets[-1]
    conversation.send(1, b"\3" + (320).to_bytes(8, "big") + b"long" * 80 + message(b"x" * 300))
    conversation.close()
    found, analyser = records(Capture(conversation.packets))
    assert [record["offset"] for record in found if record["record"] == "greeting"] == [0]
    assert analyser.summary.sums.hold()


@pytest.mark.parametrize("pure", [True, False], ids=["alone", "with octets"])
def test_an_acknowledgment_may_not_show_where_the_other_side_began(pure: bool) -> None:
    """It may acknowledge lost octets: `03 01 4E 55` after a lost signature is a 1.0 frame, too."""
    conversation = Conversation()
    conversation.send(1, hello("PUSH")[:10])
    if pure:
        conversation.acknowledge(0)
    conversation.send(0, hello("PULL")[:11])
    conversation.send(1, hello("PUSH")[10:GREETING])
    conversation.send(0, hello("PULL")[11:])
    conversation.send(1, hello("PUSH")[GREETING:])
    for task in TASKS:
        conversation.send(1, message(task))
    conversation.close()
    found, _ = records(Capture([conversation.packets[0], *conversation.packets[4:]]))
    assert bodies(found) == TASKS
    assert found[-1]["version"] in (None, "3.1")


@pytest.mark.parametrize("size", [1, 1000])
def test_trials_that_meet_are_distinguished_by_the_edges_of_segments(size: int) -> None:
    """A request of two empty frames, read one octet late, is an empty frame and one of one octet."""
    conversation = Conversation(syn=False)
    conversation.send(0, message(b"", b""))
    for task in TASKS:
        conversation.send(0, message(b"", task))
    conversation.close()
    found, _ = records(Capture(conversation.packets, size))
    rows = [record["bodies"] for record in found if record["record"] == "message"]
    assert [row for row in rows if row[-1]] == [[b"", task] for task in TASKS]
    assert all(row in ([b"", b""], [b""]) for row in rows if not row[-1])


@pytest.mark.parametrize("kind", ["Modbus", "32-bit lengths", "64-bit lengths"])
def test_lengths_of_other_protocols_are_no_frames(kind: str) -> None:
    """`00 00 00 0C` is an empty message and the header of one of 12 octets; where no start was captured it proves
    nothing."""
    conversation = Conversation(syn=False)
    for number in range(1, 40):
        body = bytes(range(number, number + 12))
        request = {
            "Modbus": number.to_bytes(2) + bytes([0, 0, 0, 6, 1, 3, 0, 0, 0, 2]),
            "32-bit lengths": len(body).to_bytes(4) + body,
            "64-bit lengths": len(body).to_bytes(8) + body,
        }[kind]
        conversation.send(0, request)
        conversation.send(1, request[:-1] + b"\7")
    conversation.close()
    found, _ = records(Capture(conversation.packets))
    assert found == []


def test_a_hello_of_curve_is_read_where_its_greeting_was_lost() -> None:
    """It is still unknown that this side counts its commands."""
    conversation = Conversation(syn=False)
    conversation.send(0, command("CURVE", "HELLO", client_key=bytes(32), nonce=7, box=bytes(80)))
    found, _ = records(Capture(conversation.packets), Options(decode_as=(DecodeAs("conn", 1, "3.1"),)))
    assert [(record["name"], record["nonce"]) for record in found if record["record"] == "command"] == [("HELLO", 7)]
