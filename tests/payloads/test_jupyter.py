"""Messages of Jupyter kernels and clients."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.payloads.reading import ABOUT, claimed, dissected, leaves_of, reader_of
from zmtpscope.payloads.api import Claim, Message, Settings
from zmtpscope.payloads.jupyter import DELIMITER, Jupyter
from zmtpscope.payloads.side import read

KEY = "a-key-that-nobody-may-see"
KEYS = Settings(files={"kernel.json": json.dumps({"key": KEY, "signature_scheme": "hmac-sha256"}).encode()})
OTHER = {"other.json": b'{"key": "another"}'}
PUBLISHER = ABOUT._replace(socket_type="XPUB")


def message(
    kind: str, content: Any, *, parent: str | None = None, key: str | None = None, digest: str = "sha256"
) -> list[bytes]:
    """The frames of a message, from the delimiter on."""
    header = {"msg_id": "id-1", "msg_type": kind, "session": "s", "username": "u", "date": "d", "version": "5.4"}
    above = {} if parent is None else {"msg_id": "id-0", "msg_type": parent}
    frames = [json.dumps(part).encode() for part in (header, above, {}, content)]
    signature = b"" if key is None else hmac.new(key.encode(), b"".join(frames), digest).hexdigest().encode()
    return [DELIMITER, signature, *frames]


def ids(made: Any) -> list[str]:
    return [finding.id for finding in made.findings]


@pytest.mark.parametrize("front", [[], [b"stream.stdout"], [b"peer", b"hop"]])
def test_the_delimiter_is_anywhere(front: list[bytes]) -> None:
    frames = [*front, *message("status", {"execution_state": "idle"}), b"buffer"]
    assert claimed(Jupyter, *frames) is Claim.YES
    made = dissected(Jupyter, *frames)
    assert made.summary == "status idle"
    assert made.fields["buffers"] == [6]


@pytest.mark.parametrize("cut", range(6))
def test_a_message_without_all_frames_is_not_claimed(cut: int) -> None:
    assert claimed(Jupyter, *message("status", {})[:cut]) is Claim.NO
    if cut:
        assert ids(dissected(Jupyter, *message("status", {})[:cut])) == ["PAYLOAD-03"]


def test_not_everything_with_a_delimiter_is_claimed() -> None:
    frames = message("status", {})
    assert claimed(Jupyter, DELIMITER, b"no hex", *frames[2:]) is Claim.NO
    assert claimed(Jupyter, DELIMITER, b"", b"text", *frames[3:]) is Claim.NO


def test_fields() -> None:
    frames = [b"stream.stdout", *message("stream", {"name": "stdout", "text": "hi\n"}, parent="execute_request")]
    made = dissected(Jupyter, *frames, about=PUBLISHER, content=1, topic=b"stream.stdout")
    assert made.summary == 'stream stdout "hi"'
    assert made.fields == {
        "topic": "stream.stdout",
        "signature": "none",
        "msg_type": "stream",
        "msg_id": "id-1",
        "session": "s",
        "username": "u",
        "version": "5.4",
        "date": "d",
        "channel": "iopub",
        "parent": {"msg_type": "execute_request", "msg_id": "id-0"},
        "metadata": {},
        "content": {"name": "stdout", "text": "hi\n"},
        "buffers": [],
    }


def test_identities_are_no_topic() -> None:
    made = dissected(Jupyter, b"peer\xff", *message("status", {}), about=ABOUT._replace(socket_type="ROUTER"))
    assert made.fields["identities"] == ["peer\\xff"]
    assert "topic" not in made.fields


WORDS: list[tuple[str, Any, str]] = [
    ("execute_request", {"code": "print(1)"}, 'execute_request "print(1)"'),
    ("execute_input", {"code": "1", "execution_count": 3}, 'execute_input [3] "1"'),
    ("execute_reply", {"status": "ok"}, "execute_reply ok"),
    (
        "execute_reply",
        {"status": "error", "ename": "NameError", "evalue": "x"},
        "execute_reply error NameError: x",
    ),
    ("execute_result", {"execution_count": 2, "data": {"text/plain": "42"}}, 'execute_result [2] "42"'),
    ("display_data", {"data": {"image/png": "", "text/html": ""}}, "display_data image/png, text/html"),
    ("display_data", {"data": []}, "display_data"),
    ("error", {"ename": "NameError", "evalue": ""}, "error NameError"),
    ("stream", {"name": "stderr", "text": 7}, "stream stderr"),
    ("kernel_info_request", {}, "kernel_info_request"),
    (
        "kernel_info_reply",
        {"status": "ok", "implementation": "ipython", "implementation_version": "9", "protocol_version": "5.3"},
        "kernel_info_reply ok ipython 9, protocol 5.3",
    ),
    ("complete_request", {"code": "pri"}, 'complete_request "pri"'),
    ("complete_reply", {"status": "ok", "matches": ["print"]}, "complete_reply ok 1 match"),
    ("complete_reply", {"status": "ok", "matches": []}, "complete_reply ok 0 matches"),
    ("is_complete_reply", {"status": "incomplete"}, "is_complete_reply incomplete"),
    ("shutdown_request", {"restart": True}, "shutdown_request and restart"),
    ("shutdown_reply", {"status": "ok", "restart": False}, "shutdown_reply ok"),
    ("comm_open", {"comm_id": "c", "target_name": "widget"}, "comm_open widget c"),
    ("comm_msg", {"comm_id": "c", "data": {}}, "comm_msg c"),
    ("input_request", {"prompt": "? ", "password": True}, 'input_request "? " (password)'),
    ("input_reply", {"value": "hunter2"}, "input_reply"),
    ("something_new", {"code": "x"}, "something_new"),
    ("something_reply", {"status": "aborted"}, "something_reply aborted"),
]


@pytest.mark.parametrize(("kind", "content", "summary"), WORDS)
def test_words_for_people(kind: str, content: Any, summary: str) -> None:
    assert dissected(Jupyter, *message(kind, content)).summary == summary


def test_status_names_its_request() -> None:
    made = dissected(Jupyter, *message("status", {"execution_state": "busy"}, parent="execute_request"))
    assert made.summary == "status busy (for execute_request)"


@pytest.mark.parametrize(
    ("kind", "socket_type", "channel"),
    [
        ("execute_request", "DEALER", "shell"),
        ("execute_reply", None, "shell"),
        ("interrupt_request", "DEALER", "control"),
        ("input_reply", "DEALER", "stdin"),
        ("status", None, "iopub"),
        ("comm_msg", "PUB", "iopub"),
        ("comm_msg", "DEALER", "shell"),
        ("comm_msg", None, None),
        ("kernel_info_request", "DEALER", None),
        ("something_new", "XPUB", "iopub"),
        ("something_new", "DEALER", None),
    ],
)
def test_channels(kind: str, socket_type: str | None, channel: str | None) -> None:
    made = dissected(Jupyter, *message(kind, {}), about=ABOUT._replace(socket_type=socket_type))
    assert made.fields["channel"] == channel


def test_signatures() -> None:
    signed = message("status", {}, key=KEY)
    assert dissected(Jupyter, *signed).fields["signature"] is None
    made = dissected(Jupyter, *signed, settings=KEYS)
    assert (made.fields["signature"], ids(made)) == ("ok", [])
    made = dissected(Jupyter, *signed, settings=Settings(files=OTHER))
    assert (made.fields["signature"], ids(made)) == ("wrong", ["JUPYTER-01"])
    assert (made.findings[0].start, made.findings[0].length) == (len(DELIMITER) + 2, 64)
    assert dissected(Jupyter, *signed, settings=Settings(files={**OTHER, **KEYS.files})).fields["signature"] == "ok"
    changed = [*signed[:5], b'{"code": "evil"}']
    assert dissected(Jupyter, *changed, settings=KEYS).fields["signature"] == "wrong"
    assert dissected(Jupyter, *signed, b"buffer", settings=KEYS).fields["signature"] == "ok"  # buffers are not signed


def test_other_hashes() -> None:
    files = {"kernel.json": json.dumps({"key": KEY, "signature_scheme": "hmac-md5"}).encode()}
    made = dissected(Jupyter, *message("status", {}, key=KEY, digest="md5"), settings=Settings(files=files))
    assert made.fields["signature"] == "ok"


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"[]",
        b"no JSON",
        b'{"key": ""}',
        b'{"key": 7}',
        b'{"key": "k", "signature_scheme": "rot13"}',
        b'{"key": "k", "signature_scheme": "hmac-rot13"}',
        b'{"key": "k", "signature_scheme": "hmac-shake_128"}',
    ],
)
def test_files_without_a_key_are_reported(octets: bytes) -> None:
    side = Jupyter(Settings(files={"wrong.json": octets}))
    found = []
    for _ in range(2):
        now = Message(message("status", {}, key=KEY), 0, None)
        found += [(each.id, each.detail) for each in read(side, now, reader_of(Jupyter, now)).findings]
    assert found == [("PAYLOAD-04", "jupyter: wrong.json is not a connection file with a key")]


def test_unsigned_is_reported_once() -> None:
    side = Jupyter(KEYS)
    found = []
    for _ in range(3):
        now = Message(message("status", {}), 0, None)
        found += ids(read(side, now, reader_of(Jupyter, now)))
    assert found == ["JUPYTER-02"]


def test_the_key_is_never_shown() -> None:
    for key in (KEY, "another"):
        made = dissected(Jupyter, *message("status", {}, key=key), settings=KEYS, trees=True)
        assert KEY not in repr(made)


def test_a_typed_password_is_never_shown() -> None:
    frames = message("input_reply", {"value": "hunter2", "status": "ok"})
    made = dissected(Jupyter, *frames)
    assert made.fields["content"] == {"value": "***", "status": "ok"}
    assert made.secrets == [5]
    assert "hunter2" not in repr(made)


@pytest.mark.parametrize("at", [3, 4, 5])
def test_null_is_an_empty_object(at: int) -> None:
    """Xeus sends null for the parent header and the metadata of iopub_welcome."""
    frames = message("status", {})
    frames[at] = b"null"
    made = dissected(Jupyter, *frames)
    assert ids(made) == ["JUPYTER-02"]
    assert made.fields["parent"] is None
    assert (made.fields["metadata"], made.fields["content"]) == ({}, {})


def test_octets_that_are_no_text() -> None:
    """jupyter_client forwards the output of a program, and decodes it like this."""
    frames = message("stream", {"name": "stdout", "text": "X"})
    frames[5] = frames[5].replace(b"X", b"\xff")
    assert dissected(Jupyter, *frames).summary == 'stream stdout "�"'


@pytest.mark.parametrize("part", [b"[]", b"{", b"", b'"text"', b"[" * 5000, b'{"a":' * 200 + b"1" + b"}" * 200])
@pytest.mark.parametrize("at", [2, 3, 4, 5])
def test_malformed_parts(at: int, part: bytes) -> None:
    frames = message("status", {})
    frames[at] = part
    made = dissected(Jupyter, *frames, trees=True)
    assert set(ids(made)) - {"JUPYTER-02"} <= {"PAYLOAD-03", "PAYLOAD-05"}
    leaves_of(made, frames)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["code", "data", "status", "text", "name", "matches", "a"]), inner)
    ),
    max_leaves=8,
)
KINDS = st.sampled_from([kind for kind, *_ in WORDS]) | st.text(max_size=8)
FRONTS = st.lists(st.binary(max_size=5).filter(lambda octets: octets != DELIMITER), max_size=2)
BUFFERS = st.lists(st.binary(max_size=5), max_size=3)


@given(FRONTS, KINDS, st.dictionaries(st.sampled_from(["code", "data", "value", "ename"]), JSON), BUFFERS)
def test_values_match_the_octets(front: list[bytes], kind: str, content: Any, buffers: list[bytes]) -> None:
    """The standard library's JSON and HMAC are the oracles; leaves tile the frames and hold their text (P5, P6)."""
    signed = message(kind, content, key=KEY)
    frames = [*front, *signed, *buffers]
    made = dissected(Jupyter, *frames, settings=KEYS, trees=True)
    assert ids(made) == []
    assert made.fields["signature"] == "ok"
    expected = json.loads(signed[5])
    if kind == "input_reply" and "value" in expected:
        expected["value"] = "***"
    assert made.fields["content"] == expected
    assert made.fields["buffers"] == [len(each) for each in buffers]
    leaves = leaves_of(made, frames)
    assert len(leaves) == sum(map(bool, frames))
    header = json.loads(dict(leaves)["jupyter.header"].replace("\\\\", "\\"))
    assert {name: made.fields[name] for name in header} == header
    quick = dissected(Jupyter, *frames, settings=KEYS)
    assert (quick.fields, quick.summary, quick.findings) == (made.fields, made.summary, made.findings)


