"""A request is followed over its hops, and what others say meanwhile is none of them."""

from __future__ import annotations

from tests.scripted import GREETING, message, ready
from tests.traffic import Capture, Conversation
from zmtpscope.conversations.request import RequestHops
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.message_columns import MessageColumns

OPTIONS = Options()
START = 1_700_000_000_000_000_000


def connected(number: int, types: tuple[str, str]) -> Conversation:
    """A connection up to READY."""
    talk = Conversation(ports=(50_000 + number, 5555 + number), start=START + number * 1_000_000_000)
    for side, octets in ((0, GREETING), (1, GREETING), (0, ready(types[0])), (1, ready(types[1]))):
        talk.send(side, octets)
    return talk


class Network:
    """Two clients, a broker between them and one worker; what is said is in the order of calls."""

    def __init__(self) -> None:
        self.talks = [connected(1, ("REQ", "ROUTER")), connected(2, ("REQ", "ROUTER")), connected(3, ("REP", "DEALER"))]
        self.time = START + 10_000_000_000

    def say(self, talk: int, side: int, *frames: bytes) -> None:
        """One message."""
        self.time += 1_000_000_000
        conversation = self.talks[talk]
        conversation.time = self.time
        conversation.send(side, message(*frames))

    def hops(self, place: int) -> list[tuple[int, int, list[bytes]]]:
        """(connection, side, frames) of all hops of the request that is said at `place`, from 0."""
        packets = sorted((packet for talk in self.talks for packet in talk.packets), key=lambda packet: packet.time)
        said = [number for number, packet in enumerate(packets, 1) if packet.time > START + 10_000_000_000]
        hops = RequestHops(said[place], OPTIONS)
        found = []
        for batch in filter(lambda batch: batch.runs, Analyser(OPTIONS).run(Capture(packets))):
            for values in MessageColumns.of(hops.batch(batch), OPTIONS).records():
                found.append((values["ts_ns"], values["conn"], values["side"], values["bodies"]))
        return [(conn, side, bodies) for _, conn, side, bodies in sorted(found)]


def test_two_requests_at_the_same_time() -> None:
    network = Network()
    network.say(0, 0, b"", b"one")
    network.say(1, 0, b"", b"two")
    network.say(2, 1, b"B", b"", b"two")
    network.say(2, 1, b"A", b"", b"one")
    network.say(2, 0, b"B", b"", b"reply two")
    network.say(1, 1, b"", b"reply two")
    network.say(2, 0, b"A", b"", b"reply one")
    network.say(0, 1, b"", b"reply one")
    network.say(0, 0, b"", b"one")
    assert network.hops(0) == [
        (1, 0, [b"", b"one"]),
        (3, 1, [b"A", b"", b"one"]),
        (3, 0, [b"A", b"", b"reply one"]),
        (1, 1, [b"", b"reply one"]),
    ]
    assert [frames[-1] for _, _, frames in network.hops(1)] == [b"two", b"two", b"reply two", b"reply two"]


def test_a_request_without_a_reply() -> None:
    network = Network()
    network.say(0, 0, b"", b"one")
    network.say(2, 1, b"A", b"", b"one")
    network.say(1, 0, b"", b"two")
    assert [(conn, side) for conn, side, _ in network.hops(0)] == [(1, 0), (3, 1)]
