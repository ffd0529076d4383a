"""Requests that hang, are lost or are answered late are reported once for each cause, except requests that may still
be answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.requesting_traffic import MS, START, Asker, diagnosed
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from tests.diagnosis.test_requests import by_turns, gives_work, waits_for_work
from tests.peer_octets import message
from zmtpscope.capture.segments import ACK, FIN
from zmtpscope.diagnosis.diagnosis import Diagnosis

RULES = ("request-unanswered", "request-lost", "late-reply", "reply-to-nobody")


def causes_of(*askers: Asker) -> list[Diagnosis]:
    return [diagnosis for rule in RULES for diagnosis in diagnosed(*askers, rule=rule)]


def hanging(host: int = 2, at: int = 0, types: tuple[str, str] = ("REQ", "REP"), waits: int = 12_000) -> Asker:
    asker = Asker(types, host, at)
    by_turns(asker)
    asker.ask(b"the last")
    asker.pause(waits)
    asker.acknowledge(0)
    return asker


def test_a_request_that_hangs_names_the_server_and_the_packet() -> None:
    (diagnosis,) = causes_of(hanging())
    assert (diagnosis.rule, diagnosis.severity, diagnosis.certainty) == ("request-unanswered", "error", "proven")
    assert diagnosis.text == (
        "REP 10.0.0.1:5555 does not reply to REQ 10.0.0.2: the request in packet 14 waits for 12 s; 3 before were "
        "answered, median 1 ms"
    )
    assert diagnosis.evidence[0].moment.packet == 14


def test_a_server_that_hangs_for_many_is_reported_once() -> None:
    (diagnosis,) = causes_of(*(hanging(host, 100 * host) for host in (2, 3, 4)))
    assert diagnosis.count == 3
    assert "2 more behind it have no reply either" in diagnosis.text
    assert len(diagnosis.conn_ids) == 3


def test_a_peer_that_is_asked_by_a_dealer_owes_no_reply_for_certain() -> None:
    asker = Asker(("DEALER", "ROUTER"))
    asker.ask(b"question", envelope=[b"client"])
    asker.answer(b"answer", envelope=[b"client"])
    asker.ask(b"question", envelope=[b"client"])
    asker.pause(12_000)
    asker.acknowledge(0)
    (diagnosis,) = causes_of(asker)
    assert (diagnosis.rule, diagnosis.severity, diagnosis.certainty) == ("request-unanswered", "warn", "likely")


def test_a_request_that_a_broker_passes_on_is_reported_about_its_worker() -> None:
    client, worker = Asker(("REQ", "ROUTER"), host=2), Asker(("REP", "DEALER"), host=3, at=1, port=5556)
    client.ask(b"question")
    client.answer(b"answer")
    client.ask(b"hangs")
    worker.pause(5)
    worker.send(1, message(b"\0id", b"", b"hangs"))
    for each in (client, worker):
        each.pause(12_000)
        each.acknowledge(0)
    (diagnosis,) = causes_of(client, worker)
    assert diagnosis.text.startswith(
        "REP 10.0.0.3 does not reply to DEALER 10.0.0.1:5556 (for REQ 10.0.0.2, which asked ROUTER 10.0.0.1:5555)"
    )


def handed_on(client: Asker, worker: Asker, question: bytes, at: int = 5, worker_type: str = "REP") -> None:
    """A client sends a request to a broker, which forwards it to a worker a millisecond later."""
    for each, later in ((client, 0), (worker, 1)):
        each.pause(at + later - (each.time - START) // MS)
    client.ask(question)
    envelope = [b"\0id", b""] if worker_type == "REP" else [b"", b"\0id", b""]
    worker.send(1, message(*envelope, question))


def gives_up(worker_replies: bool) -> list[Asker]:
    """A client repeats its request to a broker with a new socket, and another worker answers; the first one does
    too, or not."""
    hung, other = (Asker(("REP", "DEALER"), host, at=host, port=5556) for host in (3, 4))
    client, again = (Asker(("REQ", "ROUTER"), at=at) for at in (20, 2000))
    handed_on(client, hung, b"question", at=100)
    client.pause(1000)
    client.close()
    if worker_replies:
        hung.pause(1500)
        hung.send(0, message(b"\0id", b"", b"answer"))
    handed_on(again, other, b"question", at=2100)
    other.send(0, message(b"\0id", b"", b"answer"))
    again.pause(3)
    again.answer(b"answer")
    hung.pause(8000)
    hung.acknowledge(0)
    return [hung, other, client, again]


def test_a_worker_that_hangs_is_named_where_its_client_asks_again_and_another_one_answers() -> None:
    (diagnosis,) = causes_of(*gives_up(worker_replies=False))
    assert (diagnosis.rule, diagnosis.severity) == ("request-unanswered", "error")
    assert diagnosis.text.startswith(
        "REP 10.0.0.3 does not reply to DEALER 10.0.0.1:5556 (for REQ 10.0.0.2, which asked ROUTER 10.0.0.1:5555)"
    )


def test_a_worker_whose_reply_finds_no_client_is_late() -> None:
    (diagnosis,) = causes_of(*gives_up(worker_replies=True))
    assert diagnosis.rule == "late-reply"
    assert "REP 10.0.0.3 took 1.5 s, and its reply had no receiver" in diagnosis.text


def test_a_req_that_works_for_a_router_is_named_with_its_client_behind_it() -> None:
    client, worker = Asker(("REQ", "ROUTER"), host=2), Asker(("REQ", "ROUTER"), host=3, at=1, port=5556)
    worker.send(0, message(b"", b"READY"))
    handed_on(client, worker, b"question", 20, "REQ")
    worker.send(0, message(b"", b"\0id", b"", b"answer"))
    client.pause(3)
    client.answer(b"answer")
    handed_on(client, worker, b"hangs", 40, "REQ")
    for each in (client, worker):
        each.pause(6000)
        each.close()
    (diagnosis,) = causes_of(client, worker)
    assert (diagnosis.rule, diagnosis.severity, diagnosis.certainty) == ("request-unanswered", "error", "proven")
    assert diagnosis.text.startswith(
        "REQ 10.0.0.3 does not reply to ROUTER 10.0.0.1:5556 (for REQ 10.0.0.2, which asked ROUTER 10.0.0.1:5555): "
    )


def test_a_peer_that_asks_the_same_of_the_same_server_is_no_broker() -> None:
    on_its_host, beside = Asker(host=1), Asker(host=1, at=1)
    for asker in (on_its_host, beside):
        asker.ask(b"question")
        asker.pause(12_000)
        asker.acknowledge(0)
    (diagnosis,) = causes_of(on_its_host, beside)
    assert "which asked" not in diagnosis.text
    assert diagnosis.count == 2


def test_a_rep_hangs_on_its_first_request_even_if_that_client_gave_up_sooner() -> None:
    first, second = hanging(host=3, waits=800), hanging(host=2, at=70)
    first.close()
    again = Asker(host=3, at=1000)
    again.ask(b"another")
    again.pause(800)
    again.close()
    (diagnosis,) = causes_of(second, first, again)
    assert diagnosis.text == (
        "REP 10.0.0.1:5555 does not reply to REQ 10.0.0.3: the request in packet 14 waited without a reply for 802 "
        "ms, until REQ 10.0.0.3 closed the connection; 2 more behind it have no reply either: REQ 10.0.0.2, REQ "
        "10.0.0.3, for 12 s at most; 6 others were answered, median 1 ms"
    )


def test_a_rep_does_not_hang_on_a_request_given_up_before_it_answered_others() -> None:
    gone = Asker(host=3)
    gone.ask(b"given up")
    gone.pause(300)
    gone.close()
    (diagnosis,) = causes_of(gone, hanging(at=1000))
    assert "does not reply to REQ 10.0.0.2" in diagnosis.text
    assert diagnosis.count == 1


def test_each_worker_that_hangs_is_named() -> None:
    workers: list[Asker] = []
    for host in (3, 4):
        worker = Asker(("REP", "DEALER"), host, at=host, port=5556)
        worker.send(1, message(b"\0id", b"", b"question %d" % host))
        worker.pause(12_000)
        worker.acknowledge(0)
        workers.append(worker)
    assert [diagnosis.subject for diagnosis in causes_of(*workers)] == ["REP 10.0.0.3", "REP 10.0.0.4"]


@pytest.mark.parametrize(("milliseconds", "rule"), [(5000, "request-unanswered"), (500, "request-lost")])
def test_a_peer_that_was_silent_for_long_before_it_left_hangs(milliseconds: int, rule: str) -> None:
    (diagnosis,) = causes_of(left_in_the_middle(milliseconds=milliseconds))
    assert diagnosis.rule == rule
    assert "left" in diagnosis.text


def left_in_the_middle(socket_type: str = "REQ", milliseconds: int = 50, at: int = 0) -> Asker:
    asker = Asker((socket_type, "REP"), at=at)
    asker.ask(b"question")
    asker.pause(milliseconds)
    asker.add(1, FIN | ACK)
    asker.add(0, FIN | ACK)
    return asker


def test_a_request_is_lost_where_its_server_leaves_first() -> None:
    (diagnosis,) = causes_of(left_in_the_middle())
    assert diagnosis.rule == "request-lost"
    assert "its REQ waits forever" in diagnosis.text


def test_a_request_that_is_lost_each_time_was_asked_again() -> None:
    (diagnosis,) = causes_of(*(left_in_the_middle(at=at) for at in (0, 1000, 2000)))
    assert diagnosis.rule == "request-lost"
    assert ", as on 2 connections before, and not again: the reply will not come" in diagnosis.text


@pytest.mark.parametrize(
    ("question", "asked"), [(b"question", "again"), (b"question at another time", "something else")]
)
def test_a_lost_request_is_a_note_if_its_client_asked_again_and_was_answered(question: bytes, asked: str) -> None:
    asker, again = left_in_the_middle(), Asker(at=1000)
    again.ask(question)
    again.answer(b"answer")
    (diagnosis,) = causes_of(asker, again)
    assert (diagnosis.rule, diagnosis.severity) == ("request-lost", "note")
    assert diagnosis.text == (
        "REP 10.0.0.1:5555 left 51 ms after REQ 10.0.0.2 had asked it in packet 8; 949 ms later REQ 10.0.0.2 asked "
        f"{asked} and was answered"
    )


def test_requests_of_another_client_of_the_host_do_not_replace_a_lost_one() -> None:
    """Both lost their connections, one of them while it waited: the connection with replies is the other one's."""
    idle, again, more = Asker(at=20), Asker(at=1000), Asker(at=1100)
    idle.ask(b"something")
    idle.answer(b"answer")
    idle.pause(20)
    idle.add(1, FIN | ACK)
    idle.add(0, FIN | ACK)
    for asker in (again, more):
        asker.ask(b"another question")
        asker.answer(b"answer")
    (diagnosis,) = causes_of(left_in_the_middle(), idle, again)
    assert (diagnosis.rule, diagnosis.severity) == ("request-lost", "error")
    (diagnosis,) = causes_of(left_in_the_middle(), idle, again, more)
    assert (diagnosis.rule, diagnosis.severity) == ("request-lost", "note")


