"""Cases that broke P1: records depend on packets, never on the boundaries of blocks.

A block is the number of packets that are read at a time. The records of a connection must be the same in one block and
with each packet in a block of its own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.talks import Draw, connected, default_command, packets_of
from tests.dissect.test_zws import talk as zws_talk
from tests.dissect.zre_nodes import Node
from tests.payloads import zre
from tests.peer_octets import hello, message
from tests.suites import examples
from tests.traffic import Capture, Conversation, Packet, record_of
from tests.zws import build_websocket_frame, message_frames
from zmtpscope.capture import open_captures
from zmtpscope.capture.segments import ACK
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.batch import Batch, Record
from zmtpscope.dissect.records.details import Detail, details
from zmtpscope.option_texts import DecodeAs
from zmtpscope.payloads.registry import Registry
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import LARGEST_AWAITED_IDENTITY, build_greeting_2, build_greeting_3
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.websocket import CONTINUATION

EVERYTHING = Options(frames=True, details=True)

IMPOSSIBLE = b"\x02\xff" + bytes(7)
"""A header with a size above 2^63-1: after it the framing is lost."""

ENDLESS_COMMAND = b"\x06" + (1 << 40).to_bytes(8)
"""The header of a command that is too large to wait for."""


FORCED = [DecodeAs("conn", 1, version) for version in ("1.0", "2.0", "3.0")]
FORCED += [DecodeAs("conn", 1, "3.1", mechanism) for mechanism in ("NULL", "CURVE", "GSSAPI")]

RecordAndDetails = tuple[dict[str, Any], list[Detail]]
"""A record, and the octets and packets that it was made from."""


def records_and_details(packets: list[Packet], size: int, options: Options = EVERYTHING) -> list[RecordAndDetails]:
    """Return all records of the packets in blocks of `size`, with the octets and packets that they were made from."""
    found: list[RecordAndDetails] = []
    for batch in Analyser(options).run(Capture(packets, size)):
        for item, index in batch.in_order():
            found.append((record_of(item, index, options), list(details(item, index)) if options.details else []))
    return found


def assert_same_for_any_blocks(packets: list[Packet], options: Options = EVERYTHING) -> None:
    whole = records_and_details(packets, 1 << 30, options)
    assert whole
    for size in (1, 2, 3, 7):
        assert records_and_details(packets, size, options) == whole


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_counted_findings_of_a_kind_end_with_the_last(size: int) -> None:
    """A CURVE nonce goes back repeatedly (real octets, changed). Findings after the tenth become one, which names
    the last packet, whatever the order within blocks."""

    def folded(packets: int) -> list[tuple[int, int, int]]:
        captures = open_captures([str(Path(__file__).with_name("folded-findings.pcap"))])
        captures.most_packets = packets
        found = [record.values for batch in Analyser(Options()).run(captures) for record in batch.records]
        names = "packet", "last_packet", "count"
        return [tuple(each[name] for name in names) for each in found if each.get("id") == "CURVE-09"]

    assert folded(size) == folded(1 << 30)
    assert (45, 45, 10) in folded(size)


def greeting_with_an_endless_identity(socket_type: str) -> bytes:
    return build_greeting_2(socket_type)[:-2] + b"\2" + (1 << 54).to_bytes(8)


def with_an_endless_identity() -> list[Packet]:
    """The identity of one side never ends, and the other side sends data meanwhile."""
    talk = Conversation()
    talk.send(0, greeting_with_an_endless_identity("PUB") + b"begin")
    talk.send(1, build_greeting_2("PUSH"))
    talk.send(0, b"and so on")
    return talk.packets


def with_a_large_identity() -> list[Packet]:
    """An identity arrives that is too large to wait for."""
    size = LARGEST_AWAITED_IDENTITY + 1
    talk = Conversation()
    talk.send(0, build_greeting_2("PUB")[:-2] + b"\2" + size.to_bytes(8) + bytes(size), cuts=range(100, size, 20_000))
    talk.send(1, build_greeting_2("SUB"))
    return talk.packets


def with_an_endless_command() -> list[Packet]:
    talk = connected("PUSH", "PULL")
    talk.send(0, ENDLESS_COMMAND + b"\x04PING" + bytes(500), cuts=(300, 400))
    talk.send(1, default_command("NULL", "ERROR"))
    talk.send(0, bytes(500))
    return talk.packets


def with_a_ready_too_large_to_wait_for() -> list[Packet]:
    """The octets after the header belong to the command and are no early traffic."""
    talk = Conversation()
    body = b"\x05READY" + bytes(1 << 20)
    octets = build_greeting_3() + build_frame(Framing.V2, body, command=True) + message(b"x")
    talk.send(1, hello("PULL")[:64])
    talk.send(0, octets, cuts=range(400, len(octets), 1 << 17))
    talk.wait(3_000_000_000)
    talk.send(1, hello("PULL")[64:])
    talk.close()
    return talk.packets


def with_a_second_ready() -> list[Packet]:
    """Data followed the first READY, which the other side never answered."""
    talk = Conversation()
    talk.send(0, build_greeting_3()[:39])
    talk.send(1, hello("PULL"))
    talk.send(1, hello("PULL")[64:])
    talk.close()
    return talk.packets


def with_a_late_syn() -> list[Packet]:
    """The READY of a SUB was captured before the SYNs of both sides. Its conclusion about the silent side must
    remain."""
    talk = Conversation()
    handshake = talk.packets[:]
    talk.send(0, hello("SUB")[64:])
    return [replace(talk.packets[-1], time=handshake[0].time), *handshake]


def with_a_message_that_an_impossible_size_ends() -> list[Packet]:
    """The frames arrive with one packet, and the impossible size with the next."""
    talk = connected("PUSH", "PULL")
    talk.send(0, b"\1\4pong\1\4from")
    talk.send(1, b"\4\7\4PING\0\0")
    talk.send(0, IMPOSSIBLE)
    talk.send(0, message(b"more"))
    return talk.packets


def with_a_message_that_an_impossible_fragment_ends() -> list[Packet]:
    """The same over WebSocket, where the remaining octets are given up."""
    continued = build_websocket_frame(b"no", CONTINUATION, final=False)
    reserved = bytes([continued[0] | 0x40]) + continued[1:]
    talk = zws_talk()
    talk.send(1, message_frames(False, b"part", b"end")[:7])
    talk.send(0, message_frames(True, b"hello"))
    talk.send(1, reserved)
    return talk.packets


def with_acknowledgments_behind_the_close(octets: int) -> list[Packet]:
    """Acknowledgments after the close do not count: no octets of the greeting were lost that this side lacked."""
    talk = Conversation()
    talk.send(0, build_greeting_3("PLAIN"))
    talk.send(1, build_greeting_3("PLAIN", as_server=True) + IMPOSSIBLE)
    talk.close()
    last = talk.packets[-1]
    talk.packets.append(replace(last, acknowledgment=last.acknowledgment + octets))
    return talk.packets


def with_a_zre_node_that_speaks_before_it_says_who_it_is() -> list[Packet]:
    """The earlier messages are not known to be from the node that READY names."""
    talk = Node(1).connect(Node(2))
    greeting, ready = talk.packets[3].payload[:64], talk.packets[3].payload[64:]
    early = Conversation()
    early.send(0, greeting)
    early.send(1, hello("ROUTER"))
    early.send(0, message(zre.hello("B")))
    early.send(0, ready)
    early.send(0, message(zre.whisper(2), b"hi"))
    return early.packets


@pytest.mark.parametrize(
    "packets",
    [
        pytest.param(with_an_endless_identity(), id="an endless identity"),
        pytest.param(with_a_large_identity(), id="a large identity"),
        pytest.param(with_an_endless_command(), id="an endless command"),
        pytest.param(with_a_ready_too_large_to_wait_for(), id="a large READY"),
        pytest.param(with_a_second_ready(), id="a second READY"),
        pytest.param(with_a_late_syn(), id="a late SYN"),
        pytest.param(with_a_message_that_an_impossible_size_ends(), id="a message in front of an impossible size"),
        pytest.param(with_a_message_that_an_impossible_fragment_ends(), id="a message in front of a strange fragment"),
        pytest.param(with_acknowledgments_behind_the_close(40), id="acknowledgments behind the close"),
        pytest.param(with_acknowledgments_behind_the_close(-40), id="old acknowledgments behind the close"),
        pytest.param(with_a_zre_node_that_speaks_before_it_says_who_it_is(), id="a message in front of READY"),
    ],
)
def test_p1_blocks_of_any_size_give_the_same(packets: list[Packet]) -> None:
    for options in (Options(), EVERYTHING, replace(EVERYTHING, payloads=Registry(), show_secrets=True)):
        assert_same_for_any_blocks(packets, options)


def test_a_unit_too_large_to_wait_for_has_the_octets_of_its_head() -> None:
    """The leftover has only the octets of the header. It is reported when the command ends, here with the capture."""
    found = records_and_details(with_an_endless_identity(), 1 << 30)
    (made,) = (made for record, made in found if record["record"] == "greeting" and record["side"] == 0)
    assert made[0].octets == greeting_with_an_endless_identity("PUB")
    (unfit,) = (record for record, _ in found if record.get("id") == "ZMTP20-GREETING-04")
    assert unfit["side"] == 0  # the greeting of this side ended last


def units(*more: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Draw traffic of 2.0 and 3.x, with and without mistakes; some units end the framing or never end."""
    part = build_frame(Framing.V2, b"part", more=True)
    honest = st.sampled_from([part, part + part, message(b"a", b"end"), message(b""), bytes([0x41]) + part[1:]])
    return st.one_of(honest, honest, st.sampled_from([IMPOSSIBLE, IMPOSSIBLE, b"\2" + (1 << 40).to_bytes(8)]), *more)


