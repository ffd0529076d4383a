"""Peers that fall silent while others continue, and peers that only have nothing more to send."""

from __future__ import annotations

import pytest

from tests.diagnosis.publishing_traffic import MS, derivation_of
from tests.diagnosis.requesting_traffic import Asker, derived_from, diagnosed
from tests.diagnosis.test_acknowledgments import resent
from tests.peer_octets import command, message, ping, pong, ready
from tests.traffic import Conversation
from zmtpscope.capture.segments import ACK
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.diagnosis.diagnosis import Diagnosis

RULE = "fell-silent"


class Worker(Asker):
    """A DEALER that announces itself to a ROUTER at an interval (ms)."""

    def __init__(self, host: int = 2, at: int = 0, types: tuple[str, str] = ("DEALER", "ROUTER")) -> None:
        super().__init__(types, host, at)

    def beat(self, times: int, every: int = 500) -> Worker:
        for _ in range(times):
            self.send(0, message(b"here"))
            self.send(1, message(b"noted"))
            self.pause(every - 2)
        return self

    def asks(self, times: int, every: int = 1000, what: bytes = b"here") -> Worker:
        for _ in range(times):
            self.send(0, message(what))
            self.pause(every - 1)
        return self

    def calls(self, times: int, open_calls: int = 4) -> Worker:
        """Send two messages for each reply; the last replies arrive after the last request."""
        for number in range(times + open_calls):
            if number < times:
                self.send(0, message(b"call"))
                self.send(0, message(b"log"))
            if number >= open_calls:
                self.send(1, message(b"result"))
            self.pause(200)
        return self

    def works(self, times: int, every: int = 500) -> Worker:
        for _ in range(times):
            self.send(1, message(b"task"))
            self.send(0, message(b"result"))
            self.pause(every - 2)
        return self

    def works_twice(self, times: int, every: int = 500) -> Worker:
        """Answer two tasks, of which the second arrives immediately after the result of the first."""
        for _ in range(times):
            self.works(2, every=2)
            self.pause(every)
        return self

    def idles(self, milliseconds: int) -> Worker:
        self.pause(milliseconds)
        self.add(1, ACK)
        return self


def texts_of(*workers: Asker) -> list[tuple[str, str]]:
    found: list[Diagnosis] = diagnosed(*workers, rule=RULE)
    return [(each.severity, each.text) for each in found]


def test_a_peer_that_answered_and_is_still_asked_has_fallen_silent() -> None:
    assert texts_of(Worker().beat(10).asks(5)) == [
        (
            "warn",
            "ROUTER 10.0.0.1:5555 sent nothing after packet 27, for 4.5 s, though DEALER 10.0.0.2 sent 5 messages "
            "since; its longest pause before was 500 ms",
        )
    ]


def test_a_worker_that_is_still_asked_has_fallen_silent() -> None:
    ((severity, text),) = texts_of(Worker().beat(10).asks(60))
    assert severity == "warn"
    assert "though DEALER 10.0.0.2 sent about 59 messages since" in text


def test_a_worker_whose_peer_gives_up_has_fallen_silent() -> None:
    worker = Worker().beat(10).asks(5)
    worker.close()
    assert [severity for severity, _ in texts_of(worker)] == ["warn"]


@pytest.mark.parametrize(
    "worker",
    [
        Worker().beat(10).asks(2),
        Worker().beat(10).asks(5, every=200),
        Worker().beat(4).asks(5),
        Worker().beat(10, every=50).asks(5, what=b"log"),
        Worker().asks(10).beat(1).asks(10),
        Worker().beat(10, every=4000).asks(20, every=500, what=b"log"),
        Worker().calls(40).idles(3000),
        Worker().asks(2).works(10).asks(5),
        Worker().asks(2).works_twice(10).asks(5),
    ],
    ids=[
        "few questions",
        "a pause",
        "few answers",
        "an exchange at the start",
        "one answer in a stream",
        "another way to talk",
        "the last replies",
        "no more tasks for a worker",
        "no more pairs of tasks",
    ],
)
def test_other_silences_are_not_reported(worker: Worker) -> None:
    assert texts_of(worker) == []


