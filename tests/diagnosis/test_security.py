"""Security that is not there, and where it does not matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.diagnosing import diagnoses_in, diagnoses_of
from tests.diagnosis.reading import diagnoses
from tests.diagnosis.talking import CLIENT, SERVER, Talk, knowledge_of
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.zmtp.greeting import build_greeting_2


def _clear(path: Path) -> list[str]:
    return [each.diagnosis.text for each in diagnoses(path) if each.diagnosis.rule == "clear-text"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("patterns/reconnect-after-restart", "Messages of ROUTER 10.77.0.1:5561 cross the network unencrypted"),
        ("security/plain-accepted", "1 client sent a password to ROUTER 10.77.0.1:5570 unencrypted"),
    ],
)
def test_unencrypted_connections(captures: Path, name: str, words: str) -> None:
    (text,) = _clear(captures / f"{name}.pcap")
    assert text.startswith(words)


@pytest.mark.parametrize("name", ["patterns/pubsub", "security/curve-4.3.5", "security/gssapi"])
def test_one_host_alone_and_encryption_are_no_clear_text(captures: Path, name: str) -> None:
    assert _clear(captures / f"{name}.pcap") == []


def test_without_messages_nothing_is_reported_as_unencrypted() -> None:
    def rules(talk: Talk) -> list[str]:
        return [each.diagnosis.rule for each in diagnose(knowledge_of(talk.close()))]

    assert "clear-text" not in rules(Talk(0).handshake("PULL", "PUSH"))
    assert "clear-text" in rules(Talk(0).handshake("PULL", "PUSH").message(SERVER, b"task"))


def test_an_old_peer_takes_security_away(captures: Path) -> None:
    diagnosis = diagnoses_in(captures / "problems/downgrade.pcap")["downgrade"]
    assert diagnosis.severity == "note"
    assert "PULL 10.0.0.1:5555 speaks ZMTP 2.0 with PUSH 10.0.0.2, because the older side" in diagnosis.text
    assert "downgrade" not in diagnoses_in(captures / "versions/pushpull-bind2.2.0-conn2.2.0.pcap")


@pytest.mark.parametrize("old_comes", ["before", "behind"])
def test_an_old_peer_goes_without_the_security_of_others(old_comes: str) -> None:
    at = 0 if old_comes == "before" else 20
    old = Talk(0, at=at, client=7).send(CLIENT, build_greeting_2("PUSH"))
    old.send(SERVER, build_greeting_2("PULL", padding=1, revision=3)).message(CLIENT, b"in clear").close()
    secured = Talk(1, at=10).greet(CLIENT, "CURVE").greet(SERVER, "CURVE").wait(1).close(CLIENT)
    diagnosis = diagnoses_of(old, secured)["downgrade"]
    assert diagnosis.severity == "error"
    assert diagnosis.text.startswith(
        "PUSH 10.0.0.7 and PULL 10.0.0.1:5555 communicate without CURVE, which others use there"
    )
