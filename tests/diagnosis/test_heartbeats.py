"""PINGs and PONGs are matched by context, and the silent peer is identified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.reading import derive
from tests.diagnosis.requesting_traffic import HANDSHAKE, MS, Asker, diagnosed, records_from
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from tests.peer_octets import message, ping, pong
from tests.traffic import Capture
from zmtpscope.capture.segments import ACK, FIN, PSH
from zmtpscope.diagnosis.rules.heartbeats import SHORT_HINT, TRANSFER_HINT
from zmtpscope.diagnosis.watch import Watch
from zmtpscope.dissect import Analyser, Options

RULE = "heartbeat-timeout"


class Heart(Asker):
    """A DEALER that sends PINGs to a ROUTER."""

    def __init__(self, host: int = 2, at: int = 0, port: int = 5555) -> None:
        super().__init__(("DEALER", "ROUTER"), host, at, port)

    def ping(self, context: bytes = b"", ttl_ms: int = 0) -> None:
        self.send(0, ping(context, ttl_ms=ttl_ms))

    def pong(self, context: bytes = b"") -> None:
        self.send(1, pong(context))

    def beat(self, times: int, every: int = 200) -> None:
        for _ in range(times):
            self.ping()
            self.pong()
            self.pause(every - 2)


def heartbeats(heart: Heart, size: int = 7) -> list[dict[str, Any]]:
    return records_from(heart, size=size, type_="heartbeat")


def test_real_heartbeats_have_round_trips(captures: Path) -> None:
    derivation, records = derive(captures / "problems/heartbeat-answered-late.pcap")
    found = [record.values for record in records if record.type == "heartbeat"]
    assert {values["outcome"] for values in found} == {"answered"}
    assert all(values["rtt_ns"] == values["reply_ts_ns"] - values["ts_ns"] for values in found)
    seen = next(side.heartbeats for side in derivation.knowledge().connections[-1].sides if side.heartbeats is not None)
    assert seen.counts["answered"] == len(found)
    assert 150_000_000 < seen.rtt.most < 250_000_000
    assert 190_000_000 < seen.interval.median < 210_000_000


def test_pongs_answer_the_ping_whose_context_they_repeat() -> None:
    heart = Heart()
    heart.ping(b"one")
    heart.ping(b"two")
    heart.pong(b"two")
    heart.pong(b"one")
    heart.ping(b"x" * 20)
    heart.pong(b"x" * 16)
    assert [values["rtt_ns"] for values in heartbeats(heart)] == [1_000_000, 3_000_000, 1_000_000]


@given(st.lists(st.booleans(), max_size=8), st.sets(st.integers(0, 15), max_size=2), st.integers(1, 9))
def test_outcomes_do_not_depend_on_blocks_and_what_is_lost_is_unknown(
    answered: list[bool], lost: set[int], size: int
) -> None:
    heart = Heart()
    for number, is_answered in enumerate(answered):
        heart.ping(b"%d" % number)
        if is_answered:
            heart.pong(b"%d" % number)
        heart.pause(100)
    heart.acknowledge(0)
    heart.packets = [packet for place, packet in enumerate(heart.packets) if place - HANDSHAKE not in lost]
    whole = heartbeats(heart, size=1000)
    assert heartbeats(heart, size) == whole
    assert {values["outcome"] for values in whole} <= {"answered", "open", "unknown"}


@pytest.mark.parametrize("size", [1, 1000])
def test_a_pong_may_be_read_before_its_ping(size: int) -> None:
    """A packet before the PING arrives late."""
    heart = Heart()
    heart.send(0, message(b"late"))
    heart.ping(b"one")
    heart.pong(b"one")
    late = heart.packets.pop(HANDSHAKE)
    heart.packets.append(replace(late, time=heart.packets[-1].time + 1))
    assert [(values["outcome"], values["rtt_ns"]) for values in heartbeats(heart, size)] == [("answered", 1_000_000)]


def test_a_peer_that_falls_silent_is_to_blame_for_the_end() -> None:
    heart = Heart()
    heart.beat(3)
    for _ in range(3):
        heart.ping()
        heart.pause(200)
    heart.close()
    (diagnosis,) = diagnosed(heart, rule=RULE)
    assert diagnosis.text.startswith("ROUTER 10.0.0.1:5555 does not answer the heartbeats of DEALER 10.0.0.2: nothing")
    assert "DEALER 10.0.0.2 closed 603 ms later" in diagnosis.text
    assert len(diagnosis.evidence) == 3


def left_alone(host: int, at: int) -> Heart:
    heart = Heart(host, at)
    heart.beat(3)
    for _ in range(3):
        heart.ping()
        heart.pause(200)
    heart.close()
    return heart


def test_a_server_that_is_silent_to_several_clients_at_once_is_reported_once() -> None:
    (diagnosis,) = diagnosed(*(left_alone(host, at=50 * host) for host in (2, 3, 4)), rule=RULE)
    assert diagnosis.text.endswith("; it is silent to 3 clients at once: 10.0.0.2, 10.0.0.3, 10.0.0.4")
    assert (diagnosis.count, len(diagnosis.conn_ids)) == (3, 3)
    assert diagnosis.subject == "ROUTER 10.0.0.1:5555 with 3 clients at 10.0.0.1:5555"


def test_clients_that_a_server_leaves_alone_at_different_times_are_distinguished() -> None:
    assert len(diagnosed(left_alone(2, at=0), left_alone(3, at=5000), rule=RULE)) == 2


def test_an_answer_after_the_end_of_the_asker_is_none() -> None:
    """The ROUTER is stopped for 2 s (SIGSTOP), and then answers everything that has arrived."""
    heart = Heart()
    heart.beat(3)
    for _ in range(3):
        heart.ping()
        heart.pause(200)
    heart.add(0, FIN | ACK)
    heart.pause(1000)
    heart.pong()
    heart.answer(b"here I am")
    heart.reset(0)
    (diagnosis,) = diagnosed(heart, rule=RULE)
    assert diagnosis.text.startswith("ROUTER 10.0.0.1:5555 does not answer the heartbeats of DEALER 10.0.0.2: nothing")
    assert "DEALER 10.0.0.2 closed 603 ms later" in diagnosis.text
    assert [values["outcome"] for values in heartbeats(heart)] == ["answered"] * 3 + ["unanswered"] * 3
    assert heartbeats(heart, size=1) == heartbeats(heart, size=1000)


def far_away(milliseconds: int) -> Heart:
    """Return a DEALER that gets READY after this time, and abandons its PING after 300 ms."""
    heart = Heart()
    later = [packet for packet in heart.packets if packet.time > heart.packets[-2].time]
    for place, packet in enumerate(heart.packets):
        if packet in later:
            heart.packets[place] = replace(packet, time=packet.time + milliseconds * MS)
    heart.pause(milliseconds)
    heart.beat(2, every=1000)
    heart.ping()
    heart.pause(299)
    heart.close()
    return heart


def test_a_time_out_below_the_round_trip_time_is_the_mistake() -> None:
    (timeout,) = diagnosed(far_away(500), rule=RULE)
    assert (timeout.severity, timeout.certainty, timeout.hint) == ("warn", "likely", SHORT_HINT)
    assert timeout.text == (
        "ROUTER 10.0.0.1:5555 cannot answer as fast as DEALER 10.0.0.2 expects, which closed 300 ms after its "
        "PING in packet 12: in the handshake an answer took 501 ms"
    )


def at_the_server(at: int, path: int) -> Heart:
    """Return a DEALER that is this far away (ms), captured at its ROUTER, and closes 300 ms after its third PING."""
    heart = Heart(at=at)
    heart.packets = [
        replace(each, time=each.time + path * MS * (place > 2)) for place, each in enumerate(heart.packets)
    ]
    heart.pause(path)
    heart.beat(2, every=1000)
    heart.ping()
    heart.pong()
    heart.pause(298)
    heart.close()
    return heart


@pytest.mark.parametrize(("path", "times", "is_reported"), [(500, 3, True), (500, 2, False), (100, 3, False)])
def test_a_client_that_closes_before_the_pong_can_arrive_has_a_short_time_out(
    path: int, times: int, is_reported: bool
) -> None:
    found = diagnosed(*(at_the_server(4000 * number, path) for number in range(times)), rule=RULE)
    assert [each.hint for each in found] == [SHORT_HINT] * is_reported
    assert all("before the PONG could arrive: the path takes 50" in each.text for each in found)


def test_a_peer_nearby_that_does_not_answer_in_time_is_silent() -> None:
    (timeout,) = diagnosed(far_away(100), rule=RULE)
    assert timeout.text.startswith("ROUTER 10.0.0.1:5555 does not answer the heartbeats")


def test_pings_that_arrived_in_one_segment_do_not_prove_a_silent_peer() -> None:
    """The link was down; TCP retransmitted the waiting PINGs together when it was up again."""
    heart = Heart()
    heart.beat(3)
    heart.pause(3000)
    heart.send(0, 3 * ping())
    heart.pause(43)
    heart.close()
    (diagnosis,) = diagnosed(heart, rule=RULE)
    assert (diagnosis.certainty, diagnosis.severity) == ("likely", "warn")
    assert "ROUTER 10.0.0.1:5555 and DEALER 10.0.0.2 could not reach each other for a while: 3 PINGs" in diagnosis.text
    assert len(diagnosis.evidence) == 1
    assert "the path between" in diagnosis.hint


def cut_off(pings: int, *, asks: bool = True) -> Heart:
    """The link is down for 4 s; the DEALER's octets of this time arrive together, with its FIN."""
    heart = Heart()
    heart.beat(3)
    if asks:
        heart.send(1, ping())
    heart.pause(4000)
    heart.add(0, FIN | ACK | PSH, pings * ping() + message(b"has waited"))
    heart.reset(1)
    return heart