def through_proxy(*, leaves: bool) -> tuple[Asker, Asker]:
    """A TCP proxy at 10.0.0.1:5555 connects over loopback to a REP, which stops replying, or leaves."""
    legs = Asker(), Asker(host=9, at=1, port=5556)
    for leg in legs:
        by_turns(leg)
        leg.ask(b"the last")
        if leaves:
            leg.add(1, FIN | ACK)
            leg.add(0, FIN | ACK)
        else:
            leg.pause(12_000)
            leg.acknowledge(0)
    return legs


@pytest.mark.parametrize(("leaves", "rule"), [(False, "request-unanswered"), (True, "request-lost")])
def test_both_legs_of_a_tcp_proxy_are_one_request(leaves: bool, rule: str) -> None:
    (diagnosis,) = causes_of(*through_proxy(leaves=leaves))
    assert diagnosis.rule == rule
    assert "(for REQ 10.0.0.2, which asked REP 10.0.0.1:5555)" in diagnosis.text
    assert len(diagnosis.conn_ids) == 2


def test_a_server_that_leaves_after_the_same_request_three_times_fails_on_it() -> None:
    lost = [left_in_the_middle(at=at) for at in (0, 2000, 4000)]
    others = [Asker(at=at) for at in (1000, 3000, 5000)]
    for other in others:
        other.ask(b"another question")
        other.answer(b"answer")
    (diagnosis,) = causes_of(*lost, *others)
    assert (diagnosis.rule, diagnosis.severity) == ("request-lost", "warn")
    assert diagnosis.text.endswith("asked something else and was answered (and 2 times more, after the same request)")


