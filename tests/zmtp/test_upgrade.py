"""The HTTP upgrade to ZWS: found after any first octets, and confused with nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.zws import build_response, message_frames, request, response
from zmtpscope.zmtp.details import field_tree
from zmtpscope.zmtp.greeting import READERS, build_greeting_3
from zmtpscope.zmtp.negotiation import negotiate
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Form, Framing, Phase, regime
from zmtpscope.zmtp.upgrade import LARGEST_HEAD, VERSION, begins_like_an_upgrade

PLAIN_HTTP = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
OTHER_WEBSOCKET = request("chat")
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def test_the_example_of_the_rfc() -> None:
    """The answer to the key is that of RFC 6455, 1.3."""
    assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in build_response(b"the sample nonce", "ZWS2.0")


@pytest.mark.parametrize("chosen", [None, "NULL", "PLAIN", "CURVE"])
@pytest.mark.parametrize("client", [0, 1])
def test_both_heads_settle_version_and_mechanism(chosen: str | None, client: int) -> None:
    name = "ZWS2.0" if chosen is None else f"ZWS2.0/{chosen}"
    sides = [request("ZWS2.0/FOO", name) + message_frames(True, b"x"), response(name) + message_frames(False, b"y")]
    forms = [Form.ZWS_REQUEST, Form.ZWS_RESPONSE]
    decision = negotiate(sides[client], sides[1 - client])
    assert decision is not None
    assert (decision.version, decision.mechanism, decision.outcome) == (VERSION, chosen, "agreed")
    assert list(decision.forms) == [forms[client], forms[1 - client]]
    assert [finding.id for each in decision.findings for finding in each] == ["ZMTP-CONN-06"]


@given(asked=st.integers(0, 300), answered=st.integers(0, 300), swapped=st.booleans())
def test_p2_nothing_is_decided_before_both_heads_are_whole(asked: int, answered: int, swapped: bool) -> None:
    sides = [(request() + message_frames(True, b"x"))[:asked], (response() + message_frames(False, b"y"))[:answered]]
    whole = asked >= len(request()) and answered >= len(response())
    decision = negotiate(*(sides[::-1] if swapped else sides))
    assert (decision is not None) == whole
    assert decision is None or decision.version == VERSION


def test_a_choice_that_was_not_offered() -> None:
    """ZWS-03, if the choice is in the response."""
    answer = response("ZWS2.0/PLAIN")
    decision = negotiate(request("ZWS2.0/NULL"), answer)
    assert decision is not None
    assert (decision.version, decision.mechanism) == (VERSION, "PLAIN")
    (finding,) = decision.findings[1]
    assert finding.start is not None
    assert (finding.id, answer[finding.start : finding.start + finding.length]) == ("ZWS-03", b"ZWS2.0/PLAIN")


@pytest.mark.parametrize(
    "answer", [NOT_FOUND, response("chat"), response("ZWS2.0, ZWS2.0/NULL"), response("ZWS2.0/null")]
)
def test_a_refusal(answer: bytes) -> None:
    decision = negotiate(request(), answer)
    assert decision is not None
    assert (decision.version, decision.outcome) == (None, "refused")
    assert decision.forms == (Form.ZWS_REQUEST, Form.ZWS_RESPONSE)
    assert decision.findings == ((), ())


@pytest.mark.parametrize("asked", [PLAIN_HTTP, OTHER_WEBSOCKET, b"GET /" + bytes(LARGEST_HEAD), b"GETTY IMAGES"])
@pytest.mark.parametrize("answer", [NOT_FOUND, response("chat"), b"HTTP/1.1 " + b"2" * LARGEST_HEAD])
def test_other_http_is_not_zmtp(asked: bytes, answer: bytes) -> None:
    decision = negotiate(asked, answer)
    assert decision is not None
    assert decision.forms == (Form.ALIEN, Form.ALIEN)


@pytest.mark.parametrize("asked", [PLAIN_HTTP, request(), b"GET /par", b"GE"])
def test_a_zmtp_peer_that_is_asked_by_http(asked: bytes) -> None:
    """The requesting side does not speak ZMTP with any offer."""
    decision = negotiate(asked, build_greeting_3())
    assert decision is not None
    assert decision.forms == (Form.ALIEN, Form.GREETING_3)
    assert [finding.id for finding in decision.findings[0]] == ["ZMTP-CONN-04"]


def test_one_side_only() -> None:
    for octets, mechanism in ((request(), "NULL"), (response("ZWS2.0"), None)):
        assert negotiate(octets, b"") is None
        for sides in ((octets, b""), (b"", octets)):
            decision = negotiate(*sides, over=True)
            assert decision is not None
            assert (decision.version, decision.mechanism, decision.one_sided) == (VERSION, mechanism, True)
            assert decision.confidence == "likely"


def test_a_head_of_any_case_and_spacing() -> None:
    asked = (
        b"GET /a?b HTTP/1.1\r\nUPGRADE:WebSocket\r\nsec-websocket-protocol:\tZWS2.0 ,, chat\r\n"
        b"Sec-WebSocket-Protocol: ZWS2.0/NULL\r\n\r\n"
    )
    decision = negotiate(asked, response("ZWS2.0"))
    assert decision is not None
    assert (decision.version, decision.mechanism) == (VERSION, None)
    fields: dict[str, object] = {}
    READERS[Form.ZWS_REQUEST](Reader(asked, 0, len(asked), 0), fields)
    assert fields == {"version_announced": VERSION, "mechanism": None}


def test_secrets_of_a_head_have_a_name_of_their_own() -> None:
    asked = b"GET / HTTP/1.1\r\nauthorization : Basic YTpi\r\nHost: a\r\nCookie: b=c\r\n\r\n"
    tree = field_tree(regime(Framing.ZWS, VERSION, None, Phase.GREETING, Form.ZWS_REQUEST), asked, 0)
    assert [(leaf.name, leaf.value) for leaf in tree.leaves()] == [
        ("http.request_line", "GET / HTTP/1.1"),
        ("http.header.name", "authorization :"),
        ("http.header.secret", " Basic YTpi"),
        ("http.header", "Host: a"),
        ("http.header.name", "Cookie:"),
        ("http.header.secret", " b=c"),
        ("http.end", b"\r\n"),
    ]


def test_octets_that_begin_like_an_upgrade() -> None:
    assert begins_like_an_upgrade(request() + b"\x82")
    assert begins_like_an_upgrade(response())
    assert not any(map(begins_like_an_upgrade, (b"", b"GET ", request()[:-1], PLAIN_HTTP, OTHER_WEBSOCKET, NOT_FOUND)))


@given(octets=st.binary(max_size=80), cut=st.integers(0, 300))
def test_p5_leaves_tile_any_head(octets: bytes, cut: int) -> None:
    for form, head in ((Form.ZWS_REQUEST, request()), (Form.ZWS_RESPONSE, response())):
        for whole in (head[:cut], head[:20] + octets + head[20:], octets):
            tree = field_tree(regime(Framing.ZWS, VERSION, None, Phase.GREETING, form), whole, 5)
            at = 5
            for leaf in tree.leaves():
                assert leaf.start == at
                at += leaf.length
            assert at == 5 + len(whole)
