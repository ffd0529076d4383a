"""Missing parts of a capture are reported, and no peer is accused of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.telling import told
from zmtpscope.diagnosis import derivation

NOTES = {"peer-departed"}


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("holes", "capture-loss", "Packets are missing from the capture: 20728 octets of 1 connection"),
        ("one-segment-lost", "capture-loss", "Packets are missing"),
        ("snap-length-96", "capture-loss", "Packets were cut when they were captured"),
        ("cut-file", "capture-loss", "the file ends inside a packet"),
        ("one-direction", "one-sided-capture", "Only one direction of 2 connections was captured"),
    ],
)
def test_missing_packets_are_the_only_diagnosis(captures: Path, name: str, rule: str, words: str) -> None:
    found = told(captures / f"damage/{name}.pcap")
    assert set(found) - NOTES == {rule}
    assert words in found[rule].text


@pytest.mark.parametrize("name", ["duplicates", "reordered", "overlaps", "reorder-duplicate"])
def test_data_that_tcp_recovers_is_no_loss(captures: Path, name: str) -> None:
    assert set(told(captures / f"damage/{name}.pcap")) <= {"clock-went-back"}


def test_facts_without_room_are_counted(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = captures / "problems/login-refused.pcap"
    assert "limits-reached" not in told(path)
    monkeypatch.setattr(derivation, "MAX_CONNECTIONS", 4)
    assert "connections left out, the oldest first" in told(path)["limits-reached"].text