def test_the_last_request_on_which_a_server_fails_belongs_to_the_earlier_ones() -> None:
    lost = [left_in_the_middle(at=at) for at in (0, 2000, 4000, 6000)]
    others = [Asker(at=at) for at in (1000, 3000, 5000)]
    for other in others:
        other.ask(b"another question")
        other.answer(b"answer")
    (diagnosis,) = causes_of(*lost, *others)
    assert (diagnosis.severity, diagnosis.count) == ("warn", 4)
    assert diagnosis.text.endswith("(and 3 times more, after the same request)")


@pytest.mark.parametrize(("silent_ms", "severity"), [(5000, "error"), (0, "note")], ids=["waits", "asks again"])
def test_a_req_that_reconnects_and_is_silent_still_waits_for_the_lost_reply(silent_ms: int, severity: str) -> None:
    """Another REQ of that host is answered, but it belongs to another program."""
    again, other = Asker(at=500), Asker(at=2000)
    other.ask(b"another question")
    other.answer(b"answer")
    again.pause(silent_ms)
    again.acknowledge(0)
    if not silent_ms:
        again.ask(b"another question")
        again.answer(b"answer")
    (diagnosis,) = causes_of(left_in_the_middle(), again, other)
    assert (diagnosis.rule, diagnosis.severity) == ("request-lost", severity)