@st.composite
def hostile_sides(draw: Draw[Any], version: str) -> bytes:
    """Draw a side with units that are incomplete, end inside a message, or are repeated."""
    if version == "2.0":
        kind = draw(st.sampled_from(["PUB", "PUSH", "PAIR"]))
        greeting = draw(st.sampled_from([build_greeting_2(kind, "me"), greeting_with_an_endless_identity(kind)]))
        return greeting + b"".join(draw(st.lists(units(), max_size=6)))
    commands = st.sampled_from(
        [ENDLESS_COMMAND + b"\x04PING" + bytes(300), b"\4\7\4PING\0\0", default_command("NULL", "ERROR"), b"\4\0"]
    )
    greeting = draw(st.sampled_from([hello("PUSH"), hello("SUB"), build_greeting_3("PLAIN"), build_greeting_3()]))
    return greeting + b"".join(draw(st.lists(units(commands), max_size=6)))


@st.composite
def hostile_connections(draw: Draw[Any]) -> list[Packet]:
    """Draw a connection of two such sides. Some packets are lost, and acknowledgments are random, also after the
    close."""
    version = draw(st.sampled_from(["2.0", "3.1", "3.1"]))
    packets = draw(packets_of(draw(hostile_sides(version)), draw(hostile_sides(version)), close=draw(st.booleans())))
    for _ in range(draw(st.integers(0, 2))):
        del packets[draw(st.integers(0, len(packets) - 1))]
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(max(0, len(packets) - 4), len(packets)) | st.integers(0, len(packets)))
        before = packets[max(0, at - 1)]
        acknowledged = (before.acknowledgment + draw(st.sampled_from([0, 5, -5, 70]))) % (1 << 32)
        following = (before.sequence + len(before.payload) + (before.flags & 3 > 0)) % (1 << 32)
        packets.insert(at, replace(before, sequence=following, acknowledgment=acknowledged, flags=ACK, payload=b""))
    return packets


@examples(300)
@given(packets=hostile_connections(), size=st.integers(1, 7), forced=st.none() | st.sampled_from(FORCED))
def test_p1_blocks_of_any_size_give_the_same_of_hostile_sides(
    packets: list[Packet], size: int, forced: DecodeAs | None
) -> None:
    options = replace(EVERYTHING, decode_as=() if forced is None else (forced,))
    assert records_and_details(packets, size, options) == records_and_details(packets, 1 << 30, options)


def test_findings_about_one_thing_have_one_order() -> None:
    """The order does not depend on which finding was made first: that differs with the blocks."""
    talk = connected("PUSH", "PULL")
    batches = Analyser(Options()).run(Capture(talk.packets))  # type: ignore[arg-type]
    finding = next(record for batch in batches for record in batch.records if record.type == "finding")
    others = [replace(finding, own=finding.own | {"id": id_}) for id_ in ("CURVE-25", "CURVE-10")]

    def records_and_details(records: list[Record]) -> list[str]:
        return [item.values["id"] for item, _ in Batch([None], records=records).in_order() if isinstance(item, Record)]

    assert records_and_details(others) == records_and_details(others[::-1]) == ["CURVE-10", "CURVE-25"]
