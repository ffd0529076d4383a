"""Calls that have no reply, or one with an error."""

from __future__ import annotations

from struct import Struct

import msgpack
import orjson
import pytest

from tests.diagnosis.diagnosing import causes_of, consequences_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from tests.traffic import Capture
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.diagnosis.diagnosis import Diagnosis
from zmtpscope.diagnosis.observers.calls import OCTETS
from zmtpscope.dissect import Analyser, Options
from zmtpscope.payloads.registry import Registry

RULE = "call-unanswered"


def event(id_: str, name: str, to: str | None = None) -> bytes:
    """An event of zerorpc; `to` is the call that it belongs to."""
    header = {"message_id": id_, "v": 3} | ({} if to is None else {"response_to": to})
    return msgpack.packb([header, name, [0]])


def rpc(id_: object, **members: object) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": id_, **members})


def talk(answered: int = 0, number: int = 0, client: int = 2) -> Talk:
    """A client of zerorpc; `answered` of its calls have a reply."""
    made = Talk(number, at=0, client=client).handshake("DEALER", "ROUTER").wait(0.5)
    for each in range(answered):
        made.multipart(CLIENT, b"", event(f"c{each}", "add")).wait(0.1)
        made.multipart(SERVER, b"", event(f"s{each}", "OK", f"c{each}"))
    return made


def found(*talks: Talk, rule: str = RULE) -> list[Diagnosis]:
    return causes_of(*talks, rule=rule)


def test_the_last_calls_have_no_reply_while_earlier_ones_had_one() -> None:
    made = talk(7)
    for number in range(3):
        made.multipart(CLIENT, b"", event(f"x{number}", "block")).wait(1)
    (diagnosis,) = found(made.wait(3).close(CLIENT))
    assert diagnosis.statement == (
        "likely: ROUTER 10.0.0.1:5555 does not reply to DEALER 10.0.0.2: the last 3 calls (block) have no reply for "
        "6.01 s; the 7 before had one"
    )
    assert (diagnosis.severity, diagnosis.count) == ("warn", 3)


@pytest.mark.parametrize("types", [("DEALER", "ROUTER"), ("PAIR", "PAIR")])
def test_calls_of_json_rpc_are_matched_by_their_ids(types: tuple[str, str]) -> None:
    made = Talk(0, at=0).handshake(*types).wait(0.5)
    for id_ in (1, 2, "three"):
        made.multipart(CLIENT, rpc(id_, method="get_info"))
    made.multipart(SERVER, rpc(2, result={})).multipart(SERVER, rpc("three", error={"code": 1}))
    (diagnosis,) = found(made.wait(5).close(CLIENT))
    assert "1 call (get_info) has no reply for 5.01 s; 2 others had one" in diagnosis.statement


def test_an_unanswered_call_is_the_cause_of_a_silence() -> None:
    made = talk(10).wait(2).multipart(CLIENT, b"", event("x", "block"))
    for number in range(5):
        made.wait(4).multipart(CLIENT, b"", event(f"h{number}", "_zpc_hb", "x"))
    assert [each.rule for each in causes_of(made.close(CLIENT))] == [RULE]


def test_a_broker_that_waits_itself_is_not_blamed() -> None:
    front = talk(2).multipart(CLIENT, b"", event("x", "f")).wait(5).close(CLIENT)
    back = Talk(1, at=1, client=1, port=5556).handshake("DEALER", "ROUTER")
    back.multipart(CLIENT, b"", event("x", "f")).wait(5).close(CLIENT)
    (diagnosis,) = found(front, back)
    assert diagnosis.subject == "ROUTER 10.0.0.1:5556"


def mdp(version: int, *, lost: int) -> tuple[Talk, Talk]:
    """A client, and a worker that does the work of two requests, and not that of `lost` more."""
    client = Talk(0, at=0).handshake("DEALER", "ROUTER", "client").wait(1)
    worker = Talk(1, at=0).handshake("DEALER", "ROUTER", "worker").wait(1)
    asks, answers = ((b"MDPC02", b"\2"), (b"MDPC02", b"\4")) if version == 2 else ((b"MDPC01",), (b"MDPC01",))
    header, done = b"MDPW0%d" % version, b"\4" if version == 2 else b"\3"
    for number in range(2 + lost):
        body = b"order %d" % number
        client.multipart(CLIENT, b"", *asks, b"orders", body).wait(0.2)
        worker.wait(0.1).multipart(SERVER, b"", header, b"\2", b"client", b"", body)
        if number < 2:
            worker.multipart(CLIENT, b"", header, done, b"client", b"", body)
            client.multipart(SERVER, b"", *answers, b"orders", body)
        worker.wait(0.1)
    return client.wait(6).close(CLIENT), worker.wait(6)


