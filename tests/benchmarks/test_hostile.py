"""Captures that are expensive to read contain the promised attack and can be read; attacks on sockets run."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.attacks import ATTACKS, CaptureWriter
from benchmarks.hostile import SERIES
from zmtpscope.capture import open_captures
from zmtpscope.live.peer import outbox


@pytest.mark.parametrize("name", ATTACKS)
def test_the_packets_of_an_attack_are_read(tmp_path: Path, name: str) -> None:
    assert name in SERIES
    path = tmp_path / "attack.pcap"
    with path.open("wb") as file:
        written = CaptureWriter(file)
        ATTACKS[name].write(written, 10)
    blocks = list(open_captures([str(path)]))
    columns = [each for block in blocks for each in (block, block.datagrams)]
    assert sum(len(each.starts) for each in columns) == written.packets
    assert sum(int((each.stops - each.starts).sum()) for each in columns) == written.octets


@pytest.mark.slow
@pytest.mark.parametrize("name", peers.ATTACKS)
def test_the_attacks_on_sockets_grow(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name in SERIES
    monkeypatch.setattr(outbox, "SEND_TIMEOUT", 0.1)
    few, many = map(peers.ATTACKS[name].run, (4, 8))
    assert few.pieces < many.pieces
    assert few.octets < many.octets