def test_a_client_whose_siblings_continue_has_fallen_silent() -> None:
    stopped, other = Worker(2).beat(10).idles(6000), Worker(3, at=100).beat(22)
    assert texts_of(stopped, other) == [
        (
            "note",
            "DEALER 10.0.0.2 sent nothing after packet 51, for 6.5 s, while 1 other client of this endpoint goes "
            "on; its longest pause before was 500 ms",
        )
    ]


@pytest.mark.parametrize("by_itself", [True, False])
def test_a_peer_that_leaves_has_not_fallen_silent(by_itself: bool) -> None:
    gone, other = Worker(2).beat(10), Worker(3, at=100).beat(22)
    gone.pause(5000)
    if by_itself:
        gone.close()
    assert bool(texts_of(gone, other)) is not by_itself


def test_undelivered_messages_are_no_silence() -> None:
    """The network between them is the cause: neither the client nor its listener."""
    cut_off, other = Worker(2).beat(10), Worker(3, at=100).beat(36)
    cut_off.send(0, message(b"here"))
    resent(cut_off, 12)
    assert texts_of(cut_off, other) == []


def one_way(*, answers: int, goes_on: int) -> tuple[Asker, Asker]:
    """Return a PUSH of 10.0.0.1 to a federate, and a PUSH back, which stops after some answers."""
    there, back = Asker(("PULL", "PUSH"), 2, 0), Asker(("PUSH", "PULL"), 2, 50, port=5560)
    for number in range(answers + goes_on):
        there.acknowledge(0)
        there.send(1, message(b"next step"))
        if number < answers:
            back.send(0, message(b"done"))
        every = 200 if number < answers else 2000
        there.pause(every)
        back.pause(every)
    return there, back


def test_a_peer_that_answered_on_a_connection_of_its_own_is_a_note() -> None:
    assert texts_of(*one_way(answers=20, goes_on=4)) == [
        (
            "note",
            "PUSH 10.0.0.2 sent nothing after packet 74, for 6.18 s, though PUSH 10.0.0.1:5555 sent 4 messages "
            "since; its longest pause before was 201 ms",
        )
    ]


@pytest.mark.parametrize(
    "asks",
    [one_way(answers=20, goes_on=2), (*one_way(answers=20, goes_on=4), Asker(("PUSH", "PULL"), 2, 90, port=5561))],
    ids=["few messages", "several connections"],
)
def test_messages_on_other_connections_may_need_no_answer(asks: tuple[Asker, ...]) -> None:
    asks[-1].send(0, message(b"log"))
    assert texts_of(*asks) == []


def test_a_message_that_did_not_arrive_on_the_other_connection_needs_no_answer() -> None:
    there, back = one_way(answers=20, goes_on=4)
    resent(there, 5)
    assert texts_of(there, back) == []


def test_a_peer_that_asks_for_replies_may_stop_asking() -> None:
    types = ("REQ", "REP")
    done, other = Worker(2, types=types).beat(10).idles(6000), Worker(3, at=100, types=types).beat(22)
    assert texts_of(done, other) == []


def test_a_client_that_asked_steadily_and_stops_beside_others_is_a_note() -> None:
    types = ("REQ", "REP")
    stopped, other = (
        Worker(2, types=types).beat(40, every=200).idles(7000),
        Worker(3, at=100, types=types).beat(75, 200),
    )
    ((severity, text),) = texts_of(stopped, other)
    assert (severity, text.partition(" sent nothing")[0]) == ("note", "REQ 10.0.0.2")


def test_heartbeats_that_cease_are_a_note_even_if_the_peer_answered_each() -> None:
    ((severity, text),) = texts_of(Worker().beat(14, every=1000).idles(12_000))
    assert severity == "note"
    assert text.startswith("DEALER 10.0.0.2 sent nothing after packet 34, for 13")


