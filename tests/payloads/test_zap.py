"""ZAP requests and replies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.payloads.reading import ABOUT, claimed, dissected, leaves_of
from zmtpscope.payloads.api import Claim
from zmtpscope.payloads.zap import CREDENTIALS, Zap
from zmtpscope.zmtp import z85

KEY = bytes(range(32))
FRONT = (b"1.0", b"7", b"global", b"127.0.0.1", b"")
METADATA = b"\x05Group\0\0\0\x05admin\x00\0\0\0\0"


def request(mechanism: bytes, *credentials: bytes, version: bytes = b"1.0") -> tuple[bytes, ...]:
    return (version, *FRONT[1:], mechanism, *credentials)


def reply(status: bytes = b"200", metadata: bytes = b"", version: bytes = b"1.0") -> tuple[bytes, ...]:
    return (version, b"7", status, b"OK", b"bob", metadata)


@pytest.mark.parametrize(
    ("frames", "claim"),
    [
        (request(b"NULL"), Claim.YES),
        (request(b"PLAIN", b"bob", b"secret"), Claim.YES),
        (request(b"CURVE", KEY), Claim.YES),
        (request(b"GSSAPI", b"bob@REALM"), Claim.YES),
        (request(b"NULL", b"more"), Claim.NO),
        (request(b"PLAIN", b"bob"), Claim.NO),
        (request(b"CURVE", KEY[:31]), Claim.NO),
        (request(b"null"), Claim.NO),
        (request(b"NULL", version=b"2.0"), Claim.MAYBE),
        (request(b"NULL", version=b"1"), Claim.NO),
        (reply(), Claim.YES),
        (reply(b"300", METADATA), Claim.YES),
        (reply(b"404"), Claim.MAYBE),
        (reply(b"404", version=b"2.0"), Claim.NO),
        (reply(b"200", version=b"2.0"), Claim.MAYBE),
        (reply(b"OK"), Claim.NO),
        (reply(b"200", METADATA[:-1]), Claim.NO),
        (reply(b"200", b"ok"), Claim.NO),
        ((b"", *reply()), Claim.YES),
        ((b"peer", b"", *request(b"CURVE", KEY)), Claim.YES),
        ((b"1.0", b"a", b"b", b"c", b"d", b"e"), Claim.NO),
        ((b"", b""), Claim.NO),
    ],
)
def test_messages_that_are_claimed(frames: tuple[bytes, ...], claim: Claim) -> None:
    assert claimed(Zap, *frames) is claim


def test_only_socket_types_that_ask_and_answer() -> None:
    """A PUB that publishes six frames is no ZAP handler, and a REP asks nothing."""
    assert claimed(Zap, *reply(), about=ABOUT._replace(socket_type="PUB")) is Claim.NO
    assert claimed(Zap, *reply(), about=ABOUT._replace(socket_type="REQ")) is Claim.NO
    assert claimed(Zap, *reply(), about=ABOUT._replace(socket_type="REP")) is Claim.YES
    assert claimed(Zap, *request(b"NULL"), about=ABOUT._replace(socket_type="REP")) is Claim.NO


def test_fields_of_requests() -> None:
    made = dissected(Zap, *request(b"CURVE", KEY), trees=True)
    assert made.fields == {
        "version": "1.0",
        "kind": "request",
        "request_id": "7",
        "domain": "global",
        "address": "127.0.0.1",
        "identity": "",
        "mechanism": "CURVE",
        "client_key": z85.encode(KEY),
    }
    assert made.summary == f"request 7: CURVE {z85.encode(KEY)} from 127.0.0.1 in domain global"
    assert (made.findings, made.secrets) == ([], [])
    null = dissected(Zap, *request(b"NULL"))
    assert null.summary == "request 7: NULL from 127.0.0.1 in domain global"


def test_the_password_is_a_secret() -> None:
    frames = (b"", *request(b"PLAIN", b"bob", b"hunter2"))
    made = dissected(Zap, *frames)
    assert made.secrets == [8]
    assert made.summary == 'request 7: PLAIN "bob" from 127.0.0.1 in domain global'


@pytest.mark.parametrize("front", [(), (b"",), (b"peer", b""), (b"one", b"two", b"")], ids=len)
@pytest.mark.parametrize("mechanism", CREDENTIALS)
def test_a_request_is_one_with_a_delimiter_or_without(front: tuple[bytes, ...], mechanism: bytes) -> None:
    """Without a delimiter an empty frame of the request, the identity or the domain, is mistaken for it."""
    credentials = {b"PLAIN": (b"bob", b"hunter2"), b"CURVE": (KEY,), b"GSSAPI": (b"bob@REALM",)}.get(mechanism, ())
    for domain in (b"global", b""):
        frames = (*front, b"1.0", b"7", domain, b"127.0.0.1", b"", mechanism, *credentials)
        for content in range(len(frames)):
            assert claimed(Zap, *frames, content=content) is Claim.YES
            made = dissected(Zap, *frames, content=content)
            assert made.fields["mechanism"] == mechanism.decode()
            assert made.secrets == ([len(frames) - 1] if mechanism == b"PLAIN" else [])


def test_fields_of_replies() -> None:
    made = dissected(Zap, *reply(b"200", METADATA))
    assert made.summary == 'reply 7: 200 OK, user "bob"'
    assert made.fields["status"] == "200"
    assert made.fields["metadata"] == [{"name": "Group", "value": "admin"}, {"name": "", "value": ""}]


def test_findings() -> None:
    """They have the offsets of the version and the status."""
    (version,) = dissected(Zap, *request(b"NULL", version=b"1.1")).findings
    assert (version.id, version.start, version.length, version.detail) == ("ZAP-01", 0, 3, "1.1")
    (status,) = dissected(Zap, *reply(b"404")).findings
    assert (status.id, status.start, status.length, status.detail) == ("ZAP-02", 8, 3, "status 404")


def test_messages_that_the_user_assigns() -> None:
    made = dissected(Zap, b"hello")
    assert [finding.id for finding in made.findings] == ["ZAP-01", "PAYLOAD-03"]


FRAMES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"1.0", b"2.0", b"", b"200", b"500", b"404", METADATA, KEY, *CREDENTIALS]),
)
MESSAGES = st.one_of(
    st.lists(FRAMES, min_size=1, max_size=10),
    st.builds(
        lambda front, version, frames, mechanism, credentials: [*front, version, *frames, mechanism, *credentials],
        st.sampled_from([[], [b""], [b"peer", b""]]),
        st.sampled_from([b"1.0", b"1.0", b"1.1"]),
        st.lists(FRAMES, min_size=4, max_size=4),
        st.sampled_from([*CREDENTIALS]),
        st.lists(FRAMES, max_size=2),
    ),
    st.builds(
        lambda front, status, text, metadata: [*front, b"1.0", b"1", status, text, b"", metadata],
        st.sampled_from([[], [b""], [b"peer", b""]]),
        st.sampled_from([b"200", b"404"]),
        FRAMES,
        st.sampled_from([METADATA, METADATA * 3, b"", METADATA[:3]]),
    ),
)


@given(MESSAGES)
def test_for_any_input(frames: list[bytes]) -> None:
    """No input causes a failure; leaves tile each frame and agree with the fields; without trees everything is the
    same."""
    made = dissected(Zap, *frames, trees=True)
    assert "PAYLOAD-01" not in [finding.id for finding in made.findings]
    leaves = leaves_of(made, frames)
    for name, value in leaves:
        field = name.removeprefix("zap.")
        if name.startswith("zap.") and field in made.fields:
            assert made.fields[field] == value
    values = [value for name, value in leaves if name == "zap.value"]
    assert values == [each["value"] for each in (made.fields or {}).get("metadata", []) if each["value"]]
    quick = dissected(Zap, *frames)
    assert (quick.fields, quick.summary, quick.findings) == (made.fields, made.summary, made.findings)
    if claimed(Zap, *frames) is Claim.YES:
        assert made.findings == []


@given(st.lists(st.one_of(st.binary(max_size=12), st.text(max_size=12).map(str.encode)), min_size=1, max_size=10))
def test_other_traffic_is_left_alone(frames: list[bytes]) -> None:
    assert claimed(Zap, *frames) is Claim.NO
