"""Heartbeats in text lines: the first pair is written, equal ones are counted, and all others are written."""

from __future__ import annotations

import pytest

from tests.cli.running import Run
from tests.dissect.talks import SECOND
from tests.export.repeats.folded import repeated, words, written
from tests.peer_octets import command, hello, message
from tests.readings import CAPTURES
from tests.traffic import Conversation
from zmtpscope.export.repeats import heartbeats
from zmtpscope.export.repeats.heartbeats import MAX_OPEN

BOTH = CAPTURES / "patterns" / "heartbeat-both.pcap"


def heartbeat(name: str, **fields: object) -> bytes:
    return command("NULL", name, **fields)


class Talk(Conversation):
    """A DEALER and a ROUTER that have shaken hands."""

    def __init__(self, port: int = 50_000) -> None:
        super().__init__(ports=(port, 5555))
        self.send(0, hello("DEALER"))
        self.send(1, hello("ROUTER"))

    def beat(self, times: int = 1, *, ttl_ms: int = 0, context: bytes = b"", after: int = SECOND) -> None:
        """Side 0 asks so often, a millisecond later side 1 answers."""
        for _ in range(times):
            self.wait(after - 2_000_000)
            self.send(0, heartbeat("PING", ttl_ms=ttl_ms, context=context))
            self.send(1, heartbeat("PONG", context=context))


def test_heartbeats_of_a_real_connection_are_the_first_of_each_side_and_two_lines(zmtpscope: Run) -> None:
    _, output, _ = zmtpscope("read", BOTH)
    texts = [line.split("  ")[-1].strip() for line in output.splitlines() if "P" in line and "PING" in line]
    assert texts == [
        "PING",
        "PING",
        "PING/PONG 3 times more, every 0.3 s, slowest answer 0.066 ms -> --all prints one line for each",
        "PING/PONG 5 times more, every 0.2 s, slowest answer 0.086 ms",
    ]


def test_all_has_a_line_for_each_and_so_have_fields_and_octets(zmtpscope: Run) -> None:
    for options in (["--all"], ["-V"], ["-x"]):
        _, output, _ = zmtpscope("read", *options, BOTH)
        assert output.count("  PING\n") == 10
        assert "times more" not in output


def test_json_is_never_folded(zmtpscope: Run) -> None:
    _, output, _ = zmtpscope("read", "--json", BOTH)
    assert output.count('"name":"PING"') == 10


def test_a_filter_comes_first(zmtpscope: Run) -> None:
    _, output, _ = zmtpscope("read", BOTH, "-Y", "name == PONG && side == 0")
    assert output.count("  PONG\n") == 4
    _, output, _ = zmtpscope("read", BOTH, "-Y", "name == PING || name == PONG")
    assert output.count("times more") == 2


def test_they_are_counted_across_messages_and_written_before_the_end() -> None:
    talk = Talk()
    for _ in range(30):
        talk.beat()
        talk.send(0, message(b"work"))
    talk.close()
    texts = words(talk.packets)
    assert texts.count("PING") == texts.count("PONG") == 1
    assert texts.count(["message 4 octets", "work"][-1]) == 30
    assert texts[-2] == "PING/PONG 29 times more, every 1 s, slowest answer 1 ms"


def test_one_more_is_written_in_words() -> None:
    talk = Talk()
    talk.beat(2)
    talk.close()
    assert words(talk.packets)[-2] == "PING/PONG once more, after 1 s, answered in 1 ms"


def test_a_ping_without_an_answer_is_written() -> None:
    talk = Talk()
    talk.beat(5)
    talk.wait(SECOND)
    talk.send(0, heartbeat("PING"))
    talk.wait(5 * SECOND)
    talk.close()
    assert words(talk.packets)[-3:-1] == ["PING/PONG 4 times more, every 1 s, slowest answer 1 ms", "PING"]


def test_an_answer_to_nothing_is_written() -> None:
    talk = Talk()
    talk.beat(2)
    talk.send(1, heartbeat("PONG", context=b"else"))
    talk.beat(2)
    talk.close()
    assert [what for what in words(talk.packets) if "PONG" in what] == [
        "PONG",
        "PONG context else",
        "note ZMTP31-PING-08 PONG without a PING",
        "PING/PONG 3 times more, every 1 s, slowest answer 1 ms",
    ]


def test_contexts_that_count_up_are_alike_and_another_ttl_is_not() -> None:
    talk = Talk()
    for number in range(4):
        talk.beat(context=bytes([number]))
    talk.beat(3, ttl_ms=3000)
    talk.close()
    assert [what for what in words(talk.packets) if "PING" in what] == [
        "PING context 0x00",
        "PING/PONG 3 times more, every 1 s, slowest answer 1 ms",
        "PING ttl 3 s",
        "PING/PONG 2 times more, every 1 s, slowest answer 1 ms",
    ]


def test_unanswered_pings_are_not_held_back_for_ever() -> None:
    talk = Talk()
    talk.beat(2)
    for _ in range(MAX_OPEN + 3):
        talk.wait(SECOND)
        talk.send(0, heartbeat("PING"))
    texts = words(talk.packets)
    assert texts.count("PING") == MAX_OPEN + 4
    assert texts.count("PING/PONG once more, after 1 s, answered in 1 ms") == 1


def test_where_lines_do_not_wait_they_are_written_every_ten_seconds() -> None:
    talk = Talk()
    talk.beat(41)
    assert [(round(time), what) for time, _, what in written(talk.packets, waits=False)][4:-1] == [
        (1, "PING"),
        (1, "PONG"),
        *[(second, "PING/PONG 10 times more, every 1 s, slowest answer 1 ms") for second in (11, 21, 31, 41)],
    ]


@pytest.mark.parametrize("sent", [b"", heartbeat("PING")])
def test_where_lines_do_not_wait_others_show_that_it_is_over(sent: bytes) -> None:
    """Delayed lines of a silent connection are printed with a later packet of another one."""
    talk, other = Talk(), Conversation(ports=(50_001, 5555))
    talk.beat(3)
    talk.send(0, sent)
    other.wait(14 * SECOND)
    other.send(0, hello("DEALER"))
    other.send(1, hello("ROUTER"))
    texts = words([*talk.packets, *other.packets], waits=False)
    assert texts.index("PING/PONG 2 times more, every 1 s, slowest answer 1 ms") < len(texts) - 4
    assert texts.count("PING") == 1 + bool(sent)


def test_connections_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "MAX_CONNECTIONS", 2)
    packets = []
    for number in range(4):
        talk = Talk(50_000 + number)
        talk.wait(number * SECOND // 10)
        talk.beat(5)
        packets += talk.packets
    texts = words(packets)
    assert sum(map(repeated, texts)) + texts.count("PING") == 20