def test_an_idle_client_that_reconnects_silently_does_not_wait_for_the_lost_reply() -> None:
    idle, again, other = Asker(at=10), Asker(at=500), Asker(at=2000)
    idle.ask(b"earlier question")
    idle.answer(b"answer")
    idle.pause(30)
    idle.add(1, FIN | ACK)
    again.pause(5000)
    again.acknowledge(0)
    other.ask(b"another question")
    other.answer(b"answer")
    second = Asker(at=2500)
    second.ask(b"another question")
    second.answer(b"answer")
    (diagnosis,) = causes_of(left_in_the_middle(), idle, again, other, second)
    assert (diagnosis.rule, diagnosis.severity) == ("request-lost", "note")


def test_a_dealer_that_asks_the_same_again_lost_nothing_but_asks_more_beside_it() -> None:
    def lost_and_then(question: bytes) -> list[Diagnosis]:
        again = Asker(("DEALER", "REP"), at=1000)
        again.ask(question)
        again.answer(b"answer")
        return causes_of(left_in_the_middle("DEALER"), again)

    assert lost_and_then(b"question") == []
    assert [diagnosis.severity for diagnosis in lost_and_then(b"another")] == ["error"]


def test_requests_of_others_or_earlier_connections_do_not_replace_a_lost_one() -> None:
    other, earlier, unanswered = Asker(host=3, at=1000), Asker(at=1), Asker(at=2000)
    other.ask(b"another")
    other.answer(b"answer")
    earlier.pause(500)
    earlier.ask(b"another")
    earlier.answer(b"answer")
    unanswered.ask(b"another")
    (diagnosis,) = causes_of(left_in_the_middle(), other, earlier, unanswered)
    assert (diagnosis.rule, diagnosis.severity) == ("request-lost", "error")


def test_a_worker_that_leaves_with_a_request_is_named_with_the_client_that_waits() -> None:
    def through_broker() -> tuple[Asker, Asker]:
        client, worker = Asker(("REQ", "ROUTER"), host=2), Asker(("REP", "DEALER"), host=3, at=1, port=5556)
        client.ask(b"question")
        client.answer(b"answer")
        client.ask(b"dies")
        worker.pause(5)
        worker.send(1, message(b"\0id", b"", b"dies"))
        worker.pause(100)
        worker.close()
        client.pause(4000)
        client.close()
        return client, worker

    (diagnosis,) = causes_of(*through_broker())
    assert (diagnosis.rule, diagnosis.severity) == ("request-lost", "error")
    assert diagnosis.text.startswith("REP 10.0.0.3 left 101 ms after DEALER 10.0.0.1:5556 had asked it in packet ")
    assert "(for REQ 10.0.0.2, which asked ROUTER 10.0.0.1:5555), and nobody asked again" in diagnosis.text
    again = Asker(("REQ", "ROUTER"), at=4100)
    again.ask(b"dies not")
    again.answer(b"answer")
    (diagnosis,) = causes_of(*through_broker(), again)
    assert (diagnosis.rule, diagnosis.severity) == ("request-lost", "note")


