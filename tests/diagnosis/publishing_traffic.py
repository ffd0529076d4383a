"""Scripted connections of subscribers to publishers."""

from __future__ import annotations

from tests.peer_octets import GREETING, command, message, ready
from tests.traffic import Capture, Conversation, together
from zmtpscope.diagnosis.derivation import Derivation, derived_records
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.diagnosis.diagnosis import Diagnosis
from zmtpscope.dissect import Analyser, Options

START = 1_700_000_000_000_000_000
MS = 1_000_000
PUBLISHER = bytes([10, 0, 0, 1])


class Subscriber(Conversation):
    """A SUB that connects to a PUB of ZMTP 3.1, at this time (ms) from the start; each step takes 1 ms."""

    def __init__(
        self, host: int = 2, at: int = 0, *topics: str, types: tuple[str, str] = ("SUB", "PUB"), port: int = 5556
    ) -> None:
        hosts = bytes([10, 0, 0, host]), PUBLISHER
        super().__init__(ports=(50_000 + at % 10_000, port), start=START + at * MS, hosts=hosts)
        for side in (0, 1):
            self.send(side, GREETING)
        for side in (1, 0):
            self.send(side, ready(types[side]))
        for topic in topics:
            self.subscribe(topic)

    def at(self, milliseconds: int) -> None:
        """Set the time of the next step, which is not before the previous one."""
        self.time = max(self.time, START + milliseconds * MS - MS)

    def subscribe(self, topic: str) -> None:
        self.send(0, command("NULL", "SUBSCRIBE", topic=topic))

    def cancel(self, topic: str) -> None:
        self.send(0, command("NULL", "CANCEL", topic=topic))

    def join(self, group: str) -> None:
        self.send(0, command("NULL", "JOIN", group=group))

    def leave(self, group: str) -> None:
        self.send(0, command("NULL", "LEAVE", group=group))

    def old_style(self, body: bytes) -> None:
        self.send(0, message(body))

    def publish(self, *frames: bytes, times: int = 1, every: int = 1) -> None:
        for _ in range(times):
            self.send(1, message(*frames))
            self.wait((every - 1) * MS)


def derivation_of(*connections: Conversation, size: int = 7) -> Derivation:
    """Return the derivation of a capture of connections, read in blocks of `size` packets."""
    derivation = Derivation()
    for batch in Analyser(Options(bodies="none")).run(Capture(together(*connections), size)):
        derived_records(derivation.feed(batch))
    return derivation


def diagnosed(*connections: Conversation, rule: str) -> list[Diagnosis]:
    explained = diagnose(derivation_of(*connections).knowledge())
    causes = [each for cause in explained for each in (cause.diagnosis, *cause.consequences)]
    return [each for each in causes if each.rule == rule]
