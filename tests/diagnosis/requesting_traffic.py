"""Scripted connections of requesting clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.diagnosis.publishing_traffic import MS, START, diagnosed
from tests.peer_octets import GREETING, message, ready
from tests.traffic import Capture, Conversation, together
from zmtpscope.diagnosis.derivation import Derivation, derived_records
from zmtpscope.dissect import Analyser, Options

__all__ = ["HANDSHAKE", "MS", "START", "Asker", "derived_from", "diagnosed", "outcomes", "records_from"]

SERVER = bytes([10, 0, 0, 1])
HANDSHAKE = 7


class Asker(Conversation):
    """A REQ that connects to a REP (or others, by `types`) at this time (ms) from the start; each step takes 1 ms."""

    def __init__(self, types: tuple[str, str] = ("REQ", "REP"), host: int = 2, at: int = 0, port: int = 5555) -> None:
        hosts = bytes([10, 0, 0, host]), SERVER
        super().__init__(ports=(50_000 + at % 10_000, port), start=START + at * MS, hosts=hosts)
        for side in (0, 1):
            self.send(side, GREETING)
        for side in (0, 1):
            self.send(side, ready(types[side]))

    def ask(self, *frames: bytes, envelope: Sequence[bytes] = ()) -> None:
        """Send frames from side 0, after an envelope."""
        self.send(0, message(*envelope, b"", *frames))

    def answer(self, *frames: bytes, envelope: Sequence[bytes] = ()) -> None:
        """Send frames from side 1, after an envelope."""
        self.send(1, message(*envelope, b"", *frames))

    def pause(self, milliseconds: int) -> None:
        self.wait(milliseconds * MS)


def derived_from(
    *connections: Conversation, size: int = 7, type_: str = "request"
) -> tuple[Derivation, list[dict[str, Any]]]:
    """Return the derivation of connections, read in blocks of `size` packets, and their derived records in order."""
    derivation, records = Derivation(), []
    for batch in Analyser(Options(bodies="none")).run(Capture(together(*connections), size)):
        records += derived_records(derivation.feed(batch))
    records.sort(key=lambda record: record.order)
    return derivation, [record.values for record in records if record.type == type_]


def records_from(*connections: Conversation, size: int = 7, type_: str = "request") -> list[dict[str, Any]]:
    return derived_from(*connections, size=size, type_=type_)[1]


def outcomes(*connections: Conversation, size: int = 7) -> list[str]:
    return [values["outcome"] for values in records_from(*connections, size=size)]
