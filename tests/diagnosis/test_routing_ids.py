"""ROUTERs that send to a wrong routing id, and ROUTERs that only have no work."""

from __future__ import annotations

import pytest

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk

RULE = "old-routing-id"


def updated(number: int = 0, *, at: float = 0, times: int = 10, client: int = 2, identity: str | None = None) -> Talk:
    """A DEALER registers, and the ROUTER sends it an update every half second; the DEALER leaves."""
    talk = Talk(number, at=at, client=client).handshake("DEALER", "ROUTER", identity).message(CLIENT, b"register")
    for _ in range(times):
        talk.message(SERVER, b"update").wait(0.5)
    return talk.close(CLIENT)


def back(number: int = 1, *, at: float = 6, alive: int = 10, identity: str | None = None) -> Talk:
    """The client reconnects, and reports every second that it is there."""
    talk = Talk(number, at=at).handshake("DEALER", "ROUTER", identity)
    for _ in range(alive):
        talk.message(CLIENT, b"alive").wait(1)
    return talk


def test_a_router_that_is_silent_to_the_client_that_returned_is_named() -> None:
    diagnosis = diagnoses_of(updated(), back())[RULE]
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")
    assert diagnosis.text == (
        "ROUTER 10.0.0.1:5555 sends nothing on the new connection of DEALER 10.0.0.2, on which 10 messages arrived "
        "in 9.02 s; on the old one it sent 10, as if it still used the routing id of that one"
    )


def test_a_client_that_returns_with_another_identity_has_moved() -> None:
    assert RULE in diagnoses_of(updated(identity="one"), back(identity="two"))


def test_other_programs_of_the_host_may_continue() -> None:
    assert RULE in diagnoses_of(updated(), back(), Talk(7, at=1).handshake("DEALER", "ROUTER"))


def test_a_router_that_sends_to_others_meanwhile_is_a_note() -> None:
    assert diagnoses_of(updated(), back(), updated(2, at=5, client=3))[RULE].severity == "note"


ANSWERED = back().message(SERVER, b"update")

ANSWERING = Talk(0, at=0).handshake("DEALER", "ROUTER")
for _ in range(10):
    ANSWERING.message(CLIENT, b"question").message(SERVER, b"answer").wait(0.5)
ANSWERING.close(CLIENT)


@pytest.mark.parametrize(
    "talks",
    [
        (updated(), ANSWERED),
        (updated(identity="one"), back(identity="one")),
        (ANSWERING, back()),
        (updated(times=3), back()),
        (updated(), back(alive=4)),
        (updated(), updated(7, at=0.1), back(at=8)),
    ],
    ids=[
        "the ROUTER sends to it",
        "the routing id is the same",
        "the ROUTER only answered",
        "few updates",
        "a short time",
        "two left and one came",
    ],
)
def test_other_clients_that_return_are_not_reported(talks: tuple[Talk, ...]) -> None:
    assert RULE not in diagnoses_of(*talks)


UNANSWERED = "client-unanswered"


def panel(number: int, *, client: int, answered: bool, request: bytes = b"status?", times: int = 12) -> Talk:
    """A DEALER asks every half second, and the ROUTER answers, or not."""
    talk = Talk(number, at=number * 0.1, client=client).handshake("DEALER", "ROUTER", f"panel-{client}")
    for _ in range(times):
        talk.message(CLIENT, request)
        if answered:
            talk.message(SERVER, b"ok")
        talk.wait(0.5)
    return talk


def test_a_client_that_a_router_never_answers_is_named_if_it_answers_others() -> None:
    diagnosis = diagnoses_of(panel(0, client=2, answered=False), panel(1, client=3, answered=True))[UNANSWERED]
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")
    assert diagnosis.text == (
        'ROUTER 10.0.0.1:5555 sends nothing to DEALER "panel-2" 10.0.0.2, from which 12 messages came, although it '
        'answers each message of DEALER "panel-3" 10.0.0.3'
    )