@pytest.mark.parametrize(
    "worker",
    [
        Worker().beat(9, every=1000).idles(12_000),
        Worker().beat(14, every=1000).idles(7_000),
        Worker().beat(7, every=1000).beat(7, every=400).idles(12_000),
    ],
    ids=["few", "a short silence", "irregular"],
)
def test_other_messages_may_cease(worker: Worker) -> None:
    assert texts_of(worker) == []


def test_others_of_another_rhythm_prove_nothing() -> None:
    rare, frequent = Worker(2).beat(5, every=5000).idles(25_000), Worker(3, at=100).beat(100)
    assert texts_of(rare, frequent) == []


def test_a_client_that_starts_after_another_one_stopped_does_not_continue() -> None:
    assert texts_of(Worker(2).beat(10).idles(15_000), Worker(3, at=9_000).beat(30)) == []


def test_a_named_worker_that_is_silent_for_long_is_a_warning() -> None:
    stopped, other = NamedWorker(2).beat(20).idles(12_000), NamedWorker(3, at=100).beat(46)
    assert [severity for severity, _ in texts_of(stopped, other)] == ["warn"]


class NamedWorker(Worker):
    def __init__(self, host: int, at: int = 0) -> None:
        super().__init__(host, at)

    def send(self, side: int, octets: bytes) -> None:
        named = ready("DEALER", ("Identity", f"worker-{self.ports[0]}"))
        super().send(side, named if octets == ready("DEALER") else octets)


def test_without_data_to_a_peer_it_is_unknown_whether_its_host_is_there() -> None:
    (asked,) = diagnosed(Worker().beat(10).asks(5), rule=RULE)
    assert asked.hint.endswith("its host still acknowledges data")
    (left_alone,) = diagnosed(ceased_publisher(), rule=RULE)
    assert "or its host, or the path to it, is down" in left_alone.hint


def test_a_publisher_that_ceases_is_a_note() -> None:
    ((severity, text),) = texts_of(ceased_publisher())
    assert (severity, text.partition(",")[0]) == ("note", "PUB 10.0.0.1:5555 sent nothing after packet 38")


def ceased_publisher() -> Asker:
    publisher = Asker(("SUB", "PUB"))
    publisher.send(0, b"\x04\x0a\x09SUBSCRIBE")
    for _ in range(30):
        publisher.send(1, message(b"weather"))
        publisher.pause(199)
    publisher.pause(12_000)
    publisher.add(0, ACK)
    return publisher


def publisher(*, at: int, port: int, kind: str = "PUB", times: int = 20) -> Asker:
    """Return a PUB to which 10.0.0.2 subscribes, or a PUSH, with a message every 300 ms."""
    asker = Asker(("SUB" if kind == "PUB" else "PULL", kind), at=at, port=port)
    if kind == "PUB":
        asker.send(0, command("NULL", "SUBSCRIBE", topic=""))
    for _ in range(times):
        asker.send(1, message(b"weather"))
        asker.pause(299)
    return asker


def test_a_publisher_that_waits_for_a_subscriber_is_a_consequence() -> None:
    """With ZMQ_XPUB_NODROP a publisher sends nothing to anybody while one subscriber reads nothing."""
    stopped, reads = publisher(at=0, port=5556, times=30), publisher(at=50, port=5556, times=30)
    stopped.close_window(0)
    for each in (stopped, reads):
        each.pause(15_000)
        each.add(1, ACK)
    (cause,) = [
        each for each in diagnose(derivation_of(stopped, reads).knowledge()) if each.diagnosis.rule != "clear-text"
    ]
    assert cause.diagnosis.rule == "slow-receiver"
    assert [each.rule for each in cause.consequences] == [RULE]


