"""Outages: records of octets that are retransmitted again and again, and near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.talks import SECOND, connected
from tests.peer_octets import hello, message
from tests.traffic import Capture, Conversation, Packet, records
from zmtpscope.capture.segments import ACK, FIN, PSH
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.tcp.stalls import MAX_APART
from zmtpscope.export.describe import describe_retransmission

PUSH, PULL = 0, 1


def talk() -> Conversation:
    """A PUSH that has sent a PULL one message."""
    conversation = connected("PUSH", "PULL")
    conversation.send(PUSH, message(b"taken"))
    conversation.acknowledge(PULL)
    return conversation


def again(conversation: Conversation, octets: bytes) -> None:
    """PUSH sends the last octets that it sent once more."""
    place = conversation.next[PUSH]
    conversation.add(PUSH, ACK | PSH, octets)
    conversation.packets[-1] = replace(conversation.packets[-1], sequence=(place - len(octets)) % (1 << 32))
    conversation.next[PUSH] = place


def cut_off(times: int = 4, *, recovers: bool = False) -> Conversation:
    """Nothing of a message arrives that PUSH sends again, after 0.25 s, 0.5 s and so on."""
    conversation = talk()
    conversation.send(PUSH, message(b"lost"))
    for number in range(times):
        conversation.wait(SECOND * (1 << number) // 4)
        again(conversation, message(b"lost"))
    if recovers:
        conversation.acknowledge(PULL)
        conversation.send(PUSH, message(b"more"))
        conversation.acknowledge(PULL)
    return conversation


def lost_acknowledgments(times: int = 4, *, recovers: bool = False) -> Conversation:
    """PUSH sends a message again and again that PULL has acknowledged, as the capture shows."""
    conversation = talk()
    for number in range(times):
        conversation.wait(SECOND * (1 << number) // 4)
        again(conversation, message(b"taken"))
        conversation.acknowledge(PULL)
    if recovers:
        conversation.send(PUSH, message(b"more"))
        conversation.acknowledge(PULL)
    return conversation


def outages_of(packets: list[Packet], size: int = 1 << 30) -> list[dict[str, Any]]:
    return [record for record in records(Capture(packets, size))[0] if record["record"] == "retransmission"]


def test_an_outage_that_the_capture_ends_within() -> None:
    (outage,) = outages_of(cut_off().packets)
    assert (outage["side"], outage["packet"], outage["offset"]) == (PUSH, 9, len(hello("PUSH") + message(b"taken")))
    assert (outage["retransmissions"], outage["answers"], outage["keepalive_probes"]) == (4, 0, 0)
    assert (outage["smallest"], outage["largest"]) == (len(message(b"lost")),) * 2
    assert (outage["acknowledged"], outage["until"]) == (False, "running")
    assert describe_retransmission(outage) == (
        "10.0.0.1:5555 did not acknowledge offset 99 for 3.503 s, up to the end of the capture: sent again 4 times, "
        "6 octets at a time"
    )


@pytest.mark.parametrize(("recovers", "until"), [(False, "running"), (True, "acknowledged")])
def test_acknowledged_octets_that_are_sent_again_show_that_acknowledgments_are_lost(recovers: bool, until: str) -> None:
    (outage,) = outages_of(lost_acknowledgments(recovers=recovers).packets)
    assert (outage["side"], outage["offset"]) == (PUSH, len(hello("PUSH") + message(b"taken")))
    assert (outage["acknowledged_before"], outage["retransmissions"], outage["until"]) == (True, 4, until)
    assert "sent acknowledged octets again" in describe_retransmission(outage)


def test_acknowledged_octets_that_are_captured_again_at_once_or_sent_again_once_are_no_outage() -> None:
    assert not outages_of(lost_acknowledgments(1).packets)
    copied = talk()
    for _ in range(3):
        again(copied, message(b"taken"))
    copied.wait(2 * SECOND)
    copied.acknowledge(PULL)
    assert not outages_of(copied.packets)


def test_keepalive_probes_after_a_fin_send_no_octets_again() -> None:
    """Some systems put one octet into a probe, which was acknowledged long before."""
    conversation = talk()
    conversation.add(PUSH, ACK | FIN)
    conversation.acknowledge(PULL)
    for _ in range(4):
        conversation.wait(75 * SECOND)
        again(conversation, b"\0")
        conversation.acknowledge(PULL)
    assert not outages_of(conversation.packets)


def test_an_outage_lasts_until_the_capture_ends_in_live_and_in_a_file() -> None:
    """One packet is sent again and never acknowledged, and nothing arrives in the 5 s until the capture ends."""
    packets = cut_off(1).packets
    until = packets[-1].time + 5 * SECOND
    analyser = Analyser(Options(payloads=None))
    analyser.begin(["test.pcap"])
    for block in Capture(packets):
        list(analyser.feed(block))
    list(analyser.tick(until))
    live = [record.values for record in analyser.ongoing().outages]
    written = [record.values for batch in analyser.finish(last=until) for record in batch.records]
    assert live == [values for values in written if values["record"] == "retransmission"]
    assert [values["duration_ns"] for values in live] == [5 * SECOND]


def test_an_outage_that_is_mended() -> None:
    (outage,) = outages_of(cut_off(recovers=True).packets)
    assert (outage["acknowledged"], outage["until"], outage["until_ns"]) == (
        True,
        "acknowledged",
        outage["ts_ns"] + outage["duration_ns"],
    )


def test_data_that_tcp_recovers_at_once_is_no_outage() -> None:
    assert outages_of(cut_off(2, recovers=True).packets) == []


def test_a_packet_that_was_captured_twice_is_none() -> None:
    packets = [packet for packet in cut_off(0, recovers=True).packets for _ in (1, 2)]
    assert outages_of(packets) == []


def lossy(times: int, copies: int = 1) -> Conversation:
    """PUSH sends messages, some of them twice; all packets are captured `copies` times."""
    conversation = talk()
    for number in range(3 * times):
        conversation.send(PUSH, message(b"one"))
        if number % 3 == 0:
            conversation.wait(SECOND // 5)
            again(conversation, message(b"one"))
        conversation.acknowledge(PULL)
    conversation.packets = [packet for packet in conversation.packets for _ in range(copies)]
    return conversation


@pytest.mark.parametrize("size", [1, 7, 1 << 30])
def test_many_lost_packets_have_one_record_at_the_end(size: int) -> None:
    (record,) = outages_of(lossy(12).packets, size)
    assert (record["count"], record["retransmissions"], record["until"]) == (12, 12, "acknowledged")
    assert describe_retransmission(record).startswith(
        "10.0.0.1:5555 did not acknowledge offset 99 and later octets at once, 12 times: sent again 12 times, 5 octets"
    )


def test_few_lost_packets_and_packets_captured_twice_have_none() -> None:
    assert outages_of(lossy(3).packets) == []
    assert outages_of(lossy(12, copies=2).packets) == []


def test_a_hole_that_is_filled_late_is_a_lost_packet() -> None:
    """Captured at the receiver, which the first copy never reached."""
    conversation = talk()
    for _ in range(9):
        conversation.send(PUSH, message(b"lost"))
        lost = conversation.packets.pop()
        conversation.send(PUSH, message(b"next"))
        conversation.wait(SECOND // 5)
        now = replace(conversation.packets[-1], time=conversation.packets[-1].time + SECOND // 5)
        conversation.packets.append(replace(lost, time=now.time))
        conversation.acknowledge(PULL)
    (record,) = outages_of(conversation.packets)
    assert (record["count"], record["longest_ns"]) == (9, SECOND // 5)


def test_data_held_back_by_a_closed_window_is_no_outage() -> None:
    conversation, probe = talk(), message(b"kept back")[:1]
    conversation.close_window(PULL)
    conversation.send(PUSH, probe)
    for _ in range(4):
        conversation.next[PUSH] -= len(probe)
        conversation.acknowledge(PULL)
        conversation.next[PUSH] += len(probe)
        conversation.wait(SECOND)
        again(conversation, probe)
    assert outages_of(conversation.packets) == []


def test_keepalive_probes_without_an_answer() -> None:
    conversation = talk()
    for answered in (True, False, False, False):
        conversation.wait(SECOND)
        conversation.next[PUSH] -= 1
        conversation.acknowledge(PUSH)
        conversation.next[PUSH] += 1
        if answered:
            conversation.acknowledge(PULL)
    conversation.wait(SECOND)
    conversation.reset(PUSH)
    (outage,) = outages_of(conversation.packets)
    assert (outage["keepalive_probes"], outage["retransmissions"], outage["until"]) == (3, 0, "disconnected")
    assert describe_retransmission(outage) == (
        "10.0.0.1:5555 did not answer for the last 3.003 s of the connection: 3 keepalive probes had no answer"
    )


def test_a_flapping_link_makes_few_records() -> None:
    conversation = talk()
    for _ in range(2 * MAX_APART):
        conversation.send(PUSH, message(b"x"))
        for _ in range(3):
            conversation.wait(SECOND)
            again(conversation, message(b"x"))
        conversation.acknowledge(PULL)
    found = outages_of(conversation.packets)
    assert [outage["count"] for outage in found] == [1] * MAX_APART + [MAX_APART]
    assert sum(outage["retransmissions"] for outage in found) == 6 * MAX_APART


TALKS = [cut_off(), cut_off(recovers=True), cut_off(1, recovers=True)]


@pytest.mark.parametrize("conversation", TALKS)
@given(st.integers(1, 20))
def test_blocks_do_not_matter(conversation: Conversation, size: int) -> None:
    packets = conversation.packets
    assert records(Capture(packets, size))[0] == records(Capture(packets))[0]