@pytest.mark.parametrize("version", [1, 2])
def test_work_that_a_worker_does_not_do_is_matched_by_counts(version: int) -> None:
    (diagnosis,) = found(*mdp(version, lost=1))
    assert diagnosis.subject == 'DEALER "worker" 10.0.0.2'
    assert "the last call (work) has no reply for 6." in diagnosis.statement
    assert "the 2 before had one; so 1 caller of ROUTER 10.0.0.1:5555 waits too" in diagnosis.statement
    assert found(*mdp(version, lost=0)) == []


def test_several_clients_of_one_server_are_one_diagnosis() -> None:
    talks = [talk(2, number, 2 + number).multipart(CLIENT, b"", event("x", "f")).wait(5).close() for number in (0, 1)]
    (diagnosis,) = found(*talks)
    assert diagnosis.statement.endswith("; the same on 1 other connection")


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(talk(3).wait(9).close(), id="all answered"),
        pytest.param(talk(3).multipart(CLIENT, b"", event("x", "f")).wait(2).close(), id="a short wait"),
        pytest.param(talk(3).multipart(CLIENT, b"", event("x", "f")).wait(9).close(SERVER), id="the server closes"),
        pytest.param(
            talk(3)
            .multipart(CLIENT, b"", event("x", "f"))
            .wait(5)
            .multipart(SERVER, b"", event("h", "_zpc_hb", "x"))
            .wait(5)
            .close(),
            id="a heartbeat of the call",
        ),
        pytest.param(
            talk()
            .multipart(CLIENT, b"", event("x", "f"))
            .wait(4)
            .multipart(SERVER, b"", event("s", "OK", "x"))
            .multipart(CLIENT, b"", event("y", "f"))
            .wait(9)
            .close(),
            id="no longer than others",
        ),
        pytest.param(
            Talk(0, at=0)
            .handshake("DEALER", "ROUTER")
            .multipart(CLIENT, orjson.dumps({"jsonrpc": "2.0", "method": "note"}))
            .wait(9)
            .close(),
            id="a notification",
        ),
        pytest.param(
            Talk(0, at=0).handshake("PUSH", "PULL").message(CLIENT, rpc(1, method="f")).wait(9).close(),
            id="sockets that reply to nothing",
        ),
    ],
)
def test_all_else_is_silent(made: Talk) -> None:
    assert found(made) == []


def test_an_empty_message_is_no_message_of_a_broker() -> None:
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    made.multipart(CLIENT, b"", b"MDPC01", b"echo", b"x").message(CLIENT, b"").message(SERVER, b"")
    (diagnosis,) = found(made.wait(5).close(CLIENT))
    assert "1 call (echo) has no reply" in diagnosis.statement


def test_calls_take_room_until_they_have_a_reply() -> None:
    made = talk(5).multipart(CLIENT, b"", event("x", "block")).wait(1)
    derivation, packets = Derivation(), sorted(made.conversation.packets, key=lambda packet: packet.time)
    derivation.room.left = OCTETS
    for batch in Analyser(Options(bodies="none", payloads=Registry())).run(Capture(packets, 1)):
        derivation.feed(batch)
    (connection,) = derivation.knowledge().connections
    calls = connection.sides[CLIENT].calls
    assert calls is not None
    assert (calls.answered, len(calls.open), calls.is_incomplete) == (5, 1, False)
    assert derivation.room.left == 0


FAILING = "call-failing"


def failed(id_: str, *error: str) -> bytes:
    """An exception that a zerorpc server reports."""
    return msgpack.packb([{"message_id": "s", "v": 3, "response_to": id_}, "ERR", list(error)])


def test_exceptions_of_zerorpc_are_counted_by_method() -> None:
    made = talk(2)
    for number in range(3):
        made.multipart(CLIENT, b"", event(f"x{number}", "divide")).wait(0.2)
        made.multipart(SERVER, b"", failed(f"x{number}", "ZeroDivisionError", "division by zero", "Traceback"))
    (diagnosis,) = found(made.close(CLIENT), rule=FAILING)
    assert diagnosis.statement == (
        'ROUTER 10.0.0.1:5555 answered 3 of 3 calls of divide with an error: "ZeroDivisionError: division by zero"'
    )
    assert (diagnosis.severity, diagnosis.count) == ("note", 3), "the caller may expect it"