def test_a_client_that_continues_on_a_new_connection_has_lost_the_old_one() -> None:
    """Its own host or the path broke it, and no packet says so."""
    old, new = Worker().beat(12).idles(15_000), Worker(at=9_000).beat(12).idles(15)
    text = "DEALER 10.0.0.2 sent nothing after packet 30, and connected again 3.49 s later: its old connection is dead"
    assert texts_of(old, new) == [("note", f"{text}, without FIN or RST")]


def test_a_client_with_two_connections_at_a_time_has_two_programs() -> None:
    beside = Worker(at=100).beat(10).idles(15_000)
    ((_, text),) = texts_of(Worker().beat(12).idles(15_000), beside, Worker(at=9_000).beat(30))
    assert "its old connection" not in text


def test_a_publisher_that_stops_beside_another_one_of_the_same_subscriber_is_a_note() -> None:
    stopped, other = publisher(at=0, port=5556, times=12), publisher(at=50, port=5557, times=40)
    assert texts_of(stopped, other) == [
        (
            "note",
            "PUB 10.0.0.1:5556 sent nothing after packet 39, for 8.45 s, while 1 other PUB of 10.0.0.2 goes on; its "
            "longest pause before was 300 ms",
        )
    ]


def test_a_publisher_is_silent_where_its_subscription_was_cancelled() -> None:
    stopped, other = publisher(at=0, port=5556, times=12), publisher(at=50, port=5557, times=40)
    stopped.send(0, command("NULL", "CANCEL", topic=""))
    assert texts_of(stopped, other) == []


def test_a_push_that_ceases_is_a_note() -> None:
    push = publisher(at=0, port=5556, kind="PUSH", times=40)
    push.pause(12_000)
    push.add(0, ACK)
    ((severity, text),) = texts_of(push)
    assert severity == "note"
    assert text.endswith("to any of its peers; its longest pause before was 300 ms")


def sender(types: tuple[str, str], side: int, *, at: int = 0, port: int = 5555, idles: int = 7000) -> Asker:
    """Return a side that sends a message every 200 ms, 20 times, and then nothing."""
    asker = Asker(types, at=at, port=port)
    for _ in range(20):
        asker.send(side, message(b"reading"))
        asker.pause(199)
    asker.pause(idles)
    asker.add(1 - side, ACK)
    return asker


@pytest.mark.parametrize(
    ("types", "side", "name"),
    [
        pytest.param(("PUSH", "PULL"), 0, "PUSH 10.0.0.2", id="client"),
        pytest.param(("DEALER", "ROUTER"), 1, "ROUTER 10.0.0.1:5555", id="router that is asked for nothing"),
        pytest.param(("DEALER", "ROUTER"), 0, "DEALER 10.0.0.2", id="dealer that expects no answer"),
    ],
)
def test_a_side_that_sends_unasked_and_ceases_is_a_note(types: tuple[str, str], side: int, name: str) -> None:
    ((severity, text),) = texts_of(sender(types, side))
    assert (severity, text.partition(" sent nothing")[0]) == ("note", name)
    assert texts_of(sender(types, side, idles=5000)) == []


def test_a_program_that_waits_for_a_reply_sends_nothing_else() -> None:
    asker = Asker(at=50, port=5559)
    asker.pause(4000)
    asker.ask(b"work")
    asker.pause(6000)
    asker.acknowledge(0)
    assert texts_of(sender(("SUB", "PUB"), 1), asker) == []


def test_a_worker_that_gets_no_more_tasks_sends_no_more_results() -> None:
    """Only the PUSH that began is reported: the other one answers it."""
    tasks, results = sender(("PULL", "PUSH"), 1), sender(("PUSH", "PULL"), 0, at=100, port=5556)
    assert [text.partition(" sent nothing")[0] for _, text in texts_of(tasks, results)] == ["PUSH 10.0.0.1:5555"]


def test_a_router_that_answered_in_turns_and_leaves_the_last_message_unanswered_is_a_note() -> None:
    ((severity, text),) = texts_of(Worker().beat(10).asks(1).idles(6000))
    assert severity == "note"
    assert "for 7.5 s, though DEALER 10.0.0.2 sent 1 message since" in text