def test_pings_that_arrived_with_the_fin_prove_that_the_way_was_broken() -> None:
    (diagnosis,) = diagnosed(cut_off(3), rule=RULE)
    assert (diagnosis.certainty, diagnosis.severity) == ("proven", "error")
    assert "the path to 10.0.0.2 was broken for 4 s" in diagnosis.text
    assert "the path between" in diagnosis.hint


@pytest.mark.parametrize("heart", [cut_off(1), cut_off(0), cut_off(3, asks=False)])
def test_one_ping_or_none_that_arrived_with_the_fin_proves_nothing(heart: Heart) -> None:
    assert diagnosed(heart, rule=RULE) == []


@pytest.mark.parametrize(("pause", "expected"), [(0, 1), (100, 0)])
def test_an_answer_that_is_answered_with_rst_arrived_behind_the_end(pause: int, expected: int) -> None:
    """No packet reaches the DEALER, and its FIN waits after octets that it sent before."""
    heart = Heart()
    heart.beat(3)
    heart.ping()
    heart.pause(4000)
    heart.pong()
    heart.pause(pause)
    heart.reset(0)
    found = diagnosed(heart, rule=RULE)
    assert len(found) == expected
    assert all(each.text.startswith("ROUTER 10.0.0.1:5555 does not answer the heartbeats") for each in found)


