"""Retries in lines for people: an attempt that fails as one did that was written is counted, and no other."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator
from itertools import count

import pytest

from tests.cli.running import Run
from tests.dissect.talks import SECOND, connected
from tests.export.repeats.folded import lines_of, repeated, words, written
from tests.peer_octets import command, message
from tests.readings import CAPTURE_FILES, CAPTURES
from tests.traffic import CLIENT, Conversation, Packet
from zmtpscope.capture import open_captures
from zmtpscope.export.repeats import retries
from zmtpscope.zmtp.greeting import build_greeting_3

START = 1_700_000_000_000_000_000
PORTS = count(40_000)


def plain(name: str, **fields: object) -> bytes:
    return command("PLAIN", name, **fields)


def attempt(second: float, *, user: str = "admin", client: bytes = CLIENT, port: int = 5555) -> Conversation:
    """A PLAIN client sends HELLO."""
    talk = Conversation(ports=(next(PORTS), port), hosts=(client, CLIENT), start=START + int(second * SECOND))
    talk.send(0, build_greeting_3("PLAIN", version="3.1"))
    talk.send(1, build_greeting_3("PLAIN", version="3.1", as_server=1))
    talk.send(0, plain("HELLO", username=user, password="secret"))
    return talk


def refused(second: float, reason: str = "400", **given: object) -> list[Packet]:
    """An attempt of a PLAIN client that is not let in."""
    talk = attempt(second, **given)  # type: ignore[arg-type]
    talk.send(1, plain("ERROR", reason=reason))
    talk.close()
    return talk.packets


def accepted(second: float) -> list[Packet]:
    """The client is let in, and sends a message."""
    talk = attempt(second)
    talk.send(1, plain("WELCOME"))
    talk.send(0, plain("INITIATE", metadata=[{"name": "Socket-Type", "value": "PUSH"}]))
    talk.send(1, plain("READY", metadata=[{"name": "Socket-Type", "value": "PULL"}]))
    talk.send(0, message(b"work"))
    talk.close()
    return talk.packets


def joined(*talks: list[Packet]) -> Iterator[Packet]:
    for packets in talks:
        yield from packets


def test_a_client_that_is_refused_over_and_over_is_one_line(zmtpscope: Run) -> None:
    path = CAPTURES / "security" / "curve-wrong-server-key.pcap"
    _, output, _ = zmtpscope("read", path)
    assert output.count("GREETING") == 2
    assert output.splitlines()[-1] == (
        "        0.636546  c5  127.0.0.1:48774 > 127.0.0.1:5710  "
        "retried 4 times, c2 to c5, every 0.159 s, each with the same outcome as c1 -> --all prints one line for each"
    )
    _, output, _ = zmtpscope("read", "--all", path)
    assert output.count("GREETING") == 10


def test_a_hundred_are_one_line_too() -> None:
    texts = words(joined(*[refused(number * 0.3) for number in range(118)]))
    assert len([what for what in texts if what.startswith("GREETING")]) == 2
    assert texts[-1] == "retried 117 times, c2 to c118, every 0.3 s, each with the same outcome as c1"


def test_one_is_written_in_words() -> None:
    assert words(joined(refused(0), refused(0.5)))[-1] == "retried after 0.5 s, with the same outcome as c1"


def test_another_user_another_answer_and_another_endpoint_are_other_attempts() -> None:
    for other in (refused(1, user="guest"), refused(1, reason="500"), refused(1, port=5556)):
        texts = words(joined(refused(0), other))
        assert len([what for what in texts if what.startswith("closed")]) == 2


def test_clients_are_counted_one_by_one() -> None:
    one, other = bytes([10, 0, 0, 8]), bytes([10, 0, 0, 9])
    talks = [refused(number, client=other if number % 3 else one) for number in range(12)]
    texts = [what for what in words(joined(*talks)) if what.startswith("retried")]
    assert texts == [
        "retried 3 times, c4 to c10, every 3 s, each with the same outcome as c1",
        "retried 7 times, c3 to c12, every 1.43 s, each with the same outcome as c2",
    ]


def test_counted_attempts_are_written_when_the_client_connects() -> None:
    texts = written(joined(refused(0), refused(1), refused(2), accepted(3), refused(10)))
    begin = [conn for _, conn, _ in texts].index("c4")
    assert texts[begin - 1][1:] == ("c3", "retried 2 times, c2 to c3, every 1 s, each with the same outcome as c1")
    assert [what for _, conn, what in texts if conn == "c4"][4:] == [
        "WELCOME", "INITIATE PUSH", "READY PULL", "work", "closed by PUSH after 10.0 ms, 3.1 PLAIN, 1 message from PUSH"
    ]  # fmt: skip
    assert next(what for _, conn, what in texts if conn == "c5") == "GREETING 3.1 PLAIN"


def test_two_ways_to_fail_in_turn_are_counted_each() -> None:
    texts = words(joined(*[refused(number, reason="500" if number % 2 else "400") for number in range(10)]))
    assert texts[-2:] == [
        "retried 4 times, c3 to c9, every 2 s, each with the same outcome as c1",
        "retried 4 times, c4 to c10, every 2 s, each with the same outcome as c2",
    ]


@pytest.mark.parametrize(("second", "ends", "waits", "kept"), [
    (5, 30, True, True), (5, 30, False, False), (1.5, 1.8, False, True), (70, 80, True, False)
])  # fmt: skip
def test_lines_are_kept_back_for_a_minute_and_for_a_second_where_they_do_not_wait(
    second: float, ends: float, waits: bool, kept: bool
) -> None:
    hangs = attempt(1)
    hangs.wait(int((ends - 1) * SECOND))
    hangs.reset(0)
    other = connected("PUSH", "PULL", ports=(next(PORTS), 5557), start=START + int(second * SECOND))
    conns = [conn for _, conn, _ in written([*refused(0), *hangs.packets, *other.packets], waits=waits)][7:]
    assert conns.count("c2") >= 5
    assert conns.index("c2") > conns.index("c3") if kept else conns.index("c3") > conns.index("c2")


def test_where_lines_do_not_wait_they_are_written_every_ten_seconds() -> None:
    texts = written(joined(*[refused(number) for number in range(35)]), waits=False)
    assert [(round(time), what) for time, _, what in texts if what.startswith("retried")] == [
        (10, "retried 10 times, c2 to c11, every 1 s, each with the same outcome as c1"),
        (20, "retried 10 times, c12 to c21, every 1 s, each with the same outcome as c1"),
        (30, "retried 10 times, c22 to c31, every 1 s, each with the same outcome as c1"),
        (34, "retried 4 times, c32 to c35, every 1 s, each with the same outcome as c1"),
    ]


def test_remembered_attempts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_OPEN", "MAX_PAIRS", "MAX_FAILURES"):
        monkeypatch.setattr(retries, name, 2)
    talks = [refused(number, port=5555 + number % 3, reason=str(number % 4)) for number in range(36)]
    texts = words(joined(*talks))
    assert sum(map(repeated, texts)) + len([what for what in texts if what.startswith("closed")]) == 36


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: path.name)
def test_every_line_of_real_captures_is_there_or_counted(path: pathlib.Path) -> None:
    folded, left = (
        Counter(what for _, _, what in lines_of(open_captures([str(path)]), folds=folds)) for folds in (True, False)
    )
    assert all(repeated(what) for what in folded - left)
    left -= folded
    heartbeats = sum(repeated(what) for what in folded if what.startswith("PING/PONG"))
    attempts = sum(repeated(what) for what in folded if what.startswith("retried"))
    assert left["PING"] + left["PONG"] == 2 * heartbeats
    assert sum(number for what, number in left.items() if what.startswith(("closed by", "reset by"))) == attempts
    gaps = sum(repeated(what) for what in folded if " more of " in what)
    assert sum(number for what, number in left.items() if what.startswith("gap of")) == gaps
    assert bool(left) == bool(heartbeats + attempts + gaps)
