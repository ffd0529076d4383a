"""Scripted connections of ZMTP 3.1 with NULL, for tests that compare connections."""

from __future__ import annotations

from dataclasses import replace

from tests.peer_octets import command, message, ready
from tests.traffic import Capture, Conversation
from zmtpscope.capture.segments import ACK, FIN
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.dissect import Analyser, Options
from zmtpscope.payloads.registry import Registry
from zmtpscope.records import SECOND
from zmtpscope.zmtp.greeting import build_greeting_3

START = 1_700_000_000 * SECOND
CLIENT, SERVER = 0, 1


class Talk:
    """Connection `number` of 10.0.0.`client` to 10.0.0.1, which began `at` seconds after the first; side 0 is the
    client."""

    def __init__(self, number: int, *, at: float | None = None, client: int = 2, port: int = 5555) -> None:
        start = START + int((10 * number if at is None else at) * SECOND)
        hosts = bytes([10, 0, 0, client]), bytes([10, 0, 0, 1])
        self.conversation = Conversation(
            initial=(1000 + number, 9000 + number), ports=(40_000 + number, port), start=start, hosts=hosts
        )

    def greet(self, side: int, mechanism: str = "NULL") -> Talk:
        return self.send(side, build_greeting_3(mechanism, version="3.1"))

    def command(self, side: int, name: str, mechanism: str = "NULL", **fields: object) -> Talk:
        return self.send(side, command(mechanism, name, **fields))

    def ready(self, side: int, socket_type: str, identity: str | None = None) -> Talk:
        return self.send(side, ready(socket_type, identity=identity or None))

    def handshake(self, client: str, server: str, identity: str | None = None) -> Talk:
        """All of it, with the socket types of both sides and the identity of the client."""
        return self.greet(CLIENT).greet(SERVER).ready(CLIENT, client, identity).ready(SERVER, server)

    def message(self, side: int, body: bytes) -> Talk:
        return self.send(side, message(body))

    def multipart(self, side: int, *frames: bytes) -> Talk:
        return self.send(side, message(*frames))

    def send(self, side: int, octets: bytes) -> Talk:
        """Send octets of a side, and the acknowledgment of the other."""
        self.conversation.send(side, octets)
        self.conversation.acknowledge(1 - side)
        return self

    def wait(self, seconds: float) -> Talk:
        self.conversation.wait(int(seconds * SECOND))
        return self

    def close(self, side: int = CLIENT) -> Talk:
        self.conversation.add(side, FIN | ACK)
        self.conversation.add(1 - side, FIN | ACK)
        self.conversation.add(side, ACK)
        return self

    def refused(self) -> Talk:
        """Instead of a connection: the SYN is answered by RST, because nothing listens."""
        del self.conversation.packets[1:]
        return self.reset(SERVER)

    def unanswered(self, syns: int) -> Talk:
        """Send `syns` SYNs, one a second, without an answer, instead of a connection."""
        (first,) = self.conversation.packets[:1]
        self.conversation.packets = [replace(first, time=first.time + number * SECOND) for number in range(syns)]
        return self

    def reset(self, side: int, *, knows: bool = True) -> Talk:
        self.conversation.reset(side, knows=knows)
        return self


def knowledge_of(*talks: Talk, payloads: Registry | None = None) -> Knowledge:
    """Return the knowledge at the end of a capture of these connections; `payloads` are the dissectors."""
    packets = [packet for talk in talks for packet in talk.conversation.packets]
    derivation, capture = Derivation(), Capture(sorted(packets, key=lambda packet: packet.time))
    for batch in Analyser(Options(bodies="none", payloads=payloads)).run(capture):
        derivation.feed(batch)
    return derivation.knowledge()