def rpc_talk(*replies: dict[str, object], types: tuple[str, str] = ("REQ", "REP")) -> Talk:
    """A client of JSON-RPC that calls get_price and gets these replies."""
    made = Talk(0, at=0).handshake(*types).wait(0.5)
    for number, reply in enumerate(replies):
        made.multipart(CLIENT, b"", rpc(number, method="get_price")).wait(0.01)
        made.multipart(SERVER, b"", rpc(number, **reply)).wait(0.1)
    return made.close(CLIENT)


@pytest.mark.parametrize("types", [("REQ", "REP"), ("REQ", "ROUTER"), ("DEALER", "ROUTER"), ("PAIR", "PAIR")])
def test_errors_of_json_rpc_are_counted_between_any_sockets_that_call(types: tuple[str, str]) -> None:
    made = rpc_talk({"result": 1}, {"error": {"code": -1, "message": "locked"}}, {"error": "busy"}, types=types)
    (diagnosis,) = found(made, rule=FAILING)
    assert diagnosis.statement.endswith('answered 2 of 3 calls of get_price with an error: "locked"')


def test_an_id_that_is_used_again_is_a_new_call() -> None:
    """The reply to the first call cannot be read; its id shows that the client has it."""
    made = Talk(0, at=0).handshake("REQ", "REP").wait(0.5)
    for method, reply in (("get_header", b"?"), ("no_such_method", rpc("0", error={"message": "invalid"}))):
        made.multipart(CLIENT, b"", rpc("0", method=method)).wait(0.01).multipart(SERVER, b"", reply).wait(0.1)
    (diagnosis,) = found(made.close(CLIENT), rule=FAILING)
    assert diagnosis.statement.endswith('answered 1 of 1 call of no_such_method with an error: "invalid"')


def test_an_error_without_an_id_is_the_reply_to_the_oldest_call() -> None:
    """A coordinator of LECO reports like this that it does not know the called component."""
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for number in range(4):
        made.multipart(CLIENT, rpc(number, method="read")).wait(0.01)
        made.multipart(SERVER, rpc(None, error={"code": -32093, "message": "unknown receiver"})).wait(0.2)
    made.wait(9).close(CLIENT)
    assert not found(made)
    (diagnosis,) = found(made, rule=FAILING)
    assert diagnosis.statement.endswith('answered 4 of 4 calls of read with an error: "unknown receiver"')


def aiozmq(number: int, *error: str, replies: bool = True) -> list[bytes]:
    """A reply of aiozmq.rpc, which is an error of this type, text and representation; or a call of add."""
    header = Struct("<HHLd").pack(4711, 815, number, 1.7e9)
    if not replies:
        return [header, b"add", msgpack.packb([1, 2]), msgpack.packb({})]
    return [header + bytes([bool(error)]), msgpack.packb([*error] if error else 3)]


def test_calls_of_aiozmq_are_matched_by_their_ids() -> None:
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for number in range(9):
        made.multipart(CLIENT, *aiozmq(number, replies=False)).wait(0.1)
        if number != 5:
            error = ("builtins.ValueError", "no", "ValueError('no')") if number == 3 else ()
            made.multipart(SERVER, *aiozmq(number, *error)).wait(0.3)
    made.wait(3).close(CLIENT)
    (silent,) = found(made)
    assert "1 call (add) has no reply for 4." in silent.statement
    assert silent.statement.endswith("; 8 others had one")
    (failing,) = found(made, rule=FAILING)
    assert failing.statement.endswith('answered 1 of 8 calls of add with an error: "builtins.ValueError"')


def test_a_result_of_null_is_no_error() -> None:
    assert not found(rpc_talk({"result": None}, {"result": None, "error": None}), rule=FAILING)


def test_a_request_of_a_req_without_a_reply_is_reported_once() -> None:
    made = Talk(0, at=0).handshake("REQ", "REP").wait(0.5)
    made.multipart(CLIENT, b"", rpc(0, method="get_price")).wait(8).close(CLIENT)
    assert not found(made)
    assert found(made, rule="request-unanswered")


def jupyter(kind: str, asked: str, content: dict[str, object]) -> list[bytes]:
    """A message of a client or kernel; `asked` is the type of the request."""
    header = {"msg_id": "reply" if asked else "request", "msg_type": kind}
    parent = {"msg_id": "request", "msg_type": asked} if asked else {}
    return [b"<IDS|MSG>", b"", *map(orjson.dumps, (header, parent, {}, content))]


