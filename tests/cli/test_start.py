"""The first steps of users: starting the program, incomplete commands, completion and manual page."""

from __future__ import annotations

import io
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import zipfile

import click
import pytest

from tests import readings
from tests.cli.running import COMMAND, ROOT, Run
from zmtpscope.cli import COMMANDS
from zmtpscope.cli import zmtpscope as main_group
from zmtpscope.cli.demo import CAPTURES
from zmtpscope.cli.terminal import wants_colour

PUBSUB, REQREP = str(readings.PUBSUB), str(readings.REQREP)
PATH = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"


def test_the_module_is_the_program(zmtpscope: Run) -> None:
    done = subprocess.run([sys.executable, "-m", "zmtpscope", "read", PUBSUB], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == zmtpscope("read", PUBSUB)


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ([PUBSUB], [PUBSUB]),
        ([PUBSUB, REQREP], [PUBSUB, REQREP]),
        (["-q", PUBSUB], ["-q", PUBSUB]),
        ([PUBSUB, "--json"], [PUBSUB, "--json"]),
        (["-Y", "conn == 1", PUBSUB], ["-Y", "conn == 1", PUBSUB]),
        (["-T", "fields", "-e", "topic", PUBSUB], ["-T", "fields", "-e", "topic", PUBSUB]),
        (["-r", PUBSUB], ["-r", PUBSUB]),
        (["--", PUBSUB], [PUBSUB]),
        (["no such.pcap"], ["no such.pcap"]),
        (["--no-such-option", PUBSUB], ["--no-such-option", PUBSUB]),
        (["-q"], ["-q"]),
    ],
)
def test_without_a_command_captures_are_read(zmtpscope: Run, typed: list[str], read: list[str]) -> None:
    assert zmtpscope(*typed) == zmtpscope("read", *read)


def test_without_a_command_standard_input_is_read(zmtpscope: Run) -> None:
    command = [sys.executable, "-m", "zmtpscope", "-"]
    with open(PUBSUB) as file:
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == zmtpscope("read", PUBSUB)


def test_a_command_comes_before_a_file_of_its_name(
    zmtpscope: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(PUBSUB, "fields")
    assert zmtpscope("fields")[1] != zmtpscope("./fields")[1] == zmtpscope("read", "fields")[1]


def test_a_file_with_the_name_of_a_command_is_read(
    zmtpscope: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stats").write_bytes(pathlib.Path(PUBSUB).read_bytes())
    monkeypatch.chdir(tmp_path)
    assert zmtpscope("--json", "stats") == zmtpscope("read", "--json", "stats")


def test_a_closed_standard_output_is_an_error_with_a_sentence() -> None:
    command = shlex.join([*COMMAND, "live", "-D"])
    done = subprocess.run(["sh", "-c", f"{command} >&-"], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("zmtpscope: standard output is closed")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("octets", "program"),
    [(b"\xfd7zXZ\0", "xz -dc"), (b"BZh9", "bzip2 -dc"), (b"\x04\x22\x4d\x18", "lz4 -dc"), (b"PK\x03\x04", "unzip -p")],
)
def test_a_capture_in_another_form_is_reported_with_the_way_to_unpack_it(
    zmtpscope: Run, tmp_path: pathlib.Path, octets: bytes, program: str
) -> None:
    path = tmp_path / "of mine"
    path.write_bytes(octets + bytes(100))
    code, out, err = zmtpscope("read", str(path))
    assert (code, out) == (2, "")
    assert f"type: {program} '{path}' | zmtpscope read -" in err


@pytest.mark.parametrize(
    ("choice", "variables", "is_terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "1", "TERM": "dumb"}, True, True),
        ("auto", {"FORCE_COLOR": ""}, False, False),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("never", {"FORCE_COLOR": "1"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
    ],
)
def test_colour(
    monkeypatch: pytest.MonkeyPatch, choice: str, variables: dict[str, str], is_terminal: bool, expected: bool
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    assert wants_colour(choice, stream) is expected


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("zmtpscope re", ["read"]),
        ("zmtpscope keys li", ["list"]),
        (f"zmtpscope {PUBSUB} --pay", ["--payload", "--payload-file"]),
        ("zmtpscope demo h", ["healthy", "hung-request"]),
        ("zmtpscope read --pay", ["--payload", "--payload-file"]),
        ("zmtpscope read --color a", ["auto", "always"]),
    ],
)
def test_bash_completes(words: str, expected: list[str]) -> None:
    script = (
        f"COMP_WORDS=({words}); COMP_CWORD=$(({len(words.split())} - 1)); source docs/completion/zmtpscope.bash; "
        '_zmtpscope_completion zmtpscope; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = os.environ | {"PATH": PATH}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.stdout.split() == expected


def test_the_manual_page_is_that_of_the_commands(request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs" / "man" / "zmtpscope.1"
    before = page.read_text()
    subprocess.run([sys.executable, "docs/man/generate.py"], cwd=ROOT, env=os.environ | {"PYTHONPATH": "."}, check=True)
    written = page.read_text()
    if not request.config.getoption("--update-golden"):
        page.write_text(before)
        assert written == before
    assert "\n.SS zmtpscope keys record" in written


def test_a_wheel_has_what_people_and_programs_look_for_beside_the_code(tmp_path: pathlib.Path) -> None:
    build = "import sys; from hatchling.builders.wheel import *; print(*WheelBuilder('.').build(directory=sys.argv[1]))"
    made = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"ZMTPSCOPE_COMPILED": "0"},
        check=True,
    )
    with zipfile.ZipFile(made.stdout.split()[-1]) as wheel:
        names = [name.partition(".data/data/")[2] or name for name in wheel.namelist()]
    assert {
        "zmtpscope/live/keys/key_recorder.c",
        "zmtpscope/py.typed",
        *(f"zmtpscope/captures/{demo.capture}" for demo in CAPTURES.values()),
        "share/man/man1/zmtpscope.1",
        "share/bash-completion/completions/zmtpscope",
        "share/zsh/site-functions/_zmtpscope",
        "share/fish/vendor_completions.d/zmtpscope.fish",
    } <= {*names}


EVERY_COMMAND = [(name,) for name in COMMANDS] + [("keys", "list"), ("keys", "record")]


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=" ".join)
def test_help_is_written_for_readers(command: tuple[str, ...], zmtpscope: Run) -> None:
    """Each option begins with a capital letter, ends with a full stop, and marks its default."""
    code, out, _ = zmtpscope(*command, "--help")
    assert code == 0
    with click.Context(main_group, info_name="zmtpscope") as context:
        found: click.Command = main_group
        for name in command:
            assert isinstance(found, click.Group)
            found = found.get_command(context, name) or pytest.fail(name)
    for option in found.params:
        if isinstance(option, click.Option):
            assert f"  {option.opts[0]}" in out or f", {option.opts[0]}" in out
            assert option.help is not None
            assert re.match(r"[A-Z]", option.help), option.help
            assert re.search(r"[.)]$", option.help), option.help
            assert not re.search(r"\[(?!default: |/)[^\]]*\]", option.help), option.help


def test_help_lists_the_options_of_a_command_first_and_shared_ones_under_headings(zmtpscope: Run) -> None:
    _, out, _ = zmtpscope("check", "--help")
    headings = re.findall(r"^(\w+):$", out, re.MULTILINE)
    assert headings == ["Options", "Input", "Output", "Decoding", "Security"]
    assert re.search(r"^Options:\n(?:  .*\n)*?  --rule RULE", out, re.MULTILINE)
    assert re.search(r"^Security:\n(?:  .*\n)*?  --keys FILE", out, re.MULTILINE)