def test_a_server_that_leaves_the_last_message_of_a_client_unanswered_is_a_note() -> None:
    ((severity, text),) = texts_of(Worker(types=("CLIENT", "SERVER")).beat(10).asks(1).idles(6000))
    assert severity == "note"
    assert text.startswith("SERVER 10.0.0.1:5555 sent nothing after packet ")


@pytest.mark.parametrize(
    "worker",
    [Worker().beat(10).asks(1).idles(2000), Worker().beat(4).asks(1).idles(6000), Worker().calls(40).asks(1)],
    ids=["a moment", "few turns", "several open"],
)
def test_a_last_message_needs_no_answer_otherwise(worker: Worker) -> None:
    assert texts_of(worker) == []


def brokered(*, broker_stops: bool, worker_leaves: bool = False) -> tuple[Asker, Asker]:
    """A ROUTER forwards the requests of a client to a worker, which stops or leaves; or it forwards nothing more
    itself."""
    client, worker = Asker(("DEALER", "ROUTER"), 2, 0), Asker(("DEALER", "ROUTER"), 3, 50)
    for number in range(24):
        client.send(0, message(b"request"))
        if number < 12 or not (broker_stops or worker_leaves):
            worker.send(1, message(b"request"))
        if number < 12:
            worker.send(0, message(b"result"))
            client.send(1, message(b"result"))
        if number == 12 and worker_leaves:
            worker.close()
        client.pause(500)
        worker.pause(500)
    return client, worker


@pytest.mark.parametrize(
    ("broker_stops", "blamed"), [(False, "DEALER 10.0.0.3"), (True, "ROUTER 10.0.0.1:5555")], ids=["worker", "broker"]
)
def test_a_broker_that_waits_for_a_stopped_worker_has_not_fallen_silent(broker_stops: bool, blamed: str) -> None:
    warnings = [text for severity, text in texts_of(*brokered(broker_stops=broker_stops)) if severity == "warn"]
    assert [text.partition(" sent nothing")[0] for text in warnings] == [blamed]


def test_a_broker_whose_worker_left_is_not_blamed() -> None:
    (diagnosis,) = diagnosed(*brokered(broker_stops=False, worker_leaves=True), rule=RULE)
    assert (diagnosis.severity, diagnosis.subject) == ("warn", "DEALER 10.0.0.3")
    assert diagnosis.text.startswith("DEALER 10.0.0.2 gets nothing since DEALER 10.0.0.3 left")


def test_a_broker_whose_worker_left_is_not_blamed_if_another_program_of_its_host_continues() -> None:
    client, worker = brokered(broker_stops=False, worker_leaves=True)
    sibling = Asker(("DEALER", "ROUTER"), 3, 60)
    sibling.pause(13_000)
    assert [each.subject for each in diagnosed(client, worker, sibling, rule=RULE)] == ["DEALER 10.0.0.3"]


class Served(Worker):
    """A DEALER with requests to a ROUTER, which answers them late while it is blocked."""

    def waits(self, times: int, every: int = 2000) -> Served:
        for _ in range(times):
            self.send(0, message(b"request"))
            self.pause(every - 1)
        for _ in range(times):
            self.send(1, message(b"result"))
        return self

    def continues(self) -> Served:
        self.beat(10)
        return self


def blocked() -> Served:
    served = Served()
    served.beat(10)
    return served.waits(4).continues()


def test_a_server_that_was_blocked_and_continues_is_a_note() -> None:
    (diagnosis,) = diagnosed(blocked(), rule="paused")
    assert (diagnosis.severity, diagnosis.certainty) == ("note", "likely")
    assert diagnosis.text == (
        "ROUTER 10.0.0.1:5555 sent nothing for 8.5 s after packet 27, though DEALER 10.0.0.2 sent 4 messages "
        "meanwhile; its next longest pause was 500 ms"
    )


