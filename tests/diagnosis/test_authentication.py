"""Refused clients: credentials, the ZAP handler and keys are distinguished."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.diagnosing import diagnoses_in, diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk


@pytest.mark.parametrize(
    ("name", "rule", "certainty"),
    [
        ("security/plain-refused-4.1.8", "login-refused", "proven"),
        ("security/curve-status-400", "login-refused", "proven"),
        ("security/null-status-400", "login-refused", "proven"),
        ("security/plain-status-500", "authentication-failing", "proven"),
        ("security/curve-status-500", "authentication-failing", "proven"),
        ("security/plain-status-300", "authentication-failing", "likely"),
        ("security/plain-no-zap-handler", "no-zap-handler", "likely"),
        ("security/curve-wrong-server-key", "wrong-server-key", "likely"),
        ("security/null-status-300", "handshake-timeout", "proven"),
    ],
)
def test_the_one_cause(captures: Path, name: str, rule: str, certainty: str) -> None:
    found = diagnoses_in(captures / f"{name}.pcap")
    assert list(found) == [rule]
    assert (found[rule].severity, found[rule].certainty) == ("error", certainty)


@pytest.mark.parametrize("name", ["plain-accepted", "plain-dealer-router", "curve-4.3.5", "curve-large-messages"])
def test_accepted_clients(captures: Path, name: str) -> None:
    assert diagnoses_in(captures / f"security/{name}.pcap") == {}


def _login(number: int, reason: str | None = "400", user: str = "admin") -> Talk:
    talk = Talk(number, at=number).greet(CLIENT, "PLAIN").greet(SERVER, "PLAIN")
    talk.command(CLIENT, "HELLO", "PLAIN", username=user, password="secret")
    if reason is None:
        return talk.close(SERVER)
    return talk.command(SERVER, "ERROR", "PLAIN", reason=reason).close(CLIENT)


@given(st.integers(1, 118), st.sampled_from(["400", None]))
def test_any_number_of_refusals_folds(times: int, reason: str | None) -> None:
    (diagnosis,) = diagnoses_of(*(_login(number, reason) for number in range(times))).values()
    assert diagnosis.rule == ("login-refused" if reason else "no-zap-handler")
    assert diagnosis.count == times
    assert (f"{times} times" in diagnosis.text) == (times > 1)


def test_a_login_that_succeeds_later_is_a_note(captures: Path) -> None:
    diagnosis = diagnoses_in(captures / "problems/login-accepted-at-second-try.pcap")["login-refused"]
    assert diagnosis.severity == "note"
    assert "a handshake succeeded" in diagnosis.text


def test_no_password_is_reported() -> None:
    diagnosis = diagnoses_of(_login(0))["login-refused"]
    assert "secret" not in repr(diagnosis)
    assert "admin" in diagnosis.subject


@pytest.mark.parametrize("reason", ["400", "500", None])
def test_a_server_of_plain_that_connects_refuses_the_listener(reason: str | None) -> None:
    """A program that connects can be the server: it then closes on the login of the one that listens."""
    talks = []
    for number in range(3):
        talk = Talk(number, at=number).greet(CLIENT, "PLAIN").greet(SERVER, "PLAIN")
        talk.command(SERVER, "HELLO", "PLAIN", username="admin", password="secret")
        if reason is not None:
            talk.command(CLIENT, "ERROR", "PLAIN", reason=reason)
        talks.append(talk.close(CLIENT if reason is None else SERVER))
    (diagnosis,) = diagnoses_of(*talks).values()
    causes = {
        "400": "10.0.0.2 refuses 10.0.0.1:5555",
        "500": "Authentication fails at 10.0.0.2, so 10.0.0.1:5555 is rejected",
        None: "10.0.0.2 closes on the login of 10.0.0.1:5555",
    }
    assert diagnosis.text.startswith(causes[reason])
