"""Findings about the ends of handshakes, and about sides that continue although they must not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nacl.bindings import crypto_scalarmult_base

from tests.curve import CurvePeers, frame, keys, secret
from tests.dissect.talks import SECOND, default_command
from tests.peer_octets import hello, message
from tests.traffic import Capture, Conversation, records, steady_records
from zmtpscope.dissect import Options
from zmtpscope.export.describe import describe_finding
from zmtpscope.zmtp import z85
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.regime import Framing

OURS = {
    *("CURVE-21", "CURVE-24", "CURVE-26", "GSSAPI-02", "NULL-04", "NULL-05", "NULL-08", "NULL-09"),
    *("PLAIN-06", "PLAIN-08", "PLAIN-09", "ZMTP3X-GREETING-13"),
}


def shake(mechanism: str, *names: str, first: int = 0) -> Conversation:
    """Return a connection on which both sides greet, and then send these commands in turns, side `first` first."""
    talk = Conversation()
    for side in (0, 1):
        talk.send(side, build_greeting_3(mechanism), cuts=(10, 11))
    for number, name in enumerate(names):
        talk.send((number + first) % 2, default_command(mechanism, name))
    return talk


def leave(talk: Conversation, side: int) -> Conversation:
    """Let `side` send its FIN first."""
    talk.add(side, 0x11)
    talk.add(1 - side, 0x11)
    return talk


def findings(talk: Conversation) -> list[dict[str, Any]]:
    """Return the findings of this module."""
    return [each for each in steady_records(talk.packets) if each["record"] == "finding" and each["id"] in OURS]


def ids(talk: Conversation) -> list[str]:
    return [finding["id"] for finding in findings(talk)]


UNANSWERED = [
    ("CURVE-21", "CURVE", ("HELLO",)),
    ("CURVE-24", "CURVE", ("HELLO", "WELCOME", "INITIATE")),
    ("PLAIN-08", "PLAIN", ("HELLO",)),
    ("PLAIN-09", "PLAIN", ("HELLO", "WELCOME", "INITIATE")),
    ("NULL-08", "NULL", ("READY",)),
]


@pytest.mark.parametrize("case", UNANSWERED, ids=lambda case: case[0])
def test_a_server_closes_instead_of_answering(case: tuple[str, str, tuple[str, ...]]) -> None:
    id_, mechanism, names = case
    closed = leave(shake(mechanism, *names), 1)
    (finding,) = findings(closed)
    assert (finding["id"], finding["side"], finding["severity"]) == (id_, 1, "warn")
    after = 'the login of the user "admin"' if id_ == "PLAIN-08" else "it"
    assert finding["text"].endswith(f"it closed 1.0 ms after {after}")
    assert finding["refs"][0].startswith(finding["conn_id"] + "/0/0/")
    aborted = shake(mechanism, *names)
    aborted.reset(1)
    assert ids(aborted) == [id_]
    aborted = shake(mechanism, *names)
    aborted.add(1, 0x11)
    aborted.reset(0)  # the server had closed when the client did
    assert ids(aborted) == [id_]


@pytest.mark.parametrize("case", UNANSWERED, ids=lambda case: case[0])
def test_a_client_gives_up_waiting(case: tuple[str, str, tuple[str, ...]]) -> None:
    id_, mechanism, names = case
    patient = shake(mechanism, *names)
    patient.wait(30 * SECOND)
    (finding,) = findings(leave(patient, 0))
    assert (finding["id"], finding["side"]) == (id_, 1)
    after = 'the login of the user "admin"' if id_ == "PLAIN-08" else "it"
    assert finding["text"].endswith(f"the other side gave up 30.0 s after {after}")
    assert ("its ZAP handler never answered" in finding["hint"]) == (id_ in ("CURVE-24", "PLAIN-08", "NULL-08"))
    assert ids(leave(shake(mechanism, *names), 0)) == []  # a side that leaves at once waited for nothing


@pytest.mark.parametrize("case", UNANSWERED, ids=lambda case: case[0])
def test_no_answer_is_missed_where_octets_may_be_missing(case: tuple[str, str, tuple[str, ...]]) -> None:
    _, mechanism, names = case
    assert ids(shake(mechanism, *names)) == []  # the capture ends first
    for side in (0, 1):
        lost = leave(shake(mechanism, *names), 1)
        at = next(number for number, packet in enumerate(lost.packets) if packet.side == side and packet.payload)
        del lost.packets[at]
        assert ids(lost) == []
    answered = shake(mechanism, *names)
    answered.send(1, default_command("NULL", "READY"))
    answered.acknowledge(0)
    answered.reset(1)
    del answered.packets[-3]  # the answer; the client acknowledged it
    assert ids(answered) == []


def test_a_better_explanation_is_enough() -> None:
    refused = leave(shake("NULL", "READY", "ERROR"), 1)
    malformed = shake("CURVE")
    malformed.send(0, build_frame(Framing.V2, b"\x05HELLO" + bytes(100), command=True))
    cut = shake("NULL", "READY")
    cut.send(1, default_command("NULL", "READY")[:10])
    assert ids(refused) == ["NULL-09"]
    for talk in (leave(malformed, 1), leave(cut, 1)):
        assert ids(talk) == []


def test_a_misspelt_hello_is_named_as_the_cause() -> None:
    talk = shake("PLAIN")
    talk.send(0, build_frame(Framing.V2, b"\x05WELCOME\x05admin\x06secret", command=True))
    (finding,) = findings(leave(talk, 1))
    assert finding["id"] == "PLAIN-08"
    assert finding["text"].endswith("the name of the command is misspelt")


@pytest.mark.parametrize(
    ("asked", "given", "id_"),
    [("s", "s", "CURVE-23"), ("another", "s", "CURVE-22"), ("s", None, "CURVE-21"), ("another", None, "CURVE-21")],
)
def test_a_server_key_proves_which_server_a_hello_was_made_for(
    asked: str, given: str | None, id_: str, tmp_path: Path
) -> None:
    peers = CurvePeers()
    talk = shake("CURVE")
    talk.send(0, frame(peers.hello(None if asked == "s" else crypto_scalarmult_base(secret(asked)))))
    options = Options(keys=keys(tmp_path, peers.lines("SERVER_LONGTERM" if given else "SERVER_PUBLIC")))
    found, _ = records(Capture(leave(talk, 1).packets), options)
    (finding,) = [each for each in found if each["record"] == "finding" and each["severity"] != "chat"]
    assert finding["id"] == id_
    assert (z85.encode(peers.S) in finding["text"]) == (given is not None)


def late_ready(seconds: float, *, version: str = "3.1", early: bytes = b"") -> Conversation:
    """Return a PUSH that sends messages immediately after its READY, to a PULL that sends its READY later."""
    talk = Conversation()
    talk.send(1, build_greeting_3("NULL", version=version))
    talk.send(0, hello("PUSH", version) + early)
    if not early:
        talk.send(0, message(b"early"))
    talk.wait(int(seconds * SECOND))
    talk.send(1, hello("PULL", version)[64:])
    talk.wait(SECOND)
    talk.close()
    return talk


def test_traffic_before_the_other_ready() -> None:
    (finding,) = findings(late_ready(1.5))
    assert (finding["id"], finding["side"], finding["severity"]) == ("NULL-05", 0, "note")
    assert finding["text"].endswith("READY of the other side arrived 1.5 s later")
    assert ids(late_ready(1.5, early=message(b"in the same segment"))) == ["NULL-05"]
    assert ids(late_ready(0.9)) == []
    assert ids(late_ready(1.5, version="3.0")) == []
    lost = late_ready(1.5)
    del lost.packets[4]
    assert ids(lost) == []


def test_traffic_before_the_other_side_sent_anything() -> None:
    talk = Conversation()
    talk.send(0, hello("PUSH") + message(b"early"))
    talk.wait(2 * SECOND)
    talk.send(1, hello("PULL"))
    assert ids(leave(talk, 0)) == ["NULL-05"]


def test_traffic_on_which_the_other_side_closes() -> None:
    talk = shake("NULL", "READY")
    talk.send(0, message(b"early"))
    early, closed = findings(leave(talk, 1))
    assert (early["id"], early["side"], closed["id"], closed["side"]) == ("NULL-05", 0, "NULL-08", 1)
    assert "and libzmq closes on this" in closed["text"]


def after_error(seconds: float, side: int, octets: bytes) -> Conversation:
    """Both sides are ready, side 1 sends ERROR, and after some time `side` sends these octets."""
    talk = shake("NULL", "READY", "ERROR")
    talk.wait(int(seconds * SECOND))
    talk.send(side, octets)
    return leave(talk, 1)


def test_a_side_continues_after_the_error_that_it_received() -> None:
    _, finding = findings(after_error(1.5, 0, message(b"more")))
    assert (finding["id"], finding["side"], finding["packet"]) == ("NULL-04", 0, 12)
    assert finding["text"].endswith("1.5 s after ERROR was received")
    assert ids(after_error(0.9, 0, message(b"under way"))) == ["NULL-09"]
    assert ids(after_error(1.5, 0, b"")) == ["NULL-09"]
    in_its_own_stream = after_error(0.5, 1, message(b"more"))  # from the side that sent ERROR
    assert ids(in_its_own_stream) == ["NULL-09", "NULL-04"]
    lost = after_error(1.5, 0, message(b"more"))
    del lost.packets[9]
    assert "NULL-04" not in ids(lost)


def error(reason: str) -> bytes:
    return frame(build_command("NULL", "ERROR", {"reason": reason}))


REFUSALS = [
    ("NULL", ("READY",), "NULL-09", "the peer"),
    ("PLAIN", ("HELLO",), "PLAIN-06", 'the login of the user "admin"'),
    ("CURVE", ("HELLO", "WELCOME", "INITIATE"), "CURVE-26", "the key or the address of the client"),
    ("GSSAPI", (), "GSSAPI-02", "the principal of the peer"),
]
"""By mechanism: the steps before, the finding, and the hint."""

REASONS = [
    ("300", "300, authentication failed temporarily; {} was not checked", "retry later"),
    ("400", "400, {} was refused", ""),
    ("500", "500, authentication failed with an internal error; {} was not checked", "the fault is on that side"),
    ("no way", 'the reason is "no way"', "see the log of the side that sent ERROR"),
    ("", "without a reason", "see the log of the side that sent ERROR"),
]


@pytest.mark.parametrize(("reason", "words", "hint"), REASONS, ids=[each[0] for each in REASONS])
@pytest.mark.parametrize(("mechanism", "names", "id_", "who"), REFUSALS, ids=[each[0] for each in REFUSALS])
def test_a_peer_is_refused(
    mechanism: str, names: tuple[str, ...], id_: str, who: str, reason: str, words: str, hint: str
) -> None:
    talk = shake(mechanism, *names)
    talk.send(1, error(reason))
    talk.send(1, error(reason))
    (finding,) = [each for each in findings(leave(talk, 1)) if each["id"] != "NULL-04"]
    assert (finding["id"], finding["severity"], finding["side"]) == (id_, "warn", 1)
    about = f" about {who}" if mechanism == "PLAIN" and reason not in ("300", "400", "500") else ""
    assert finding["text"].endswith(
        f"refused the {'client' if mechanism in SERVED else 'peer'}: " + (words.format(who) + about)
    )
    assert finding["hint"].startswith(hint)
    assert finding["refs"] == [f"{finding['conn_id']}/1/0/{finding['offset']}/command"]


SERVED = ("PLAIN", "CURVE")


def test_a_temporary_refusal_is_not_blamed_on_the_credentials() -> None:
    hints = {}
    for reason in ("300", "400", "500"):
        talk = shake("PLAIN", "HELLO")
        talk.send(1, error(reason))
        (finding,) = findings(leave(talk, 1))
        hints[reason] = finding["hint"]
    assert "password" in hints["400"]
    assert "password" not in hints["300"] + hints["500"]


@pytest.mark.parametrize("label", ["SHARED", "SERVER_PUBLIC"])
def test_the_key_of_a_client_that_is_refused(label: str, tmp_path: Path) -> None:
    peers = CurvePeers()
    talk = shake("CURVE")
    for side, octets in peers.handshake()[2:5]:
        talk.send(side, octets)
    talk.send(1, error("400"))
    found, _ = records(Capture(leave(talk, 1).packets), Options(keys=keys(tmp_path, peers.lines(label))))
    (finding,) = [each for each in found if each.get("id") == "CURVE-26"]
    assert (z85.encode(peers.C) in finding["text"]) == (label == "SHARED")


def test_a_misspelt_error_refuses_like_any_other() -> None:
    misspelt = shake("PLAIN", "HELLO")
    misspelt.send(1, frame(b"^RROR\x03400"))
    found, _ = records(Capture(leave(misspelt, 1).packets))
    problems = [each for each in found if each["record"] == "finding" and each["severity"] in ("error", "warn")]
    assert [each["id"] for each in problems] == ["PLAIN-06"]
    who = 'the login of the user "admin" was refused'
    assert problems[0]["text"].endswith(f"400, {who}; the name ERROR is misspelt, as by libzmq 4.3")


def test_the_user_name_is_shown_escaped_and_the_password_never() -> None:
    talk = shake("PLAIN")
    hello = build_command("PLAIN", "HELLO", {"username": "a\x1b[31m\n\u202e", "password": "s3cret"})
    talk.send(0, frame(hello))
    talk.send(1, error("400"))
    found, _ = records(Capture(leave(talk, 1).packets))
    (finding,) = [each for each in found if each.get("id") == "PLAIN-06"]
    assert "s3cret" not in str(finding)
    line = describe_finding(finding)
    assert 'the user "a' in line
    assert line.isprintable()


def test_errors_that_are_no_refusal() -> None:
    for mechanism, names in (("CURVE", ("HELLO", "WELCOME")), ("PLAIN", ("HELLO", "WELCOME"))):
        client = shake(mechanism, *names)
        client.send(0, error("no"))
        assert not {"CURVE-26", "PLAIN-06", "NULL-09"} & set(ids(leave(client, 0)))
    later = shake("NULL", "READY", "READY")
    later.send(1, error("closing"))
    assert "NULL-09" not in ids(leave(later, 1))


def mismatch(seconds: float) -> Conversation:
    talk = Conversation()
    talk.send(0, build_greeting_3("NULL"))
    talk.send(1, build_greeting_3("CURVE"), cuts=(10, 11))
    talk.wait(int(seconds * SECOND))
    talk.send(0, default_command("NULL", "READY"))
    return leave(talk, 1)


def slow(greeting: Callable[[], Conversation]) -> Conversation:
    """The last octets of the second greeting arrive two seconds late."""
    talk = greeting()
    packets = []
    for number, packet in enumerate(talk.packets):
        packets.append(packet if number < 6 else type(packet)(**{**vars(packet), "time": packet.time + 2 * SECOND}))
    talk.packets = packets
    return talk


def test_a_side_continues_although_the_mechanisms_differ() -> None:
    (finding,) = findings(mismatch(1.5))
    assert (finding["id"], finding["side"], finding["packet"]) == ("ZMTP3X-GREETING-13", 0, 8)
    assert ids(mismatch(0.9)) == []
    assert ids(slow(lambda: mismatch(0.9))) == []
    assert ids(slow(lambda: mismatch(1.1))) == ["ZMTP3X-GREETING-13"]


@pytest.mark.parametrize("mechanism", ["NULL", "CURVE"])
def test_complete_handshakes_raise_no_finding(mechanism: str) -> None:
    names = ("READY", "READY") if mechanism == "NULL" else ("HELLO", "WELCOME", "INITIATE", "READY")
    for side in (0, 1):
        assert ids(leave(shake(mechanism, *names), side)) == []
