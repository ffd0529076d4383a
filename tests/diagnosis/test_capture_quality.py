"""Missing parts of a capture are reported, and no peer is accused of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.diagnosis.diagnosing import diagnoses_in
from tests.diagnosis.requesting_traffic import Asker
from tests.dissect.test_zre_network import Parts, one_sided, unanswered
from tests.peer_octets import message
from tests.traffic import Capture, together
from zmtpscope.diagnosis import derivation
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.dissect import Analyser, Options
from zmtpscope.payloads.registry import Registry

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
    found = diagnoses_in(captures / f"damage/{name}.pcap")
    assert set(found) - NOTES == {rule}
    assert words in found[rule].text


@pytest.mark.parametrize("name", ["duplicates", "reordered", "overlaps", "reorder-duplicate"])
def test_data_that_tcp_recovers_is_no_loss(captures: Path, name: str) -> None:
    assert set(diagnoses_in(captures / f"damage/{name}.pcap")) <= {"clock-went-back", "capture-misordered"}


@pytest.mark.parametrize("late", [0, 1], ids=["packets of the client are late", "packets of the server are late"])
def test_a_capture_merged_from_two_clocks_accuses_nobody(late: int) -> None:
    """The replies come before their requests, or data after a close."""
    asker = Asker()
    for number in range(5):
        asker.ask(b"question %d" % number)
        asker.answer(b"answer")
        asker.pause(2)
    asker.close()
    packets = [replace(each, time=each.time + 20_000_000 * (each.side == late)) for each in asker.packets]
    found = derivation.Derivation()
    for batch in Analyser(Options()).run(Capture(sorted(packets, key=lambda packet: packet.time), 7)):
        found.feed(batch)
    assert {each.diagnosis.rule for each in diagnose(found.knowledge())} - {"clear-text"} == {"capture-misordered"}


def test_facts_without_room_are_counted(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = captures / "problems/login-refused.pcap"
    assert "limits-reached" not in diagnoses_in(path)
    monkeypatch.setattr(derivation, "MAX_CONNECTIONS", 4)
    assert "connections left out, the oldest first" in diagnoses_in(path)["limits-reached"].text


@pytest.mark.parametrize(("node", "id_"), [(one_sided, "ZRE-12"), (unanswered, "ZRE-11")])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_zre_node_whose_connection_the_capture_may_lack_is_not_accused(
    is_whole: bool, node: Callable[[], Parts], id_: str
) -> None:
    other = Asker(("PUSH", "PULL"))
    for body in (b"a", b"b", b"c"):
        other.send(0, message(body))
    other.acknowledge(1)
    if not is_whole:
        del other.packets[-3]
    found = derivation.Derivation()
    packets = together(*node(), other)
    for batch in Analyser(Options(payloads=Registry())).run(Capture(packets, 7)):
        found.feed(batch)
    texts = [each.diagnosis.text for each in diagnose(found.knowledge())]
    assert any(f"({id_})" in each for each in texts) == is_whole