def impatient(times: int, waits: Sequence[int] = (300,), answered: int = 0) -> list[Asker]:
    """Return a client that closes its socket each time while it waits, and some clients that get their reply."""
    askers = []
    for number in range(times + answered):
        asker = Asker(at=1000 * number)
        asker.ask(b"question %d" % number)
        if number < times:
            asker.pause(waits[number % len(waits)])
        else:
            asker.answer(b"answer")
        asker.close()
        askers.append(asker)
    return askers


def test_a_client_that_never_waits_long_enough_is_reported_once() -> None:
    (diagnosis,) = causes_of(*impatient(20))
    assert (diagnosis.rule, diagnosis.severity, diagnosis.count) == ("request-unanswered", "error", 20)
    assert diagnosis.text == (
        "REQ 10.0.0.2 gives up 20 of 20 requests to REP 10.0.0.1:5555, each after about 301 ms: none was answered"
    )
    assert len(diagnosis.conn_ids) == 20
    (diagnosis,) = causes_of(*impatient(20, answered=1))
    assert "20 of 21 requests" in diagnosis.text
    assert diagnosis.text.endswith("only 1 answered")


def test_the_last_time_may_be_shorter_since_the_program_ended() -> None:
    (diagnosis,) = causes_of(*impatient(8, (800, 800, 800, 800, 800, 800, 800, 480)))
    assert (diagnosis.rule, diagnosis.severity, diagnosis.count) == ("request-unanswered", "error", 8)
    assert diagnosis.text == (
        "REQ 10.0.0.2 gives up 8 of 8 requests to REP 10.0.0.1:5555, each after about 801 ms, but the last after "
        "481 ms: none was answered"
    )


def test_a_rep_that_never_answers_hangs_however_long_each_wait_was() -> None:
    (diagnosis,) = causes_of(*impatient(6, (300, 900, 600)))
    assert (diagnosis.rule, diagnosis.severity, diagnosis.count) == ("request-unanswered", "error", 6)
    assert diagnosis.text == (
        "REQ 10.0.0.2 gives up 6 of 6 requests to REP 10.0.0.1:5555, after 301 ms to 901 ms: none was answered"
    )


@pytest.mark.parametrize(
    "askers",
    [
        pytest.param(impatient(3, (300, 300, 100)), id="three, and the last is shorter"),
        pytest.param(impatient(5, (200, 200, 200, 200, 900)), id="the last is longer"),
        pytest.param(impatient(5, (50, 200, 200, 200, 200)), id="the first is shorter"),
        pytest.param(impatient(10, (300, 900, 600), answered=1), id="one was answered, and no time-out"),
        pytest.param(impatient(2, (900, 300)), id="twice only, of any length"),
        pytest.param(impatient(2), id="twice only"),
        pytest.param(impatient(6, answered=2), id="some are answered"),
        pytest.param(impatient(6, (50, 300, 700)), id="no time-out"),
        pytest.param(impatient(6, (3,)), id="wants no reply"),
    ],
)
def test_a_peer_that_closes_while_it_waits_may_have_no_time_out(askers: list[Asker]) -> None:
    assert causes_of(*askers) == []


def test_a_peer_that_gives_up_and_asks_again_is_answered_late() -> None:
    asker, again = Asker(), Asker(at=500)
    asker.ask(b"question")
    asker.pause(300)
    asker.close()
    again.ask(b"question")
    again.pause(200)
    again.answer(b"answer")
    (diagnosis,) = causes_of(asker, again)
    assert diagnosis.rule == "late-reply"
    assert "gives up 301 ms after its request in packet 8" in diagnosis.text
    assert diagnosis.text.endswith("with a new socket: the reply takes longer")
    other = Asker(at=500)
    other.ask(b"another question")
    other.answer(b"answer")
    assert causes_of(asker, other) == []


def test_a_router_may_have_lost_what_it_does_not_answer() -> None:
    """A REP answers each request in turn; a ROUTER drops what it sends to a worker that has left."""
    asker, again = Asker(("REQ", "ROUTER")), Asker(("REQ", "ROUTER"), at=500)
    asker.ask(b"question")
    asker.pause(300)
    asker.close()
    again.ask(b"question")
    again.answer(b"answer")
    (diagnosis,) = causes_of(asker, again)
    assert diagnosis.text.endswith("with a new socket: it was lost, or the reply takes longer")


