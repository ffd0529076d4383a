"""Kernels of Jupyter that ignore a client: none of its requests has a reply or a status."""

from __future__ import annotations

import orjson
import pytest

from tests.diagnosis.diagnosing import causes_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from zmtpscope.diagnosis.diagnosis import Diagnosis

RULE = "jupyter-unanswered"
SIGNATURE = b"a" * 64


def frames(kind: str, id_: str, parent: str | None = None, **content: object) -> tuple[bytes, ...]:
    header = {"msg_type": kind, "msg_id": id_, "session": "s"}
    about = {} if parent is None else {"msg_type": "execute_request", "msg_id": parent}
    return (b"<IDS|MSG>", SIGNATURE, *map(orjson.dumps, (header, about, {}, content)))


def shell(*, ids: tuple[str, ...] = ("1", "2"), kind: str = "execute_request", waits: float = 4) -> Talk:
    talk = Talk(0, at=0, port=50_001).handshake("DEALER", "ROUTER", "client").wait(0.5)
    for id_ in ids:
        talk.multipart(CLIENT, *frames(kind, id_)).wait(0.1)
    return talk.wait(waits)


def iopub(*statuses: tuple[str, str]) -> Talk:
    """The kernel publishes the request and its states."""
    talk = Talk(1, at=0, port=50_002).handshake("SUB", "XPUB").command(CLIENT, "SUBSCRIBE", topic=b"").wait(1)
    talk.multipart(SERVER, b"", *frames("iopub_welcome", "w"))
    for parent, state in statuses:
        talk.multipart(SERVER, b"status", *frames("status", "s", parent, execution_state=state))
    return talk


def heartbeat(*, answers: bool = True) -> Talk:
    """Pings of the client, from before its first request."""
    talk = Talk(2, at=0, port=50_003).handshake("REQ", "ROUTER")
    for number in range(3):
        talk.multipart(CLIENT, b"", b"ping")
        if answers or not number:
            talk.multipart(SERVER, b"", b"ping")
        talk.wait(1)
    return talk


def found(*talks: Talk, rule: str = RULE) -> list[Diagnosis]:
    return causes_of(*talks, rule=rule)


def test_requests_that_a_living_kernel_ignores_point_to_the_key() -> None:
    (diagnosis,) = found(shell().close(CLIENT), iopub(), heartbeat())
    assert diagnosis.statement == (
        'likely: DEALER "client" 10.0.0.2 sends 2 Jupyter requests to ROUTER 10.0.0.1:50001, and the kernel sends '
        "neither a reply nor a status for 4.2 s, although it answers 3 heartbeats"
    )
    assert "Invalid Signature" in diagnosis.hint
    assert diagnosis.severity == "warn"


def test_a_kernel_without_answers_is_reported_while_the_connection_is_open() -> None:
    assert found(shell(), iopub(), heartbeat(), Talk(3, at=5).handshake("REQ", "REP"))


def test_without_heartbeats_the_kernel_may_be_stopped() -> None:
    (diagnosis,) = found(shell().close(CLIENT), iopub())
    assert diagnosis.hint.startswith("check whether the kernel is stopped or busy")


@pytest.mark.parametrize(
    "talks",
    [
        pytest.param((shell().multipart(SERVER, *frames("execute_reply", "r", "1")), iopub()), id="a reply"),
        pytest.param((shell().close(), iopub(("1", "busy"), ("1", "idle"))), id="a status"),
        pytest.param((shell().close(), iopub(("of another", "busy"))), id="a kernel that is busy"),
        pytest.param((shell().close(SERVER), iopub()), id="the kernel closes"),
        pytest.param((shell().close(),), id="what it publishes is not there"),
        pytest.param((shell().close(), iopub(), heartbeat(answers=False)), id="heartbeats without reply"),
        pytest.param((shell(waits=1).close(), iopub()), id="a short wait"),
        pytest.param((shell(ids=("1",), kind="apply_request").close(), iopub()), id="a task of ipyparallel"),
        pytest.param((shell(ids=()).close(), iopub()), id="no request"),
    ],
)
def test_all_else_is_silent(talks: tuple[Talk, ...]) -> None:
    assert found(*talks) == []


def test_a_status_is_remembered_among_many() -> None:
    """A status may belong to any request if there are more of them than are remembered."""
    others = [(str(number), state) for number in range(100, 200) for state in ("busy", "idle")]
    assert found(shell().close(), iopub(("1", "busy"), ("1", "idle"), *others)) == []


def computing(*states: str, waits: float = 12) -> tuple[Talk, Talk]:
    """A client sends two requests; the kernel publishes these states for the first one in between."""
    requests = shell(ids=("1",), waits=2)
    requests.multipart(CLIENT, *frames("execute_request", "2")).wait(waits)
    requests.command(CLIENT, "PING")
    return requests, iopub(*(("1", state) for state in states))


def engine() -> Talk:
    """An engine that executes requests for a program which forwards its replies and statuses."""
    return Talk(5, at=3, client=4, port=50_009).handshake("DEALER", "ROUTER")


def test_requests_wait_behind_one_that_takes_long() -> None:
    (diagnosis,) = found(*computing("busy"), rule="kernel-busy")
    assert (diagnosis.severity, diagnosis.text) == (
        "note",
        "ROUTER 10.0.0.1:50001, a Jupyter kernel, is busy with one request since packet 29, for 13.6 s, with 1 request "
        'of DEALER "client" 10.0.0.2 waiting behind it',
    )
    assert [each.text for each in diagnosis.evidence] == ["the request", "status busy"]


@pytest.mark.parametrize(
    "talks",
    [
        pytest.param(computing("busy", "idle"), id="idle again"),
        pytest.param(computing("busy", waits=5), id="a short time"),
        pytest.param((shell(ids=("1",), waits=20), iopub(("1", "busy"))), id="nothing waits"),
        pytest.param((computing("busy")[0], iopub(("of another", "busy"))), id="another kernel"),
        pytest.param((computing("busy")[0].close(), iopub(("1", "busy"))), id="the client leaves"),
        pytest.param(
            (*computing("busy"), engine().multipart(CLIENT, *frames("execute_reply", "r", "1"))), id="replied"
        ),
    ],
)
def test_a_kernel_may_compute_for_long(talks: tuple[Talk, ...]) -> None:
    assert found(*talks, rule="kernel-busy") == []


@pytest.mark.parametrize(("last", "severity"), [("shutdown_reply", "note"), ("execute_reply", "warn")])
def test_a_kernel_that_agreed_to_shut_down_is_no_fault(last: str, severity: str) -> None:
    control = (
        Talk(0, at=0, port=50_001).handshake("DEALER", "ROUTER").multipart(CLIENT, *frames("shutdown_request", "1"))
    )
    control.multipart(SERVER, *frames(last, "r", "1")).close(SERVER)
    tries = [Talk(number, at=number, port=50_001).refused() for number in range(1, 12)]
    (diagnosis,) = found(control, *tries, Talk(20, at=14).handshake("REQ", "REP"), rule="peer-departed")
    assert diagnosis.severity == severity
