"""`zmtpscope tui` in a real terminal: keys are pressed, and the screen is read."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.running import COMMAND, ROOT
from tests.readings import CAPTURES, PUBSUB
from tests.tui.hostile import WORDS, hostile_capture, hostile_name
from tests.tui.terminal import Terminal
from tests.waiting import PATIENCE

OF_DAY = r"\d\d:\d\d:\d\d\.\d{6} "
LATE = CAPTURES / "patterns/late-subscription.pcap"


def terminal(tmp_path: Path, *arguments: str | Path, columns: int = 140, lines: int = 40) -> Terminal:
    """The command in a terminal, without settings of a user."""
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    return Terminal([*COMMAND, "tui", *arguments], columns, lines, environment, tmp_path)


def is_field(screen: str, name: str, value: str) -> bool:
    return re.search(rf"{re.escape(name)} +{re.escape(value)}", screen) is not None


def test_a_user_browses_a_capture(tmp_path: Path) -> None:
    """Open, see rows, go down, see the details of another record, filter, remove the filter, leave."""
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


def test_an_error_in_a_filter_is_shown_while_typing(tmp_path: Path) -> None:
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


def test_with_16_colours_cursor_and_problems_have_other_colours_than_the_rest(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "TEXTUAL_COLOR_SYSTEM": "standard"}
    command = [*COMMAND, "tui", CAPTURES / "problems/login-refused.pcap"]
    with Terminal(command, 100, 30, environment) as shown:
        shown.wait_for("c error  10.0.0.1:5555")
        assert any("\x1b[41m" in line for line in shown.screen(styles=True)), "white on red"
        shown.press("6")
        shown.wait_for("SEVERITY")
        shown.press("j")
        shown.wait_until(lambda _: any("\x1b[7m" in line for line in shown.screen(4, styles=True)), "a cursor")
        assert any("\x1b[31m" in line and "error" in line for line in shown.screen(styles=True))


def test_the_screen_fits_a_small_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, PUBSUB, columns=80, lines=24) as shown:
        shown.wait_for("19 messages", "a.topic")
        shown.resize(200, 50)
        shown.wait_until(lambda screen: max(map(len, screen.split("\n"))) > 80, "a wider screen")


def test_ctrl_z_suspends_it_and_fg_resumes_it(tmp_path: Path) -> None:
    command = f"PS1='shell> '; {shlex.join(map(str, [*COMMAND, 'tui', PUBSUB]))}"
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with Terminal(["bash", "--norc", "-i"], 120, 30, environment) as shown:
        shown.type(command + "\r")
        shown.wait_for("1 note: see 6", "zmtp.body")  # nothing more is drawn by itself
        shown.press("C-z")
        shown.wait_for("Stopped", "shell> ")
        shown.type("fg\r")
        shown.wait_for("19 messages", "a.topic")
        shown.press("q")
        shown.wait_until(lambda screen: "19 messages" not in screen, "the shell")


@pytest.mark.parametrize("way", ["q", "C-c", "SIGTERM"])
def test_it_waits_for_a_pipe_and_every_exit_restores_the_terminal(way: str, tmp_path: Path) -> None:
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


def test_sigterm_restores_the_terminal_also_before_the_first_line_is_drawn(tmp_path: Path) -> None:
    with terminal(tmp_path, PUBSUB) as shown:
        shown.wait_until(lambda _: shown.is_taken, "the alternate screen")
        os.kill(shown.pid, signal.SIGTERM)
        assert shown.wait_for_end() == 128 + signal.SIGTERM
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
        screen = shown.wait_for("connection 1; b goes back", "Hello 0", "World 0", "< LISTENS")
        rows = {
            word: line.index(word) for line in screen.split("\n") for word in ("Hello 0", "World 0") if word in line
        }
        assert rows["World 0"] > rows["Hello 0"] + 10
        shown.press("X")
        shown.wait_for("| 48 65 6c 6c 6f 20 30")
        shown.press("X")
        shown.wait_for("Hello 0")
        shown.press("e")
        shown.wait_for("Export: FILE")
        shown.type("out.txt\r")
        shown.wait_for("rows, ")
        assert "Hello 0" in (tmp_path / "out.txt").read_text()


def test_help_and_palette_find_commands_and_run_them(tmp_path: Path) -> None:
    with terminal(tmp_path, PUBSUB) as shown:
        shown.wait_for("19 messages", "payload 0")
        shown.press("?")
        shown.wait_for("Next cell")
        shown.press("/")
        shown.type("another view")
        shown.wait_until(lambda screen: "Next cell" not in screen and ":view" in screen, "what was sought")
        shown.press("Escape", "Escape")
        shown.wait_until(lambda screen: ":view" not in screen, "the list")
        shown.press("?")
        shown.wait_for("Next cell")
        shown.press("/")
        shown.type("who talks\r")
        shown.wait_for("CONNECTED", "ENDED")
        shown.press("C-p")
        shown.type("peers")
        shown.wait_for("Peers  9")


def test_times_count_from_a_row_and_marks_show_their_distance(tmp_path: Path) -> None:
    path = CAPTURES / "patterns/reqrep.pcap"
    with terminal(tmp_path, path) as shown:
        shown.wait_for("8 messages", "World 0")
        shown.press("m")
        shown.wait_for("●")
        shown.press("m")
        shown.wait_for("between the two marked rows")
        shown.press("T")
        shown.wait_for(" 0.000000 ", " -0.")
        shown.press("q")
        assert shown.wait_for_end() == 0
    with terminal(tmp_path, path) as shown:
        shown.wait_until(lambda screen: screen.count("●") == 2, "the marks of before")


def test_panes_are_resized_by_key_and_by_mouse_and_settings_are_picked(tmp_path: Path) -> None:
    (tmp_path / "keys.log").touch()
    with terminal(tmp_path, PUBSUB) as shown:
        shown.wait_for("19 messages", "zmtp.frame")
        border = border_of(shown)
        shown.press("}")
        shown.wait_until(lambda _: border_of(shown) > border, "a larger list")
        shown.type(f"\x1b[<0;30;{border_of(shown) + 1}M")
        shown.wait_until(lambda _: is_dragged_to(shown, 10), "the border at the mouse")
        shown.type("\x1b[<0;30;11m")
        shown.wait_until(lambda _: border_of(shown) > 0, "the border")
        shown.press("C")
        shown.wait_for("packet number")
        for key in ("j", "Space"):
            before = shown.screen(styles=True)
            shown.press(key)
            shown.wait_until(lambda _, before=before: shown.screen(styles=True) != before, "another style")
        shown.press("Enter")
        shown.wait_until(lambda screen: "CONN " not in screen and "FROM" in screen, "no connection numbers")
        shown.type(":theme\r")
        shown.wait_for("nord")
        shown.press("Escape")
        shown.wait_until(lambda screen: "nord" not in screen, "no menu")
        shown.press("K")
        shown.wait_for("A file of CURVE keys", "keys.log")


def is_dragged_to(shown: Terminal, line: int) -> bool:
    """Whether the border has followed the mouse, which is moved once more: the button may not be known yet."""
    shown.type(f"\x1b[<32;30;{line}M\x1b[<32;30;{line + 1}M")
    return abs(border_of(shown) - line) <= 1


def border_of(shown: Terminal) -> int:
    return next((place for place, line in enumerate(shown.screen()) if line.startswith("──")), 0)


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


def test_without_a_terminal_it_names_other_commands() -> None:
    done = subprocess.run([*COMMAND, "tui", PUBSUB], capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert done.returncode == 2
    assert "zmtpscope read" in done.stderr


def test_the_reason_why_a_capture_cannot_be_read_stays_on_the_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, tmp_path / "missing.pcap") as shown:
        shown.wait_for("missing.pcap")
        assert shown.wait_for_end() == 2
        assert shown.processes() == []


def test_octets_of_peers_files_and_pasted_text_do_not_change_the_title_of_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / hostile_name(WORDS[0])
    path.write_bytes(hostile_capture(*WORDS))
    titled = r"""printf '\033]2;as it was\007'; exec "$@" """
    command = ["sh", "-c", titled, "sh", *COMMAND, "tui", path]
    environment = {"XDG_CONFIG_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    with Terminal(command, 140, 40, environment) as shown:
        shown.wait_for("owned", "2 Connections", "zmtp.")  # with the rows, which a pause would keep away
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