def refused(at: int) -> Asker:
    asker = Asker(at=at)
    del asker.packets[1:]
    asker.reset(1)
    return asker


@pytest.mark.parametrize("patience", [0, 300])
def test_a_request_that_was_queued_until_its_server_was_there_shows_no_patience(patience: int) -> None:
    asker, again = Asker(at=1000), Asker(at=1500)
    asker.ask(b"question")
    asker.pause(patience)
    asker.close()
    again.ask(b"question")
    again.pause(200)
    again.answer(b"answer")
    assert causes_of(*map(refused, range(0, 1000, 100)), asker, again) == []


def test_a_reply_that_arrives_when_a_req_has_asked_anew_is_late() -> None:
    asker = Asker(("REQ", "ROUTER"))
    asker.ask(b"question", envelope=[b"\0\0\0\1"])
    asker.pause(10)
    asker.ask(b"question", envelope=[b"\0\0\0\2"])
    asker.answer(b"answer", envelope=[b"\0\0\0\1"])
    assert [diagnosis.rule for diagnosis in causes_of(asker)] == ["late-reply"]


def test_requests_that_were_queued_for_a_server_that_was_away_are_not_answered_late() -> None:
    """A relaxed REQ asked twice while its REP was restarted, and sends both requests in one packet."""
    asker = Asker()
    asker.send(0, message(b"1", b"", b"question") + message(b"2", b"", b"question"))
    for number in (b"1", b"2"):
        asker.answer(b"answer", envelope=[number])
    assert causes_of(asker) == []
    (violation,) = diagnosed(asker, rule="protocol-violation")
    assert violation.severity == "note"


def still_waits(asker: Asker) -> None:
    asker.ask(b"question")
    asker.pause(500)
    asker.acknowledge(0)


def takes_its_time(asker: Asker) -> None:
    asker.ask(b"question")
    asker.pause(3000)
    asker.answer(b"answer")
    asker.ask(b"question")
    asker.pause(8000)
    asker.acknowledge(0)


def reply_is_not_captured(asker: Asker) -> None:
    asker.ask(b"question")
    asker.answer(b"answer")
    del asker.packets[-1]
    asker.answer(b"another")
    asker.pause(12_000)
    asker.acknowledge(0)


def last_reply_is_not_captured(asker: Asker) -> None:
    asker.ask(b"question")
    asker.answer(b"answer")
    del asker.packets[-1]
    asker.acknowledge(0)
    asker.pause(12_000)
    asker.acknowledge(0)


def closes_without_question(asker: Asker) -> None:
    by_turns(asker)
    asker.close()


@pytest.mark.parametrize(
    ("types", "script"),
    [
        (("REQ", "REP"), still_waits),
        (("REQ", "REP"), takes_its_time),
        (("REQ", "REP"), reply_is_not_captured),
        (("REQ", "REP"), last_reply_is_not_captured),
        (("REQ", "REP"), closes_without_question),
        (("REQ", "ROUTER"), waits_for_work),
        (("REQ", "ROUTER"), gives_work),
        (("DEALER", "ROUTER"), still_waits),
    ],
)
def test_a_request_that_may_still_be_answered_is_not_reported(
    types: tuple[str, str], script: Callable[[Asker], None]
) -> None:
    asker = Asker(types)
    script(asker)
    assert causes_of(asker) == []


def test_a_worker_that_was_never_given_work_is_not_reported_beside_one_that_was() -> None:
    busy, idle = Asker(("REQ", "ROUTER")), Asker(("REQ", "ROUTER"), host=3, at=10)
    gives_work(busy)
    idle.ask(b"here I am")
    idle.pause(12_000)
    idle.acknowledge(0)
    assert causes_of(busy, idle) == []
    (diagnosis,) = causes_of(idle)
    assert diagnosis.certainty == "likely"


