"""`zmtpscope top`, as a command, and in a terminal."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
from types import TracebackType
from typing import Self

import pytest
from rich.console import Console, ConsoleDimensions

from tests.cli.running import COMMAND, ROOT, Run, deadline
from tests.cli.terminal import Terminal
from tests.readings import CAPTURES, PUBSUB
from tests.waiting import PATIENCE
from zmtpscope.capture import CaptureStatistics
from zmtpscope.cli.top import ON_THEIR_WAY, CaptureClock
from zmtpscope.cli.top_output import Numbers
from zmtpscope.cli.top_screen import TopScreen, keys_of
from zmtpscope.export.top.rates import Rates
from zmtpscope.export.top.rows import Row
from zmtpscope.export.top.view import View
from zmtpscope.records import SECOND

PUSHPULL = CAPTURES / "patterns/pushpull.pcap"

TABLE = """\
TOPIC     FROM                 MSG/S BUSIEST OCTETS/S MESSAGES  OCTETS   PARTS    SUBS LAST VALUE
"b.topic" 127.0.0.1:5630 PUB     4.3       8       64        8     118       2       2 late
"a.topic" 127.0.0.1:5630 PUB     3.8       7       58        7     107       2       2 late
"c.topic" 127.0.0.1:5630 PUB     2.2       4       32        4      59       2       1 late
"""


def test_topics_of_a_file(zmtpscope: Run) -> None:
    assert zmtpscope("top", PUBSUB) == (0, TABLE, "")


def test_order_filter_and_number_of_rows(zmtpscope: Run) -> None:
    lines = TABLE.splitlines(keepends=True)
    assert zmtpscope("top", PUBSUB, "--sort", "name")[1] == "".join([lines[0], lines[2], lines[1], lines[3]])
    assert zmtpscope("top", PUBSUB, "--contains", "C.TOP")[1] == lines[0] + lines[3]
    assert zmtpscope("top", PUBSUB, "--rows", "1")[1] == lines[0] + lines[1]


def test_connections_and_peers(zmtpscope: Run) -> None:
    code, output, _ = zmtpscope("top", "--by", "connection", PUBSUB)
    assert code == 0
    assert [line.split("PUB ")[0].strip() for line in output.splitlines()[1:]] == [
        "2 127.0.0.1:49704 SUB > 127.0.0.1:5630",
        "1 127.0.0.1:49692 SUB > 127.0.0.1:5630",
    ]
    code, output, _ = zmtpscope("top", "--by", "peer", PUBSUB)
    assert sorted(line[:18].rstrip() for line in output.splitlines()[1:]) == ["127.0.0.1 SUB", "127.0.0.1:5630 PUB"]


def test_messages_without_a_topic_are_counted_by_sender(zmtpscope: Run) -> None:
    _, output, _ = zmtpscope("top", PUSHPULL)
    assert all(line.startswith("(no topic) 127.0.0.1") for line in output.splitlines()[1:])


def test_json_has_a_line_for_each_interval_and_row(zmtpscope: Run) -> None:
    code, output, errors = zmtpscope("top", "--json", "--interval", "0.1", PUBSUB)
    lines = [json.loads(line) for line in output.splitlines()]
    assert (code, errors) == (0, "")
    assert {line["by"] for line in lines} == {"topic"}
    assert {line["end_ns"] - line["start_ns"] for line in lines} == {100_000_000}
    assert sum(line["messages"] for line in lines) == 19
    assert all(line["messages_per_second"] == pytest.approx(10 * line["messages"]) for line in lines)
    last = {line["topic"]: line for line in lines}
    assert last["b.topic"]["total_messages"] == 8
    assert (last["b.topic"]["address"], last["b.topic"]["port"]) == ("127.0.0.1", 5630)
    assert last["b.topic"]["last_value"] == "late"
    assert len({line["start_ns"] for line in lines}) > 1


def test_json_of_the_whole_capture_is_one_interval(zmtpscope: Run) -> None:
    _, output, _ = zmtpscope("top", "--json", "--interval", "0", "--by", "connection", PUBSUB)
    lines = [json.loads(line) for line in output.splitlines()]
    assert {line["conn"]: (line["messages_0"], line["messages_1"]) for line in lines} == {1: (0, 7), 2: (0, 12)}
    assert len({(line["start_ns"], line["end_ns"]) for line in lines}) == 1


def test_a_damaged_capture_is_counted_as_far_as_it_can_be_read(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(PUBSUB.read_bytes()[:-10])
    code, output, errors = zmtpscope("top", path)
    assert code == 3
    assert output.startswith("TOPIC")
    assert "cut.pcap" in errors


def test_a_missing_beginning_is_reported(zmtpscope: Run) -> None:
    code, output, errors = zmtpscope("top", CAPTURES / "damage/midstream-3.0.pcap")
    assert code == 0
    assert "(no topic)" in output
    assert "start was not captured" in errors
    assert "-d tcp.port==5581,zmtp///PUB" in errors


def test_topics_of_a_system_that_runs_already(zmtpscope: Run) -> None:
    """The socket type is known by READY, by a subscription, or from the user."""
    path = CAPTURES / "damage/midstream-pubsub.pcap"
    _, output, errors = zmtpscope("top", path)
    assert ("(no topic)" in output, errors) == (False, "")
    assert output == zmtpscope("top", path, "-d", "tcp.port==5630,zmtp///PUB")[1]


def test_keys_that_terminals_send() -> None:
    assert keys_of("q\x1b[A\x1bOB\r\x7f/\x1b[5~\x1b[6~ \x1b") == [
        *("q", "up", "down", "enter", "backspace", "/", "page up", "page down", " ", "escape")
    ]
    assert keys_of("\x1b[1;5Cä\x01\x1b[200~") == ["ä"]


def test_in_a_terminal_keys_change_what_is_shown(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "\x1b[31mred.pcap"
    shutil.copy(PUBSUB, path)
    with Terminal("top", str(path)) as terminal:
        shown = terminal.wait_for("3 topics by rate", '"b.topic"', "q quit")
        assert len(shown) == 24
        assert max(map(len, shown)) <= 80
        assert "\\x1b[31mred.pcap" in shown[0]
        terminal.press("c")
        terminal.wait_for("2 connections by rate", "127.0.0.1:49704 SUB > 127.0.0.1:5630 PUB")
        terminal.press("p")
        terminal.wait_for("2 peers by rate", "127.0.0.1:5630 PUB")
        terminal.press("tnr")
        terminal.wait_for("3 topics by name, reversed", first='"c.topic"')
        terminal.press("/a.t")
        terminal.wait_for("show names that contain: a.t_", "1 topic by name")
        terminal.press("\r")
        terminal.wait_for('with "a.t"')
        terminal.press("\x1b")
        terminal.wait_for("3 topics by name, reversed")
        terminal.press("\x1b[B\x1b[B\r")
        terminal.wait_for("3 topics", first='"a.topic"')
        terminal.press(" ")
        terminal.wait_for("PAUSED")
        terminal.press("h")
        terminal.wait_for("topics, connections, peers", "leave")
        terminal.press(" ")
        terminal.wait_for("3 topics")
        terminal.resize(120, 10)
        assert "FROM" in terminal.wait_for("MESSAGES")[1]
        assert len(terminal.screen) == 10
        terminal.press("q")
        code, behind = terminal.end()
        assert code == 0
        assert behind.splitlines()[1].startswith('"a.topic"')


def test_a_terminal_that_changes_its_size_while_it_is_drawn_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [ConsoleDimensions(80, 24)]
    monkeypatch.setattr(Console, "size", property(lambda console: sizes[-1]))

    def rows(numbers: Numbers, kind: str) -> list[Row]:
        drawn_at.append(sizes[-1])
        sizes.append(ConsoleDimensions(120, 10))
        return []

    drawn_at: list[ConsoleDimensions] = []
    monkeypatch.setattr(Numbers, "now", rows)
    numbers = Numbers(Rates(None), CaptureStatistics(), is_live=False)
    screen = TopScreen(numbers, View(), None, lambda: "title")
    screen.draw()
    for _ in range(3):
        screen.wait(0)
    assert drawn_at == [(80, 24), (120, 10)]


def test_the_terminal_is_restored_at_the_end() -> None:
    with Terminal("top", str(PUBSUB)) as terminal:
        terminal.wait_for("3 topics")
        assert terminal.modes != terminal.first_modes
        terminal.press("\x03")
        assert terminal.end()[0] == 130
        assert terminal.modes == terminal.first_modes


def test_keys_work_where_the_capture_is_standard_input() -> None:
    with Terminal("top", "-", stdin=PUBSUB.read_bytes()) as terminal:
        terminal.wait_for("3 topics by rate")
        terminal.press("p")
        terminal.wait_for("2 peers by rate")
        terminal.press("q")
        assert terminal.end()[0] == 0


# -- packets that are just captured ------------------------------------------------------------------------------------


class Following:
    def __init__(self, *arguments: str) -> None:
        command = [*COMMAND, "top", "--follow", *arguments, "-"]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def write(self, octets: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(octets)
        self.process.stdin.flush()

    def line(self) -> bytes:
        assert self.process.stdout is not None
        with deadline(self.process):
            return self.process.stdout.readline()


def test_an_interval_is_printed_at_its_end_without_further_packets(zmtpscope: Run) -> None:
    whole = zmtpscope("top", "--json", PUBSUB)[1].encode()
    with Following("--json") as top:
        top.write(PUBSUB.read_bytes())
        lines = b"".join(top.line() for _ in range(3))
        assert lines == whole
        out, errors = top.process.communicate(timeout=PATIENCE)
        assert (top.process.returncode, out, errors) == (0, b"", b"")


def test_a_table_for_each_interval_without_a_terminal() -> None:
    with Following() as top:
        top.write(PUBSUB.read_bytes())
        assert top.line() == b"2026-11-21T03:08:54.000Z\n"
        assert top.line().startswith(b"TOPIC")
        assert top.line().startswith(b'"b.topic" 127.0.0.1:5630 PUB       8')


def test_interrupted_once_it_prints_the_current_numbers(zmtpscope: Run) -> None:
    intervals = "--interval", "0.25"
    whole = zmtpscope("top", "--json", *intervals, PUBSUB)[1].encode()
    with Following("--json", *intervals) as top:
        top.write(PUBSUB.read_bytes())
        first = top.line()
        top.process.send_signal(signal.SIGINT)
        with deadline(top.process):
            assert top.process.stdout is not None
            assert first + top.process.stdout.read() == whole
        assert top.process.wait(PATIENCE) == 0


def test_a_file_that_grows_is_followed_in_a_terminal(tmp_path: pathlib.Path) -> None:
    octets = PUBSUB.read_bytes()
    path = tmp_path / "grows.pcap"
    path.write_bytes(octets[: len(octets) // 2])
    with Terminal("top", "--follow", str(path)) as terminal:
        terminal.wait_for("grows.pcap", "TOPIC")
        with path.open("ab") as file:
            file.write(octets[len(octets) // 2 :])
        terminal.wait_for("3 topics by rate", "messages/s", first='"b.topic"')
        terminal.press("\x03")
        code, behind = terminal.end()
        assert code == 0
        assert [line.split()[0] for line in behind.splitlines()[1:]] == ['"b.topic"', '"a.topic"', '"c.topic"']


def test_the_clock_is_that_of_the_packets() -> None:
    now = 100.0
    clock = CaptureClock(lambda: now)
    on_their_way = round(ON_THEIR_WAY * SECOND)
    assert clock.now(5 * SECOND) == 5 * SECOND - on_their_way
    now += 2
    assert clock.now(5 * SECOND) == 7 * SECOND - on_their_way
    assert clock.now(6 * SECOND) == 6 * SECOND - on_their_way


def test_only_messages_that_a_filter_holds_of_are_counted(zmtpscope: Run) -> None:
    code, output, _ = zmtpscope("top", "--json", "--interval", "0", PUBSUB, "-Y", "bodies[1] == late or size > 1KiB")
    rows = [json.loads(line) for line in output.splitlines()]
    assert code == 0
    assert {(row["topic"], row["messages"], row["subscribers"]) for row in rows} == {
        ("a.topic", 1, 2),
        ("b.topic", 2, 2),
        ("c.topic", 1, 1),
    }
    assert "did you mean topic" in zmtpscope("top", PUBSUB, "-Y", "topik == x")[2]


def test_subscribers_count_for_any_filter(zmtpscope: Run) -> None:
    """On ZMTP 3.0 subscriptions are messages."""
    path = CAPTURES / "versions/pubsub-bind4.0.10-conn4.0.10.pcap"
    plain, filtered = (
        [json.loads(line) for line in zmtpscope("top", "--json", "--interval", "0", path, *arguments)[1].splitlines()]
        for arguments in ([], ["-Y", "kind == data"])
    )
    assert plain == filtered
    assert any(row["subscribers"] for row in plain)
