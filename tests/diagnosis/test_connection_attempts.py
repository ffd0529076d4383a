"""Endpoints at which nothing listens, no longer, or not yet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.diagnosis.diagnosing import consequences_of, diagnoses_in, diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk, knowledge_of
from zmtpscope.capture.segments import ACK, FIN
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.records import SECOND
from zmtpscope.zmtp.greeting import build_signature


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("unreachable/server-down", "connection-refused", "Nothing listens at 10.0.0.1:5555: 10.0.0.2 tried 20 times"),
        ("problems/connection-refused", "connection-refused", "Nothing listens at 10.0.0.1:5599: 10.0.0.2 tried 14"),
        ("problems/connection-unanswered", "connection-unanswered", "Nothing answers at 10.0.0.1:5555"),
    ],
)
def test_nothing_listens(captures: Path, name: str, rule: str, words: str) -> None:
    (diagnosis,) = diagnoses_in(captures / f"{name}.pcap").values()
    assert (diagnosis.rule, diagnosis.severity) == (rule, "error")
    assert diagnosis.text.startswith(words)


def test_a_server_that_starts_later_is_a_note(captures: Path) -> None:
    (diagnosis,) = diagnoses_in(captures / "unreachable/server-up-later.pcap").values()
    assert (diagnosis.rule, diagnosis.severity) == ("listener-late", "note")
    assert "did not listen until 1.32 s after 10.0.0.2 began to connect (8 attempts)" in diagnosis.text


def test_a_process_that_listens_late_at_several_endpoints_is_one_note() -> None:
    talks = [
        talk
        for number, port in enumerate((5555, 5556))
        for talk in (
            *(Talk(40 * number + each, at=0.1 * each, port=port).refused() for each in range(12)),
            Talk(40 * number + 20, at=1.3 + 0.2 * number, port=port).handshake("DEALER", "ROUTER"),
        )
    ]
    assert diagnoses_of(*talks)["listener-late"].text == (
        "2 endpoints of 10.0.0.1 did not listen until 1.3 s to 1.5 s after 10.0.0.2 began to connect (24 attempts)"
    )


def test_a_server_that_starts_at_once_is_not_reported(captures: Path) -> None:
    assert diagnoses_in(captures / "problems/server-started-later.pcap") == {}


def _refused(first: int, times: int, at: float, client: int = 2) -> list[Talk]:
    """Attempts of a client, ten each second."""
    return [Talk(first + number, at=at + number / 10, client=client).refused() for number in range(times)]


def _connected(number: int, at: float, seconds: float, client: int = 2) -> Talk:
    return Talk(number, at=at, client=client).handshake("DEALER", "ROUTER").wait(seconds).close(SERVER)


def test_a_client_that_started_first_still_misses_a_server_that_goes_away() -> None:
    talks = [*_refused(0, 5, 0), _connected(10, 0.6, 3), *_refused(20, 50, 3.8)]
    found = diagnoses_of(*talks)
    assert list(found) == ["peer-departed"]
    assert "no reconnection succeeded until the capture ended" in found["peer-departed"].text
    assert consequences_of("peer-departed", *talks) == {"connection-refused"}


def test_each_client_that_a_server_leaves_is_named() -> None:
    talks = [*_refused(0, 1, 0), _connected(10, 0.3, 2), _connected(11, 0.1, 2.2, client=3)]
    talks += _refused(20, 20, 2.5) + _refused(50, 20, 2.55, client=3)
    text = diagnoses_of(*talks)["peer-departed"].text
    assert "closes 2 connections" in text
    assert "DEALER 10.0.0.2" in text
    assert "DEALER 10.0.0.3" in text


def test_a_server_that_another_client_got_back_to_is_there_again() -> None:
    """The program of the other one may have ended meanwhile."""
    talks = [_connected(10, 0, 2), _connected(11, 0, 2, client=3), *_refused(20, 3, 2.2), *_refused(30, 5, 2.2, 3)]
    talks.append(_connected(12, 2.9, 2, client=3))
    assert list(diagnoses_of(*talks)) == ["peer-departed"]
    assert consequences_of("peer-departed", *talks) == set()


def test_a_server_is_late_for_the_first_connection_only() -> None:
    found = diagnoses_of(*_refused(0, 12, 0), _connected(20, 1.3, 1), *_refused(30, 12, 2.4), _connected(50, 4, 30))
    assert "did not listen until 1.3 s after 10.0.0.2 began to connect (12 attempts)" in found["listener-late"].text


@pytest.mark.parametrize(("times", "severity"), [(120, "warn"), (40, "note")])
def test_a_server_that_is_missed_for_long_is_a_warning_even_if_nothing_else_is_in_the_capture(
    times: int, severity: str
) -> None:
    found = diagnoses_of(_connected(0, 0, 2), *_refused(10, times, 2.2))
    assert found["peer-departed"].severity == severity


def test_clients_that_end_soon_after_their_server_do_not_miss_it() -> None:
    other = Talk(60, at=0, client=9, port=5559).handshake("REQ", "REP").wait(25).command(CLIENT, "PING")
    talks = [_connected(0, 0, 2), *_refused(10, 8, 2.2), other]
    diagnosis = diagnoses_of(*talks)["peer-departed"]
    assert diagnosis.severity == "note"
    assert diagnosis.text.endswith("they retried without success for about 900 ms, then no more")
    assert consequences_of("peer-departed", *talks) == {"connection-refused"}


@pytest.mark.parametrize(("times", "severity"), [(8, "note"), (150, "error")])
def test_a_request_that_is_pending_when_server_and_client_end_is_a_note(times: int, severity: str) -> None:
    asked = Talk(0, at=0).handshake("REQ", "REP").multipart(CLIENT, b"", b"next").wait(0.5).close(SERVER)
    other = Talk(60, at=0, client=9, port=5559).handshake("REQ", "REP").wait(25).command(CLIENT, "PING")
    found = diagnose(knowledge_of(asked, *_refused(100, times, 0.7), other))
    everything = {each.rule: each for cause in found for each in (cause.diagnosis, *cause.consequences)}
    diagnosis = everything["request-lost"]
    assert diagnosis.severity == severity
    assert ("the client ended soon after" in diagnosis.text) is (severity == "note")


def _unanswered(at: float) -> Talk:
    return Talk(50, at=at, client=4).unanswered(7)


def test_a_peer_that_gets_no_answer_although_others_are_served_has_a_firewall_or_no_route() -> None:
    others = [_connected(10, 0, 9), _connected(11, 0.5, 9, client=3)]
    diagnosis = diagnoses_of(*others, _unanswered(0.2))["connection-unanswered"]
    assert diagnosis.severity == "error"
    assert diagnosis.text.startswith(
        "Nothing answers at 10.0.0.1:5555, although it serves 10.0.0.2 and 10.0.0.3 meanwhile: 10.0.0.4 tried once"
    )
    assert "firewall" in diagnosis.hint
    assert "the host is up" in diagnosis.hint


def test_a_host_that_is_served_and_whose_new_connections_get_no_answer_has_a_firewall() -> None:
    served = Talk(10, at=0).handshake("DEALER", "ROUTER").wait(9).message(SERVER, b"reply")
    diagnosis = diagnoses_of(served, Talk(50, at=0.2).unanswered(7))["connection-unanswered"]
    assert diagnosis.severity == "error"
    assert "although it serves 1 connection of 10.0.0.2 meanwhile: 10.0.0.2 tried once (7 SYNs)" in diagnosis.text


@pytest.mark.parametrize(
    ("connected", "tried"),
    [((0, 1), 2), ((4, 1), 0), ((30, 5), 0)],
    ids=["served before the host went down", "served for a moment meanwhile", "served when it was up again"],
)
def test_clients_served_at_another_time_prove_nothing_about_the_host(
    connected: tuple[float, float], tried: float
) -> None:
    diagnosis = diagnoses_of(_connected(10, *connected), _unanswered(tried))["connection-unanswered"]
    assert diagnosis.text.startswith("Nothing answers at 10.0.0.1:5555: 10.0.0.4 tried once")
    assert "the host is down" in diagnosis.hint


def test_a_client_refused_while_others_are_served_does_not_mean_that_nothing_listens() -> None:
    others = [_connected(10, 0, 9, client=3), _connected(11, 0.5, 9, client=5)]
    diagnosis = diagnoses_of(*others, *_refused(20, 5, 2, client=4))["connection-refused"]
    assert diagnosis.severity == "error"
    assert diagnosis.text.startswith(
        "10.0.0.1:5555 refuses connections, although it serves 10.0.0.3 and 10.0.0.5 meanwhile: 10.0.0.4 tried 5 times"
    )
    assert "the program runs" in diagnosis.hint


def test_a_client_refused_before_and_after_another_one_connects_has_a_firewall_in_its_way() -> None:
    diagnosis = diagnoses_of(*_refused(20, 40, 0, client=4), _connected(10, 0.05, 9, client=3))["connection-refused"]
    assert diagnosis.text.startswith("10.0.0.1:5555 refuses connections, although it serves 10.0.0.3 meanwhile")


def _closed_but_told_of_later(number: int) -> Talk:
    """The server closes after 1 s, and 2 s later the client still sends."""
    talk = Talk(number, at=0, client=3).handshake("DEALER", "ROUTER").wait(1)
    talk.conversation.add(SERVER, FIN | ACK)
    return talk.wait(2).message(CLIENT, b"late").reset(SERVER)


@pytest.mark.parametrize(
    "other",
    [_connected(10, 0, 1, client=3), _closed_but_told_of_later(10), _connected(10, 4, 1, client=3)],
    ids=["left before", "left before, and its client did not see it", "served when it was up again"],
)
def test_a_client_connected_at_another_time_proves_nothing_about_the_listener(other: Talk) -> None:
    diagnosis = diagnoses_of(other, *_refused(20, 5, 2, client=4))["connection-refused"]
    assert diagnosis.text.startswith("Nothing listens at 10.0.0.1:5555: 10.0.0.4 tried 5 times")


def test_another_port_of_the_host_that_answers_shows_that_it_is_up() -> None:
    served = Talk(0, at=0, port=5556).handshake("PULL", "PUSH").wait(4).message(SERVER, b"a")
    diagnosis = diagnoses_of(served, Talk(1, at=0.5).unanswered(6))["connection-unanswered"]
    assert diagnosis.text.endswith("; 10.0.0.1:5556 on the same host answers meanwhile")
    assert "host is down" not in diagnosis.hint


def test_connections_that_a_program_does_not_accept_fill_the_queue_of_its_listener() -> None:
    waiting = [Talk(number, at=number / 10).send(CLIENT, build_signature(1)) for number in range(3)]
    talks = [*waiting, Talk(9, at=1).unanswered(6), Talk(10, at=1.2).unanswered(6)]
    assert list(diagnoses_of(*talks)) == ["handshake-timeout"]
    assert consequences_of("handshake-timeout", *talks) == {"connection-unanswered"}


def test_a_port_that_accepts_later_has_a_listener_of_any_protocol() -> None:
    web = [
        Talk(30 + n, at=2 + n).send(CLIENT, build_signature(1)).send(SERVER, b"HTTP/1.1 400\r\n\r\n") for n in range(3)
    ]
    found = diagnoses_of(*_refused(0, 8, 0), *(talk.close(SERVER) for talk in web))
    assert "connection-refused" not in found
    assert "foreign-client" in found


def _answered_in_vain(number: int, syns: int, apart: float, client: int = 2) -> Talk:
    """A client that sends `syns` SYNs, each answered by SYN and ACK, and acknowledges no answer."""
    made = Talk(number, at=2 * number, client=client)
    syn, answer = made.conversation.packets[:2]
    times = [int(apart * each * SECOND) for each in range(syns)]
    made.conversation.packets = [replace(each, time=each.time + time) for time in times for each in (syn, answer)]
    return made


def test_an_answer_that_does_not_reach_the_client_is_an_error() -> None:
    served = Talk(9, at=0, client=3).handshake("DEALER", "ROUTER").wait(8).message(CLIENT, b"x")
    (diagnosis,) = diagnoses_of(_answered_in_vain(0, 4, 1), served).values()
    assert (diagnosis.rule, diagnosis.severity) == ("answer-lost", "error")
    assert diagnosis.text.startswith(
        "10.0.0.1:5555 answers connection attempts, but the answers do not reach the client, although it serves "
        "10.0.0.3 meanwhile: 10.0.0.2 tried once (4 SYNs)"
    )


def test_a_port_scan_and_its_copies_in_the_capture_lose_no_answer() -> None:
    beside = Talk(9, at=0, client=3).handshake("DEALER", "ROUTER").wait(8).message(CLIENT, b"x")
    for syns in (1, 2):
        assert diagnoses_of(_answered_in_vain(0, syns, 0.001), beside) == {}


def test_an_answer_that_arrives_at_the_second_attempt_is_not_lost() -> None:
    assert diagnoses_of(_answered_in_vain(0, 2, 1), _connected(5, 9, 3)).keys() <= {"listener-late", "peer-departed"}


def test_attempts_between_refused_ones_were_refused_too() -> None:
    """The capture lost the answers to two."""
    found = diagnoses_of(*_refused(0, 9, 0), *(Talk(9 + at, at=at).unanswered(1) for at in (1, 2)), *_refused(20, 9, 3))
    assert "connection-unanswered" not in found


def test_a_capture_of_one_direction_does_not_show_that_nothing_answers() -> None:
    beside = Talk(9, at=0, port=5556).handshake("DEALER", "ROUTER").message(CLIENT, b"x").message(CLIENT, b"y")
    beside.conversation.packets = [each for each in beside.conversation.packets if each.side == CLIENT]
    assert "connection-unanswered" not in diagnoses_of(beside, Talk(1, at=1).unanswered(5))


def test_attempts_that_end_before_tcp_repeats_a_syn_got_answers_that_were_not_captured() -> None:
    """Or ZMQ_CONNECT_TIMEOUT ended them; a client without an answer sends its SYN again after a second."""
    diagnosis = diagnoses_of(*(Talk(each, at=0.15 * each).unanswered(1) for each in range(30)))["connection-unanswered"]
    assert (diagnosis.severity, diagnosis.certainty) == ("error", "likely")
    assert diagnosis.text == (
        "10.0.0.2 tried 23 times in 3.3 s to reach 10.0.0.1:5555: the capture has no answer, but each attempt ended "
        "before TCP repeats a SYN"
    )
    assert diagnosis.hint.startswith("capture both directions")
    few = diagnoses_of(*(Talk(each, at=2 * each).unanswered(1) for each in range(3)))["connection-unanswered"]
    assert few.certainty == "likely"
    patient = diagnoses_of(*(Talk(each, at=0.15 * each).unanswered(2) for each in range(30)))["connection-unanswered"]
    assert (patient.certainty, patient.text.partition(":")[0]) == ("proven", "Nothing answers at 10.0.0.1")


def test_more_connections_than_a_firewall_allows_a_host_are_no_sign_that_nothing_listens() -> None:
    served = Talk(9, at=0).handshake("DEALER", "ROUTER")
    for _ in range(8):
        served.message(CLIENT, b"ask").message(SERVER, b"answer").wait(1)
    (diagnosis,) = diagnoses_of(served, *_refused(20, 30, 2)).values()
    assert diagnosis.text.startswith(
        "10.0.0.1:5555 refuses connections, although it serves 1 connection of 10.0.0.2 meanwhile"
    )
    assert "limit" in diagnosis.hint


def test_an_old_connection_on_which_nothing_arrives_does_not_show_that_a_server_runs() -> None:
    old = Talk(9, at=0).handshake("DEALER", "ROUTER").message(SERVER, b"before").wait(6).message(CLIENT, b"ask")
    assert diagnoses_of(old, *_refused(20, 30, 2))["connection-refused"].text.startswith(
        "Nothing listens at 10.0.0.1:5555"
    )


def test_a_socket_with_two_endpoints_of_which_one_refuses_is_named() -> None:
    served = Talk(9, at=0, port=5556).handshake("DEALER", "ROUTER").wait(5).message(SERVER, b"x")
    diagnosis = diagnoses_of(served, *_refused(20, 30, 0.1))["connection-refused"]
    assert diagnosis.text.endswith("; DEALER 10.0.0.2 is connected to ROUTER 10.0.0.1:5556 meanwhile")
    assert "ZMQ_IMMEDIATE" in diagnosis.hint
    subscriber = Talk(9, at=0, port=5556).handshake("SUB", "PUB").wait(5).message(SERVER, b"x")
    assert "ZMQ_IMMEDIATE" not in diagnoses_of(subscriber, *_refused(20, 30, 0.1))["connection-refused"].hint


def _opened_late(number: int, at: float, *copies: float) -> Talk:
    """A connection that opens with the last of several SYNs; `copies` are the seconds of the others before it."""
    talk = Talk(number, at=at).handshake("DEALER", "ROUTER").message(CLIENT, b"ask").message(SERVER, b"answer")
    syn = talk.conversation.packets[0]
    talk.conversation.packets[:0] = [replace(syn, time=syn.time - int(each * SECOND)) for each in copies]
    return talk


def test_a_client_whose_first_syns_are_not_answered_connects_late() -> None:
    (diagnosis,) = diagnoses_of(_opened_late(0, 7, 7, 6, 4)).values()
    assert (diagnosis.rule, diagnosis.severity) == ("opened-late", "note")
    assert diagnosis.text == (
        "DEALER 10.0.0.2 connected to ROUTER 10.0.0.1:5555 only after 7 s: the first SYNs were not answered"
    )
    assert "not up yet" in diagnosis.hint


def test_a_client_whose_first_answers_were_lost_is_not_called_unanswered() -> None:
    late = _opened_late(0, 7, 7, 6, 4)
    answer = next(each for each in late.conversation.packets if each.side == SERVER)
    late.conversation.packets.insert(1, replace(answer, time=late.conversation.packets[0].time + 1))
    diagnosis = diagnoses_of(late)["opened-late"]
    assert diagnosis.text.endswith("only after 7 s: the answers to the first SYNs did not reach the client")
    assert "lost between this point and the client" in diagnosis.hint


def test_an_endpoint_that_is_not_refused_but_silent_at_first_did_not_answer() -> None:
    found = diagnoses_of(Talk(50, at=0).unanswered(3), _connected(20, 4, 3))
    assert found["listener-late"].text.startswith("10.0.0.1:5555 did not answer until 4 s after 10.0.0.2 began")


def test_clients_that_connect_late_while_others_are_served_meet_a_full_queue_or_a_firewall() -> None:
    served = Talk(9, at=0, client=3).handshake("DEALER", "ROUTER").wait(8).message(SERVER, b"x")
    (diagnosis,) = diagnoses_of(served, _opened_late(0, 4, 3, 2), _opened_late(1, 8, 7, 6, 4)).values()
    assert (diagnosis.rule, diagnosis.severity) == ("opened-late", "warn")
    assert diagnosis.text == (
        "DEALER 10.0.0.2 connected to ROUTER 10.0.0.1:5555 only after 3 s to 7 s, on 2 connections: the first SYNs "
        "were not answered, although it served others meanwhile"
    )


def test_one_client_that_connects_late_while_others_are_served_is_a_note() -> None:
    served = Talk(9, at=0, client=3).handshake("DEALER", "ROUTER").wait(8).message(SERVER, b"x")
    assert diagnoses_of(served, _opened_late(0, 4, 3, 2))["opened-late"].severity == "note"


def test_a_program_that_accepts_no_connection_meanwhile_has_a_full_queue() -> None:
    waiting = (
        Talk(8, at=0, client=3).greet(CLIENT).wait(6).greet(SERVER).ready(CLIENT, "DEALER").ready(SERVER, "ROUTER")
    )
    diagnosis = diagnoses_of(waiting, _opened_late(0, 7, 6, 5))["opened-late"]
    assert diagnosis.severity == "warn"
    assert diagnosis.text.endswith("; meanwhile the program did not accept 1 established connection either")
    assert "ZMQ_BACKLOG" in diagnosis.hint


def test_a_program_with_a_full_queue_serves_no_client() -> None:
    served = Talk(7, at=0, client=3).handshake("DEALER", "ROUTER").wait(1).message(SERVER, b"x")
    waiting = [Talk(8 + number, at=2 + number / 10).send(CLIENT, build_signature(1)) for number in range(2)]
    talks = [served, *waiting, Talk(50, at=3).unanswered(6)]
    assert consequences_of("handshake-timeout", *talks) == {"connection-unanswered"}


def _reset_answers(number: int, at: float, *, again: bool) -> Talk:
    """A client that resets SYN and ACK; `again`: with the SYN of attempt 0."""
    talk = Talk(0 if again else number, at=at)
    syn, answer = talk.conversation.packets[:2]
    talk.conversation.packets = [syn, answer if again else replace(answer, time=answer.time + SECOND // 2)]
    talk.wait(0 if again else 0.5).conversation.reset(CLIENT, knows=False)
    return talk


@pytest.mark.parametrize(
    ("again", "words"),
    [(True, "check NAT rules"), (False, "raise its ZMQ_CONNECT_TIMEOUT")],
    ids=["asked another address", "gave up"],
)
def test_a_client_that_resets_the_answers_is_named(again: bool, words: str) -> None:
    (diagnosis,) = diagnoses_of(*(_reset_answers(number, 0.6 * number, again=again) for number in range(12))).values()
    assert (diagnosis.rule, diagnosis.severity) == ("answer-lost", "error")
    assert diagnosis.text.startswith(
        "10.0.0.1:5555 answers connection attempts, but 10.0.0.2 resets the answers: 10.0.0.2 tried 12 times in 6.6 s"
    )
    assert words in diagnosis.hint


def test_an_address_that_answers_instead_of_the_one_asked_is_named() -> None:
    asked, answers = Talk(0, at=0).unanswered(7), []
    for second in range(7):
        answer = _reset_answers(0, second, again=True)
        hosts = answer.conversation.hosts[0], bytes([10, 0, 0, 9])
        answer.conversation.packets = [replace(each, hosts=hosts) for each in answer.conversation.packets[1:]]
        answers.append(answer)
    (diagnosis,) = diagnoses_of(asked, *answers).values()
    assert (diagnosis.rule, diagnosis.severity) == ("answer-lost", "error")
    assert diagnosis.text.startswith(
        "10.0.0.9:5555 answers connection attempts to 10.0.0.1:5555, and 10.0.0.2 resets its answers: 10.0.0.2 tried "
        "once (7 SYNs)"
    )


def test_a_socket_with_two_endpoints_of_which_one_does_not_answer_is_named() -> None:
    served = Talk(9, at=0, port=5556).handshake("REQ", "REP").wait(8).message(SERVER, b"x")
    diagnosis = diagnoses_of(served, Talk(50, at=0.2).unanswered(7))["connection-unanswered"]
    assert "ZMQ_IMMEDIATE" not in diagnosis.hint, "the host is up: its other port answers"
    other = Talk(9, at=0, port=5556).handshake("REQ", "REP")
    other.conversation.packets = [
        replace(each, hosts=(each.hosts[0], bytes([10, 0, 0, 9]))) for each in other.conversation.packets
    ]
    diagnosis = diagnoses_of(other, Talk(50, at=0.2).unanswered(7))["connection-unanswered"]
    assert diagnosis.text.endswith("; REQ 10.0.0.2 is connected to REP 10.0.0.9:5556 meanwhile")
    assert "ZMQ_IMMEDIATE" in diagnosis.hint


def test_a_port_that_only_a_loopback_address_serves_is_named() -> None:
    local = Talk(9, at=0).handshake("REQ", "REP").wait(5).message(SERVER, b"x")
    loopback = bytes([127, 0, 0, 1])
    local.conversation.packets = [replace(each, hosts=(loopback, loopback)) for each in local.conversation.packets]
    diagnosis = diagnoses_of(local, *_refused(20, 30, 0.1))["connection-refused"]
    assert diagnosis.text.endswith("; 127.0.0.1:5555 is served")
    assert "bound to 127.0.0.1:5555 only" in diagnosis.hint


@pytest.mark.parametrize(("port", "is_named"), [(6000, True), (5555, False)], ids=["a proxy", "the endpoint itself"])
def test_a_proxy_that_does_not_reach_its_server_explains_connections_without_a_greeting(
    port: int, *, is_named: bool
) -> None:
    """10.0.0.1 tries to reach 10.0.0.9 while its clients wait."""
    tried = Talk(50, at=0.1).unanswered(9)
    tried.conversation.packets = [
        replace(each, hosts=(bytes([10, 0, 0, 1]), bytes([10, 0, 0, 9 if is_named else 1])))
        for each in tried.conversation.packets
    ]
    clients = [
        Talk(number, at=2 * number, port=port).send(CLIENT, build_signature(1)).wait(1.5).close(SERVER)
        for number in range(4)
    ]
    found = diagnoses_of(tried, *clients)
    passed_on = "; meanwhile 4 connections of 10.0.0.2 to 10.0.0.1:6000, which may pass them on, got no greeting"
    assert found["connection-unanswered"].text.endswith(passed_on) is is_named
    assert ("handshake-failing" in found) is not is_named