@st.composite
def damaged(draw: Any) -> list[bytes]:
    """A message with frames changed, left out or added."""
    frames: list[bytes] = [
        *draw(FRONTS),
        *message(draw(KINDS), draw(JSON), key=draw(st.sampled_from([None, KEY, "other"]))),
    ]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(frames)))
        new = st.binary(max_size=12) | st.sampled_from([b"{}", b"", DELIMITER, b'{"msg_type": null}'])
        frames[at : at + draw(st.integers(0, 2))] = draw(st.lists(new, max_size=2))
    return frames


@given(damaged(), st.sampled_from([None, "XPUB", "DEALER"]))
def test_for_any_input(frames: list[bytes], socket_type: str | None) -> None:
    about = ABOUT._replace(socket_type=socket_type)
    for settings in (Settings(), KEYS):
        made = dissected(Jupyter, *frames, settings=settings, about=about, trees=True)
        assert "PAYLOAD-01" not in ids(made)
        leaves_of(made, frames)


@given(st.lists(st.binary(max_size=12) | st.text(max_size=12).map(str.encode), max_size=10))
def test_other_traffic_is_left_alone(frames: list[bytes]) -> None:
    assert claimed(Jupyter, *frames) is Claim.NO


def test_the_oracle_signs_as_jupyter_does() -> None:
    """One message of the real capture jupyter_ipykernel, by the key in its truth."""
    header = (
        b'{"msg_id": "f08e6f01-23ebac71ccb6ab438d1636e9_13480_0", "msg_type": "kernel_info_request", '
        b'"username": "username", "session": "f08e6f01-23ebac71ccb6ab438d1636e9", '
        b'"date": "2026-11-21T03:20:59.940758Z", "version": "5.4"}'
    )
    signature = b"448e6f0298d89b73d172e9524a7b381499d78ce5a686cd5b2f9b0536ccc529b4"
    key = b"47f11c51-bcec0c580d6bda52925597aa"
    assert hmac.new(key, header + b"{}" * 3, hashlib.sha256).hexdigest().encode() == signature
    settings = Settings(files={"kernel.json": b'{"key": "%s"}' % key})
    made = dissected(Jupyter, DELIMITER, signature, header, b"{}", b"{}", b"{}", settings=settings)
    assert made.fields["signature"] == "ok"