@pytest.mark.parametrize(
    "worker",
    [Served().waits(2).continues(), Served().continues().idles(9000).beat(5), Worker().beat(3, every=4000).beat(10)],
    ids=["two requests", "nobody asked", "slow before"],
)
def test_a_pause_with_few_requests_is_not_reported(worker: Worker) -> None:
    assert diagnosed(worker, rule="paused") == []


def publishes(before: int, pause: int) -> Asker:
    """A PUB of the same host that sends a beat every half second, pauses, and continues."""
    beats = Asker(("SUB", "PUB"), 3, port=5557)
    for times, rest in ((before, pause), (8, 0)):
        for _ in range(times):
            beats.send(1, message(b"beat"))
            beats.pause(499)
        beats.pause(rest)
    return beats


@pytest.mark.parametrize(("before", "pause", "found"), [(10, 8000, 1), (2, 8000, 0), (10, 0, 0)])
def test_a_blocked_program_is_silent_on_all_its_sockets(before: int, pause: int, found: int) -> None:
    served = Served()
    served.beat(10)
    diagnoses = diagnosed(served.waits(1, every=8000).continues(), publishes(before, pause), rule="paused")
    assert len(diagnoses) == found
    for each in diagnoses:
        assert "though DEALER 10.0.0.2 sent 1 message meanwhile" in each.text
        assert each.text.endswith("; PUB 10.0.0.1:5557 sent nothing at that time, too")


def test_late_delivery_by_tcp_is_no_pause() -> None:
    served = Served()
    served.beat(10).send(0, message(b"request"))
    resent(served, 8)
    served.acknowledge(1)
    assert diagnosed(served.waits(3, every=100).continues(), rule="paused") == []


