"""Peers that leave: reported once, with how and how often, and not if they connect and leave regularly."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.diagnosing import consequences_of, diagnoses_in, diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from zmtpscope.diagnosis.rules.departures import RELAYED, End, EndsOfHost


def _life(number: int, at: float, seconds: float, by: int = SERVER) -> Talk:
    """Return a connection that starts `at`, sends data, and is reset after this time."""
    return Talk(number, at=at).handshake("DEALER", "ROUTER").wait(seconds - 0.01).reset(by)


@given(st.integers(3, 40), st.floats(2, 60))
def test_a_period_is_reported_once_however_often(times: int, seconds: float) -> None:
    found = diagnoses_of(*(_life(number, number * (seconds + 0.2), seconds) for number in range(times)))
    assert list(found) == ["periodic-disconnect"]
    diagnosis = found["periodic-disconnect"]
    assert diagnosis.count == times
    assert f"{times} times" in diagnosis.text
    assert "resets each connection of DEALER 10.0.0.2" in diagnosis.text


@pytest.mark.parametrize(
    "lives", [[5.0, 9.0, 3.0, 7.0], [5.0, 5.0], [0.2, 0.2, 0.2, 0.2]], ids=["uneven", "twice", "short"]
)
def test_lives_without_a_period(lives: list[float]) -> None:
    found = diagnoses_of(*(_life(number, 10 * number, life) for number, life in enumerate(lives)))
    assert set(found) == {"peer-departed"}
    assert found["peer-departed"].count == len(lives) - 1, "nobody tried again behind the last"


def test_ends_at_the_same_moment_are_one_event() -> None:
    """A server was restarted once, and a host has four sockets connected to it."""
    first = [Talk(n, at=0.02 * n).handshake("DEALER", "ROUTER").wait(4 - 0.02 * n).close(SERVER) for n in range(4)]
    again = [Talk(9 + n, at=5 + n).handshake("DEALER", "ROUTER").wait(20 - n).close() for n in range(4)]
    found = diagnoses_of(*first, *again)
    assert set(found) == {"peer-departed"}
    assert found["peer-departed"].count == 4


def test_when_clients_were_connected_again_is_a_range_where_they_differ() -> None:
    first = [Talk(n, at=0, client=2 + n).handshake("DEALER", "ROUTER").wait(9).close(SERVER) for n in range(3)]
    again = [
        Talk(9 + n, at=10 + 4 * n, client=2 + n).handshake("DEALER", "ROUTER").wait(20 - 4 * n).close()
        for n in range(3)
    ]
    assert "reconnected 989 ms to 8.99 s later" in diagnoses_of(*first, *again)["peer-departed"].text


def test_a_peer_that_ends_its_own_connections_is_not_disconnected() -> None:
    assert diagnoses_of(*(_life(number, 10 * number, 5, CLIENT) for number in range(5))).keys() <= {"peer-departed"}
    closing = (Talk(number, at=10 * number).handshake("REQ", "REP").wait(5).close(CLIENT) for number in range(5))
    assert diagnoses_of(*closing) == {}


def test_a_limit_of_silence_differs_from_one_of_life() -> None:
    talks = []
    for number, active in enumerate((1, 9, 25, 4)):
        talk = Talk(number, at=100 * number).handshake("DEALER", "ROUTER").wait(active).message(CLIENT, b"still here")
        talks.append(talk.wait(30).reset(SERVER))
    diagnosis = diagnoses_of(*talks)["periodic-disconnect"]
    assert "after 30 s of silence" in diagnosis.text
    assert "ZMQ_HEARTBEAT_IVL" in diagnosis.hint


def test_silences_that_are_equal_count_more_than_lives_that_are_similar() -> None:
    """Messages are sent every few seconds, so the connections last about equally long; a proxy ends connections
    after 3 s of silence."""
    talks = []
    for number, active in enumerate((3.4, 3.8, 3.9)):
        talk = Talk(number, at=10 * number).handshake("SUB", "PUB").wait(active).message(SERVER, b"alarm")
        talks.append(talk.wait(3).close(SERVER))
    assert "after 3 s of silence, 3 times" in diagnoses_of(*talks)["periodic-disconnect"].text


def test_a_client_that_does_not_return_as_others_do_is_named() -> None:
    first = [Talk(n, at=0, client=2 + n).handshake("PULL", "PUSH").wait(9).close(SERVER) for n in range(3)]
    again = [Talk(9 + n, at=10, client=2 + n).handshake("PULL", "PUSH").wait(9).message(SERVER, b"") for n in range(2)]
    text = diagnoses_of(*first, *again)["peer-departed"].text
    assert "closes 3 connections" in text
    assert text.endswith("later, but not PULL 10.0.0.4")


def test_a_server_that_leaves_is_one_departure_for_all_its_clients() -> None:
    first = [
        Talk(number, at=0, client=2 + number).handshake("DEALER", "ROUTER").wait(9).close(SERVER) for number in range(5)
    ]
    again = [
        Talk(9 + number, at=15, client=2 + number).handshake("DEALER", "ROUTER").wait(9).close() for number in range(5)
    ]
    (diagnosis,) = diagnoses_of(*first, *again).values()
    assert (diagnosis.rule, diagnosis.severity, diagnosis.count) == ("peer-departed", "note", 5)
    assert diagnosis.text.startswith(
        "ROUTER 10.0.0.1:5555 closes 5 connections with DEALER 10.0.0.2, DEALER 10.0.0.3 and 3 more"
    )
    assert "reconnected" in diagnosis.text


def test_clients_that_connect_and_leave_are_not_reported() -> None:
    assert diagnoses_of(*(Talk(number).handshake("REQ", "REP").wait(number).close() for number in range(4))) == {}


@given(st.permutations([None, "identity", "another"]))
def test_clients_with_and_without_an_identity_may_connect_and_leave_at_the_same_moments(
    identities: list[str | None],
) -> None:
    talks = [
        Talk(number, at=0, client=2).handshake("DEALER", "ROUTER", identity).wait(5).close(SERVER)
        for number, identity in enumerate(identities)
    ]
    assert diagnoses_of(*talks) == {}


def test_a_server_that_no_client_misses_is_not_reported() -> None:
    assert diagnoses_of(Talk(0).handshake("REQ", "REP").wait(5).close(SERVER)) == {}


def test_a_server_that_does_not_return_is_the_cause_of_refused_attempts(captures: Path) -> None:
    found = diagnoses_in(captures / "problems/server-departed.pcap")
    assert list(found) == ["peer-departed"]
    assert "no reconnection succeeded" in found["peer-departed"].text


@pytest.mark.parametrize(("client", "server"), [("REQ", "REP"), ("PUSH", "PULL"), ("REQ", "ROUTER")])
def test_a_program_that_ends_when_it_is_not_needed_is_not_reported(client: str, server: str) -> None:
    one, other = (Talk(number, at=0, client=2 + number).handshake(client, server) for number in range(2))
    assert diagnoses_of(one.wait(3).close(CLIENT), other.wait(9).close(CLIENT)) == {}


@pytest.mark.parametrize(
    ("client", "server"), [("PULL", "PUSH"), ("DEALER", "ROUTER"), ("REP", "DEALER")], ids=["PULL", "DEALER", "REP"]
)
def test_one_of_several_that_share_work_is_reported_when_it_leaves(client: str, server: str) -> None:
    one, other = (Talk(number, at=0, client=2 + number).handshake(client, server) for number in range(2))
    found = diagnoses_of(one.wait(3).close(CLIENT), other.wait(9).close(CLIENT))
    assert f"{client} 10.0.0.2 closes its connection" in found["peer-departed"].text


def test_one_of_several_that_is_reset_is_reported() -> None:
    one, other = (Talk(number, at=0, client=2 + number).handshake("REQ", "REP") for number in range(2))
    found = diagnoses_of(one.wait(3).reset(CLIENT), other.wait(9).close(CLIENT))
    assert list(found) == ["peer-departed"]


def test_one_of_several_that_leaves_is_reported(captures: Path) -> None:
    assert "DEALER 10.0.0.3" in diagnoses_in(captures / "problems/peer-departed.pcap")["peer-departed"].text


def test_two_clients_of_one_host_are_not_a_dead_connection_and_its_successor() -> None:
    """Two workers of one host: the older one is killed with unread messages, so its system sends RST."""
    one, other = (Talk(number, at=2 * number).handshake("PULL", "PUSH") for number in range(2))
    for number in range(20):
        one.wait(1).message(SERVER, b"task %d" % number)
    assert diagnoses_of(one.reset(CLIENT), other.wait(30).message(SERVER, b"task")) == {}
    silent = diagnoses_of(
        Talk(0).handshake("PULL", "PUSH").wait(20).message(SERVER, b"task").reset(CLIENT),
        Talk(1, at=4).handshake("PULL", "PUSH").wait(30).message(SERVER, b"task"),
    )
    assert "PULL 10.0.0.2 reconnected" in silent["peer-departed"].text


def test_a_peer_that_leaves_in_the_middle_of_its_own_message_is_a_warning() -> None:
    cut = Talk(0).handshake("PUSH", "PULL").send(CLIENT, b"\x00\x10abc").close(CLIENT)
    found = diagnoses_of(cut)
    assert list(found) == ["peer-departed"]
    assert found["peer-departed"].severity == "warn"
    assert "in the middle of a message" in found["peer-departed"].text
    assert "ZMQ_LINGER" in found["peer-departed"].hint


def _worker(number: int, seconds: float, *, binds: bool = False) -> Talk:
    """A PULL that gets a task each second from a PUSH, which listens, or connects to it."""
    types, sender = (("PUSH", "PULL"), CLIENT) if binds else (("PULL", "PUSH"), SERVER)
    talk = Talk(number, at=0, client=2 if binds else 2 + number, port=5555 + number * binds).handshake(*types)
    for _ in range(int(seconds)):
        talk.wait(1).message(sender, b"task")
    return talk


def test_a_push_continues_with_its_other_workers_and_the_work_of_the_one_that_left_is_lost() -> None:
    diagnosis = diagnoses_of(_worker(0, 20), _worker(1, 20), _worker(2, 9).reset(CLIENT))["peer-departed"]
    assert diagnosis.severity == "note"
    assert diagnosis.text.endswith("; no client reconnected; the PUSH goes on with 2 others")
    assert "confirm nothing" in diagnosis.hint


def test_a_push_that_connects_keeps_the_share_of_the_worker_that_left() -> None:
    refused = [Talk(20 + number, at=10 + number / 8, port=5557).refused() for number in range(80)]
    diagnosis = diagnoses_of(*(_worker(number, 20, binds=True) for number in range(2)), _left_worker(), *refused)
    assert diagnosis["peer-departed"].text.endswith("; the PUSH goes on with 2 others")
    assert "ZMQ_IMMEDIATE" in diagnosis["peer-departed"].hint


def _left_worker() -> Talk:
    return _worker(2, 9, binds=True).close(SERVER)


def test_a_peer_that_is_closed_for_what_it_sent(captures: Path) -> None:
    diagnosis = diagnoses_in(captures / "faults/frame-length-2p63.pcap")["violating-frame"]
    assert "because of what DEALER 10.77.0.2 sends" in diagnosis.text
    assert "violating-frame" not in diagnoses_in(captures / "faults/reserved-flag-80.pcap"), "it was not closed for it"


def test_a_storm_is_below_its_cause() -> None:
    talks = []
    for number in range(20):
        talk = Talk(number, at=number * 0.2).greet(CLIENT, "NULL").greet(SERVER, "CURVE")
        talks.append(talk.close(SERVER))
    assert consequences_of("mechanism-mismatch", *talks) == {"reconnect-storm"}
    assert diagnoses_of(*talks)["mechanism-mismatch"].count == 20


times = st.integers(0, 4).map(lambda at: at * RELAYED)
ends = st.lists(
    st.builds(End, times, st.tuples(st.just("h"), st.integers(1, 3)), st.uuids().map(str)),
    max_size=12,
)


@given(ends, st.integers(0, 4), st.integers(1, 3))
def test_what_a_host_ended_at_the_same_time_is_what_it_ended_at_other_endpoints(
    of_host: list[End], at: int, port: int
) -> None:
    time, endpoint = at * RELAYED, ("h", port)
    near = {each.conn_id for each in of_host if abs(each.ns - time) <= RELAYED and each.endpoint != endpoint}
    assert set(EndsOfHost(of_host).around(time, endpoint)) == near


def _crashing(client: int, first: int) -> list[Talk]:
    """Return a subscriber of a publisher that ends and restarts each second."""
    talks = []
    for number in range(8):
        talk = Talk(first + number, at=1.2 * number, client=client, port=5556).handshake("SUB", "PUB")
        talk.command(CLIENT, "SUBSCRIBE", subscription=b"").wait(0.8 + 0.03 * (number % 3)).message(SERVER, b"tick")
        talks.append(talk.close(SERVER))
    return talks


def test_a_publisher_that_crashes_again_and_again_is_named_and_no_subscriber() -> None:
    found = diagnoses_of(*_crashing(2, 0), *_crashing(3, 20))
    assert found["reconnect-storm"].text.startswith(
        "PUB 10.0.0.1:5556 ends each connection of SUB 10.0.0.2 and 1 other client, which connects again"
    )
    assert found.keys() == {"reconnect-storm"}


def test_a_server_that_restarts_at_intervals_ends_the_connections_of_all_clients() -> None:
    talks = [
        Talk(10 * client + number, at=4 * number, client=client).handshake("DEALER", "ROUTER").wait(3).reset(SERVER)
        for client in (2, 3)
        for number in range(4)
    ]
    diagnosis = diagnoses_of(*talks)["periodic-disconnect"]
    assert "each connection of DEALER 10.0.0.2 and 1 other client together" in diagnosis.text
    assert "restarts" in diagnosis.hint


@pytest.mark.parametrize("knows", [True, False])
def test_a_host_that_no_longer_knows_a_connection_ended_no_program(knows: bool) -> None:
    """A RST without ACK answers a segment: the host was restarted, or another one has its address."""
    first = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(5).message(CLIENT, b"question").reset(SERVER, knows=knows)
    diagnosis = diagnoses_of(first, Talk(1, at=6).handshake("DEALER", "ROUTER").wait(9).close())["peer-departed"]
    assert ("no longer knows its connection with DEALER 10.0.0.2, and resets it" in diagnosis.text) is not knows
    assert ("was killed" in diagnosis.hint) is knows
