"""An address of which one of several programs does not listen, and servers that restart."""

from __future__ import annotations

import pytest

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk

RULE = "partly-refused"


def calls(times: int, *, refused: int = 1, wait: float = 0.2, closes: int = CLIENT) -> list[Talk]:
    """Calls of a client that connects for each, after some refusals 0.1 s apart; 3 s from one to the next."""
    talks = []
    for number in range(times):
        at = 3 * number
        talks += [Talk(100 + 10 * number + each, at=at + each / 10).refused() for each in range(refused)]
        called = Talk(10 + number, at=at + (refused - 1) / 10 + wait).handshake("REQ", "REP")
        talks.append(called.multipart(CLIENT, b"", b"ask").multipart(SERVER, b"", b"answer").close(closes))
    return talks


def test_refusals_between_connections_show_that_one_of_several_programs_does_not_listen() -> None:
    diagnosis = diagnoses_of(*calls(6))[RULE]
    assert diagnosis.severity == "warn"
    assert diagnosis.text == (
        "10.0.0.1:5555 refuses some connections of 10.0.0.2 and accepts others in between: it refused 6 times"
    )
    assert "share this address" in diagnosis.hint


@pytest.mark.parametrize(
    "talks",
    [calls(4), calls(6, refused=6), calls(6, wait=2), calls(6, closes=SERVER)],
    ids=["few", "a server that is away for longer", "back late", "a server that ended the connection before"],
)
def test_a_server_that_restarts_is_not_reported(talks: list[Talk]) -> None:
    assert RULE not in diagnoses_of(*talks)