def test_errors_of_a_kernel_are_counted() -> None:
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for status in ({"status": "ok"}, {"status": "error", "ename": "NameError", "evalue": "x"}):
        made.multipart(CLIENT, *jupyter("execute_request", "", {"code": "x"})).wait(0.1)
        made.multipart(SERVER, *jupyter("execute_reply", "execute_request", dict(status))).wait(0.1)
    (diagnosis,) = found(made.close(CLIENT), rule=FAILING)
    assert diagnosis.statement.endswith('answered 1 of 2 calls of execute_request with an error: "NameError: x"')


def test_published_replies_answer_no_call() -> None:
    """The hub of ipyparallel publishes copies of all messages."""
    made = Talk(0, at=0).handshake("SUB", "PUB").command(CLIENT, "SUBSCRIBE").wait(0.5)
    made.multipart(SERVER, *jupyter("execute_reply", "execute_request", {"status": "error", "ename": "NameError"}))
    assert not found(made.close(CLIENT), rule=FAILING)


def objects(*calls: tuple[dict[str, object], dict[str, object] | None], types: tuple[str, str]) -> Talk:
    """Calls of a protocol of its own, each with its reply."""
    made = Talk(0, at=0).handshake(*types).wait(0.5)
    for call, reply in calls:
        made.multipart(CLIENT, b"", orjson.dumps(call)).wait(0.1)
        if reply is not None:
            made.multipart(SERVER, b"", orjson.dumps(reply)).wait(0.1)
    return made


def get(id_: str) -> dict[str, object]:
    return {"type": "rpc", "rpc_uuid": id_, "method": "get"}


def result(id_: str, **members: object) -> dict[str, object]:
    return {"type": "rpc_result", "rpc_uuid": id_, **members}


def test_objects_with_a_method_are_matched_by_their_ids() -> None:
    calls = [(get(f"u{number}"), result(f"u{number}", result=3)) for number in range(3)]
    (diagnosis,) = found(objects(*calls, (get("x"), None), types=("DEALER", "ROUTER")).wait(5).close(CLIENT))
    assert "the last call (get) has no reply for 5.1 s; the 3 before had one" in diagnosis.statement


@pytest.mark.parametrize(
    ("types", "calls"),
    [
        pytest.param(("DEALER", "ROUTER"), [(get("a"), None), (get("b"), None)], id="a method that is never answered"),
        pytest.param(
            ("DEALER", "ROUTER"),
            [(get("a"), result("a")), ({"id": 1, "cmd": "set"}, None)],
            id="another method than the one that is answered",
        ),
        pytest.param(("DEALER", "ROUTER"), [({"cmd": "log"}, {"cmd": "log"}), ({"cmd": "log"}, None)], id="without id"),
        pytest.param(
            ("DEALER", "ROUTER"),
            [({"device_id": 1, "cmd": "get"}, {"device_id": 1}), ({"device_id": 1, "cmd": "get"}, None)],
            id="an id that is none of the call",
        ),
    ],
)
def test_objects_of_an_own_protocol_need_no_reply_otherwise(
    types: tuple[str, str], calls: list[tuple[dict[str, object], dict[str, object] | None]]
) -> None:
    assert not found(objects(*calls, types=types).wait(9).close(CLIENT))


def test_messages_that_need_no_reply_do_not_displace_calls() -> None:
    logs = [({"id": number, "cmd": "log"}, None) for number in range(80)]
    made = objects((get("a"), result("a")), *logs, (get("b"), None), types=("DEALER", "ROUTER"))
    (diagnosis,) = found(made.wait(5).close(CLIENT))
    assert "the last call (get) has no reply for 5.1 s; the 1 before had one" in diagnosis.statement


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ({"error": "no such device"}, "no such device"),
        ({"error_msg": "no such device"}, "no such device"),
        ({"error": {"code": 500, "message": "no such device"}}, "no such device"),
    ],
)
@pytest.mark.parametrize("types", [("DEALER", "ROUTER"), ("REQ", "REP")])
def test_errors_in_replies_with_the_id_of_a_call_are_counted(
    error: dict[str, object], shown: str, types: tuple[str, str]
) -> None:
    made = objects((get("a"), result("a", error=None)), (get("b"), result("b", **error)), types=types)
    (diagnosis,) = found(made.close(CLIENT), rule=FAILING)
    assert diagnosis.statement.endswith(f'answered 1 of 2 calls of get with an error: "{shown}"')


def test_a_req_needs_no_id() -> None:
    calls = [({"cmd": "get"}, {"cmd": "get", "error": "busy"}), ({"cmd": "set"}, {"cmd": "set", "value": 1})]
    (diagnosis,) = found(objects(*calls, types=("REQ", "REP")).close(CLIENT), rule=FAILING)
    assert diagnosis.statement.endswith('answered 1 of 1 call of get with an error: "busy"')


