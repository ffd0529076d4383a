"""A receiver that takes nothing for a while, and what its publisher drops meanwhile."""

from __future__ import annotations

import pytest

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.publishing_traffic import Subscriber, diagnosed
from tests.diagnosis.requesting_traffic import Asker
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from tests.peer_octets import message, ping, pong
from tests.readings import CAPTURES, run
from tests.traffic import Capture
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.dissect import Analyser, Options
from zmtpscope.payloads.registry import Registry

RULE = "slow-receiver"


def numbered(subscriber: Subscriber, *numbers: int) -> None:
    """Messages that carry their number."""
    for number in numbers:
        subscriber.publish(b"prices", b"\xff" * 8, number.to_bytes(4, "little"))


def naps(subscriber: Subscriber, milliseconds: int) -> None:
    subscriber.close_window(0)
    subscriber.wait(milliseconds * 1_000_000)
    subscriber.open_window(0)


def explained_causes_of(subscriber: Subscriber) -> list[tuple[str, str, list[str]]]:
    """The rules, how grave they are, and what is beneath each."""
    derivation = Derivation()
    for batch in Analyser(Options(bodies="none", payloads=Registry())).run(Capture(subscriber.packets, 7)):
        derivation.feed(batch)
    found = diagnose(derivation.knowledge())
    return [
        (each.diagnosis.rule, each.diagnosis.severity, [beneath.rule for beneath in each.consequences])
        for each in found
        if each.diagnosis.rule in (RULE, "sequence-gap")
    ]


def test_messages_that_are_missing_after_a_nap_follow_from_it() -> None:
    subscriber = Subscriber(2, 0, "prices")
    numbered(subscriber, *range(5))
    naps(subscriber, 300)
    numbered(subscriber, 9, 10)
    assert explained_causes_of(subscriber) == [(RULE, "warn", ["sequence-gap"])]


def test_numbers_that_were_missing_before_do_not() -> None:
    subscriber = Subscriber(2, 0, "prices")
    numbered(subscriber, *range(5), 9, 10)
    naps(subscriber, 300)
    numbered(subscriber, 11, 12)
    assert explained_causes_of(subscriber) == [("sequence-gap", "warn", []), (RULE, "note", [])]


def test_why_reports_omitted_numbers() -> None:
    path = CAPTURES / "problems/reported/bitcoin-seq.pcap.gz"
    lines = run("check", "--why", "hashtx@10.9.0.2", str(path)).stdout.splitlines()
    assert (
        b"  the sequence numbers that it received have 10 gaps: more was published, first before 1.671191 packet 92"
        in lines
    )


@pytest.mark.parametrize("reads_again", [False, True])
def test_a_subscriber_whose_system_acknowledges_late_is_stopped(reads_again: bool) -> None:
    subscriber = Subscriber(2, 0, "prices")
    for delay in [0] * 12 + [40] * 30 + [0] * 15 * reads_again:
        subscriber.wait((100 - delay) * 1_000_000)
        subscriber.publish(b"prices", b"1")
        subscriber.wait(delay * 1_000_000)
        subscriber.acknowledge(0)
    (diagnosis,) = diagnosed(subscriber, rule=RULE)
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")
    assert diagnosis.text.startswith("SUB 10.0.0.2 did not read the data of PUB 10.0.0.1:5556 for at least 2 s, from ")
    assert "stopped" in diagnosis.hint
    assert ("; it reads again from packet " in diagnosis.text) == reads_again


@pytest.mark.parametrize(
    ("naps", "severity"), [((2000,), "warn"), ((1500, 1400, 1600), "note"), ((1500,) * 3 + (4000,), "warn")]
)
def test_a_worker_that_opens_its_window_again_and_again_is_only_slow(naps: tuple[int, ...], severity: str) -> None:
    worker = Talk(0).handshake("PUSH", "PULL")
    for nap in naps:
        worker.message(CLIENT, b"work")
        worker.conversation.close_window(SERVER)
        worker.wait(nap / 1000)
        worker.conversation.open_window(SERVER)
    diagnosis = diagnoses_of(worker)["push-blocked" if severity == "warn" else RULE]
    assert diagnosis.severity == severity
    assert ("is slow to read" in diagnosis.text) is (severity == "note")


class Fed(Asker):
    """A PULL with heartbeats at a PUSH, and the messages that it gets."""

    def __init__(self, types: tuple[str, str] = ("PULL", "PUSH")) -> None:
        super().__init__(types)

    def ping(self, side: int, *, is_answered: bool) -> None:
        self.send(side, ping())
        if is_answered:
            self.send(1 - side, pong())

    def fed(self, seconds: float, *, pings: int) -> Fed:
        """Answer one PING, get messages, and leave PINGs unanswered for this time, but send own ones."""
        self.ping(1, is_answered=True)
        for number in range(20):
            self.send(1, message(b"work %d" % number))
        for _ in range(pings):
            self.ping(1, is_answered=False)
            self.pause(round(1000 * seconds / pings))
            self.ping(0, is_answered=True)
        self.close()
        return self


@pytest.mark.parametrize(
    ("types", "seconds", "severity"),
    [(("PULL", "PUSH"), 5, "warn"), (("PULL", "PUSH"), 1, "note"), (("SUB", "PUB"), 1, "warn")],
)
def test_a_receiver_whose_queue_is_full_leaves_pings_unanswered(
    types: tuple[str, str], seconds: float, severity: str
) -> None:
    fed = Fed(types).fed(seconds, pings=5)
    (diagnosis,) = diagnosed(fed, rule=RULE)
    assert (diagnosis.severity, diagnosis.certainty) == (severity, "likely")
    assert diagnosis.text.startswith(
        f"{types[0]} 10.0.0.2 does not read the data of {types[1]} 10.0.0.1:5555: it goes on to send, but leaves the "
        "PING in packet 30, which follows messages, without a PONG for"
    )
    assert not diagnosed(fed, rule="protocol-violation")


def test_pings_without_messages_before_them_are_not_held_up_by_a_full_queue() -> None:
    fed = Fed()
    fed.ping(1, is_answered=True)
    for _ in range(5):
        fed.ping(1, is_answered=False)
        fed.pause(200)
        fed.ping(0, is_answered=True)
    fed.send(1, message(b"work"))
    fed.close()
    assert not diagnosed(fed, rule=RULE)
