"""RSTs that something on the way sends in the name of a peer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.reading import diagnoses
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Options

REPORTED = Path(__file__).parents[2] / "captures/problems/reported/lb-idle-rst.pcap"
FILE_HEADER, RECORD_HEADER, ETHERNET, TTL_AT = 24, 16, 14, 8
RST = 23
"""The packet with the RST, and the TTL of a RST of the peer."""
TTL_OF_PEER = 63


def with_ttl(path: Path, packet: int, ttl: int) -> None:
    octets, at = bytearray(REPORTED.read_bytes()), FILE_HEADER
    for _ in range(packet - 1):
        at += RECORD_HEADER + int.from_bytes(octets[at + 8 : at + 12], "little")
    octets[at + RECORD_HEADER + ETHERNET + TTL_AT] = ttl
    path.write_bytes(octets)


def rules(path: Path) -> set[str]:
    return {explained.diagnosis.rule for explained in diagnoses(path)}


def connections(path: Path, size: int = 1 << 30) -> list[dict[str, Any]]:
    """Return the records of connections, read in blocks of `size` packets."""
    captures = open_captures([str(path)])
    captures.most_packets = size
    found = [record for batch in Analyser(Options()).run(captures) for record in batch.records]
    return [record.values for record in found if record.type == "connection"]


def test_a_reset_with_another_ttl_is_not_the_peers() -> None:
    assert "reset-on-the-way" in rules(REPORTED)
    assert not {"request-lost", "peer-departed"} & rules(REPORTED)


def test_a_reset_with_the_ttl_of_the_syn_is(tmp_path: Path) -> None:
    with_ttl(tmp_path / "a.pcap", RST, TTL_OF_PEER)
    found = rules(tmp_path / "a.pcap")
    assert "reset-on-the-way" not in found
    assert {"request-lost", "peer-departed"} & found


def test_ttls_of_the_syn_and_of_the_reset_are_read() -> None:
    first, second = connections(REPORTED)
    assert (first["syn_ttl"], first["rst_ttl"]) == (TTL_OF_PEER, 64)
    assert (second["syn_ttl"], second["rst_ttl"]) == (None, None)


def test_an_idle_connection_that_a_middlebox_reset_reached_its_timeout() -> None:
    hints = [each.diagnosis.hint for each in diagnoses(REPORTED) if each.diagnosis.rule == "reset-on-the-way"]
    assert "idle timeout of the load balancer" in hints[0]


def test_a_connection_that_is_reset_in_the_middle_of_its_traffic_was_not_idle() -> None:
    (found,) = diagnoses(REPORTED.with_name("filter-resets-on-content.pcapng.gz"))
    assert found.diagnosis.rule == "reset-on-the-way"
    assert "not idle" in found.diagnosis.hint


@pytest.mark.parametrize("size", [1, 2, 7])
def test_blocks_do_not_matter(size: int) -> None:
    assert connections(REPORTED, size) == connections(REPORTED)
