"""Handshakes that never complete: which side is at fault, and how long the other one waited."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.diagnosing import consequences_of, diagnoses_in, diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from tests.zws import build_request
from zmtpscope.capture.segments import ACK, FIN
from zmtpscope.records import MILLISECOND
from zmtpscope.zmtp.greeting import build_signature


def test_a_client_that_closes_before_ready_arrives_was_not_waited_for() -> None:
    """Its handshake timer is shorter than the path takes."""
    talk = Talk(0).greet(CLIENT).wait(0.6).greet(SERVER).wait(0.8)
    talk.conversation.add(CLIENT, FIN | ACK)
    talk.wait(0.4).ready(SERVER, "REP").wait(0.2)
    talk.conversation.add(SERVER, FIN | ACK)
    assert "handshake-timeout" not in diagnoses_of(talk)


@given(st.integers(1, 30))
def test_a_peer_that_never_speaks_is_reported_once_with_how_long_it_was_waited_for(times: int) -> None:
    found = diagnoses_of(
        *(Talk(number, at=30.1 * number).greet(CLIENT).wait(30).close(CLIENT) for number in range(times))
    )
    diagnosis = found["handshake-timeout"]
    assert list(found) == ["handshake-timeout"]
    assert (diagnosis.count, diagnosis.severity) == (times, "error")
    assert diagnosis.text.startswith(
        "10.0.0.1:5555 accepts connections and sends nothing; 10.0.0.2 gives up after 30 s"
    )
    assert ("every 30.1 s" in diagnosis.text) == (times > 2)


def test_a_peer_that_stops_behind_its_greeting() -> None:
    talk = Talk(0).greet(CLIENT).greet(SERVER).ready(CLIENT, "DEALER").wait(30).close(CLIENT)
    assert "stops during the handshake" in diagnoses_of(talk)["handshake-timeout"].text


def on_a_long_path(number: int, *, seconds: float) -> Talk:
    """A client that connects in 1.6 s, and closes `seconds` after its greeting."""
    talk = Talk(number, at=10 * number)
    packets = talk.conversation.packets
    packets[1:] = [replace(packet, time=packet.time + 1600 * MILLISECOND) for packet in packets[1:]]
    return talk.wait(1.6).greet(CLIENT).wait(seconds).close(CLIENT)


def test_a_client_that_gives_up_within_a_round_trip_does_not_show_a_silent_listener() -> None:
    found = diagnoses_of(*(on_a_long_path(number, seconds=1) for number in range(3)))["handshake-timeout"]
    assert (found.severity, found.certainty) == ("warn", "likely")
    assert found.text.startswith("10.0.0.1:5555 cannot answer as fast as 10.0.0.2 expects: connecting took 1.6 s")
    assert "ZMQ_HANDSHAKE_IVL" in found.hint
    patient = diagnoses_of(*(on_a_long_path(number, seconds=3) for number in range(3)))["handshake-timeout"]
    assert (patient.severity, patient.certainty) == ("error", "proven")


@pytest.mark.parametrize(
    "talk",
    [
        Talk(0).greet(CLIENT).wait(0.2).close(CLIENT),
        Talk(0).greet(CLIENT).wait(30).greet(SERVER).ready(CLIENT, "REQ").ready(SERVER, "REP").close(),
        Talk(0).greet(SERVER).wait(30).close(CLIENT),
    ],
    ids=["impatient", "slow", "visitor"],
)
def test_a_peer_that_did_not_wait_or_was_answered(talk: Talk) -> None:
    assert "handshake-timeout" not in diagnoses_of(talk)


def test_a_capture_with_gaps_accuses_no_peer() -> None:
    talk = Talk(0).greet(CLIENT).greet(SERVER).ready(SERVER, "REP").wait(30).close(CLIENT)
    del talk.conversation.packets[5]
    assert "handshake-timeout" not in diagnoses_of(talk)


def test_while_it_lasts() -> None:
    hanging = Talk(0).greet(CLIENT)
    later = Talk(1, at=12, port=5556).handshake("REQ", "REP")
    assert "has been waiting for 12 s" in diagnoses_of(hanging, later)["handshake-timeout"].text


def test_a_handshake_whose_rest_the_capture_may_have_lost_accuses_no_peer() -> None:
    hanging = Talk(0).greet(CLIENT)
    other = Talk(1, at=1, port=5556).handshake("REQ", "REP").wait(1).message(CLIENT, b"lost").message(CLIENT, b"ask")
    del other.conversation.packets[-4:-2]
    assert "handshake-timeout" not in diagnoses_of(hanging, other.wait(12).message(SERVER, b"reply"))


def test_a_side_that_closes_within_its_greeting_behind_a_command_has_another_reason() -> None:
    def closes(*, ready: bool) -> Talk:
        talk = Talk(0).send(CLIENT, build_signature()).greet(SERVER)
        return (talk.ready(SERVER, "PUB") if ready else talk).close(CLIENT)

    assert "mechanism-mismatch" in diagnoses_of(closes(ready=False))
    assert list(diagnoses_of(closes(ready=True))) == ["handshake-failing"]


def served(*, until: float) -> Talk:
    """A connection on which a REP answers every second until some time, after which the REQ asks once more."""
    talk = Talk(9, at=-5, client=3).handshake("REQ", "REP")
    for _ in range(int(until) + 5):
        talk.multipart(CLIENT, b"", b"question").multipart(SERVER, b"", b"answer").wait(1)
    return talk.multipart(CLIENT, b"", b"last question").wait(12 - until)


def test_a_listener_that_serves_others_has_reached_a_limit() -> None:
    diagnosis = diagnoses_of(Talk(0).greet(CLIENT).wait(12), served(until=12))["handshake-timeout"]
    assert diagnosis.text.startswith(
        "10.0.0.1:5555 accepts connections and sends nothing, although it serves 1 other connection meanwhile; 10.0.0.2"
    )
    assert "limit of open files" in diagnosis.hint


@pytest.mark.parametrize(("waits", "severity"), [(1.5, "note"), (9, "error")])
def test_a_listener_that_is_silent_for_a_moment_may_be_a_proxy_whose_server_restarts(
    waits: float, severity: str
) -> None:
    """It accepts new connections afterwards, so it has reached no limit."""
    silent = Talk(0).greet(CLIENT).wait(waits).close(CLIENT)
    later = Talk(1, at=waits + 0.5).handshake("REQ", "REP").wait(3)
    diagnosis = diagnoses_of(silent, later)["handshake-timeout"]
    assert diagnosis.severity == severity
    assert ("restart" in diagnosis.hint) is (severity == "note")


def test_a_listener_that_hangs_hangs_everywhere() -> None:
    talks = Talk(0).greet(CLIENT), served(until=-1), Talk(1, at=12, port=5556).handshake("REQ", "REP")
    assert "it hangs, is stopped" in diagnoses_of(*talks)["handshake-timeout"].hint
    assert consequences_of("handshake-timeout", *talks) == {"request-unanswered"}


@pytest.mark.parametrize(("later", "is_same"), [(0.5, True), (5, False)])
def test_a_listener_that_hangs_since_a_request_that_was_given_up(later: float, is_same: bool) -> None:
    asked = Talk(9, at=-12).handshake("REQ", "REP")
    for _ in range(5):
        asked.multipart(CLIENT, b"", b"question").multipart(SERVER, b"", b"answer").wait(1)
    asked.multipart(CLIENT, b"", b"last question").wait(6.5 - later).close(CLIENT)
    again = [Talk(number, at=2.3 * number).greet(CLIENT).wait(2).close(CLIENT) for number in range(3)]
    expected = {"request-unanswered"} if is_same else set()
    assert consequences_of("handshake-timeout", asked, *again) == expected


@pytest.mark.parametrize("name", ["plain-status-300", "plain-zap-handler-hangs"])
def test_a_zap_handler_that_is_silent(captures: Path, name: str) -> None:
    found = diagnoses_in(captures / f"security/{name}.pcap")
    assert list(found) == ["authentication-failing"]
    assert found["authentication-failing"].certainty == "likely"


def test_mechanisms_that_differ_are_named_from_all_connections_of_the_two(captures: Path) -> None:
    found = diagnoses_in(captures / "security/mismatch-plain-server-null-client.pcap")
    assert list(found) == ["mechanism-mismatch"]
    assert "10.77.0.1:5571 uses PLAIN and 10.77.0.2 NULL" in found["mechanism-mismatch"].text
    assert found["mechanism-mismatch"].certainty == "proven"


def test_a_mechanism_that_was_not_announced_is_not_reported(captures: Path) -> None:
    diagnosis = diagnoses_in(captures / "security/mismatch-null-server-plain-client.pcap")["mechanism-mismatch"]
    assert "PLAIN" not in diagnosis.text
    assert diagnosis.certainty == "likely"
    assert diagnosis.evidence[0].text.startswith("127.0.0.1 received a complete greeting and closed")


def test_a_name_that_is_no_mechanism_is_the_whole_cause(captures: Path) -> None:
    found = diagnoses_in(captures / "faults/mechanism-lower-case.pcap")
    assert list(found) == ["protocol-violation"]
    assert "(ZMTP3X-GREETING-" in found["protocol-violation"].text
    (evidence, *_) = found["protocol-violation"].evidence
    assert evidence.text.count(" ") > 3, "a sentence, not a code"


def test_a_listener_that_closes_without_a_word_is_a_proxy_rather_than_a_socket_that_refuses() -> None:
    talks = (Talk(number, at=number).send(CLIENT, build_signature(1)).close(SERVER) for number in range(4))
    diagnosis = diagnoses_of(*talks)["handshake-failing"]
    assert "10.0.0.1:5555 closes 2 ms after the greeting of 10.0.0.2, without sending anything, 4" in diagnosis.text
    assert "proxy or port mapping" in diagnosis.hint
    assert "ZAP" not in diagnosis.hint


@pytest.mark.parametrize(("waits", "is_timed"), [((0.4,) * 3, True), ((0.2, 0.4, 0.7), False), ((0.001,) * 3, False)])
def test_a_peer_that_closes_equally_long_after_the_start_has_a_timer(waits: tuple[float, ...], is_timed: bool) -> None:
    talks = (
        Talk(number, at=2 * number).greet(CLIENT).wait(0.3).greet(SERVER).wait(wait).close(CLIENT)
        for number, wait in enumerate(waits)
    )
    diagnosis = diagnoses_of(*talks)["handshake-failing"]
    assert ("after the connection began, while 10.0.0.1:5555 still answers" in diagnosis.text) == is_timed
    assert ("ZMQ_HANDSHAKE_IVL" in diagnosis.hint) == is_timed


def test_that_a_client_whose_handshakes_fail_tries_again_and_again_is_a_consequence() -> None:
    talks = [Talk(n, at=n / 5).send(CLIENT, build_signature(1)).wait(0.1).close(SERVER) for n in range(12)]
    assert list(diagnoses_of(*talks)) == ["handshake-failing"]
    assert consequences_of("handshake-failing", *talks) == {"reconnect-storm"}


def test_a_peer_of_an_old_version_knows_no_security() -> None:
    def closed(number: int) -> Talk:
        talk = Talk(number, at=number).send(CLIENT, build_signature() + b"\x01\x02\0\0")
        return talk.send(SERVER, build_signature() + b"\3").close(SERVER)

    assert "PLAIN or CURVE closes on it" in diagnoses_of(closed(0), closed(1))["handshake-failing"].hint


def test_an_identity_that_libzmq_accepts_is_only_noted() -> None:
    (found,) = diagnoses_of(Talk(0).handshake("DEALER", "ROUTER", identity="\0" * 16)).values()
    assert (found.rule, found.severity) == ("protocol-violation", "note")


@pytest.mark.parametrize("status", [b"426 Upgrade Required", b"404 Not Found", b"502 Bad Gateway"])
def test_a_web_server_that_refuses_the_websocket_is_named(status: bytes) -> None:
    """A proxy that does not pass on the Upgrade header, or a wrong path."""
    talks = []
    for number in range(2):
        talk = Talk(number, at=number).send(CLIENT, build_request("/", "10.0.0.1", b"0123456789abcdef", ["ZWS2.0"]))
        talk.send(SERVER, b"HTTP/1.1 " + status + b"\r\nContent-Length: 4\r\n\r\noops")
        talks.append(talk.close(CLIENT))
    diagnosis = diagnoses_of(*talks)["handshake-failing"]
    assert diagnosis.statement == (
        "No handshake of 10.0.0.2 with 10.0.0.1:5555 succeeds: 10.0.0.1:5555 refuses to open a WebSocket for ZeroMQ, "
        "2 times in 1 s"
    )
    assert "Upgrade" in diagnosis.hint
