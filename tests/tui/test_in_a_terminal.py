"""`zmtpscope tui` in a real terminal: keys go in, the screen comes out."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import COMMAND, ROOT
from tests.readings import CAPTURES
from tests.tui.hostile import WORDS, hostile_capture, hostile_name
from tests.tui.terminal import Terminal
from tests.waiting import PATIENCE

PUBSUB = CAPTURES / "patterns/pubsub.pcap"
OF_DAY = r"\d\d:\d\d:\d\d\.\d{6} "
LATE = CAPTURES / "patterns/late-subscription.pcap"


def terminal(tmp_path: Path, *arguments: str | Path, columns: int = 140, lines: int = 40) -> Terminal:
    """The command in a terminal, with nobody's settings."""
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    return Terminal([*COMMAND, "tui", *arguments], columns, lines, environment, tmp_path)


def is_field(screen: str, name: str, value: str) -> bool:
    """Whether a field stands in the tree with this value."""
    return re.search(rf"{re.escape(name)} +{re.escape(value)}", screen) is not None


def test_a_capture_is_looked_at(tmp_path: Path) -> None:
    """Open, see rows, go down, see another record's details, filter, take the filter away, leave."""
    with terminal(tmp_path, PUBSUB) as shown:
        shown.wait_for("19 messages", "payload 0")
        shown.wait_until(lambda screen: is_field(screen, "zmtp.body", "a.topic"), "the fields of the first message")
        shown.press("j")
        shown.wait_until(lambda screen: is_field(screen, "zmtp.body", "b.topic"), "the fields of the second one")
        shown.type("/size < 12\r")
        shown.wait_until(lambda screen: "late" in screen and "payload 0" not in screen, "late ones only")
        shown.press("Escape")
        shown.wait_for("payload 0")
        shown.press("q")
        assert shown.wait_for_end() == 0
        assert shown.processes() == []


def test_what_is_wrong_with_a_filter_is_said_while_it_is_typed(tmp_path: Path) -> None:
    with terminal(tmp_path, PUBSUB) as shown:
        shown.wait_for("19 messages")
        shown.type("/sise > 1")
        shown.wait_for("sise", "size")


def test_views_are_on_number_keys(tmp_path: Path) -> None:
    with terminal(tmp_path, PUBSUB) as shown:
        shown.wait_for("19 messages")
        shown.press("4")
        shown.wait_for("a.topic", "b.topic", "c.topic")
        shown.press("1")
        shown.wait_for("payload 0")


def test_it_fits_a_small_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, PUBSUB, columns=80, lines=24) as shown:
        shown.wait_for("19 messages", "a.topic")
        shown.resize(200, 50)
        shown.wait_until(lambda screen: max(map(len, screen.split("\n"))) > 80, "a wider screen")


def test_it_stops_at_ctrl_z_and_goes_on(tmp_path: Path) -> None:
    command = f"PS1='shell> '; {shlex.join(map(str, [*COMMAND, 'tui', PUBSUB]))}"
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with Terminal(["bash", "--norc", "-i"], 120, 30, environment) as shown:
        shown.type(command + "\r")
        shown.wait_for("19 messages")
        shown.press("C-z")
        shown.wait_for("Stopped", "shell> ")
        shown.type("fg\r")
        shown.wait_for("19 messages", "a.topic")
        shown.press("q")
        shown.wait_until(lambda screen: "19 messages" not in screen, "the shell")


@pytest.mark.parametrize("way", ["q", "C-c", "SIGTERM"])
def test_a_pipe_without_a_capture_yet_is_waited_for_and_every_way_out_restores_the_terminal(
    way: str, tmp_path: Path
) -> None:
    tui = shlex.join([*COMMAND, "tui", "-"])
    command = f"sleep 1000 | {{ {tui}; echo ended with $?; exec cat; }}"
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with Terminal(["sh", "-c", command], 80, 24, environment) as shown:
        shown.wait_for("waiting for standard input", "Quit")
        assert shown.is_taken
        if way == "SIGTERM":
            screen = min(pid for pid in shown.processes() if b"\0tui\0" in Path(f"/proc/{pid}/cmdline").read_bytes())
            os.kill(screen, signal.SIGTERM)
        else:
            shown.press(way)
        shown.wait_for("ended with 143" if way == "SIGTERM" else "ended with 0")
        assert not shown.is_taken