@pytest.mark.parametrize(("waited", "certainty"), [(100, "likely"), (200, "proven")])
def test_a_peer_that_closes_before_its_next_ping_may_have_another_reason(waited: int, certainty: str) -> None:
    heart = Heart()
    heart.beat(3)
    heart.ping()
    heart.pause(waited)
    heart.close()
    (diagnosis,) = diagnosed(heart, rule=RULE)
    assert diagnosis.certainty == certainty


def answers_late(heart: Heart) -> None:
    heart.ping()
    heart.pause(400)
    heart.pong()
    heart.pause(100)


def says_something_else(heart: Heart) -> None:
    heart.ping()
    heart.pause(100)
    heart.answer(b"here I am")
    heart.pause(100)


def leaves_at_once(heart: Heart) -> None:
    heart.ping()
    heart.pause(1)


def keeps_its_word(heart: Heart) -> None:
    heart.ping(ttl_ms=500)
    heart.pong()
    heart.pause(100)


@pytest.mark.parametrize("script", [answers_late, says_something_else, leaves_at_once, keeps_its_word])
def test_a_peer_that_sent_data_is_not_to_blame(script: Any) -> None:
    heart = Heart()
    heart.beat(3)
    script(heart)
    heart.close()
    assert diagnosed(heart, rule=RULE) == []


@pytest.mark.parametrize(("pings", "certainty"), [(1, "likely"), (3, "proven")])
def test_a_ttl_is_over_for_certain_only_if_the_interval_of_pings_is_known(pings: int, certainty: str) -> None:
    """A TTL that is shorter than the interval of PINGs closes connections of working programs."""
    heart = Heart()
    for _ in range(pings):
        heart.ping(ttl_ms=600)
        heart.pong()
        heart.pause(200)
    heart.pause(400)
    heart.add(1, FIN | ACK)
    (diagnosis,) = diagnosed(heart, rule=RULE)
    assert (diagnosis.certainty, diagnosis.severity) == (certainty, "error" if pings > 1 else "warn")
    assert ("ZMQ_HEARTBEAT_IVL" in diagnosis.hint) == (pings == 1)


def test_octets_that_were_not_captured_accuse_no_peer(captures: Path) -> None:
    heart = Heart()
    heart.beat(3)
    heart.ping()
    heart.pong()
    del heart.packets[-1]
    heart.pause(300)
    heart.close()
    assert diagnosed(heart, rule=RULE) == []


# -- nobody closed yet -------------------------------------------------------------------------------------------------


def waiting(pings: int, every: int = 400, answered: int = 3) -> Heart:
    heart = Heart()
    heart.beat(answered, every)
    for _ in range(pings):
        heart.ping()
        heart.pause(every - 1)
    heart.add(0, ACK)
    return heart


def test_a_peer_that_used_to_answer_is_named_at_once() -> None:
    (diagnosis,) = diagnosed(waiting(pings=3), rule=RULE)
    assert diagnosis.text == (
        "ROUTER 10.0.0.1:5555 does not answer the heartbeats of DEALER 10.0.0.2: nothing arrived after the PING in "
        "packet 14, for 1.2 s and 3 PINGs (a PING every 400 ms, 3 before answered in 1 ms)"
    )
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "proven")


