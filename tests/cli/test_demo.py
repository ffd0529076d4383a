"""`zmtpscope demo`: captures that are installed with the program, for the first minutes of a new user."""

from __future__ import annotations

import pathlib
import re
import shlex

import pytest

from tests.cli.running import Run
from zmtpscope.cli.demo import CAPTURES

LARGEST = 200_000
"""Bytes of all captures together, which every wheel contains."""
SCREENS = 48
"""Lines of two terminals of 24 lines."""
EXIT_CODES = {"damaged-file": 3}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def typed(output: str) -> list[list[str]]:
    """The arguments of every command that the output names on a line of its own."""
    return [shlex.split(line) for line in re.findall(r"^(?:\$ |  )zmtpscope (.*)$", output, re.MULTILINE)]


def test_the_captures_are_small() -> None:
    assert 0 < sum(demo.path.stat().st_size for demo in CAPTURES.values()) <= LARGEST


def test_the_list_has_a_line_for_each_capture(zmtpscope: Run) -> None:
    code, out, err = zmtpscope("demo", "--list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == list(CAPTURES)
    assert all(len(line) <= 100 for line in out.splitlines())


def test_the_output_of_the_demo_is_that_of_its_commands(zmtpscope: Run) -> None:
    code, out, err = zmtpscope("demo")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= SCREENS
    assert list(pathlib.Path().iterdir()) == []
    commands = re.findall(r"^\$ zmtpscope (.*)$", out, re.MULTILINE)
    assert [command.split()[:2] for command in commands] == [
        [name, "late-subscriber.pcap"] for name in ("read", "check")
    ]
    assert zmtpscope("demo", "late-subscriber")[0] == 0
    for command in commands:
        assert f"$ zmtpscope {command}\n{zmtpscope(*shlex.split(command))[1]}\n" in out


def test_the_commands_that_the_demo_names_can_be_typed(zmtpscope: Run) -> None:
    commands = [words for words in typed(zmtpscope("demo")[1]) if words[0] == "demo"]
    assert commands == [["demo", "late-subscriber"], ["demo", "--list"]]
    assert [zmtpscope(*words)[0] for words in commands] == [0, 0]


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_is_written_for_every_command(zmtpscope: Run, name: str) -> None:
    code, out, err = zmtpscope("demo", name)
    assert (code, err) == (0, "")
    file = pathlib.Path(f"{name}.pcap")
    assert file.read_bytes() == CAPTURES[name].path.read_bytes()
    commands = typed(out)
    assert {"read", "check"} <= {words[0] for words in commands}
    for words in commands:
        assert str(file) in words
        if words[0] != "tui":
            assert zmtpscope(*words)[0] == EXIT_CODES.get(name, 0)


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("healthy", "no problem found"),
        ("late-subscriber", "[late-subscriber]"),
        ("wrong-curve-key", "[wrong-server-key]"),
        ("hung-request", "[request-unanswered]"),
        ("damaged-file", "damaged-file.pcap: the file ends inside a packet"),
    ],
)
def test_check_reports_the_problem_of_each_capture(zmtpscope: Run, name: str, report: str) -> None:
    zmtpscope("demo", name)
    assert report in zmtpscope("check", f"{name}.pcap")[1]


def test_output_names_the_file(zmtpscope: Run) -> None:
    code, out, _ = zmtpscope("demo", "healthy", "-o", "my own.pcap")
    assert code == 0
    assert [str(path) for path in pathlib.Path().iterdir()] == ["my own.pcap"]
    assert all("my own.pcap" in words for words in typed(out))


def test_a_file_is_overwritten_with_force_only(zmtpscope: Run) -> None:
    file = pathlib.Path("healthy.pcap")
    file.write_text("mine")
    code, out, err = zmtpscope("demo", "healthy")
    assert (code, out) == (2, "")
    assert "healthy.pcap exists; use --force to overwrite it" in err
    assert file.read_text() == "mine"
    assert zmtpscope("demo", "healthy", "--force")[0] == 0
    assert file.read_bytes() == CAPTURES["healthy"].path.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["late"], 2, "'late' is not one of 'healthy'"),
        (["--force"], 2, "--output and --force need the NAME of a capture"),
        (["-o", "x.pcap"], 2, "--output and --force need the NAME of a capture"),
        (["healthy", "-o", "no/such/folder.pcap"], 1, "no/such/folder.pcap: No such file or directory"),
    ],
)
def test_mistakes_are_a_sentence(zmtpscope: Run, arguments: list[str], code: int, error: str) -> None:
    found, out, err = zmtpscope("demo", *arguments)
    assert (found, out) == (code, "")
    assert error in err
    assert err.count("\n") == 1