def test_messages_that_come_at_once_after_an_outage_were_not_left_unanswered() -> None:
    served = Served()
    served.beat(10).idles(5000)
    assert diagnosed(served.waits(6, every=2).continues(), rule="paused") == []


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_pauses_are_the_same_in_blocks_of_any_size(size: int) -> None:
    derivation, _ = derived_from(blocked(), size=size)
    (connection,) = derivation.knowledge().connections
    rhythm = connection.sides[1].rhythm
    assert rhythm is not None
    assert (rhythm.longest_ns // 10**6, rhythm.second_ns // 10**6, rhythm.asked) == (8499, 500, 4)
    assert rhythm.asked_for_ns == 8_000_000_000


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_turns_are_the_same_in_blocks_of_any_size(size: int) -> None:
    derivation, _ = derived_from(Worker().asks(2).works(70).beat(5), size=size)
    (connection,) = derivation.knowledge().connections
    worker, router = (side.rhythm for side in connection.sides)
    assert worker is not None
    assert router is not None
    assert [(each.turns, each.openings) for each in (worker, router)] == [(64, 0), (64, 64)]


class Device(Asker):
    """A DEALER with commands to a ROUTER, which answers `get`, and not `set`."""

    def __init__(self) -> None:
        super().__init__(("DEALER", "ROUTER"))

    def get(self, times: int, *sets: bytes, every: int = 300, answered: bool = True) -> Device:
        """Send `get`, and each of `sets` after it."""
        for _ in range(times):
            self.send(0, message(b"get", b"volt"))
            if answered:
                self.send(1, message(b"value", b"5"))
            for each in sets:
                self.send(0, message(each, b"volt", b"6"))
            self.pause(every)
        return self

    def set(self, times: int, every: int = 300) -> Device:
        for _ in range(times):
            self.send(0, message(b"set", b"volt", b"6"))
            self.pause(every)
        return self


def test_messages_of_a_kind_that_was_never_answered_need_no_answer() -> None:
    assert texts_of(Device().get(12, b"set").set(30)) == []


def test_a_kind_that_comes_after_the_last_answer_may_need_none() -> None:
    assert [severity for severity, _ in texts_of(Device().get(12).set(30))] == ["note"]


def test_a_server_that_no_longer_answers_what_it_always_answered_is_a_warning_whatever_else_is_sent() -> None:
    ((severity, text),) = texts_of(Device().get(12, b"set", b"set").get(3, b"set", b"set", every=3000, answered=False))
    assert (severity, text.partition(" sent nothing")[0]) == ("warn", "ROUTER 10.0.0.1:5555")


def test_a_server_that_soon_stops_is_a_warning_if_it_answered_all_messages_of_a_kind_before() -> None:
    assert [severity for severity, _ in texts_of(Device().get(10, every=140).get(2, every=3000, answered=False))] == [
        "warn"
    ]


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize(("waits", "severities"), [(6000, ["note"]), (3000, [])])
def test_a_last_message_of_a_kind_that_was_always_answered_is_a_note(
    waits: int, severities: list[str], closes: bool
) -> None:
    """It is a note however many messages the server sends for each, and whether or not the client leaves."""
    device = Device()
    for _ in range(12):
        device.get(1, every=1)
        device.send(1, message(b"more"))
        device.pause(300)
    device.get(1, answered=False).pause(waits)
    if closes:
        device.close()
    else:
        device.add(1, ACK)
    assert [severity for severity, _ in texts_of(device)] == severities


@pytest.mark.parametrize(("answers", "asks", "severities"), [(5, 12, ["note"]), (5, 6, []), (4, 12, [])])
def test_a_server_that_answered_the_first_messages_and_then_none_of_many_is_a_note(
    answers: int, asks: int, severities: list[str]
) -> None:
    assert [severity for severity, _ in texts_of(Worker().beat(answers, every=250).asks(asks))] == severities


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_kinds_are_the_same_in_blocks_of_any_size(size: int) -> None:
    derivation, _ = derived_from(Device().get(90, b"set", every=10).set(9, every=10), size=size)
    (connection,) = derivation.knowledge().connections
    kinds = connection.sides[0].kinds
    assert kinds is not None
    assert kinds.counts == {b"get": [16, 16], b"set": [15, 0]}
    assert kinds.since == (b"set",) * 8


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ((b"set volt 6",), b"set"),
        ((b"", b"\x02", b"name"), b"\x02"),
        ((b"\0\x6b\x8b\x45\x67", b"", b"READY"), b"READY"),
        ((b'{"id": 1, "method": "get"}',), b"get"),
        ((b"\x83\xa3cmd\xa3get",), b""),
        ((b"",), b""),
    ],
)
def test_a_kind_is_the_command_at_the_start_of_a_message(frames: tuple[bytes, ...], kind: bytes) -> None:
    asker = Asker(("DEALER", "ROUTER"))
    asker.send(0, message(*frames))
    derivation, _ = derived_from(asker)
    (connection,) = derivation.knowledge().connections
    kinds = connection.sides[0].kinds
    assert kinds is not None
    assert kinds.since == (kind,)


@pytest.mark.parametrize("replies", [False, True])
def test_a_side_that_sent_all_messages_ceases_in_a_capture_that_begins_midstream(replies: bool) -> None:
    stream = Conversation(syn=False, ports=(50_000, 5555))
    for number in range(40):
        stream.send(1, message(b"prices", b"%d" % number))
        stream.wait(100 * MS)
        if replies and number % 10 == 9:
            stream.send(0, message(b"more"))
    stream.wait(12_000 * MS)
    stream.add(0, ACK)
    found = [(each.severity, each.text.partition(",")[0]) for each in diagnosed(stream, rule=RULE)]
    assert found == ([] if replies else [("note", "10.0.0.1:5555 sent nothing after packet 40")])


def test_heartbeats_that_continue_are_no_messages() -> None:
    push = publisher(at=0, port=5556, kind="PUSH", times=40)
    for _ in range(12):
        push.pause(1000)
        push.send(1, ping())
        push.send(0, pong())
    ((severity, text),) = texts_of(push)
    assert severity == "note"
    assert text.endswith("to any of its peers; its longest pause before was 300 ms")
