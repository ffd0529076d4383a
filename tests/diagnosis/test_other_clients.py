"""Visitors that are no peers, as opposed to peers that are late, slow or in trouble."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.diagnosing import consequences_of, diagnoses_in, diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from tests.zws import build_request
from zmtpscope.zmtp.greeting import build_signature


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("negative/port-scan", "10.77.0.2 looks for open ports: it tried 7 of 10.77.0.1"),
        ("problems/scanner", "10.0.0.3 looks for open ports: it tried 9 of 10.0.0.1"),
        ("problems/health-check", "10.0.0.3 connects to 10.0.0.1:5555 and leaves without sending anything, 6 times"),
    ],
)
def test_visitors(captures: Path, name: str, words: str) -> None:
    found = diagnoses_in(captures / f"{name}.pcap")
    assert list(found) == ["scanner"]
    assert words in found["scanner"].text


def test_a_port_scan_that_also_visits_open_ports_is_one_diagnosis() -> None:
    closed = [Talk(number, at=0.001 * number, port=6000 + number).refused() for number in range(6)]
    visit = Talk(9, at=0.3).greet(SERVER).close(CLIENT)
    assert diagnoses_of(*closed, visit)["scanner"].text.startswith(
        "10.0.0.2 looks for open ports: it tried 6 of 10.0.0.1"
    )


@pytest.mark.parametrize("name", ["problems/short-visits", "unreachable/server-down"])
def test_clients(captures: Path, name: str) -> None:
    assert "scanner" not in diagnoses_in(captures / f"{name}.pcap")


@pytest.mark.parametrize(
    ("octets", "speaks"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (b"*1\r\n$4\r\nPING\r\n", "RESP (Redis)"),
        (b"\x99\x99\x99\x99", "another protocol"),
    ],
)
def test_other_protocols(octets: bytes, speaks: str) -> None:
    (diagnosis,) = diagnoses_of(Talk(0).greet(SERVER).send(CLIENT, octets).close(CLIENT)).values()
    assert diagnosis.rule == "foreign-client"
    assert diagnosis.text == f"10.0.0.2 speaks {speaks} to 10.0.0.1:5555, which is ZeroMQ"


def test_a_client_that_begins_a_handshake_and_leaves_is_no_scanner() -> None:
    assert "scanner" not in diagnoses_of(Talk(0).greet(SERVER).greet(CLIENT).close(CLIENT))


def test_a_server_that_speaks_something_else() -> None:
    (diagnosis,) = diagnoses_of(
        Talk(0).greet(CLIENT).send(SERVER, b"HTTP/1.1 400 Bad Request\r\n\r\n").close(1)
    ).values()
    assert diagnosis.text == "10.0.0.1:5555 speaks HTTP, and 10.0.0.2 connects to it as to ZeroMQ"


def visits(*, silent: int, failing: int) -> list[Talk]:
    """A health check connects twice a second, and the handshakes of a client of the same host fail as often."""
    check = [Talk(number, at=number / 2).greet(SERVER).wait(0.01).close(CLIENT) for number in range(silent)]
    client = [
        Talk(100 + number, at=0.25 + number / 2).greet(SERVER).greet(CLIENT, "PLAIN").wait(0.01).close(SERVER)
        for number in range(failing)
    ]
    return check + client


def test_a_health_check_is_no_storm() -> None:
    assert list(diagnoses_of(*visits(silent=12, failing=0))) == ["scanner"]


def test_a_client_whose_handshakes_fail_makes_a_storm_beside_a_health_check() -> None:
    assert "scanner" in diagnoses_of(*visits(silent=12, failing=12))
    assert consequences_of("mechanism-mismatch", *visits(silent=12, failing=12)) == {"reconnect-storm"}


def test_a_websocket_at_a_tcp_endpoint_is_named() -> None:
    request = build_request("/", "host", bytes(16), ["ZWS2.0"])
    talk = Talk(1).send(0, request).send(1, build_signature(1)).close()
    found = diagnoses_of(talk)["foreign-client"]
    assert "10.0.0.2 speaks WebSocket (ws://) to 10.0.0.1:5555, which is ZeroMQ" in found.text
    assert "tcp:// instead of ws://" in found.hint


def _browser(at: float) -> Talk:
    return Talk(50, at=at, client=9).send(CLIENT, b"GET / HTTP/1.1\r\n\r\n").greet(SERVER).close(SERVER)


def _served(number: int, seconds: float) -> Talk:
    talk = Talk(number, at=0).handshake("DEALER", "ROUTER").message(CLIENT, b"ask").message(SERVER, b"answer")
    return talk.wait(seconds).close(SERVER)


def test_a_program_that_ends_on_foreign_octets_may_have_failed_on_them() -> None:
    talks = [_served(0, 5), _served(1, 5), _browser(5)]
    diagnosis = diagnoses_of(*talks)["foreign-client"]
    assert diagnosis.text.endswith("which is ZeroMQ; at once 10.0.0.1:5555 closed 2 other connections")
    assert "may have failed" in diagnosis.hint


def test_a_program_that_continues_with_others_has_not_failed() -> None:
    diagnosis = diagnoses_of(_served(0, 5), _served(1, 15), _browser(5))["foreign-client"]
    assert diagnosis.text == "10.0.0.9 speaks HTTP to 10.0.0.1:5555, which is ZeroMQ"
