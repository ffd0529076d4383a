"""Replies that report an error without a protocol that is known."""

from __future__ import annotations

import pickle

import cbor2
import msgpack
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.diagnosing import causes_of, diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from tests.export.test_json_lines import message_runs
from tests.suites import examples
from tests.twins import twins
from zmtpscope.dissect import MessageTable

RULE = "call-failing"


def statements(*replies: bytes | tuple[bytes, ...], types: tuple[str, str] = ("REQ", "REP")) -> list[str]:
    """Return the statements about a server that sends these replies."""
    made = Talk(0, at=0).handshake(*types).wait(0.5)
    for reply in replies:
        made.multipart(CLIENT, b"", b"READ 1").wait(0.05)
        made.multipart(SERVER, b"", *(reply if isinstance(reply, tuple) else (reply,))).wait(0.1)
    return [f"{each.severity} {each.statement}" for each in causes_of(made.close(CLIENT), rule=RULE)]


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        (b"ERROR: no such channel", "ERROR: no such channel"),
        (b"ERR", "ERR"),
        (b"Error: busy\nmore", "Error: busy"),
        ((b"ERROR", b"no such key"), "ERROR: no such key"),
        ((b"UNKNOWN_ERROR", b""), "UNKNOWN_ERROR"),
        ((b"500", b"error", b"no such key"), "error: no such key"),
        (b"ValueError: bad value", "ValueError: bad value"),
        (b"Traceback (most recent call last):\n  File", "Traceback (most recent call last):"),
        (orjson.dumps({"status": "error", "message": "busy"}), "busy"),
        (orjson.dumps({"success": False, "reason": "busy"}), "busy"),
        (orjson.dumps({"error": "busy"}), "busy"),
        (cbor2.dumps({"success": False, "error": "no such object"}), "no such object"),
        (msgpack.packb(["ValueError", [1], "ValueError(1)"]), "ValueError: ValueError(1)"),
        (pickle.dumps(KeyError("x")), "KeyError('x')"),
        (pickle.dumps((False, OSError("x"))), "OSError('x')"),
        (pickle.dumps(("ERROR", "x")), "('ERROR', 'x')"),
    ],
)
@pytest.mark.parametrize("types", [("REQ", "REP"), ("REQ", "ROUTER"), ("DEALER", "REP")])
def test_an_error_is_a_note(types: tuple[str, str], reply: bytes | tuple[bytes, ...], shown: str) -> None:
    (statement,) = statements(b"1.5", reply, b"2.5", types=types)
    assert statement.endswith(f'answered 1 of 3 requests with an error: "{shown}"')
    assert statement.startswith("note likely: ")


@pytest.mark.parametrize(
    "reply",
    [
        b"no ERROR",
        b"NO_ERROR",
        b"Error rate: 5 %",
        b"Error: 0.02",
        b"ERROR 0",
        b"ERRORS",
        b"Failing since Monday",
        b"failed: 0",
        orjson.dumps({"status": "ok", "error": None}),
        orjson.dumps({"status": "failed over", "errors": 3}),
        orjson.dumps({"log": "ERROR: disk"}),
        pickle.dumps({"log": "ERROR: disk"}),
        pickle.dumps("ValueError: no"),
        b"\xff\xfeERR",
    ],
)
def test_an_answer_that_contains_such_a_word_is_none(reply: bytes) -> None:
    assert not statements(b"1.5", reply, b"2.5")


def test_a_message_of_a_client_is_no_error_reply() -> None:
    made = Talk(0, at=0).handshake("REQ", "REP").wait(0.5)
    for _ in range(3):
        made.multipart(CLIENT, b"", b"ERROR: disk full").wait(0.05).multipart(SERVER, b"", b"OK").wait(0.1)
    assert diagnoses_of(made.close(CLIENT)) == {}


WORDS = [b"ERR", b"err", b"Fail", b"fail", b"nok", b"NACK", b"exception", b"Error", b"Traceback (most recent"]
TEXTS = st.lists(
    st.sampled_from([*WORDS, b"a", b"N", b"_", b"-", b".", b":", b" ", b"(", b"0", b"NO_", b" call last)", b"\0"])
)


@examples(300, least=300)
@given(message_runs(bodies_of=TEXTS.map(b"".join)))
def test_p20_beginnings_are_the_same_for_every_caller(run: MessageTable) -> None:
    found = [beginnings(run) for beginnings in twins("zmtpscope.diagnosis.observers.error_replies.beginnings")]
    assert all(each == found[0] for each in found)
