"""Identities that a newer library sends twice to a peer of ZMTP 1.0, which receives the second one as a message."""

from __future__ import annotations

import pytest

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_1
from zmtpscope.zmtp.regime import Framing

RULE = "phantom-identity"


def frame(body: bytes, *, more: bool = False) -> bytes:
    return build_frame(Framing.V1, body, more=more)


def talk(identity: str, *frames: bytes, is_newer: bool = True) -> Talk:
    """A client greets a server of ZMTP 1.0 and sends frames."""
    talk = Talk(0).send(SERVER, build_greeting_1()).send(CLIENT, build_greeting_1(identity, pseudo_signature=is_newer))
    for each in frames:
        talk.send(CLIENT, each)
    return talk.send(SERVER, frame(b"OK"))


def test_an_identity_that_is_sent_twice_is_named() -> None:
    diagnosis = diagnoses_of(talk("worker", frame(b"worker"), frame(b"Hello")))[RULE]
    assert diagnosis.text == (
        '"worker" 10.0.0.2 sends its identity "worker" twice to 10.0.0.1:5555, which speaks ZMTP 1.0: the second one '
        "is received as a message"
    )


def test_an_empty_identity_is_sent_twice() -> None:
    assert "sends its empty identity twice" in diagnoses_of(talk("", frame(b""), frame(b"Hello")))[RULE].text


@pytest.mark.parametrize(
    "other",
    [
        talk("worker", frame(b"Hello"), frame(b"worker")),
        talk("worker", frame(b"worker", more=True), frame(b"Hello")),
        talk("worker", frame(b"Hello!"), frame(b"worker")),
        talk("worker", frame(b"worker1"), frame(b"Hello")),
        talk("worker", frame(b"worker"), frame(b"Hello"), is_newer=False),
    ],
    ids=["later", "another-name", "a-longer-message", "a-longer-name", "a-peer-of-1.0"],
)
def test_other_first_messages_are_not(other: Talk) -> None:
    assert RULE not in diagnoses_of(other)