def test_replies_to_other_messages_of_a_req_are_no_replies_to_its_calls() -> None:
    made = Talk(0, at=0).handshake("REQ", "REP").wait(0.5)
    for asked, reply in ((b'{"cmd": "get"}', b"5"), (b"?", b'{"error": "no command"}')):
        made.multipart(CLIENT, b"", asked).wait(0.1).multipart(SERVER, b"", reply).wait(0.1)
    (diagnosis,) = found(made.close(CLIENT), rule=FAILING)
    assert diagnosis.statement.endswith('answered 1 of 2 requests with an error: "no command"')


@pytest.mark.parametrize("error", [{"error": 0.25}, {"error": None}, {"error": ""}, {"errors": 3}])
def test_numbers_are_no_errors(error: dict[str, object]) -> None:
    made = objects(({"cmd": "get"}, {"cmd": "get", **error}), types=("REQ", "REP"))
    assert not found(made.close(CLIENT), rule=FAILING)


@pytest.mark.parametrize(("kind", "severity"), [("apply_request", "note"), ("complete_request", "warn")])
def test_jupyter_requests_are_matched_by_their_ids(kind: str, severity: str) -> None:
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for number in range(3):
        header = {"msg_id": str(number), "msg_type": kind}
        made.multipart(CLIENT, b"<IDS|MSG>", b"", *map(orjson.dumps, (header, {}, {}, {}))).wait(0.1)
        if number < 2:
            reply = {"msg_id": "r", "msg_type": kind.replace("request", "reply")}
            made.multipart(SERVER, b"<IDS|MSG>", b"", *map(orjson.dumps, (reply, header, {}, {"status": "ok"})))
    (diagnosis,) = found(made.wait(6).close(CLIENT))
    assert (diagnosis.severity, diagnosis.count) == (severity, 1)
    assert f"the last call ({kind}) has no reply for 6.1 s; the 2 before had one" in diagnosis.statement


def through_broker(*, worker_fails: int = 2) -> tuple[Talk, Talk]:
    """Two calls that a broker answers with errors, of which a worker has sent `worker_fails`."""
    front, back = Talk(0, at=0).handshake("DEALER", "ROUTER"), Talk(1, at=0, client=3).handshake("DEALER", "ROUTER")
    for number in range(2):
        front.multipart(CLIENT, b"", rpc(number, method="get")).wait(0.3)
        back.wait(0.1).multipart(SERVER, b"", rpc(number, method="get"))
        reply = {"error": "busy"} if number < worker_fails else {"result": 1}
        back.multipart(CLIENT, b"", rpc(number, **reply)).wait(0.2)
        front.multipart(SERVER, b"", rpc(number, error="busy"))
    return front, back


def test_an_error_that_a_broker_passes_on_is_the_one_of_its_worker() -> None:
    (diagnosis,) = found(*through_broker(), rule=FAILING)
    assert diagnosis.statement == 'DEALER 10.0.0.3 answered 2 of 2 calls of get with an error: "busy"'


def test_a_broker_with_errors_of_its_own_is_named_too() -> None:
    assert len(found(*through_broker(worker_fails=1), rule=FAILING)) == 2


@pytest.mark.parametrize("signature", [b"a" * 64, b""])
def test_a_kernel_that_executes_for_long_is_no_warning(signature: bytes) -> None:
    made = Talk(0, at=0).handshake("DEALER", "ROUTER").wait(0.5)
    for number in range(15):
        header = {"msg_id": str(number), "msg_type": "execute_request"}
        made.multipart(CLIENT, b"<IDS|MSG>", signature, *map(orjson.dumps, (header, {}, {}, {}))).wait(0.3)
        if number < 10:
            reply = {"msg_id": "r", "msg_type": "execute_reply"}
            made.multipart(SERVER, b"<IDS|MSG>", signature, *map(orjson.dumps, (reply, header, {}, {"status": "ok"})))
    assert [(each.rule, each.severity) for each in causes_of(made.wait(30).close(CLIENT))] == [(RULE, "note")]


def test_a_second_peer_of_a_pair_gets_no_replies() -> None:
    first = Talk(0, at=0).handshake("PAIR", "PAIR").message(CLIENT, b"hello").wait(9).message(CLIENT, b"bye")
    second = Talk(1, at=1, client=3).handshake("PAIR", "PAIR").message(CLIENT, rpc(1, method="get")).wait(8)
    assert consequences_of("pair-occupied", first, second.close(CLIENT)) == {RULE}
