"""Requests and replies without their empty frame: which side omitted it, and which did not."""

from __future__ import annotations

import pytest

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from tests.peer_octets import message

RULE = "delimiter-missing"


def _talk(client: str, server: str, *steps: tuple[int, tuple[bytes, ...]]) -> Talk:
    talk = Talk(1).handshake(client, server)
    for side, frames in steps:
        talk.send(side, message(*frames)).wait(0.01)
    return talk


@pytest.mark.parametrize(
    ("client", "server", "side", "who"),
    [
        ("REQ", "ROUTER", SERVER, "ROUTER 10.0.0.1:5555 replies to REQ 10.0.0.2"),
        ("REQ", "REP", SERVER, "REP 10.0.0.1:5555 replies to REQ 10.0.0.2"),
        ("REQ", "ROUTER", CLIENT, "REQ 10.0.0.2 sends ROUTER 10.0.0.1:5555 a request"),
        ("DEALER", "REP", CLIENT, "DEALER 10.0.0.2 sends REP 10.0.0.1:5555 a request"),
        ("ROUTER", "REQ", CLIENT, "ROUTER 10.0.0.2 replies to REQ 10.0.0.1:5555"),
    ],
)
def test_a_peer_that_omits_the_empty_frame_is_reported(client: str, server: str, side: int, who: str) -> None:
    request, reply = (b"", b"request"), (b"", b"reply")
    steps = [(side, (b"bare",))] if side == CLIENT else [(CLIENT, request), (SERVER, (b"bare",))]
    diagnosis = diagnoses_of(_talk(client, server, *steps, (1 - side, reply)).close(CLIENT))[RULE]
    assert who in diagnosis.text
    assert diagnosis.severity == "error"


@pytest.mark.parametrize(
    ("client", "server", "steps"),
    [
        ("REQ", "ROUTER", [(CLIENT, (b"", b"request")), (SERVER, (b"", b"reply"))]),
        ("REQ", "ROUTER", [(CLIENT, (b"\1\2\3\4", b"", b"request")), (SERVER, (b"\1\2\3\4", b"", b"reply"))]),
        ("REQ", "ROUTER", [(CLIENT, (b"", b"READY")), (SERVER, (b"", b"client", b"", b"work"))]),
        ("DEALER", "ROUTER", [(CLIENT, (b"request",)), (SERVER, (b"reply",))]),
        ("DEALER", "REP", [(CLIENT, (b"name", b"", b"request")), (SERVER, (b"name", b"", b"reply"))]),
    ],
)
def test_a_peer_that_needs_none_or_has_one_is_not(
    client: str, server: str, steps: list[tuple[int, tuple[bytes, ...]]]
) -> None:
    assert RULE not in diagnoses_of(_talk(client, server, *steps))


def test_that_a_req_leaves_because_of_it_is_reported() -> None:
    stays = _talk("REQ", "ROUTER", (CLIENT, (b"", b"request")), (SERVER, (b"reply",)))
    assert "closes" not in diagnoses_of(stays)[RULE].text
    stays.wait(3).close(CLIENT)
    assert "closes" not in diagnoses_of(stays)[RULE].text
    leaves = _talk("REQ", "ROUTER", (CLIENT, (b"", b"request")), (SERVER, (b"reply",))).close(CLIENT)
    assert "and the REQ closes the connection" in diagnoses_of(leaves)[RULE].text


def test_a_reply_without_the_id_of_the_request_is_dropped_by_its_req() -> None:
    steps = [(CLIENT, (b"\1\2\3\4", b"", b"request")), (SERVER, (b"", b"reply"))]
    talk = _talk("REQ", "ROUTER", *steps).wait(5)
    assert list(diagnoses_of(talk)) == [RULE]
    assert diagnoses_of(talk)[RULE].text.startswith(
        "ROUTER 10.0.0.1:5555 replies to REQ 10.0.0.2 without the request id"
    )