@pytest.mark.parametrize(
    "talks",
    [
        (panel(0, client=2, answered=False),),
        (panel(0, client=2, answered=False, times=2), panel(1, client=3, answered=True)),
        (panel(0, client=2, answered=False, request=b"!"), panel(1, client=3, answered=True)),
        (panel(0, client=2, answered=False), panel(1, client=3, answered=True, times=2)),
        (panel(0, client=2, answered=False), panel(1, client=3, answered=True), panel(2, client=4, answered=False)),
    ],
    ids=["no other client", "few messages", "heartbeats", "the other has few, too", "only one is answered"],
)
def test_a_router_owes_no_answer_otherwise(talks: tuple[Talk, ...]) -> None:
    assert UNANSWERED not in diagnoses_of(*talks)


def test_a_router_that_answers_no_client_at_all_is_a_note() -> None:
    """Its workers may be missing, or no reply was due."""
    waiting = [panel(number, client=number + 2, answered=False, times=2).wait(12) for number in (0, 1)]
    diagnosis = diagnoses_of(*[talk.command(CLIENT, "PING") for talk in waiting])[UNANSWERED]
    assert (diagnosis.severity, diagnosis.certainty) == ("note", "likely")
    assert diagnosis.text.startswith('ROUTER 10.0.0.1:5555 sent nothing to any client: DEALER "panel-2" 10.0.0.2 has')
    assert diagnosis.text.endswith(" after 2 messages; the same on 1 other connection")


@pytest.mark.parametrize(
    "talks",
    [
        (panel(0, client=2, answered=False, times=2).wait(5).close(),),
        (panel(0, client=2, answered=False, times=20).wait(12).close(),),
        (panel(0, client=2, answered=False, times=1).wait(12).close(), panel(1, client=3, answered=True)),
        (panel(0, client=2, answered=False, times=2).wait(12).close(), panel(1, client=3, answered=False, times=8)),
        (Talk(0, at=0).handshake("DEALER", "ROUTER", "\1" + 16 * "x").message(CLIENT, b"hello").wait(12).close(),),
    ],
    ids=[
        "a short time",
        "a stream",
        "a worker without work",
        "others go on without an answer",
        "ZRE answers elsewhere",
    ],
)
def test_a_router_may_have_nothing_to_send(talks: tuple[Talk, ...]) -> None:
    assert UNANSWERED not in diagnoses_of(*talks)


def test_a_client_with_messages_of_other_sizes_is_a_note() -> None:
    talks = panel(0, client=2, answered=False, request=b"status?!"), panel(1, client=3, answered=True)
    assert diagnoses_of(*talks)[UNANSWERED].severity == "note"


def caller(number: int, service: bytes, *, answered: bool) -> Talk:
    """A DEALER calls a service by name and id, every half second."""
    talk = Talk(number, at=number * 0.1).handshake("DEALER", "ROUTER")
    for call in range(12):
        talk.multipart(CLIENT, service, b"id-%d" % call, b"picture")
        if answered:
            talk.multipart(SERVER, b"id-%d" % call, b"done")
        talk.wait(0.5)
    return talk


def test_calls_of_a_service_without_worker_are_named() -> None:
    (diagnosis,) = diagnoses_of(caller(0, b"shrink", answered=False), caller(1, b"resize", answered=True)).values()
    assert (diagnosis.rule, diagnosis.severity, diagnosis.certainty) == (UNANSWERED, "warn", "likely")
    assert diagnosis.text == (
        "ROUTER 10.0.0.1:5555 sends nothing to DEALER 10.0.0.2:40000, from which 12 messages came, although it answers "
        "each message of DEALER 10.0.0.2:40001"
    )
    assert diagnosis.hint.startswith("check whether a worker of the ROUTER serves what this client requests")


def test_a_client_whose_old_connection_a_router_still_has_is_ignored() -> None:
    old, new = panel(0, client=2, answered=True, times=5).reset(SERVER), panel(30, client=2, answered=False)
    diagnosis = diagnoses_of(old, new)[UNANSWERED]
    assert diagnosis.text.endswith(
        "from which 12 messages came, as if it still had the earlier connection of that identity and had missed its end"
    )
    assert "ZMQ_ROUTER_HANDOVER" in diagnosis.hint