def test_pushes_are_unbalanced_only_where_workers_start_together() -> None:
    def worker(host: int, at: int, messages: int) -> Asker:
        pull = Asker(("PULL", "PUSH"), host, at)
        for _ in range(messages):
            pull.send(1, message(b"work"))
        pull.time = first.time
        pull.acknowledge(0)
        return pull

    first = Asker(("PULL", "PUSH"))
    for _ in range(190):
        first.send(1, message(b"work"))
    first.pause(60_000)
    first.acknowledge(0)
    (diagnosis,) = diagnosed(first, worker(3, 150, 10), rule="unbalanced-push")
    assert "PULL 10.0.0.2 got 190 of the 200 messages" in diagnosis.text
    assert diagnosed(first, worker(3, 30_000, 10), rule="unbalanced-push") == []
    assert diagnosed(first, worker(3, 5, 150), rule="unbalanced-push") == []


def test_a_relaxed_req_takes_late_replies_of_a_router_for_others() -> None:
    """It sends the next request before the reply arrives; the ROUTER answers both."""
    asker = Asker(("REQ", "ROUTER"))
    for number in range(3):
        for _ in range(2):
            asker.ask(b"%d" % number)
            asker.pause(400)
        for _ in range(2):
            asker.answer(b"%d" % number)
    asker.ask(b"the last")
    asker.pause(1500)
    asker.close()
    (diagnosis,) = causes_of(asker)
    assert diagnosis.rule == "late-reply"
    assert diagnosis.text == (
        "ROUTER 10.0.0.1:5555 answers late: REQ 10.0.0.2 had repeated its request before the reply to the one in "
        "packet 8 came, 3 times; REQ 10.0.0.2 reads each late reply as the answer to its next request"
    )


def test_a_rep_whose_few_replies_all_take_long_does_not_hang() -> None:
    """Two clients alternate at a REP that answers when it has data, every 4 s."""
    first, second = Asker(), Asker(at=50)
    first.ask(b"next")
    first.answer(b"data")
    first.ask(b"next")
    second.ask(b"next")
    first.pause(4000)
    first.answer(b"data")
    first.ask(b"next")
    first.pause(2500)
    first.ask(b"other")
    assert [each.rule for each in causes_of(first, second)] == []


def served_in_turn(clients: int, seconds: float, replies: int, then: float) -> list[Talk]:
    """REQs that ask a REP again after each reply; it takes this time for each, and after the last one says nothing."""
    talks = [Talk(number, at=0.001 * number).handshake("REQ", "REP") for number in range(clients)]
    asked = [0.0] * clients
    for talk in talks:
        talk.multipart(CLIENT, b"", b"work")
    for number in range(replies):
        talk, at = talks[number % clients], seconds * (number + 1)
        talk.wait(at - asked[number % clients]).multipart(SERVER, b"", b"done").multipart(CLIENT, b"", b"work")
        asked[number % clients] = at
    for talk, since in zip(talks, asked, strict=True):
        talk.wait(seconds * replies + then - since).conversation.acknowledge(CLIENT)
    return talks


@pytest.mark.parametrize("replies", [3, 7, 12])
def test_requests_that_wait_for_the_turn_of_their_client_do_not_hang(replies: int) -> None:
    assert "request-unanswered" not in diagnoses_of(*served_in_turn(5, 1.2, replies, then=1))


def test_a_rep_that_stops_while_its_clients_wait_in_turn_hangs() -> None:
    diagnosis = diagnoses_of(*served_in_turn(5, 1.2, 12, then=15))["request-unanswered"]
    assert diagnosis.severity == "error"
    assert "4 more behind it have no reply either" in diagnosis.text


def test_a_request_that_others_overtake_for_rounds_hangs() -> None:
    """Several REPs behind one address: one of them hangs."""
    hung = Talk(9, at=0).handshake("REQ", "REP").multipart(CLIENT, b"", b"work").wait(30)
    hung.conversation.acknowledge(CLIENT)
    diagnosis = diagnoses_of(hung, *served_in_turn(2, 0.5, 58, then=1))["request-unanswered"]
    assert "waits for 30.1 s" in diagnosis.text


def test_a_server_whose_host_no_longer_knows_the_connection_did_not_leave() -> None:
    """Its address moved to another host, or its host was restarted: a RST without ACK answers the request."""
    talk = Talk(0, at=0).handshake("REQ", "REP").multipart(CLIENT, b"", b"one").multipart(SERVER, b"", b"1").wait(4)
    lost = diagnoses_of(talk.multipart(CLIENT, b"", b"two").reset(SERVER, knows=False))["request-lost"]
    assert lost.text.startswith("REP 10.0.0.1:5555 no longer knew its connection when REQ 10.0.0.2 had asked it in ")
