"""Read CURVE connections with keys, and select their records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.curve import Steps, conversation, keys
from tests.traffic import Capture, Packet, records
from zmtpscope.dissect import Options

Found = list[dict[str, Any]]

HABITS = ("CURVE-10", "CURVE-11", "ZMTP3X-GREETING-08", "ZMTP-CONN-06")
"""Findings that libzmq always causes, and the version in use."""


def read(talk: Steps, folder: Path, text: str, size: int = 1 << 30, **options: Any) -> Found:
    """Return the records of a conversation, one packet for each step, with the keys of a file with this text."""
    return read_packets(conversation(talk).packets, folder, text, size, **options)


def read_packets(packets: Sequence[Packet], folder: Path, text: str, size: int = 1 << 30, **options: Any) -> Found:
    found, analyser = records(Capture(packets, size), Options(keys=keys(folder, text), **options))
    assert analyser.summary.sums.hold()
    return found


def ids(found: Found) -> list[str]:
    return [each["id"] for each in found if each["record"] == "finding" and each["id"] not in HABITS]


def finding(found: Found, id_: str) -> dict[str, Any]:
    (record,) = [each for each in found if each.get("id") == id_]
    return record


def messages(found: Found, side: int | None = None) -> Found:
    return [each for each in found if each["record"] == "message" and side in (None, each["side"])]


def contents(found: Found, side: int | None = None) -> list[list[bytes] | None]:
    """Return the bodies of all messages, None for encrypted ones."""
    return [None if each["kind"] == "encrypted" else each["bodies"] for each in messages(found, side)]


def command(found: Found, name: str) -> dict[str, Any]:
    (record,) = [each for each in found if each["record"] == "command" and each["name"] == name]
    return record