@pytest.mark.parametrize(
    "heart",
    [waiting(pings=1), waiting(pings=3, every=200), waiting(pings=3, answered=0)],
    ids=["one PING", "a pause of the process", "a peer that never answers"],
)
def test_a_ping_that_may_still_be_answered_is_not_reported(heart: Heart) -> None:
    assert diagnosed(heart, rule=RULE) == []


def silent_client(port: int) -> Heart:
    """Return a server that sends PINGs to a client without getting answers."""
    heart = Heart(at=port, port=port)
    for _ in range(3):
        heart.send(1, ping())
        heart.send(0, pong())
        heart.pause(398)
    for _ in range(3):
        heart.send(1, ping())
        heart.pause(399)
    heart.add(1, ACK)
    return heart


def test_a_client_that_is_silent_to_two_servers_is_one_diagnosis() -> None:
    (diagnosis,) = diagnosed(silent_client(5555), silent_client(5556), rule=RULE)
    assert diagnosis.text.startswith("DEALER 10.0.0.2 does not answer the heartbeats of ROUTER 10.0.0.1:5555: ")
    assert diagnosis.text.endswith("; the same at 10.0.0.1:5556")


def test_a_peer_whose_own_heartbeats_cease_has_fallen_silent() -> None:
    heart = Heart()
    heart.beat(5)
    for _ in range(3):
        heart.pause(1000)
        heart.answer(b"work")
    (diagnosis,) = diagnosed(heart, rule=RULE)
    assert diagnosis.text.startswith("DEALER 10.0.0.2 has fallen silent: a PING came every 200 ms until packet 16, and")
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")


def test_a_peer_without_heartbeats_that_sends_messages_has_not_fallen_silent() -> None:
    heart = Heart()
    heart.beat(5)
    for _ in range(3):
        heart.pause(1000)
        heart.ask(b"work")
    assert diagnosed(heart, rule=RULE) == []


# -- large messages ----------------------------------------------------------------------------------------------------


def in_transfer(*, is_closed: bool) -> Heart:
    """A PING is sent while a message of the peer arrives."""
    heart = Heart()
    heart.beat(3)
    octets = message(bytes(100_000))
    heart.send(1, octets[:1000])
    for _ in range(3):
        heart.ping()
        heart.pause(600)
        heart.send(1, bytes(1000))
    if is_closed:
        heart.reset(0)
    return heart


def test_a_message_that_still_arrives_is_no_silence() -> None:
    (diagnosis,) = diagnosed(in_transfer(is_closed=True), rule=RULE)
    assert diagnosis.text == (
        "ROUTER 10.0.0.1:5555 was still sending a message when DEALER 10.0.0.2 closed, 1.81 s after its PING in "
        "packet 15: the PONG can only follow the message"
    )
    assert (diagnosis.certainty, diagnosis.hint) == ("likely", TRANSFER_HINT)
    assert diagnosed(in_transfer(is_closed=True), rule="protocol-violation") == []


def test_while_a_message_arrives_its_sender_is_not_silent() -> None:
    assert diagnosed(in_transfer(is_closed=False), rule=RULE) == []
    heart, watch, analyser, found = in_transfer(is_closed=False), Watch(), Analyser(Options(bodies="none")), []
    analyser.begin([None])
    for block in Capture(heart.packets, 1):
        for batch in analyser.feed(block):
            watch.feed(batch)
        found += watch.news(analyser.ongoing())
    assert [each.rule for each in found if each.rule != "clear-text"] == []


@pytest.mark.parametrize("is_lost", [True, False])
def test_live_capture_waits_for_octets_that_may_yet_arrive(is_lost: bool) -> None:
    """Data behind missing octets arrives after the PINGs, so the peer is not silent, as `check` finds at the end."""
    talk = Talk(0).handshake("DEALER", "ROUTER")
    for _ in range(5):
        talk.send(SERVER, ping()).send(CLIENT, pong()).wait(0.5)
    if is_lost:
        talk.conversation.send(CLIENT, message(b"lost"))
        del talk.conversation.packets[-1]
        talk.conversation.send(CLIENT, message(b"next"))
    for _ in range(4):
        talk.conversation.send(SERVER, ping())
        talk.wait(0.5)
    watch, analyser = Watch(), Analyser(Options(bodies="none"))
    analyser.begin([None])
    for batch in analyser.feed(next(iter(Capture(talk.conversation.packets)))):
        watch.feed(batch)
    timeout = {each.rule for each in watch.news(analyser.ongoing())}
    assert ("heartbeat-timeout" in timeout) != is_lost
