"""A client that speaks ZMTP to an endpoint of TLS, and endpoints that close for other reasons."""

from __future__ import annotations

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from zmtpscope.zmtp.greeting import build_signature

RULE = "tls-expected"
CLIENT_HELLO, SERVER_HELLO = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03", b"\x16\x03\x03\x00\x05\x02\x00\x00\x01\x03"


def tls() -> Talk:
    return Talk(0, at=0, client=3).send(CLIENT, CLIENT_HELLO).send(SERVER, SERVER_HELLO)


def in_clear(number: int, side: int = SERVER) -> Talk:
    """A client of ZMTP sends the beginning of its greeting, and a side closes."""
    return Talk(number, at=number).send(CLIENT, build_signature()).close(side)


def test_a_client_without_tls_is_named() -> None:
    diagnosis = diagnoses_of(tls(), *map(in_clear, range(1, 5)))[RULE]
    assert (diagnosis.severity, diagnosis.certainty) == ("error", "likely")
    assert diagnosis.text == (
        "10.0.0.1:5555 speaks TLS with 10.0.0.3, and 10.0.0.2 connects without TLS: "
        "the server closes each connection on the ZMTP greeting, 4 times in 3 s, every 1 s"
    )


def test_without_tls_only_the_closing_side_is_known() -> None:
    diagnoses = diagnoses_of(*map(in_clear, range(1, 5)))
    assert RULE not in diagnoses
    assert "10.0.0.1:5555 closes 2 ms after the greeting" in diagnoses["handshake-failing"].text


def test_a_client_that_closes_itself_is_not() -> None:
    assert RULE not in diagnoses_of(tls(), *(in_clear(number, CLIENT) for number in range(1, 5)))


def test_an_endpoint_that_speaks_zmtp_too_is_not() -> None:
    assert RULE not in diagnoses_of(tls(), *map(in_clear, range(1, 5)), Talk(9, at=9).handshake("DEALER", "ROUTER"))


def test_a_client_of_tls_at_a_plain_websocket_is_named() -> None:
    served = Talk(9, at=9).handshake("DEALER", "ROUTER")
    refused = Talk(0, at=0, client=3).send(CLIENT, CLIENT_HELLO).send(SERVER, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    (diagnosis,) = diagnoses_of(served, refused).values()
    assert (diagnosis.rule, diagnosis.severity) == ("foreign-client", "warn")
    assert diagnosis.text == "10.0.0.3 speaks TLS to 10.0.0.1:5555, which answers HTTP/1.1 400"
    assert "ws:// instead of wss://" in diagnosis.hint
