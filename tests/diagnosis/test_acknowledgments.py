"""Data that was sent repeatedly and never acknowledged: the network is reported, and no peer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.diagnosis.diagnosing import diagnoses_in
from tests.diagnosis.publishing_traffic import derivation_of
from tests.diagnosis.reading import derive
from tests.diagnosis.requesting_traffic import MS, SERVER, START, Asker, diagnosed, records_from
from tests.diagnosis.talking import Talk
from tests.dissect.test_outages import cut_off, lost_acknowledgments
from tests.peer_octets import GREETING, message, ping, pong, ready
from tests.traffic import Conversation
from zmtpscope.capture import open_captures
from zmtpscope.diagnosis.across.deliveries import deliveries
from zmtpscope.diagnosis.across.why import TopicSearch, answers
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.dissect import Analyser, Options

REPORTED = Path(__file__).parents[2] / "captures/problems/reported"


def test_a_path_that_drops_large_packets_is_named() -> None:
    assert "MTU" in diagnoses_in(REPORTED / "mtu-black-hole.pcap")["not-acknowledged"].hint
    assert "MTU" not in diagnoses_in(REPORTED / "nat-idle-req-hang.pcap")["not-acknowledged"].hint


def test_small_messages_that_tcp_sends_again_together_are_no_large_packet() -> None:
    asker = Asker(("PUSH", "PULL"))
    for _ in range(5):
        asker.send(0, message(b"x" * 300))
        asker.acknowledge(1)
    start = asker.next[0]
    together = message(b"y" * 300) * 5
    asker.send(0, together, cuts=range(0, len(together), len(together) // 5))
    for _ in range(4):
        asker.pause(1000)
        asker.next[0] = start
        asker.send(0, together)
    (diagnosis,) = diagnosed(asker, rule="not-acknowledged")
    assert diagnosis.text.startswith("PULL 10.0.0.1:5555 acknowledges no data of PUSH 10.0.0.2")
    assert "MTU" not in diagnosis.hint


def test_a_large_message_beside_small_ones_that_are_lost_too_shows_no_small_mtu() -> None:
    small, large = Asker(("PUSH", "PULL")), Asker(("PUSH", "PULL"), at=1)
    for asker, octets in ((small, 20), (large, 3000)):
        asker.send(0, message(b"x" * 20))
        asker.acknowledge(1)
        asker.send(0, message(b"x" * octets))
        resent(asker, 4)
    (diagnosis,) = diagnosed(small, large, rule="not-acknowledged")
    assert "the same on 1 more connection" in diagnosis.text
    assert "MTU" not in diagnosis.hint


def resent(asker: Asker, seconds: int) -> None:
    """The last packet is sent again each second."""
    last = asker.packets[-1]
    for _ in range(seconds):
        asker.pause(1000)
        asker.add(last.side, last.flags, last.payload)
        asker.packets[-1] = asker.packets[-1].__class__(**(vars(asker.packets[-1]) | {"sequence": last.sequence}))
    asker.next[last.side] = (last.sequence + len(last.payload)) % (1 << 32)


def test_new_attempts_of_a_client_whose_data_is_not_acknowledged_follow_from_it() -> None:
    asker = Asker(("PUSH", "PULL"))
    asker.send(0, message(b"lost"))
    resent(asker, 4)
    again = Talk(1, at=6).unanswered(6).conversation
    (explained,) = diagnose(derivation_of(asker, again).knowledge())
    assert explained.diagnosis.rule == "not-acknowledged"
    assert [each.rule for each in explained.consequences] == ["connection-unanswered"]


@pytest.mark.parametrize(("seconds", "severity"), [(4, "error"), (2, None)])
def test_data_sent_again_once_is_not_delivered_without_an_answer(seconds: int, severity: str | None) -> None:
    """A system whose link is down soon stops retransmitting."""
    asker = Asker(("PUSH", "PULL"))
    asker.acknowledge(1)
    asker.send(0, message(b"work"))
    resent(asker, 1)
    other = Asker(at=2000 + 1000 * seconds, host=3)
    found = [each.severity for each in diagnosed(asker, other, rule="not-acknowledged")]
    assert found == ([severity] if severity else [])


def waiting(at: int) -> Conversation:
    """Return a client whose first data is acknowledged only after 2 s; its SYN was answered at once."""
    client = Conversation(ports=(50_000 + at, 5555), start=START + at * MS, hosts=(bytes([10, 0, 0, 2]), SERVER))
    client.send(0, GREETING[:10])
    first = client.packets[-1]
    for _ in range(4):
        client.wait(500 * MS)
        client.add(0, first.flags, first.payload)
        client.packets[-1] = replace(client.packets[-1], sequence=first.sequence)
        client.next[0] = (first.sequence + 10) % (1 << 32)
    client.send(1, GREETING)
    client.send(0, GREETING[10:])
    for side, socket_type in enumerate(("DEALER", "ROUTER")):
        client.send(side, ready(socket_type))
    client.send(0, message(b"hello"))
    client.acknowledge(1)
    return client


def test_connections_that_wait_to_be_accepted_are_no_fault_of_the_network() -> None:
    clients = [waiting(at) for at in (0, 5, 10)]
    (diagnosis,) = diagnosed(*clients, rule="not-acknowledged")
    assert diagnosis.text == (
        "ROUTER 10.0.0.1:5555 did not acknowledge the first data of DEALER 10.0.0.2 for 1.5 s, sent again 4 times: the "
        "connection waited to be accepted, behind others; the same on 2 more connections"
    )
    assert "ZMQ_BACKLOG" in diagnosis.hint
    assert (diagnosis.severity, diagnosis.certainty) == ("note", "likely")


def test_an_outage_of_the_network_affects_established_connections_too() -> None:
    established = Asker(("DEALER", "ROUTER"))
    established.send(0, message(b"work"))
    resent(established, 2)
    established.acknowledge(1)
    (diagnosis,) = diagnosed(established, *(waiting(at) for at in (20, 25, 30)), rule="not-acknowledged")
    assert "on 3 more connections" in diagnosis.text
    assert "check the network" in diagnosis.hint


def losing(times: int, whole: int = 0) -> Asker:
    """A PUSH that sends `times` messages twice, and `whole` once."""
    asker = Asker(("PUSH", "PULL"))
    for number in range(times + whole):
        asker.send(0, message(b"x"))
        if number < times:
            asker.pause(200)
            last = asker.packets[-1]
            asker.add(last.side, last.flags, last.payload)
            asker.packets[-1] = replace(asker.packets[-1], sequence=last.sequence)
            asker.next[0] = (last.sequence + len(last.payload)) % (1 << 32)
        asker.acknowledge(1)
    return asker


def test_a_path_that_loses_packets_is_named_with_its_direction() -> None:
    (diagnosis,) = diagnosed(losing(10, 20), rule="packets-lost")
    assert diagnosis.text.startswith(
        "The path from 10.0.0.2 to 10.0.0.1 loses or reorders packets: data of PUSH 10.0.0.2 was sent again, or "
        "arrived late, 10 times in"
    )
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")


def test_data_that_arrives_within_a_round_trip_may_only_be_reordered() -> None:
    asker = losing(10, 20)
    asker.packets[1:] = [replace(packet, time=packet.time + 100 * MS) for packet in asker.packets[1:]]
    (diagnosis,) = diagnosed(asker, rule="packets-lost")
    assert diagnosis.severity == "note"


@pytest.mark.parametrize("heartbeat", [False, True])
def test_a_request_that_is_still_sent_again_accuses_no_program(heartbeat: bool) -> None:
    """The capture ends a moment after the path was cut: the kernel of the server did not acknowledge the request."""
    asker = Asker(("DEALER", "ROUTER")) if heartbeat else Asker()
    for _ in range(5):
        if heartbeat:
            asker.send(0, ping())
            asker.send(1, pong())
            asker.pause(500)
        asker.ask(b"work")
        asker.answer(b"done")
    asker.send(0, (ping() if heartbeat else b"") + message(b"", b"lost"))
    for pause in (200, 400, 460):
        asker.pause(pause)
        last = asker.packets[-1]
        asker.add(last.side, last.flags, last.payload)
        asker.packets[-1] = replace(asker.packets[-1], sequence=last.sequence)
        asker.next[0] = (last.sequence + len(last.payload)) % (1 << 32)
    other = Asker(at=6000, host=3) if heartbeat else Asker(at=1100, host=3)
    assert not diagnosed(asker, other, rule="request-unanswered")
    for each in diagnosed(asker, other, rule="heartbeat-timeout"):
        assert each.hint.startswith("check the path")


def test_few_lost_packets_among_many_messages_are_a_note() -> None:
    (diagnosis,) = diagnosed(losing(10, 400), rule="packets-lost")
    assert diagnosis.severity == "note"


@pytest.mark.parametrize(("times", "whole", "severity"), [(5, 15, "warn"), (5, 60, None), (3, 0, None)])
def test_few_losses_count_on_a_path_that_carries_little(times: int, whole: int, severity: str | None) -> None:
    found = [each.severity for each in diagnosed(losing(times, whole), rule="packets-lost")]
    assert found == ([severity] if severity else [])


def test_a_request_that_was_acknowledged_hangs_at_the_server() -> None:
    """Its system has the request, so the program is to blame."""
    asker = Asker()
    asker.ask(b"work")
    asker.acknowledge(1)
    asker.pause(5000)
    asker.acknowledge(0)
    assert diagnosed(asker, rule="request-unanswered")
    assert not diagnosed(asker, rule="not-acknowledged")


def test_a_request_that_was_not_is_lost_on_the_way() -> None:
    asker = Asker()
    asker.acknowledge(0)
    asker.ask(b"work")
    resent(asker, 5)
    assert diagnosed(asker, rule="not-acknowledged")
    assert not diagnosed(asker, rule="request-unanswered")
    (request,) = records_from(asker)
    assert request["acknowledged"] is False


def test_a_request_with_a_reply_was_acknowledged() -> None:
    asker = Asker()
    asker.ask(b"work")
    asker.answer(b"done")
    (request,) = records_from(asker)
    assert request["acknowledged"] is True


@pytest.mark.parametrize("conversation", [cut_off(0, recovers=True), cut_off(2, recovers=True)])
def test_data_that_tcp_recovers_at_once_is_not_reported(conversation: Conversation) -> None:
    assert not diagnosed(conversation, rule="not-acknowledged")


@pytest.mark.parametrize(
    ("times", "recovers", "severity"), [(5, False, "error"), (5, True, "warn"), (3, True, "note"), (1, False, None)]
)
def test_acknowledgments_that_are_lost_behind_the_capture_point(
    times: int, recovers: bool, severity: str | None
) -> None:
    knowledge = derivation_of(lost_acknowledgments(times, recovers=recovers)).knowledge()
    found = [each.diagnosis for each in diagnose(knowledge) if each.diagnosis.rule != "clear-text"]
    assert [(each.rule, each.severity) for each in found] == ([("not-acknowledged", severity)] if severity else [])
    assert all(each.certainty == "likely" for each in found)  # on a slow path they may be late, not lost
    assert all("acknowledgments of PULL" in each.text and "way back" in each.hint for each in found)


def test_one_direction_shows_no_acknowledgments() -> None:
    conversation = cut_off()
    conversation.packets = [packet for packet in conversation.packets if packet.side == 0]
    assert not diagnosed(conversation, rule="not-acknowledged")


def test_messages_that_were_not_acknowledged_did_not_arrive() -> None:
    path = REPORTED / "unplugged-heartbeats-untold.pcapng"
    (delivery,) = deliveries(derive(path)[0].knowledge())
    assert (delivery.messages, delivery.unacknowledged) == (23, 3)
    assert why(path, "10.77.0.2") == [
        (1, 23, True, "came"),
        (24, 26, False, "never acknowledged: TCP sent it again for 6.75 s, 5 times, in vain"),
    ]


def test_messages_of_an_outage_that_was_mended_arrived_late() -> None:
    assert why(REPORTED / "link-outage-delays.pcapng", "10.9.7.2") == [
        (1, 34, True, "came"),
        (35, 37, True, "arrived late: TCP retransmitted for 6.25 s, 5 times, until it was acknowledged"),
        (38, 106, True, "arrived, perhaps late: sent right after 6.25 s without any acknowledgment"),
        (107, 150, True, "came"),
    ]


def why(path: Path, peer: str) -> list[tuple[int, int, bool, str]]:
    """Return the result of `check --why` for all messages published to a peer."""
    search, derivation = TopicSearch(b""), Derivation()
    for batch in Analyser(Options(bodies="full")).run(open_captures([str(path)])):
        search.feed(batch)
        derivation.feed(batch)
    (answer,) = answers(search, derivation.knowledge(), peer)
    return [(each.first, each.last, each.reason.came, each.reason.text) for each in answer.ranges]
