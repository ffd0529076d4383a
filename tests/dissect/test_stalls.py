"""Stalls: the records of closed receive windows, and cases without a stall."""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import dpkt
import pytest

from tests.dissect.talks import SECOND, connected
from tests.peer_octets import hello, message
from tests.readings import CAPTURES, read
from tests.traffic import Capture, Conversation, Packet, records
from zmtpscope.capture.segments import ACK, FIN, SYN
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.tcp.closed_windows import SHORTEST
from zmtpscope.dissect.tcp.stalls import MAX_APART
from zmtpscope.export.describe import describe_stall

MILLISECOND = SECOND // 1000
PUSH, PULL = 0, 1


def talk(*, syn: bool = True) -> Conversation:
    """Return a PUSH that has sent one message to a PULL."""
    conversation = connected("PUSH", "PULL", syn=syn)
    conversation.send(PUSH, message(b"taken"))
    return conversation


def probe(conversation: Conversation, octets: bytes = b"") -> None:
    """PUSH probes the window: with the last octet again, or with the next one (`octets`)."""
    conversation.add(PUSH, ACK, octets)
    place = conversation.next[PUSH] - len(octets)
    behind = 0 if octets else 1
    conversation.packets[-1] = replace(conversation.packets[-1], sequence=(place - behind) % (1 << 32))
    conversation.next[PUSH] = place


