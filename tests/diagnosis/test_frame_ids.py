"""Requests and replies whose ids are separate frames."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import orjson
import pytest
from hypothesis import given

from tests.diagnosis.diagnosing import causes_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from tests.export.test_json_lines import message_runs
from tests.suites import examples
from tests.traffic import Capture
from tests.twins import twins
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.dissect import Analyser, MessageTable, Options
from zmtpscope.payloads.registry import Registry

Id = Callable[[int], bytes]


def uuid(number: int) -> bytes:
    return UUID(int=number * 7919 << 64).bytes


def counter(number: int) -> bytes:
    return number.to_bytes(4)


IDS = [uuid, counter, lambda number: str(UUID(int=number)).encode(), lambda number: b"%d" % number]


def talk(id_of: Id, numbers: range, *before: bytes, unanswered: tuple[int, ...] = (), body: bytes = b"x") -> Talk:
    """A client whose requests have an id after some frames. Requests with the numbers `unanswered` have no reply."""
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for number in numbers:
        made.multipart(CLIENT, *before, id_of(number), body).wait(0.02)
        if number not in unanswered:
            made.multipart(SERVER, id_of(number), b"result")
        made.wait(0.3)
    return made


@pytest.mark.parametrize("id_of", IDS)
@pytest.mark.parametrize("before", [(), (b"",), (b"GET",), (b"", b"GET")])
def test_requests_without_a_reply_are_counted(id_of: Id, before: tuple[bytes, ...]) -> None:
    (diagnosis,) = causes_of(talk(id_of, range(1, 11), *before, unanswered=(9, 10)).wait(4).close(CLIENT))
    name = "GET" if b"GET" in before else "x"
    assert f"the last 2 calls ({name}) have no reply for" in diagnosis.statement
    assert diagnosis.statement.endswith("; the 8 before had one")
    assert (diagnosis.rule, diagnosis.severity) == ("call-unanswered", "warn")


@pytest.mark.parametrize(("unanswered", "severity"), [((20,), "note"), ((20, 25), "warn")])
def test_requests_in_between_without_a_reply_are_reported(unanswered: tuple[int, ...], severity: str) -> None:
    """A single one is a note, because it may wait for a lock."""
    (diagnosis,) = causes_of(talk(uuid, range(40), b"GET", unanswered=unanswered).close(CLIENT))
    assert f"{len(unanswered)} call" in diagnosis.statement
    assert diagnosis.statement.endswith(f"; {40 - len(unanswered)} others had one")
    assert diagnosis.severity == severity


def test_the_last_request_of_a_client_is_a_note_if_the_server_continues_with_another_client() -> None:
    waiting = talk(uuid, range(8), b"GET").multipart(CLIENT, b"LOCK", uuid(8)).multipart(SERVER, uuid(8))
    waiting.multipart(CLIENT, b"LOCK", uuid(9)).wait(20)
    other = Talk(1, at=1, client=3).handshake("DEALER", "ROUTER")
    for number in range(100, 180):
        other.multipart(CLIENT, b"GET", uuid(number), b"x").multipart(SERVER, uuid(number), b"ok").wait(0.2)
    (diagnosis,) = causes_of(waiting, other)
    assert (diagnosis.rule, diagnosis.severity) == ("call-unanswered", "note")


def test_requests_that_wait_at_a_time_are_matched() -> None:
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for number in range(60):
        made.multipart(CLIENT, uuid(number), b"GET", b"x").wait(0.02)
        if number >= 20:
            made.multipart(SERVER, uuid(number - 20), b"ok").wait(0.02)
    (diagnosis,) = causes_of(made.wait(5).close(CLIENT))
    assert "the last 20 calls (GET) have no reply" in diagnosis.statement


def test_words_that_are_content_do_not_name_a_request() -> None:
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for number in range(12):
        made.multipart(CLIENT, uuid(number), b"word%d" % number).wait(0.1)
        if number < 10:
            made.multipart(SERVER, uuid(number), b"ok").wait(0.3)
    (diagnosis,) = causes_of(made.wait(4).close(CLIENT))
    assert "the last 2 calls (request) have no reply" in diagnosis.statement


def test_an_id_can_be_the_start_of_a_frame() -> None:
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for number in range(12):
        made.multipart(CLIENT, uuid(number) + b"header of a request", b"GET").wait(0.1)
        if number < 10:
            made.multipart(SERVER, uuid(number) + b"of a reply", b"ok").wait(0.3)
    (diagnosis,) = causes_of(made.wait(4).close(CLIENT))
    assert "the last 2 calls (GET) have no reply" in diagnosis.statement


def test_an_id_can_be_in_an_object_without_a_method() -> None:
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for number in range(12):
        id_ = str(UUID(int=number * 7919 << 64))
        made.multipart(CLIENT, b"", b"svc", orjson.dumps({"a": 1, "correlationId": id_})).wait(0.1)
        if number < 10:
            reply = {"correlationId": id_} | ({"error": "overflow"} if number == 3 else {"sum": 1})
            made.multipart(SERVER, b"", b"svc", orjson.dumps(reply)).wait(0.3)
    silent, failing = causes_of(made.wait(4).close(CLIENT))
    assert "the last 2 calls (svc) have no reply" in silent.statement
    assert failing.statement.endswith('answered 1 of 10 calls of svc with an error: "overflow"')


def test_an_object_with_a_method_names_the_request_of_an_id_in_a_frame() -> None:
    made = talk(uuid, range(10), unanswered=(8, 9), body=orjson.dumps({"op": "sum", "values": [1, 2]}))
    (diagnosis,) = causes_of(made.wait(4).close(CLIENT))
    assert "the last 2 calls (sum) have no reply" in diagnosis.statement


@pytest.mark.parametrize("size", [1, 3, 50])
def test_p1_ids_are_the_same_in_blocks_of_any_size(size: int) -> None:
    packets = talk(counter, range(30), b"GET", unanswered=(7, 29)).conversation.packets
    derivation = Derivation()
    for batch in Analyser(Options(bodies="none", payloads=Registry())).run(Capture(packets, size)):
        derivation.feed(batch)
    (connection,) = derivation.knowledge().connections
    calls = connection.sides[CLIENT].calls
    assert calls is not None
    assert (calls.answered, [*calls.open]) == (28, ["00000007", "0000001d"])


def test_an_error_in_a_reply_with_the_id_of_a_request_is_counted() -> None:
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for number in range(8):
        made.multipart(CLIENT, uuid(number), b"GET", b"{}").wait(0.1)
        made.multipart(SERVER, uuid(number), b'{"error": "no such key"}' if number == 6 else b'{"value": 1}').wait(0.3)
    (diagnosis,) = causes_of(made.close(CLIENT))
    assert diagnosis.statement.endswith('answered 1 of 8 calls of GET with an error: "no such key"')


def test_kinds_of_messages_that_are_never_answered_need_no_reply() -> None:
    made = talk(uuid, range(10), b"GET")
    for number in range(100, 105):
        made.multipart(CLIENT, b"LOG", uuid(number), b"x").wait(0.1)
    assert not causes_of(made.wait(1).multipart(CLIENT, b"GET", uuid(1000), b"x").multipart(SERVER, uuid(1000)).wait(5))


@pytest.mark.parametrize("kinds", [(b"GET", b"PUT", b"EVENT"), tuple(b"word%d" % number for number in range(40))])
def test_messages_in_between_that_are_never_answered_need_no_reply(kinds: tuple[bytes, ...]) -> None:
    """Their kinds are known or, if there are too many, one message in three has no reply."""
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for number in range(60):
        made.multipart(CLIENT, counter(number), kinds[number % len(kinds)], b"x").wait(0.01)
        if number % 3 != 2:
            made.multipart(SERVER, counter(number), b"OK")
        made.wait(0.2)
    assert not causes_of(made.close(CLIENT))


def test_acknowledgments_of_every_second_message_are_no_replies() -> None:
    made = talk(uuid, range(40), b"PUT", unanswered=tuple(range(1, 40, 2)))
    assert not [each for each in causes_of(made.wait(5).close(CLIENT)) if each.severity != "note"]


def test_sides_that_count_at_the_same_time_do_not_answer_each_other() -> None:
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for number in range(30):
        made.multipart(CLIENT, b"HB", counter(number)).wait(0.5).multipart(SERVER, b"HB", counter(number)).wait(0.5)
    made.multipart(CLIENT, b"HB", counter(30)).multipart(CLIENT, b"HB", counter(31)).wait(4)
    assert not [each for each in causes_of(made.close(CLIENT)) if each.rule == "call-unanswered"]


@examples(300, least=300)
@given(message_runs())
def test_p20_first_frames_are_the_same_for_every_caller(run: MessageTable) -> None:
    found = [
        first_frames(run, 0, len(run)) for first_frames in twins("zmtpscope.diagnosis.observers.frame_ids.first_frames")
    ]
    assert all(each == found[0] for each in found)
