"""Servers that get more requests than they reply to."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import orjson

from tests.diagnosis.diagnosing import causes_of, diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from zmtpscope.diagnosis.diagnosis import Diagnosis

RULE = "overloaded"


def served(asked: Iterable[float], took: float, *, until: float, types: tuple[str, str] = ("DEALER", "REP")) -> Talk:
    """A client that asks at these times, and a server that replies to one request at a time, each `took` seconds."""
    free, times = 0.0, list[tuple[float, float]]()
    for at in asked:
        free = max(free, at) + took
        times.append((at, free))
    return calls(times, until=until, types=types)


def calls(times: Iterable[tuple[float, float]], *, until: float, types: tuple[str, str] = ("DEALER", "REP")) -> Talk:
    """A client that calls, and a server that replies, at these times."""
    made, now, steps = Talk(0, at=0).handshake(*types), 0.0, list[tuple[float, int, int]]()
    for number, (asked, replied) in enumerate(times):
        steps += [(asked, CLIENT, number), (replied, SERVER, number)]
    for at, side, number in sorted(each for each in steps if each[0] < until):
        method = {"method": "resize"} if side == CLIENT else {"result": 1}
        made.wait(at - now).multipart(side, b"", orjson.dumps({"jsonrpc": "2.0", "id": number} | method))
        now = at
    made.wait(until - now).conversation.acknowledge(CLIENT)
    return made


def unmatched(asked: Iterable[float], replied: Iterable[float], *, until: float) -> Talk:
    """A DEALER and a ROUTER that send at these times; nothing shows which messages belong together."""
    made, now = Talk(0, at=0).handshake("DEALER", "ROUTER"), 0.0
    for at, side in sorted([(at, CLIENT) for at in asked] + [(at, SERVER) for at in replied]):
        if at < until:
            made.wait(at - now).message(side, b"do this" if side == CLIENT else b"done")
            now = at
    made.wait(until - now).conversation.acknowledge(CLIENT)
    return made


def every(seconds: float, count: int) -> list[float]:
    return [seconds * number for number in range(count)]


def diagnosis_of(talk: Talk) -> Diagnosis | None:
    return next(iter(causes_of(talk, rule=RULE)), None)


def test_a_queue_that_grows_is_reported_with_both_latencies() -> None:
    diagnosis = diagnosis_of(served(every(0.05, 200), 0.08, until=6))
    assert diagnosis is not None
    assert diagnosis.statement.startswith(
        "REP 10.0.0.1:5555 does not keep up with the requests of DEALER 10.0.0.2: it replied after"
    )
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "proven")


def test_a_client_that_leaves_a_growing_queue_is_reported_although_the_first_latencies_vary() -> None:
    talk = served(every(0.05, 200), 0.08, until=6).close()
    assert diagnosis_of(talk) is not None


def test_calls_with_ids_queue_at_a_router_too() -> None:
    assert diagnosis_of(served(every(0.05, 200), 0.08, until=6, types=("DEALER", "ROUTER"))) is not None


def test_replies_without_ids_are_a_note_and_likely_only() -> None:
    diagnosis = diagnosis_of(unmatched(every(0.06, 200), [0.1 * number for number in range(1, 100)], until=8))
    assert diagnosis is not None
    assert (diagnosis.severity, diagnosis.certainty) == ("note", "likely")
    assert "does not keep up with the messages of DEALER 10.0.0.2, if it replies to each in order" in diagnosis.text


def test_a_listener_that_replies_to_every_second_message_keeps_up() -> None:
    assert diagnosis_of(unmatched(every(0.06, 200), [0.12 * number + 0.07 for number in range(60)], until=7)) is None


def test_a_listener_that_sends_by_its_own_timer_keeps_up() -> None:
    assert diagnosis_of(unmatched(every(0.06, 200), [0.1 * number + 0.03 for number in range(99)], until=8)) is None


def test_a_listener_that_sends_before_it_is_asked_does_not_reply() -> None:
    assert diagnosis_of(unmatched(every(0.06, 200), [-0.01, *every(0.1, 99)], until=8)) is None


def test_a_server_that_works_on_all_requests_at_once_keeps_up() -> None:
    """Soon after the start only quick replies have arrived, and slow ones still wait."""
    for seed, until in ((0, 1.2), (6, 1.0), (20, 1.2), (35, 1.0)):
        random, at, times = Random(seed), 0.0, list[float]()
        while at < 1.6:
            times.append(at)
            at += random.expovariate(50)
        replies = [each + random.expovariate(1 / 0.4) for each in times]
        talk = calls(zip(times, replies, strict=True), until=until, types=("DEALER", "ROUTER"))
        assert diagnosis_of(talk) is None


def test_a_batch_that_is_sent_at_once_is_no_overload() -> None:
    assert diagnosis_of(served([0.001 * number for number in range(100)], 0.05, until=3)) is None


def test_a_queue_that_has_drained_is_no_overload() -> None:
    assert diagnosis_of(served(every(0.05, 40), 0.08, until=6)) is None


def test_a_server_that_keeps_up_is_not_reported() -> None:
    assert diagnosis_of(served(every(0.1, 100), 0.08, until=8)) is None


def test_a_server_that_stops_is_another_problem() -> None:
    """The oldest request waits for longer than in a queue."""
    made = served(every(0.09, 30), 0.1, until=2.6)
    for _ in range(60):
        made.wait(0.1).multipart(CLIENT, b"", b"more")
    assert diagnosis_of(made) is None


def impatient(number: int, patience: float, reply: float | None) -> Talk:
    """A REQ that closes after its patience, or after a reply."""
    made = Talk(number, at=0.001 * number).handshake("REQ", "REP").multipart(CLIENT, b"", b"ask")
    if reply is not None:
        return made.wait(reply).multipart(SERVER, b"", b"done").wait(1).close(CLIENT)
    return made.wait(patience).close(CLIENT)


def test_clients_that_give_up_sooner_than_their_requests_take_together() -> None:
    talks = [impatient(number, 1, 0.2 * (number + 1) if number < 4 else None) for number in range(12)]
    diagnosis = diagnoses_of(*talks)[RULE]
    assert diagnosis.statement == (
        "likely: REP 10.0.0.1:5555 gets more requests than it can reply to in time: 8 wait at once, and its quickest "
        "reply took 202 ms; its clients gave up 8, each after about 1 s"
    )
    assert "hangs" in diagnosis.hint, "the capture does not exclude it"
    assert "request-unanswered" not in diagnoses_of(*talks)


def test_a_server_that_could_reply_to_all_in_time_is_not_overloaded() -> None:
    talks = [impatient(number, 4, 0.15 if number < 6 else None) for number in range(12)]
    assert RULE not in diagnoses_of(*talks)


def in_turn(number: int, took: Iterable[float]) -> Talk:
    """A REQ that asks again as soon as it has a reply."""
    made = Talk(number, at=0.01 * number).handshake("REQ", "REP")
    for each in took:
        made.multipart(CLIENT, b"", b"ask").wait(each).multipart(SERVER, b"", b"done")
    return made.close(CLIENT)


def test_clients_that_wait_for_each_other_are_a_note() -> None:
    talks = [in_turn(number, [0.1] + [0.4] * 10) for number in range(4)]
    diagnosis = diagnoses_of(*talks)[RULE]
    assert diagnosis.severity == "note"
    assert "replies to one request at a time" in diagnosis.text


def test_a_server_that_works_on_several_at_once_is_not_reported() -> None:
    talks = [in_turn(number, [0.01] + [0.4] * 10) for number in range(4)]
    assert RULE not in diagnoses_of(*talks)


def test_a_server_that_pauses_now_and_then_is_a_note() -> None:
    diagnosis = diagnoses_of(in_turn(0, ([0.001] * 19 + [1.5]) * 3))["slow-reply"]
    assert diagnosis.severity == "note"
    assert diagnosis.text.endswith("took up to 1.5 s for 3 of 60 replies; half took 3.03 ms or less")


def test_a_server_whose_replies_vary_is_not_reported() -> None:
    assert diagnoses_of(in_turn(0, [0.4, 1.6, 0.7, 1.1] * 8)) == {}


def waiting_at_the_end(clients: int, wait: float) -> list[Talk]:
    """Clients of a REP that has answered each of them five times, and then none."""
    talks = []
    for number in range(clients):
        talk = Talk(number, at=0.001 * number).handshake("REQ", "REP")
        for _ in range(5):
            talk.multipart(CLIENT, b"", b"ask").multipart(SERVER, b"", b"done").wait(0.2)
        talks.append(talk.multipart(CLIENT, b"", b"ask").wait(wait))
        talk.conversation.acknowledge(CLIENT)
    return talks


def test_a_rep_that_leaves_all_its_clients_without_a_reply_at_the_end_is_a_note() -> None:
    """A capture that ends with its last packet does not show how long clients wait that send none."""
    diagnosis = diagnoses_of(*waiting_at_the_end(2, 0.1))["request-unanswered"]
    assert (diagnosis.severity, diagnosis.certainty) == ("note", "likely")


def test_a_request_under_way_when_the_capture_ends_is_nothing() -> None:
    assert diagnoses_of(*waiting_at_the_end(2, 0.01)) == {}
    assert diagnoses_of(*waiting_at_the_end(1, 0.1)) == {}


def test_a_batch_that_a_rep_works_off_does_not_hang() -> None:
    talk = served([0.001 * number for number in range(100)], 0.05, until=3)
    assert diagnoses_of(talk) == {}


def test_a_rep_that_stops_within_a_batch_hangs() -> None:
    talk = served([0.001 * number for number in range(20)], 0.05, until=0.6).wait(8)
    talk.conversation.acknowledge(CLIENT)
    assert "request-unanswered" in diagnoses_of(talk)
