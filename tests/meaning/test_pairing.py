"""Sockets that do not fit: by type, or since somebody is there already."""

from __future__ import annotations

from pathlib import Path

from tests.meaning.talking import CLIENT, SERVER, Talk
from tests.meaning.telling import told, told_of


def test_types_that_both_said_are_proof() -> None:
    (diagnosis,) = told_of(Talk(0).handshake("SUB", "PULL").close(SERVER)).values()
    assert (diagnosis.rule, diagnosis.certainty) == ("wrong-pairing", "proven")
    assert "SUB of 10.0.0.2 connects to PULL at 10.0.0.1:5555" in diagnosis.text


def test_a_side_that_only_closes_has_likely_another_type(captures: Path) -> None:
    found = told(captures / "problems/wrong-pairing.pcap")
    assert list(found) == ["wrong-pairing"]
    assert found["wrong-pairing"].certainty == "likely"


def test_a_type_that_is_known_from_elsewhere_clears_it() -> None:
    def refused(client: str) -> Talk:
        return Talk(0).greet(CLIENT).greet(SERVER).ready(CLIENT, client).close(SERVER)

    other = Talk(1, at=5, client=3).handshake("PUSH", "PULL").close()
    assert "PULL at 10.0.0.1:5555" in told_of(refused("SUB"), other)["wrong-pairing"].text
    assert "wrong-pairing" not in told_of(refused("PUSH"), other)


def test_one_identity_for_two(captures: Path) -> None:
    diagnosis = told(captures / "problems/identity-collision.pcap")["identity-collision"]
    assert 'Two clients are "worker-1"' in diagnosis.text
    assert "10.0.0.2 and 10.0.0.3" in diagnosis.text
    assert "identity-collision" not in told(captures / "problems/identity-used-again.pcap")


def test_a_second_peer_of_pair() -> None:
    first, second = (Talk(number, at=number, client=2 + number).handshake("PAIR", "PAIR") for number in (0, 1))
    assert "PAIR 10.0.0.3 connects to PAIR 10.0.0.1:5555" in told_of(first, second)["pair-occupied"].text
    assert told_of(first.close(), Talk(1).handshake("PAIR", "PAIR")) == {}
