"""Requests that wait at a broker because its workers are busy or gone."""

from __future__ import annotations

import pytest

from tests.diagnosis.requesting_traffic import MS, START, Asker, diagnosed
from tests.peer_octets import message
from zmtpscope.capture.segments import ACK

RULE = "request-unanswered"


class Broker:
    """A broker with a ROUTER for clients and one for REQ workers; the first two hosts have a worker each."""

    def __init__(self) -> None:
        self.workers = [Asker(("REQ", "ROUTER"), host, at=host, port=5556) for host in (10, 11)]
        self.clients: list[Asker] = []
        for worker in self.workers:
            worker.send(0, message(b"", b"READY"))

    def ask(self, at: int, worker: int | None, *, answered: bool) -> None:
        """A new client asks once, for 3 s at most; the broker passes its request on to a worker, if any."""
        client = Asker(("REQ", "ROUTER"), host=2, at=at)
        question = b"question %d" % at
        client.ask(question)
        if worker is not None:
            self.until(worker, at + 10)
            self.workers[worker].send(1, message(b"", b"\0id", b"", question))
        if worker is not None and answered:
            self.workers[worker].send(0, message(b"", b"\0id", b"", b"answer"))
            client.pause(20)
            client.answer(b"answer")
        else:
            client.pause(3000 + at // 100)
        client.close()
        self.clients.append(client)

    def until(self, worker: int, at: int) -> None:
        each = self.workers[worker]
        each.pause(at - (each.time - START) // MS)

    def leave(self, at: int) -> None:
        for number, worker in enumerate(self.workers):
            self.until(number, at)
            worker.close()

    def diagnoses(self) -> list[tuple[str, str]]:
        for worker in self.workers:
            worker.add(1, ACK)
        found = diagnosed(*self.workers, *self.clients, rule=RULE)
        return [(each.severity, each.text) for each in found]


@pytest.mark.parametrize("both", [True, False], ids=["all workers hang", "one worker hangs"])
def test_requests_that_no_worker_is_free_for_match_the_workers(both: bool) -> None:
    broker = Broker()
    for at, worker in ((100, 0), (200, 1), (300, 0), (400, 1)):
        broker.ask(at, worker, answered=True)
    broker.ask(1000, 0, answered=False)
    broker.ask(1100, 1, answered=not both)
    for at in (5000, 9000):
        broker.ask(at, None, answered=False)
    broker.until(0, 15_000)
    blamed = [text.partition(" does not reply")[0] for _, text in broker.diagnoses()]
    assert blamed == (["REQ 10.0.0.10", "REQ 10.0.0.11"] if both else ["REQ 10.0.0.10", "ROUTER 10.0.0.1:5555"])


def test_a_broker_without_workers_is_reported_with_the_one_that_left_last_however_often_its_clients_ask() -> None:
    broker = Broker()
    for at, worker in ((100, 0), (200, 1), (300, 0), (400, 1), (500, 0), (600, 1)):
        broker.ask(at, worker, answered=True)
    broker.leave(800)
    for at in (1000, 4500, 8000):
        broker.ask(at, None, answered=False)
    ((_, text),) = broker.diagnoses()
    assert "to which it had sent 3 messages, closed its connection" in text
    assert "and no other one is there" in text