def stalled(duration: int = 3 * SECOND, probes: int = 0) -> Conversation:
    """The PULL takes nothing for this time, and then continues."""
    conversation = talk()
    conversation.close_window(PULL)
    end = conversation.time + duration
    for _ in range(probes):
        conversation.wait(duration // (probes + 1) - 2 * MILLISECOND)
        probe(conversation)
        conversation.acknowledge(PULL)
    conversation.wait(end - conversation.time - MILLISECOND)
    conversation.open_window(PULL)
    conversation.send(PUSH, message(b"at last"))
    return conversation


def stalls_of(packets: list[Packet], size: int = 1 << 30) -> list[dict[str, Any]]:
    """Return the stalls, which the records of their connections count."""
    found, analyser = records(Capture(packets, size))
    stalls = [record for record in found if record["record"] == "stall"]
    for connection in (record for record in found if record["record"] == "connection"):
        for side in (PUSH, PULL):
            own = [stall for stall in stalls if (stall["conn"], stall["side"]) == (connection["conn"], side)]
            assert connection[f"stalls_{side}"] == sum(stall["count"] for stall in own)
            assert connection[f"stalled_ns_{side}"] == sum(stall["duration_ns"] for stall in own)
    assert analyser.summary.stalls == sum(stall["count"] for stall in stalls)
    assert analyser.summary.stalled == sum(stall["duration_ns"] for stall in stalls)
    return stalls


@pytest.mark.parametrize("size", [1, 3, 1 << 30])
@pytest.mark.parametrize("probes", [0, 4])
def test_a_closed_window_stops_the_sender_until_it_is_opened(probes: int, size: int) -> None:
    conversation = stalled(probes=probes)
    (stall,) = stalls_of(conversation.packets, size)
    closing = next(number for number, packet in enumerate(conversation.packets, 1) if packet.is_closed)
    assert (stall["side"], stall["packet"]) == (PUSH, closing)
    assert (stall["src_ip"], stall["dst_ip"], stall["dst_port"]) == ("10.0.0.2", "10.0.0.1", 5555)
    assert (stall["ts_ns"], stall["until_ns"]) == (
        conversation.packets[closing - 1].time,
        conversation.packets[-2].time,
    )
    assert stall["duration_ns"] == stall["longest_ns"] == 3 * SECOND
    assert (stall["until"], stall["window_probes"], stall["count"]) == ("opened", probes, 1)
    taken = len(hello("PUSH") + message(b"taken"))
    assert (stall["source"], stall["offset"], stall["length"]) == (0, taken, 0)


def test_ongoing_events_are_reported_at_any_time_as_at_the_end_of_the_capture() -> None:
    packets, found = stalled(probes=4).packets, []
    analyser = Analyser(Options(payloads=None))
    analyser.begin(["test.pcap"])
    for number, block in enumerate(Capture(packets, 1), 1):
        list(analyser.feed(block))
        running = [record.values for record in analyser.ongoing().stalls]
        at_the_end = [stall for stall in stalls_of(packets[:number]) if stall["until"] == "running"]
        assert running == at_the_end
        found += running
    assert max(stall["duration_ns"] for stall in found) > 2 * SECOND


def test_a_window_is_closed_until_the_capture_ends_in_live_and_in_a_file() -> None:
    conversation = talk()
    conversation.close_window(PULL)
    until = conversation.time + 5 * SECOND
    analyser = Analyser(Options(payloads=None))
    analyser.begin(["test.pcap"])
    for block in Capture(conversation.packets):
        list(analyser.feed(block))
    list(analyser.tick(until))
    live = [record.values for record in analyser.ongoing().stalls]
    written = [record.values for batch in analyser.finish(last=until) for record in batch.records]
    assert live == [values for values in written if values["record"] == "stall"]
    assert [values["until_ns"] for values in live] == [until]


def test_probes_with_an_octet_count_and_end_nothing_whether_that_is_taken_or_not() -> None:
    conversation = talk()
    conversation.close_window(PULL)
    octets = message(b"at last")
    conversation.wait(SECOND)
    probe(conversation, octets[:1])
    conversation.acknowledge(PULL)
    conversation.wait(SECOND)
    conversation.send(PUSH, octets[:1])
    conversation.acknowledge(PULL)
    conversation.wait(SECOND)
    conversation.send(PUSH, octets[1:2])
    conversation.acknowledge(PULL)
    conversation.wait(SECOND)
    conversation.open_window(PULL)
    conversation.send(PUSH, octets[2:])
    (stall,) = stalls_of(conversation.packets)
    assert (stall["until"], stall["window_probes"]) == ("opened", 3)
    assert stall["duration_ns"] == 4 * SECOND + 7 * MILLISECOND


def test_acknowledgments_of_what_the_other_side_sends_meanwhile_are_no_probes() -> None:
    conversation = talk()
    conversation.close_window(PULL)
    for _ in range(5):
        conversation.send(PULL, message(b"the way back is open"))
        conversation.acknowledge(PUSH)
    conversation.wait(SECOND)
    conversation.open_window(PULL)
    (stall,) = stalls_of(conversation.packets)
    assert (stall["side"], stall["window_probes"]) == (PUSH, 0)


def test_both_sides_may_stall_at_once() -> None:
    conversation = talk()
    conversation.close_window(PULL)
    conversation.close_window(PUSH)
    conversation.wait(SECOND)
    conversation.open_window(PULL)
    conversation.wait(SECOND)
    conversation.open_window(PUSH)
    assert [(stall["side"], stall["duration_ns"] // SECOND) for stall in stalls_of(conversation.packets)] == [
        (PUSH, 1),
        (PULL, 2),
    ]


@pytest.mark.parametrize(("duration", "count"), [(SHORTEST - 1, 0), (SHORTEST, 1)])
def test_short_stalls_are_not_reported(duration: int, count: int) -> None:
    assert len(stalls_of(stalled(duration).packets)) == count


def test_a_stall_that_lasts_is_reported_up_to_the_end_of_the_capture() -> None:
    """Other connections continue: a packet that opens the window would have been captured."""
    conversation = talk()
    conversation.close_window(PULL)
    begin = conversation.time
    conversation.wait(SECOND)
    probe(conversation)
    other = Conversation(ports=(50_001, 5555), start=conversation.time + SECOND)
    (stall,) = stalls_of(conversation.packets + other.packets)
    assert (stall["until"], stall["window_probes"]) == ("running", 1)
    assert stall["until_ns"] == other.packets[-1].time
    assert stall["duration_ns"] == other.packets[-1].time - begin


@pytest.mark.parametrize("ends", ["rst of the receiver", "rst of the sender", "fin of the sender"])
def test_a_connection_that_is_closed_ends_it(ends: str) -> None:
    conversation = talk()
    conversation.close_window(PULL)
    begin = conversation.time
    conversation.wait(SECOND)
    if ends == "fin of the sender":
        conversation.add(PUSH, FIN | ACK)
    else:
        conversation.reset(PULL if "receiver" in ends else PUSH)
    end = conversation.time
    conversation.wait(SECOND)
    conversation.acknowledge(PULL)
    (stall,) = stalls_of(conversation.packets)
    assert (stall["until"], stall["until_ns"], stall["duration_ns"]) == ("disconnected", end, end - begin)


def test_a_side_that_has_sent_its_fin_has_no_stall() -> None:
    conversation = talk()
    conversation.add(PUSH, FIN | ACK)
    conversation.close_window(PULL)
    conversation.wait(SECOND)
    conversation.open_window(PULL)
    assert stalls_of(conversation.packets) == []


def test_reused_ports_end_a_stall_at_the_last_closed_window() -> None:
    conversation = talk()
    conversation.close_window(PULL)
    conversation.wait(SECOND)
    probe(conversation)
    conversation.acknowledge(PULL)
    last = conversation.time
    again = Conversation(initial=(70_000, 80_000), start=conversation.time + 60 * SECOND)
    again.send(PUSH, hello("PUSH"))
    (stall,) = stalls_of(conversation.packets + again.packets)
    assert (stall["until"], stall["until_ns"]) == ("unseen", last)


@pytest.mark.parametrize("size", [1, 1 << 30])
def test_a_side_that_sends_more_than_a_probe_received_uncaptured_data(size: int) -> None:
    """The packet that opened the window is missing: the stall ends with the last packet that showed a closed window."""
    conversation = stalled(probes=4)
    opening = conversation.packets[-2]
    conversation.packets.remove(opening)
    conversation.wait(60 * SECOND)
    conversation.send(PUSH, message(b"much later"))
    (stall,) = stalls_of(conversation.packets, size)
    last = max(packet.time for packet in conversation.packets if packet.is_closed)
    assert (stall["until"], stall["until_ns"]) == ("unseen", last)
    assert stall["duration_ns"] < 3 * SECOND


def test_a_closed_window_without_its_opening_is_no_stall() -> None:
    conversation = talk()
    conversation.close_window(PULL)
    conversation.closed[PULL] = False
    conversation.wait(60 * SECOND)
    conversation.send(PUSH, message(b"later"))
    assert stalls_of(conversation.packets) == []


def test_a_repeated_old_packet_does_not_announce_a_window() -> None:
    conversation = stalled()
    closing = next(packet for packet in conversation.packets if packet.is_closed)
    conversation.acknowledge(PULL)
    conversation.packets.append(replace(closing, time=conversation.time))
    conversation.wait(60 * SECOND)
    assert [stall["duration_ns"] for stall in stalls_of(conversation.packets)] == [3 * SECOND]


def test_an_old_packet_that_arrives_late_does_not_open_the_window() -> None:
    conversation = talk()
    conversation.acknowledge(PULL)
    early = conversation.packets[-1]
    conversation.send(PUSH, message(b"more"))
    conversation.close_window(PULL)
    conversation.wait(SECOND)
    conversation.packets.append(replace(early, time=conversation.time))
    conversation.wait(SECOND)
    conversation.open_window(PULL)
    (stall,) = stalls_of(conversation.packets)
    assert stall["duration_ns"] == 2 * SECOND + MILLISECOND


@pytest.mark.parametrize("flags", [SYN, SYN | ACK])
def test_syn_announces_no_window(flags: int) -> None:
    conversation = stalled()
    packets = [replace(packet, is_closed=packet.flags == flags or packet.is_closed) for packet in conversation.packets]
    assert len(stalls_of(packets)) == 1


def test_a_capture_of_one_direction_shows_it_too() -> None:
    conversation = stalled(probes=2)
    (stall,) = stalls_of([packet for packet in conversation.packets if packet.side == PULL])
    assert (stall["until"], stall["duration_ns"]) == ("opened", 3 * SECOND)


@pytest.mark.parametrize("size", [1, 7, 1 << 30])
def test_a_window_that_flaps_makes_few_records(size: int) -> None:
    conversation, more = talk(), 300
    durations = [SHORTEST + Random(number).randrange(SECOND) for number in range(MAX_APART + more)]
    for duration in durations:
        conversation.close_window(PULL)
        conversation.wait(duration - MILLISECOND)
        conversation.open_window(PULL)
        conversation.send(PUSH, message(b"a little"))
    conversation.close()
    *apart, others = stalls_of(conversation.packets, size)
    assert [stall["duration_ns"] for stall in apart] == durations[:MAX_APART]
    assert (others["count"], others["duration_ns"]) == (more, sum(durations[MAX_APART:]))
    assert others["longest_ns"] == max(durations[MAX_APART:])
    opened = [
        packet for packet, following in pairwise(conversation.packets) if following.payload == message(b"a little")
    ]
    assert others["until_ns"] == opened[-1].time


def test_stalls_of_other_protocols_are_not_reported() -> None:
    conversation = Conversation()
    conversation.send(PUSH, b"GET / HTTP/1.1\r\n\r\n" * 10)
    conversation.close_window(PULL)
    conversation.wait(SECOND)
    conversation.open_window(PULL)
    conversation.close()
    assert stalls_of(conversation.packets) == []


def test_a_stall_before_zmtp_is_recognised_is_reported_with_it() -> None:
    conversation = Conversation()
    conversation.close_window(PULL)
    conversation.wait(SECOND)
    conversation.open_window(PULL)
    conversation.send(PUSH, hello("PUSH"))
    conversation.send(PULL, hello("PULL"))
    (stall,) = stalls_of(conversation.packets)
    assert (stall["offset"], stall["packet"]) == (0, 4)


@dataclass
class Closed:
    """A period in which a receiver announced a closed window; times in ns."""

    begin: int
    end: int


def closed_windows(path: Path) -> set[tuple[str, int, int]]:
    """Return which side closed its window, when and for how long (10 ms or more): as dpkt reads a capture of packets
    in order."""
    closed_by_side: dict[tuple[bytes, int, bytes, int], list[Closed]] = {}
    is_closed: set[tuple[bytes, int, bytes, int]] = set()
    with path.open("rb") as file:
        for seconds, octets in dpkt.pcap.Reader(file):
            ip = dpkt.ethernet.Ethernet(octets).data
            time = round(seconds * 10**6) * 1000
            here, there = (ip.src, ip.data.sport, ip.dst, ip.data.dport), (ip.dst, ip.data.dport, ip.src, ip.data.sport)
            for each in is_closed & {here, there}:
                closed_by_side[each][-1].end = time
            if ip.data.flags & dpkt.tcp.TH_SYN:
                continue
            if ip.data.win or ip.data.flags & dpkt.tcp.TH_RST:
                is_closed.discard(here)
            elif here not in is_closed:
                is_closed.add(here)
                closed_by_side.setdefault(here, []).append(Closed(time, time))
    return {
        (socket.inet_ntoa(here[0]), each.begin, each.end - each.begin)
        for here, stretches in closed_by_side.items()
        for each in stretches
        if each.end - each.begin >= SHORTEST
    }


@pytest.mark.parametrize(
    ("name", "until"),
    [
        ("slow-receiver", ["running"]),
        ("slow-receiver-recovers", ["opened"]),
        ("receiver-killed-while-full", ["disconnected"]),
        ("receiver-naps", ["opened"] * 7),
        ("receiver-pauses", []),
    ],
)
def test_stalls_of_real_receivers_match_dpkt(name: str, until: list[str]) -> None:
    path = CAPTURES / "problems" / f"{name}.pcap"
    stalls = [record for record in read(path).records if record["record"] == "stall"]
    assert [stall["until"] for stall in stalls] == until
    assert {(stall["dst_ip"], stall["ts_ns"], stall["duration_ns"]) for stall in stalls} == closed_windows(path)


PROBED = stalled(probes=4).packets


@pytest.mark.parametrize(
    ("packets", "line"),
    [
        (PROBED, "10.0.0.1:5555 took nothing for 3.000 s: its receive window was closed (4 window probes)"),
        (stalled(20 * MILLISECOND).packets, "10.0.0.1:5555 took nothing for 20.0 ms: its receive window was closed"),
        (
            PROBED[:-2],
            "10.0.0.1:5555 has taken nothing for 2.400 s, up to the end of the capture: its receive window is closed "
            "(4 window probes)",
        ),
        (
            [packet for packet in PROBED if packet is not PROBED[-2]],
            "10.0.0.1:5555 took nothing for 2.400 s or longer: its receive window was closed (4 window probes)",
        ),
    ],
)
def test_the_text_line_names_the_receiver(packets: list[Packet], line: str) -> None:
    (stall,) = stalls_of(packets)
    assert describe_stall(stall) == line


def test_the_line_of_several_has_their_number_and_the_longest() -> None:
    (stall,) = stalls_of(PROBED)
    stall.update(count=312, duration_ns=4 * SECOND, longest_ns=50 * MILLISECOND, window_probes=1)
    assert describe_stall(stall) == (
        "10.0.0.1:5555 took nothing for 4.000 s in 312 more stretches, the longest of 50.0 ms: its receive window was "
        "closed (1 window probe)"
    )
