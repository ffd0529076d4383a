"""Recordings for tests: scripts of an application's data on its connections, and the destination of the packets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zmtpscope.live.recording.recording import RecordedConnection, Recording
from zmtpscope.live.recording.segments import Address

NOW = 1_700_000_000_000_000_000
HERE, THERE = ("10.0.0.2", 50_000), ("10.0.0.1", 5555)


class Step(NamedTuple):
    """One event of connection number `connection`: "open", "sent", "received", "closed" or "reset", `pause`
    nanoseconds after the one before. `by_us` is for the first and the last two."""

    connection: int
    what: str
    octets: bytes = b""
    by_us: bool = True
    pause: int = 1000

    def __repr__(self) -> str:
        """Without most of large octets, which no report of a failure has room for."""
        shown = f"{self.octets[:200]!r} ({len(self.octets)} octets)"
        return f"Step({self.connection}, {self.what!r}, {shown}, by_us={self.by_us}, pause={self.pause})"


class Packets:
    def __init__(self) -> None:
        self.events: list[tuple[int, list[bytes]]] = []

    def take(self, time: int, packets: Sequence[bytes]) -> None:
        self.events.append((time, list(packets)))

    @property
    def octets(self) -> list[bytes]:
        return [packet for _, packets in self.events for packet in packets]


def ends(connection: int) -> tuple[Address, Address]:
    """The sockets of a connection; every third is on IPv6, and every other three go to one endpoint."""
    if connection % 3 == 2:
        return ("fe80::2%eth0", 50_000 + connection), ("fe80::1%eth0", 5555)
    return (HERE[0], HERE[1] + connection), THERE


def play(recording: Recording, steps: Sequence[Step], start: int = NOW) -> None:
    connections: dict[int, RecordedConnection] = {}
    time = start
    for step in steps:
        time += step.pause
        if step.what == "open":
            connections[step.connection] = recording.opened(*ends(step.connection), step.by_us, time)
        elif step.what == "sent":
            connections[step.connection].sent(step.octets, time)
        elif step.what == "received":
            connections[step.connection].received(step.octets, time)
        else:
            connections[step.connection].closed(step.by_us, step.what == "reset", time)
