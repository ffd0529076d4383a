"""P1 on real captures, unchanged and changed: the same lines for any block size."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.invariants import differs_by_blocks
from tests.readings import CAPTURE_FILES
from tests.suites import IS_FULL
from zmtpscope.curve_keys import Keys
from zmtpscope.dissect import Options
from zmtpscope.payloads.registry import Registry

LARGEST = 10_000
"""Octets of a capture that is read here packet by packet."""

FILE_HEADER, RECORD_HEADER = 24, 16

SMALL = [path for path in CAPTURE_FILES if path.stat().st_size <= LARGEST]


def options_for(path: Path, *, details: bool) -> Options:
    keys = path.with_suffix(".keys")
    return Options(
        frames=not details,
        details=details,
        show_secrets=True,
        payloads=Registry(),
        keys=Keys([keys]) if keys.exists() else None,
    )


def changed(octets: bytes, random: Random) -> bytes:
    """Return a little-endian pcap after losing some packets and changing octets of others."""
    records, position = [], FILE_HEADER
    while position < len(octets):
        stop = position + RECORD_HEADER + int.from_bytes(octets[position + 8 : position + 12], "little")
        record = bytearray(octets[position:stop])
        if random.random() < 0.1 and len(record) > 90:
            record[random.randrange(80, len(record))] = random.choice((0, 1, 2, 3, 4, 0x7F, 0xFF))
        if random.random() > 0.03:
            records.append(bytes(record))
        position = stop
    return octets[:FILE_HEADER] + b"".join(records)


@pytest.mark.parametrize("path", SMALL, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_p1_blocks_of_any_size_give_the_same_of_captures(path: Path) -> None:
    octets, random = path.read_bytes(), Random(path.stem)
    assert differs_by_blocks(octets, lambda: options_for(path, details=True)) is None
    if octets.startswith(b"\xd4\xc3\xb2\xa1"):
        for seed in range(2 if IS_FULL else 1):
            assert differs_by_blocks(changed(octets, random), lambda: options_for(path, details=False), seed) is None
