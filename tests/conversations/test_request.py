"""A request is followed over its hops, without messages of others."""

from __future__ import annotations

from collections.abc import Iterator

from tests.peer_octets import GREETING, message, ready
from tests.traffic import Capture, Conversation, together
from zmtpscope.conversations.request import RequestHops
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.dissect.records.message_columns import MessageColumns

OPTIONS = Options()
START = 1_700_000_000_000_000_000


def connected(number: int, types: tuple[str, str]) -> Conversation:
    talk = Conversation(ports=(50_000 + number, 5555 + number), start=START + number * 1_000_000_000)
    for side, octets in ((0, GREETING), (1, GREETING), (0, ready(types[0])), (1, ready(types[1]))):
        talk.send(side, octets)
    return talk


class Network:
    """Two clients, a broker between them and one worker; messages are in the order of calls."""

    def __init__(self) -> None:
        self.talks = [connected(1, ("REQ", "ROUTER")), connected(2, ("REQ", "ROUTER")), connected(3, ("REP", "DEALER"))]
        self.time = START + 10_000_000_000

    def send_at(self, talk: int, side: int, *frames: bytes) -> None:
        self.time += 1_000_000_000
        conversation = self.talks[talk]
        conversation.time = self.time
        conversation.send(side, message(*frames))

    def hops(self, place: int) -> list[tuple[int, int, list[bytes]]]:
        """Return (connection, side, frames) of all hops of the request at `place`, from 0."""
        found = []
        for batch in filter(lambda batch: batch.messages, self._batches(place)):
            for values in MessageColumns.of(batch, OPTIONS).records():
                found.append((values["ts_ns"], values["conn"], values["side"], values["bodies"]))
        return [(conn, side, bodies) for _, conn, side, bodies in sorted(found)]

    def findings(self, place: int) -> list[tuple[str, int]]:
        """(id, connection) of all findings about requests that are shown with that one."""
        records = [record.values for batch in self._batches(place) for record in batch.records]
        found = [each for each in records if each["record"] == "finding" and each["id"].startswith("REQREP")]
        return [(each["id"], each["conn"]) for each in found]

    def _batches(self, place: int) -> Iterator[Batch]:
        packets = together(*self.talks)
        after_handshakes = [number for number, packet in enumerate(packets, 1) if packet.time > START + 10_000_000_000]
        return map(RequestHops(after_handshakes[place], OPTIONS).batch, Analyser(OPTIONS).run(Capture(packets)))


def test_two_requests_at_the_same_time() -> None:
    network = Network()
    network.send_at(0, 0, b"", b"one")
    network.send_at(1, 0, b"", b"two")
    network.send_at(2, 1, b"B", b"", b"two")
    network.send_at(2, 1, b"A", b"", b"one")
    network.send_at(2, 0, b"B", b"", b"reply two")
    network.send_at(1, 1, b"", b"reply two")
    network.send_at(2, 0, b"A", b"", b"reply one")
    network.send_at(0, 1, b"", b"reply one")
    network.send_at(0, 0, b"", b"one")
    assert network.hops(0) == [
        (1, 0, [b"", b"one"]),
        (3, 1, [b"A", b"", b"one"]),
        (3, 0, [b"A", b"", b"reply one"]),
        (1, 1, [b"", b"reply one"]),
    ]
    assert [frames[-1] for _, _, frames in network.hops(1)] == [b"two", b"two", b"reply two", b"reply two"]


def test_a_request_without_a_reply() -> None:
    network = Network()
    network.send_at(0, 0, b"", b"one")
    network.send_at(2, 1, b"A", b"", b"one")
    network.send_at(1, 0, b"", b"two")
    assert [(conn, side) for conn, side, _ in network.hops(0)] == [(1, 0), (3, 1)]


def test_an_equal_request_is_drawn_with_its_own_reply() -> None:
    network = Network()
    network.send_at(0, 0, b"", b"one")
    network.send_at(1, 0, b"", b"one")
    network.send_at(2, 1, b"B", b"", b"one")
    network.send_at(2, 0, b"B", b"", b"reply")
    network.send_at(1, 1, b"", b"reply")
    network.send_at(1, 1, b"", b"another")
    assert network.hops(0) == [
        (1, 0, [b"", b"one"]),
        (2, 0, [b"", b"one"]),
        (3, 1, [b"B", b"", b"one"]),
        (3, 0, [b"B", b"", b"reply"]),
        (2, 1, [b"", b"reply"]),
    ]


def test_a_reply_in_another_envelope_than_its_request_is_known_by_its_end() -> None:
    network = Network()
    network.send_at(0, 0, b"", b"one")
    network.send_at(2, 1, b"MDPW01", b"\2", b"A", b"", b"one")
    network.send_at(2, 0, b"MDPW01", b"\4")
    network.send_at(2, 0, b"MDPW01", b"\3", b"A", b"", b"reply")
    network.send_at(0, 1, b"", b"reply")
    assert [frames[-1] for _, _, frames in network.hops(0)] == [b"one", b"one", b"reply", b"reply"]


def test_findings_about_other_requests_of_the_connections_are_left_out() -> None:
    network = Network()
    network.send_at(0, 0, b"", b"one")
    network.send_at(1, 0, b"", b"one")
    network.send_at(1, 1, b"", b"reply")
    network.send_at(1, 0, b"", b"two")
    for talk in network.talks:
        talk.time = network.time + 1_000_000_000
        talk.close()
    assert network.findings(0) == [("REQREP-06", 1)]
    assert network.findings(3) == [("REQREP-06", 2)]
