"""The seams of the analyser: P1, P8, P9, P10 and P13 of docs/seams.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, zip_longest
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.talks import connected, connections, default_command, disturbed, packets_of, pushed, snapped
from tests.invariants import COMPARING
from tests.peer_octets import hello, message, subscribe
from tests.traffic import Capture, Conversation, Packet, records, steady_records
from zmtpscope.capture.segments import ACK, FIN, SYN
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.details import details
from zmtpscope.dissect.records.leftovers import MAX_PENDING
from zmtpscope.dissect.stream.assembly import FRAME_WEIGHT
from zmtpscope.dissect.tcp.connection import TcpSide
from zmtpscope.zmtp.commands import LARGEST_AWAITED_COMMAND
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.regime import Framing

Sent = tuple[list[Packet], list[tuple[bytes, ...]]]
EVERYTHING = Options(frames=True, details=True)


def stream_of(packets: list[Packet], side: int) -> dict[int, int]:
    """Every octet that a capture has of a side, by stream offset; the first copy wins."""
    initial = next(packet.sequence for packet in packets if packet.side == side and packet.flags & SYN)
    octets: dict[int, int] = {}
    for packet in packets:
        if packet.side == side:
            start = (packet.sequence - initial - 1) % (1 << 32)
            for place, octet in enumerate(packet.payload):
                octets.setdefault(start + place, octet)
    return octets


@given(packets=connections(), data=st.data())
def test_p1_blocks_of_any_size_give_the_same_records(packets: list[Packet], data: st.DataObject) -> None:
    packets = data.draw(disturbed(data.draw(snapped(packets))))
    size = data.draw(st.integers(1, 7))
    whole, _ = records(Capture(packets), EVERYTHING)
    blocks, _ = records(Capture(packets, size), EVERYTHING)
    assert blocks == whole


@given(first=pushed(), second=pushed(), third=pushed(), data=st.data())
def test_p1_clean_and_disturbed_connections_side_by_side(
    first: Sent, second: Sent, third: Sent, data: st.DataObject
) -> None:
    again = [replace(packet, sequence=(packet.sequence + 70_000) % 2**32) for packet in second[0]]
    talks = [data.draw(disturbed(first[0])), second[0], data.draw(disturbed(third[0])), again]
    talks = [
        [replace(packet, ports=(50_000 + number % 3, 5555)) for packet in talk] for number, talk in enumerate(talks)
    ]
    turns = [number for number, talk in enumerate(talks[:3]) for _ in talk]
    order = data.draw(st.permutations(turns)) + [3] * len(talks[3])  # the last takes the ports of the first
    packets = [talks[number].pop(0) for number in order]
    size = data.draw(st.integers(1, 30))
    whole, _ = records(Capture(packets))
    blocks, _ = records(Capture(packets, size))
    assert blocks == whole
    assert sum(record["record"] == "connection" for record in whole) == 4


COMPARE = ("refs", "conn", "packet", "packet_end", "last_packet", "idle_ns", "conn_0", "conn_1")
"""Fields that number connections and packets, name other connections, or depend on the length of the capture."""

STALLS = ("stalls_0", "stalls_1", "stalled_ns_0", "stalled_ns_1")
"""Fields of a connection that also depend on the end of the capture while it is open."""


@given(first=connections(), second=connections(), third=pushed(), data=st.data())
def test_what_learns_of_a_connection_does_not_depend_on_the_others(
    first: list[Packet], second: list[Packet], third: Sent, data: st.DataObject
) -> None:
    """Each has a clock of its own, and clocks that differ by years and run backwards change nothing."""
    talks = [data.draw(disturbed(data.draw(snapped(packets)))) for packets in (first, second, third[0])]
    shifts = [0, data.draw(st.sampled_from([-1, 1])) * 10**17, 500_000_000]
    talks = [
        [replace(packet, ports=(50_000 + number, 5555), time=packet.time + shift) for packet in packets]
        for number, (packets, shift) in enumerate(zip(talks, shifts, strict=True))
    ]
    lost = data.draw(st.sets(st.integers(3, 30), max_size=3))
    talks = [[packet for place, packet in enumerate(packets) if place not in lost] for packets in talks]
    order = data.draw(st.permutations([number for number, packets in enumerate(talks) for _ in packets]))
    left = [list(packets) for packets in talks]
    all_of_them, _ = records(Capture([left[number].pop(0) for number in order], data.draw(st.integers(1, 50))))
    for number, packets in enumerate(talks):
        alone, _ = records(Capture(packets))
        identities = {record["conn_id"] for record in alone if "conn_id" in record}
        numbers = {record["conn"] for record in all_of_them if record.get("conn_id") in identities}
        beside = [record for record in all_of_them if record["conn"] in numbers]
        assert list(map(own_of, filter(is_own, beside))) == list(map(own_of, filter(is_own, alone))), number


def is_own(record: dict[str, Any]) -> bool:
    if record["record"] in ("stall", "retransmission"):
        return record["until"] != "running"  # it lasts to the end of the capture, of any connection
    return record["record"] != "finding" or COMPARING.match(record["id"]) is None


def own_of(record: dict[str, Any]) -> dict[str, Any]:
    left_out = (*COMPARE, *STALLS) if record.get("close") == "open" else COMPARE
    return {name: value for name, value in record.items() if name not in left_out}


def together(*conversations: Conversation) -> list[Packet]:
    """The packets of all in turn, each from ports of its own."""
    packets = [
        [replace(packet, ports=(50_000 + number, 5555)) for packet in conversation.packets]
        for number, conversation in enumerate(conversations)
    ]
    return [packet for turn in zip_longest(*packets) for packet in turn if packet is not None]


def lossy(lost: Callable[[Packet], bool]) -> Conversation:
    """A PUB that sends messages of three frames, and now and then a large one in two packets, to a SUB that
    acknowledges; but for the packets that are lost."""
    talk = Conversation()
    talk.send(0, hello("PUB"), cuts=(10, 64))
    talk.send(1, hello("SUB"), cuts=(10, 64))
    for number in range(90):
        talk.send(0, message(b"ab", b"%03d" % number, b"") if number % 9 else message(b"x" * 2000), cuts=(1448,))
        talk.acknowledge(1)
    talk.close()
    talk.packets = [packet for packet in talk.packets if not lost(packet)]
    return talk


@pytest.mark.parametrize("size", [1, 2, 5, 50])
@pytest.mark.parametrize(
    "lost",
    [
        lambda packet: packet.payload.startswith(b"x" * 500),
        lambda packet: packet.payload[:3] == b"\3\1N" or b"002" in packet.payload,
        lambda packet: 2 < len(packet.payload) < 65 and packet.sequence in (1011, 9011),
        lambda packet: len(packet.payload) == 12 and packet.payload[6:9] not in (b"010", b"020", b"030"),
    ],
    ids=["second half of messages", "inside the greetings", "both greetings", "most messages"],
)
def test_p1_what_is_read_around_holes_does_not_depend_on_blocks(lost: Callable[[Packet], bool], size: int) -> None:
    packets = together(lossy(lost), lossy(lambda packet: False), lossy(lost))
    whole, _ = records(Capture(packets))
    blocks, _ = records(Capture(packets, size))
    assert blocks == whole


@pytest.mark.parametrize("sender", [0, 1])
@pytest.mark.parametrize("octets", [65_000, 100_000, 200_000])
def test_p1_a_side_that_does_not_wait_for_the_other_settles_the_version_alone(octets: int, sender: int) -> None:
    """From 64 KiB on its octets decide, also where the block has the greeting of the other."""
    talk = Conversation()
    stream = hello("PUSH") + message(bytes(300_000))
    talk.send(sender, stream[:octets], cuts=range(0, octets, 20_000))
    talk.send(1 - sender, hello("PULL"))
    talk.send(sender, stream[octets:])
    talk.close()
    steady_records(talk.packets)


def test_p1_a_version_is_settled_by_its_last_octet_after_any_others() -> None:
    talk = Conversation()
    talk.send(1, hello("PULL"), cuts=(10, 64))
    late = talk.packets[-2:]
    del talk.packets[-2:]
    talk.send(0, hello("PUSH") + message(b"x" * 2000))
    talk.packets += late
    talk.send(0, message(b"y"))
    talk.close()
    whole, _ = records(Capture(talk.packets))
    blocks, _ = records(Capture(talk.packets, 1))
    assert blocks == whole
    settled = next(record for record in blocks if record.get("id") == "ZMTP-CONN-06")
    assert settled["packet"] == 6


def test_p1_an_error_later_on_does_not_excuse_a_side_that_went_on_before() -> None:
    talk = Conversation()
    talk.send(0, hello("PUSH"))
    talk.send(1, build_greeting_3("PLAIN", as_server=True))
    for octets in (message(b"x"), default_command("NULL", "ERROR")):
        talk.wait(2_000_000_000)
        talk.send(0, octets)
    talk.close()
    whole, _ = records(Capture(talk.packets))
    blocks, _ = records(Capture(talk.packets, 1))
    assert blocks == whole
    assert [record["packet"] for record in whole if record.get("id") == "ZMTP3X-GREETING-13"] == [6]


def test_p1_a_command_too_large_to_wait_for_is_reported_when_it_is_over() -> None:
    talk = connected("PUSH", "PULL")
    talk.send(0, build_frame(Framing.V2, b"\x04PING" + bytes(LARGEST_AWAITED_COMMAND), command=True)[:600], cuts=(300,))
    talk.send(1, b"\x04\x07\x04PING\0\0")
    talk.packets[-2:] = reversed(talk.packets[-2:])
    whole, _ = records(Capture(talk.packets))
    blocks, _ = records(Capture(talk.packets, 1))
    assert blocks == whole
    pings = [(record["side"], record["complete"]) for record in whole if record.get("name") == "PING"]
    assert pings == [(1, True), (0, False)]


def singly(octets: bytes) -> range:
    """Cuts that make a packet of every octet."""
    return range(1, len(octets))


def with_a_late_syn() -> list[Packet]:
    talk = Conversation()
    talk.send(0, hello("PUSH"), cuts=(10, 64))
    talk.send(1, hello("PULL"))
    return [*talk.packets[1:6], talk.packets[0], *talk.packets[6:]]


def with_an_acknowledgment_in_front_of_the_answer() -> list[Packet]:
    talk = Conversation()
    talk.send(1, hello("PULL"), cuts=(10,))
    talk.acknowledge(0)
    talk.send(0, hello("PUSH"))
    talk.close()
    return [talk.packets[0], talk.packets[5], talk.packets[1], *talk.packets[3:5], *talk.packets[6:]]


def with_a_frame_header_in_front_of_its_body() -> list[Packet]:
    talk = connected("PUSH", "PULL")
    talk.send(0, b"\x80\x28" + bytes(40) + message(b"x"), cuts=(12, 30))
    return talk.packets


def with_an_unlikely_padding_and_half_a_start(padding: bytes) -> list[Packet]:
    talk = Conversation()
    del talk.packets[0], talk.packets[1]
    talk.send(1, hello("PULL"))
    talk.send(0, b"\xff" + padding + hello("PUSH")[9:] + message(b"x"))
    return talk.packets


def with_half_a_start_octet_by_octet() -> list[Packet]:
    talk = Conversation()
    del talk.packets[1]
    talk.send(0, hello("PUSH"))
    octets = b"\xff" + (1).to_bytes(8) + hello("PULL")[9:]
    talk.send(1, octets, cuts=singly(octets))
    return talk.packets


def with_half_a_greeting_that_waits() -> list[Packet]:
    far, second = 1_558_427_520, 1_000_000_000
    return [
        Packet(1, 2**32 - 19, 1001, ACK, b"\xff\0\0\0\0"),
        Packet(1, far, 151, ACK, b"\xff"),
        Packet(1, 2**32 - 14, 1001, ACK, b"\0\0\0\1\x7f\3\1NU"),
        Packet(0, 151, far + 1, ACK),
        Packet(1, far + 9, 151, ACK, b"\x7f\3\1NULL\0", second // 2),
        Packet(0, 1001, 39, ACK, b"\xff", second // 2),
        Packet(0, 151, far + 112, ACK, b"", 6 * second),
        Packet(1, far + 128, 151, FIN | ACK, b"", 7 * second),
        Packet(0, 151, far + 129, FIN | ACK, b"", 7 * second),
    ]


def with_an_open_message_in_front_of_an_invalid_size() -> list[Packet]:
    talk = connected("PUSH", "PULL")
    talk.send(0, message(b"part", b"")[:-2] + b"\2" + b"\xff" * 8, cuts=(6,))
    talk.close()
    return talk.packets


def with_times_that_run_backwards() -> list[Packet]:
    talk = Conversation()
    octets = hello("PUSH")[:40]
    talk.send(0, octets[:30], cuts=singly(octets[:30]))
    talk.wait(4_000_000_000)
    talk.send(0, octets[30:])
    talk.wait(-4_000_000_000)
    talk.send(1, hello("PULL"))
    return talk.packets


@pytest.mark.parametrize(
    "packets",
    [
        pytest.param(with_a_late_syn(), id="the SYN comes late"),
        pytest.param(with_an_acknowledgment_in_front_of_the_answer(), id="an acknowledgment comes early"),
        pytest.param(with_a_frame_header_in_front_of_its_body(), id="a frame comes in pieces"),
        pytest.param(with_an_unlikely_padding_and_half_a_start(bytes([32, *bytes(6), 18])), id="unlikely padding"),
        pytest.param(with_half_a_start_octet_by_octet(), id="a signature octet by octet"),
        pytest.param(with_half_a_greeting_that_waits(), id="half a greeting waits"),
        pytest.param(with_times_that_run_backwards(), id="times run backwards"),
        pytest.param(with_an_open_message_in_front_of_an_invalid_size(), id="a message in front of an invalid size"),
    ],
)
def test_p1_packets_one_by_one_give_the_same_as_all_at_once(packets: list[Packet]) -> None:
    for options in (Options(), EVERYTHING):
        whole, _ = records(Capture(packets), options)
        blocks, _ = records(Capture(packets, 1), options)
        assert whole
        assert blocks == whole


def test_a_syn_that_arrives_late_begins_no_connection() -> None:
    for size in (1, 1 << 30):
        found, _ = records(Capture(with_a_late_syn(), size))
        assert sum(record["record"] == "connection" for record in found) == 1


@given(packets=connections(), data=st.data())
def test_p13_no_octet_is_lost_without_a_word(packets: list[Packet], data: st.DataObject) -> None:
    packets = data.draw(disturbed(data.draw(snapped(packets))))
    packets = [packet for packet in packets if data.draw(st.integers(0, 9)) or packet.flags & SYN]
    found, analyser = records(Capture(packets), Options())
    assert analyser.summary.sums.hold(), analyser.summary.sums
    pings = {record["conn"] for record in found if record["record"] == "connection"}
    if 1 in pings:
        captured = sum(len(packet.payload) for packet in packets)
        assert analyser.summary.sums.captured == captured
    assert_every_loss_is_told_once(found, analyser)


def assert_every_loss_is_told_once(found: list[dict[str, Any]], analyser: Analyser) -> None:
    """The gap records of a connection add up to the losses of its own record, and none has octets of another."""
    gaps = [record for record in found if record["record"] == "gap"]
    for connection in found:
        if connection["record"] == "connection":
            own = [gap for gap in gaps if gap["conn"] == connection["conn"]]
            assert sum(gap["bytes"] for gap in own) == connection["gap_bytes"]
    assert sum(gap["bytes"] for gap in gaps) == analyser.summary.sums.gaps
    assert len(gaps) == analyser.summary.gaps
    places = sorted((gap["conn"], gap["side"], gap["offset"], gap["length"]) for gap in gaps)
    for (*one, offset, length), (*other, start, _) in pairwise(places):
        assert one != other or offset + length <= start


def with_losses_before_it_is_known(losses: int) -> list[Packet]:
    """Side 0 is not read, and many octets are lost, before frames of side 1 show that this is ZMTP."""
    talk = Conversation(syn=False)
    for _ in range(losses):
        talk.add(0, ACK, b"\0" * 50)
        talk.packets[-1] = replace(talk.packets[-1], cut=10)
        talk.next[0] += 10
    talk.send(1, message(b"x" * 30, b"abc") * 10)
    talk.send(0, b"\0" * 50)
    return talk.packets


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("losses", [1, 5, MAX_PENDING + 20])
def test_losses_before_zmtp_is_recognised_are_reported(losses: int, size: int) -> None:
    packets = with_losses_before_it_is_known(losses)
    whole, _ = records(Capture(packets))
    found, analyser = records(Capture(packets, size))
    assert found == whole
    assert analyser.summary.sums.gaps == 10 * losses
    assert analyser.summary.gaps == min(losses, MAX_PENDING + 1)  # of the last it is known behind it
    assert_every_loss_is_told_once(found, analyser)


def test_losses_of_a_side_that_is_left_alone_are_reported() -> None:
    talk = Conversation()
    talk.send(0, hello("PUSH"))
    talk.send(1, b"SSH-2.0-none of ours\r\n")
    talk.send(1, b"lost")
    talk.packets.pop()
    talk.send(1, b"and more that nobody reads")
    talk.close()
    found, analyser = records(Capture(talk.packets))
    assert [record["bytes"] for record in found if record["record"] == "gap"] == [4]
    assert_every_loss_is_told_once(found, analyser)


@given(sent=pushed(), data=st.data())
def test_reordered_and_doubled_packets_change_nothing(
    sent: tuple[list[Packet], list[tuple[bytes, ...]]], data: st.DataObject
) -> None:
    packets, messages = sent
    found, _ = records(Capture(data.draw(disturbed(packets)), 5))
    bodies = [tuple(record["bodies"]) for record in found if record["record"] == "message"]
    assert bodies == messages


@given(sent=pushed(), data=st.data())
def test_p8_the_packets_of_a_unit_hold_its_octets(
    sent: tuple[list[Packet], list[tuple[bytes, ...]]], data: st.DataObject
) -> None:
    packets = data.draw(disturbed(sent[0]))
    capture = Capture(packets, data.draw(st.integers(1, 9)))
    streams = [stream_of(packets, side) for side in (0, 1)]
    initial = [next(p.sequence for p in packets if p.side == side and p.flags & SYN) for side in (0, 1)]
    units = 0
    for batch in Analyser(EVERYTHING).run(capture):
        for item, index in batch.in_order():
            side = item.values["side"] if not hasattr(item, "stream") else item.stream.side
            for detail in details(item, index):
                units += 1
                stop = detail.offset + len(detail.octets)
                assert detail.octets == bytes(streams[side][at] for at in range(detail.offset, stop))
                assert [part.start for part in detail.slices] == [
                    detail.offset,
                    *(part.stop for part in detail.slices[:-1]),
                ]
                assert detail.slices[-1].stop == stop
                for part in detail.slices:
                    packet = capture.packets[part.packet - 1]
                    begin = part.start - (packet.sequence - initial[side] - 1) % (1 << 32)
                    carried = packet.payload[begin : begin + part.stop - part.start]
                    assert carried == detail.octets[part.start - detail.offset : part.stop - detail.offset]
    assert units >= 4


@given(sent=pushed(), data=st.data())
def test_p10_rows_outside_the_damage_stay_and_none_is_invented(
    sent: tuple[list[Packet], list[tuple[bytes, ...]]], data: st.DataObject
) -> None:
    packets, _ = sent
    payloads = [place for place, packet in enumerate(packets) if packet.payload and packet.side == 0]
    lost = set(data.draw(st.lists(st.sampled_from(payloads), min_size=1, max_size=3)))
    captured = [packet for place, packet in enumerate(packets) if place not in lost]
    whole, _ = records(Capture(packets))
    found, analyser = records(Capture(captured))
    real = {record["offset"]: record["bodies"] for record in whole if record["record"] == "message"}
    rows = [record for record in found if record["record"] == "message" and record["complete"]]
    for record in rows:
        if record["confidence"] == "proven":
            assert real[record["offset"]] == record["bodies"]
    initial = packets[0].sequence
    first_loss = min((packets[place].sequence - initial - 1) % (1 << 32) for place in lost)
    sizes = {offset: sum(len(body) + (2 if len(body) < 256 else 9) for body in real[offset]) for offset in real}
    intact = [offset for offset in real if offset + sizes[offset] <= first_loss]
    assert intact == [record["offset"] for record in rows if record["offset"] < first_loss]
    gaps = Counter(record["side"] for record in found if record["record"] == "gap")
    octets = sum(record["bytes"] for record in found if record["record"] == "gap")
    assert gaps[0] > 0
    assert octets == sum(len(packets[place].payload) for place in lost)
    assert analyser.summary.sums.hold()


def noise(kind: str, size: int, seed: int) -> bytes:
    random = Random(seed)
    words = ["alpha", "beta", "GET", "HTTP/1.1", "\r\n", "{", "}", ":", "0", "12"]
    return {
        "zeros": lambda: bytes(size),
        "one octet": lambda: bytes([random.randrange(256)]) * size,
        "random": lambda: random.randbytes(size),
        "text": lambda: " ".join(random.choices(words, k=size // 4)).encode()[:size],
    }[kind]()


@pytest.mark.parametrize("syn", [True, False], ids=["from the start", "midstream"])
@pytest.mark.parametrize("kind", ["zeros", "one octet", "random", "text"])
@pytest.mark.parametrize("seed", range(4))
def test_p10_no_row_is_made_of_other_protocols(kind: str, syn: bool, seed: int) -> None:
    talk = Conversation(syn=syn)
    for side in (0, 1):
        talk.send(side, noise(kind, 100_000, seed * 2 + side), cuts=range(0, 100_000, 1448))
    talk.close()
    found, analyser = records(Capture(talk.packets))
    assert [record for record in found if record["record"] in ("message", "command", "frame")] == []
    assert analyser.summary.sums.hold()


@pytest.mark.parametrize("body", ["zeros", "ones", "zmtp"])
def test_p10_a_hole_inside_a_large_body_invents_nothing(body: str) -> None:
    size = 1 << 20
    octets = {"zeros": bytes(size), "ones": b"\x01" * size}.get(body) or (
        hello("PUB") + message(b"a", b"b" * 50)
    ) * 8192
    talk = connected("PUSH", "PULL")
    talk.send(0, message(b"before") + message(octets) + message(b"behind"), cuts=range(0, size * 2, 1448))
    talk.acknowledge(1)
    talk.close()
    del talk.packets[100:140]
    found, _ = records(Capture(talk.packets, 50))
    rows = [(record["sizes"], record["complete"]) for record in found if record["record"] == "message"]
    assert rows == [([6], True), ([len(octets)], False), ([6], True)]


def kept_octets(analyser: Analyser, side: TcpSide) -> int:
    """Return the number of octets held for a side, with the state of the current message."""
    slot = analyser.fast_path.sessions.slots.get(side.key)
    if slot is not None:
        return int(analyser.fast_path.side_states.memory[slot])
    connection = analyser.connections.get(analyser.flows.connections[side])
    if connection is None:
        return 0
    stream = connection.streams[side.number]
    assembly = stream.messages.in_clear
    octets = sum(map(len, stream.held_octets.parts)) + (0 if assembly.head is None else len(assembly.head.data))
    return octets + FRAME_WEIGHT * assembly.open_frames


@pytest.mark.parametrize("options", [Options(), EVERYTHING], ids=["messages", "frames, too"])
@pytest.mark.parametrize("frames", [99, 100, 101, 250, 300])
def test_p1_a_message_of_too_many_frames_has_the_same_parts(
    monkeypatch: pytest.MonkeyPatch, frames: int, options: Options
) -> None:
    monkeypatch.setattr("zmtpscope.dissect.stream.assembly.MAX_FRAMES", 100)
    octets = message(b"before") + message(*[b"%d" % number for number in range(frames)]) + message(b"behind")
    talk = connected("PUSH", "PULL")
    talk.send(0, octets, cuts=range(5, len(octets), 5))
    talk.close()
    found = [records(Capture(talk.packets, size), options)[0] for size in (1, 7, 1 << 30)]
    assert found[0] == found[1] == found[2]
    messages = [record for record in found[0] if record["record"] == "message"]
    whole, rest = divmod(frames, 100)
    parts = [100] * whole + [rest] * bool(rest)
    assert [record["parts"] for record in messages] == [1, *parts, 1]
    assert [record["complete"] for record in messages] == [True, *[len(parts) == 1] * len(parts), True]


def test_p9_a_body_of_any_announced_size_counts_by_the_octets_that_arrived() -> None:
    talk = Conversation()
    talk.send(0, hello("PUSH") + b"\1\x0a" + bytes(10) + b"\2" + ((1 << 63) - 1).to_bytes(8, "big") + b"abc")
    talk.send(1, hello("PULL"))
    talk.close()
    found, analyser = records(Capture(talk.packets))
    assert [record["bytes_0"] for record in found if record["record"] == "connection"] == [13]
    assert analyser.summary.body_octets == 13


def test_p9_frames_of_all_messages_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zmtpscope.dissect.budget.ALL_HELD", 1 << 16)
    talks = [Conversation(ports=(50_000 + number, 5555)) for number in range(8)]
    for talk in talks:
        talk.send(0, hello("PUSH"))
        talk.send(1, hello("PULL"))
        for _ in range(10):
            talk.send(0, b"\1\0" * 500)
    packets = [talk.packets[place] for place in range(len(talks[0].packets)) for talk in talks]
    analyser = Analyser(Options())
    for block in Capture(packets, 8):
        for _ in analyser.feed(block):
            pass
        held = sum(kept_octets(analyser, side) for side in analyser.flows.sides.values())
        assert held == analyser.sink.budget.held <= (1 << 16) + 500 * FRAME_WEIGHT


def test_p9_what_all_connections_hold_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zmtpscope.dissect.budget.ALL_HELD", 4 << 20)
    talks = [Conversation(ports=(50_000 + number, 5555)) for number in range(16)]
    for talk in talks:
        talk.send(0, hello("PUSH") + b"\x02" + (2 << 20).to_bytes(8, "big"))
        talk.send(1, hello("PULL"))
        talk.send(0, bytes(2 << 20), cuts=range(0, 2 << 20, 1 << 16))
        talk.close()
    packets = [talk.packets[place] for place in range(len(talks[0].packets)) for talk in talks]
    analyser = Analyser(Options())
    kept = []
    for block in Capture(packets, 20):
        for batch in analyser.feed(block):
            kept += [run.head(0) for run in batch.by_sender()]
        sides = analyser.flows.sides.values()
        held = sum(kept_octets(analyser, side) for side in sides)
        assert held == analyser.sink.budget.held <= (4 << 20) + (1 << 17)
    assert len(kept) == 16
    assert bytes(2 << 20) in kept
    assert analyser.sink.budget.held == 0


def test_p9_what_all_sides_subscribe_to_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zmtpscope.dissect.budget.ALL_MEMBERSHIPS", 1 << 18)
    talks = [Conversation(ports=(50_000 + number, 5555)) for number in range(4)]
    for number, talk in enumerate(talks):
        talk.send(0, hello("SUB"))
        talk.send(1, hello("PUB"))
        for place in range(2000 if number else 20):
            talk.send(0, subscribe(b"%06d" % place))
        talk.close()
    analyser = Analyser(Options())
    most, pings = 0, []
    for block in Capture([packet for talk in talks for packet in talk.packets], 500):
        for batch in analyser.feed(block):
            pings += [item.values["conn"] for item in batch.records if item.values.get("id") == "ZMTP-CONN-13"]
        most = max(most, analyser.sink.budget.memberships)
        assert analyser.sink.budget.memberships <= analyser.sink.budget.held
    for batch in analyser.finish():
        pings += [item.values["conn"] for item in batch.records if item.values.get("id") == "ZMTP-CONN-13"]
    assert (1 << 18) * 0.9 < most <= 1 << 18
    assert pings == [2, 3, 4]
    assert analyser.sink.budget.held == analyser.sink.budget.memberships == 0


def test_p9_what_all_searches_hold_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zmtpscope.dissect.budget.ALL_HELD", 1 << 18)
    talks = [Conversation(ports=(50_000 + number, 5555)) for number in range(16)]
    for talk in talks:
        talk.send(0, hello("PUSH"))
        talk.send(1, hello("PULL"))
        talk.add(0, ACK, message(b"the capture lacks this"))
        del talk.packets[-1]
        talk.acknowledge(1)
        talk.send(0, Random(1).randbytes(1 << 17), cuts=range(0, 1 << 17, 1 << 10))
        talk.close()
    packets = [talk.packets[place] for place in range(len(talks[0].packets)) for talk in talks]
    analyser = Analyser(Options())
    most = 0
    for block in Capture(packets, 64):
        list(analyser.feed(block))
        most = max(most, analyser.sink.budget.held)
    assert 1 << 17 < most <= 1 << 18
    list(analyser.finish())
    assert analyser.sink.budget.held == 0
    assert analyser.summary.sums.hold()


@given(first=st.binary(max_size=400), second=st.binary(max_size=400), data=st.data())
def test_p9_no_octets_raise(first: bytes, second: bytes, data: st.DataObject) -> None:
    prefix = data.draw(st.sampled_from([b"", hello("DEALER"), hello("SUB")]))
    packets = data.draw(packets_of(prefix + first, prefix + second, syn=data.draw(st.booleans())))
    _, analyser = records(Capture(data.draw(disturbed(packets)), 3), EVERYTHING)
    assert analyser.summary.sums.hold()


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_p9_framing_may_be_lost_and_found_any_number_of_times(size: int) -> None:
    impossible = b"\x02\x80" + bytes(7)
    talk = connected("PUSH", "PULL")
    for number in range(400):
        messages = [message(b"%03d" % number + bytes([place]) * 9) for place in range(1, 13)]
        talk.add(0, ACK, b"".join(messages) + impossible)
    talk.close()
    found, analyser = records(Capture(talk.packets, size))
    rows = [record for record in found if record["record"] == "message" and record["complete"]]
    assert len(rows) == 400 * 12
    assert analyser.summary.findings["error", "ZMTP3X-FRAME-04"] == 400
    assert analyser.summary.sums.hold()


def test_p9_a_body_that_never_ends_is_not_buffered() -> None:
    talk = Conversation()
    talk.send(0, hello("PUSH") + b"\x02\x7f" + b"\xff" * 7)
    talk.send(1, hello("PULL"))
    for _ in range(64):
        talk.send(0, bytes(1 << 20))
    analyser = Analyser(Options(body_limit=2 << 20))
    for block in Capture(talk.packets, 4):
        for _ in analyser.feed(block):
            pass
        sides = analyser.flows.sides.values()
        assert sum(kept_octets(analyser, side) for side in sides) <= 3 << 20