def test_the_worst_problems_are_shown_above_the_messages_and_a_key_or_a_click_goes_to_each(tmp_path: Path) -> None:
    problems = CAPTURES / "problems"
    refused, late = problems / "connection-refused.pcap", problems / "subscription-lost-on-reconnect.pcap"
    with terminal(tmp_path, refused, late) as shown:
        shown.wait_for("c error  Nothing listens at 10.0.0.1:5599", "c error  SUB 10.0.0.2 connected")
        shown.press("c")
        shown.wait_until(lambda screen: is_field(screen, "id", "ZMTP-CONN-14"), "the moment of the first")
        shown.press("c")
        shown.wait_for("filter conn in {")
        shown.press("b", "b")
        shown.wait_until(lambda screen: "filter conn" not in screen, "all messages again")
        shown.click("SUB 10.0.0.2 connected")
        shown.wait_for("filter conn in {")
        shown.click("6 Problems")
        shown.wait_for("what to do")
        shown.click("1 Messages")
        shown.wait_for("filter conn in {")
        shown.click("q Quit")
        assert shown.wait_for_end() == 0


def test_a_connection_is_followed_as_a_conversation_also_in_hex_and_saved_as_text(tmp_path: Path) -> None:
    with terminal(tmp_path, CAPTURES / "patterns/reqrep.pcap") as shown:
        shown.wait_for("8 messages", "Hello 0")
        shown.press("o")
        screen = shown.wait_for("connection 1; b goes back", "Hello 0", "World 0", "SIDE THAT LISTENS")
        said = {
            word: line.index(word) for line in screen.split("\n") for word in ("Hello 0", "World 0") if word in line
        }
        assert said["World 0"] > said["Hello 0"] + 10
        shown.press("X")
        shown.wait_for("| 48 65 6c 6c 6f 20 30")
        shown.press("X")
        shown.wait_for("Hello 0")
        shown.press("e")
        shown.wait_for("Export: FILE")
        shown.type("out.txt\r")
        shown.wait_for("rows, ")
        assert "Hello 0" in (tmp_path / "out.txt").read_text()


def test_times_of_day_are_never_cut(tmp_path: Path) -> None:
    with terminal(tmp_path, PUBSUB, columns=80, lines=24) as shown:
        shown.wait_for("19 messages", "payload 0")
        shown.press("t")
        shown.wait_until(lambda screen: re.search(OF_DAY, screen) is not None, "times of day")
        shown.press("t")
        shown.wait_until(lambda screen: re.search(rf"\d{{4}}-\d\d-\d\d {OF_DAY}", screen) is not None, "dates")


def test_the_title_of_the_terminal_stays(tmp_path: Path) -> None:
    """Nothing in a capture may change it."""
    with terminal(tmp_path, PUBSUB) as shown:
        before = shown.title
        shown.wait_for("19 messages")
        assert shown.title == before


def test_everything_ends_when_the_terminal_is_closed(tmp_path: Path) -> None:
    with terminal(tmp_path, PUBSUB) as shown:
        shown.wait_for("19 messages")
        assert len(shown.processes()) == 2
        shown.hang_up()
        assert shown.wait_for_processes(0)


def test_without_a_terminal_it_says_what_to_use() -> None:
    done = subprocess.run([*COMMAND, "tui", PUBSUB], capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert done.returncode == 2
    assert "zmtpscope read" in done.stderr


def test_a_capture_that_cannot_be_read_is_said_before_the_screen_is_taken(tmp_path: Path) -> None:
    with terminal(tmp_path, tmp_path / "missing.pcap") as shown:
        shown.wait_for("missing.pcap")
        assert shown.wait_for_end() == 2
        assert shown.processes() == []


def test_the_title_of_the_terminal_stays_as_it_was_whatever_peers_files_and_pasted_text_ask_for(tmp_path: Path) -> None:
    path = tmp_path / hostile_name(WORDS[0])
    path.write_bytes(hostile_capture(*WORDS))
    titled = r"""printf '\033]2;as it was\007'; exec "$@" """
    command = ["sh", "-c", titled, "sh", *COMMAND, "tui", path]
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with Terminal(command, 140, 40, environment) as shown:
        shown.wait_for("owned", "2 Connections")
        shown.press("x", *"j" * 30)
        for key in "2345678":
            shown.press(key, "j", "Space", "j")
        shown.type("1")
        shown.wait_for("zmtp.")
        shown.type("/\x1b[200~\x1b]2;owned\x07 pasted\x1b[201~")
        shown.wait_for("pasted")
        assert shown.title == "as it was"
        shown.press("Escape")
        shown.wait_until(lambda screen: "pasted" not in screen, "the filter of before")
        shown.press("q")
        assert shown.wait_for_end() == 0
        assert shown.title == "as it was"
