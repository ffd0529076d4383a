"""Records of live traffic without packets equal the records of the file, but are earlier."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.talks import connected, connections, disturbed, packets_of, pushed, snapped
from tests.peer_octets import hello, message
from tests.traffic import Capture, Conversation, Packet, record_of, records
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.stream.negotiation import WAIT_LIMIT
from zmtpscope.dissect.tcp.reassembly import HOLE_TIME

SECOND = 1_000_000_000
LATER = 10 * SECOND


def ticked(packets: list[Packet], size: int, shares: list[float], options: Options) -> list[dict[str, Any]]:
    """Return all records, with ticks between the blocks and after the last one: at these fractions of the time
    between them."""
    analyser = Analyser(options)
    capture = Capture(packets, size)
    analyser.begin(capture.files)
    found: list[dict[str, Any]] = []

    def take(batches: Any) -> None:
        for batch in batches:
            found.extend(record_of(item, index, options) for item, index in batch.in_order())

    for number, block in enumerate(capture):
        take(analyser.feed(block))
        taken = (number + 1) * size
        until = packets[taken].time if taken < len(packets) else block.latest + LATER
        for share in shares:
            take(analyser.tick(block.latest + int((until - block.latest) * share)))
    take(analyser.finish())
    assert not analyser.undecided
    return found


def difference(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[str]:
    """Return the records that only one of two runs has, or has more often."""
    bags = [Counter(repr(sorted(each.items())) for each in found) for found in (one, other)]
    return sorted((bags[0] - bags[1]) + (bags[1] - bags[0]))


SHARES = st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.8, 1.0]), max_size=3).map(sorted)


def without_some(packets: list[Packet], data: st.DataObject) -> list[Packet]:
    lost = data.draw(st.sets(st.integers(0, len(packets) + 5), max_size=3))
    kept = [packet for number, packet in enumerate(packets) if number not in lost]
    return kept or packets


@given(packets=connections(), data=st.data())
def test_ticks_change_no_record(packets: list[Packet], data: st.DataObject) -> None:
    packets = without_some(data.draw(disturbed(data.draw(snapped(packets)))), data)
    options = Options(frames=True)
    found = ticked(packets, data.draw(st.integers(1, 7)), data.draw(SHARES), options)
    assert difference(found, records(Capture(packets), options)[0]) == []


@given(sent=pushed(), data=st.data())
def test_ticks_change_no_record_behind_holes(sent: tuple[list[Packet], list[Any]], data: st.DataObject) -> None:
    stream, other = hello("PUSH") + b"".join(message(*bodies) for bodies in sent[1]), hello("PULL")
    packets = data.draw(packets_of(stream, other, pauses=True, close=data.draw(st.booleans())))
    packets = without_some(data.draw(disturbed(packets)), data)
    found = ticked(packets, data.draw(st.integers(1, 7)), data.draw(SHARES), Options())
    assert difference(found, records(Capture(packets))[0]) == []


def silent_side() -> Conversation:
    """Return a peer that greets a silent side."""
    talk = Conversation()
    talk.send(0, hello("PUSH"))
    talk.acknowledge(1)
    return talk


def test_the_length_of_the_capture_does_not_change_the_order_of_records() -> None:
    """If a peer's octets are lost, the version is decided by silence, or earlier by the end."""
    talk = Conversation()
    talk.send(1, hello("PULL"))
    talk.send(0, hello("PUSH"))
    talk.acknowledge(1)
    packets = [packet for packet in talk.packets if packet.side == 0 or not packet.payload]
    last = packets[-1]
    another = replace(last, ports=(50_001, last.ports[1]), time=last.time + LATER)
    alone, _ = records(Capture(packets))
    beside, _ = records(Capture([*packets, another]))
    names = [(record["record"], record.get("id")) for record in alone]
    assert ("finding", "ZMTP-CONN-02") in names
    assert [(record["record"], record.get("id")) for record in beside if record["conn"] == 1] == names


def lost_packet() -> Conversation:
    """The capture lacks a packet that the other side has acknowledged."""
    talk = connected("PUSH", "PULL")
    begin = len(talk.packets)
    talk.send(0, message(bytes(3000)), cuts=(1000, 2000))
    talk.acknowledge(1)
    del talk.packets[begin + 1]
    return talk


@pytest.mark.parametrize(
    ("talk", "limit", "expected"),
    [(silent_side(), WAIT_LIMIT, {"greeting", "command"}), (lost_packet(), HOLE_TIME, {"gap", "message"})],
    ids=["a silent side", "a lost packet"],
)
def test_time_alone_decides(talk: Conversation, limit: int, expected: set[str]) -> None:
    analyser = Analyser(Options())
    capture = Capture(talk.packets)
    analyser.begin(capture.files)
    for block in capture:
        list(analyser.feed(block))
    begun = next(packet.time for packet in talk.packets if packet.payload) if limit == WAIT_LIMIT else block.latest
    assert list(analyser.tick(begun + limit - 1)) == []
    batches = list(analyser.tick(begun + limit))
    found = {record_of(item, index, Options())["record"] for batch in batches for item, index in batch.in_order()}
    assert expected <= found
    assert list(analyser.tick(begun + limit)) == []


def test_a_packet_that_arrives_too_late_fills_no_hole() -> None:
    """It fills no hole after a tick has given the hole up, nor without ticks."""
    talk = lost_packet()
    missing = connected("PUSH", "PULL")
    missing.send(0, message(bytes(3000)), cuts=(1000, 2000))
    late = replace(missing.packets[-2], time=talk.time + HOLE_TIME + SECOND)
    talk.packets.append(late)
    talk.wait(2 * SECOND)
    talk.send(0, message(b"x"))
    whole, analyser = records(Capture(talk.packets))
    assert analyser.summary.sums.late == len(late.payload)
    assert difference(ticked(talk.packets, 1, [0.9], Options()), whole) == []


def test_connections_that_wait_for_nothing_are_not_visited(monkeypatch: pytest.MonkeyPatch) -> None:
    analyser = Analyser(Options(frames=True))  # nothing takes the fast path
    talk = connected("PUSH", "PULL")
    capture = Capture(talk.packets)
    analyser.begin(capture.files)
    for block in capture:
        list(analyser.feed(block))
    assert not analyser.undecided
    monkeypatch.setattr(analyser, "_advance", None)
    monkeypatch.setattr(analyser.flows, "tick", None)
    assert list(analyser.tick(block.latest + LATER)) == []
