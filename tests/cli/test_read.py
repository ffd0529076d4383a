"""The command line as people and scripts meet it: exit codes, channels, errors of one line."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from tests import readings
from tests.cli.running import COMMAND, Run
from tests.readings import CAPTURES
from zmtpscope import __version__, compiled
from zmtpscope.capture import Captures
from zmtpscope.cli import run as run_here
from zmtpscope.cli.progress import progress_line, total_size
from zmtpscope.cli.read import read
from zmtpscope.dissect import Analyser, Batch
from zmtpscope.option_texts import parse_body

PUBSUB, REQREP = str(readings.PUBSUB), str(readings.REQREP)
CUT = str(CAPTURES / "damage" / "cut-file.pcap")


def test_a_capture_that_is_read_to_its_end_is_0(zmtpscope: Run) -> None:
    code, out, err = zmtpscope("read", PUBSUB)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 34


def test_r_is_one_more_capture(zmtpscope: Run) -> None:
    assert zmtpscope("read", "-r", PUBSUB)[1] == zmtpscope("read", PUBSUB)[1]
    both = zmtpscope("read", "--json", REQREP, "-r", PUBSUB)[1]
    assert {json.loads(line)["file"] for line in both.splitlines()} == {REQREP, PUBSUB}


def test_standard_input_is_a_capture() -> None:
    with open(PUBSUB, "rb") as file:
        done = subprocess.run([*COMMAND, "read", "--json", "-"], stdin=file, capture_output=True, check=True)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert {record["file"] for record in records} == {None}
    assert len(records) == 40


def test_a_capture_without_zmtp_is_0_and_is_reported_beside_the_data(zmtpscope: Run) -> None:
    code, out, err = zmtpscope("read", str(CAPTURES / "negative" / "http.pcap"))
    assert (code, out) == (0, "")
    counts = "10 packets, 1 TCP connection, 0 UDP datagrams"
    assert err == f"zmtpscope: no ZMTP found ({counts}) -> if a port does carry ZMTP, add -d tcp.port==5555,zmtp\n"


def test_a_damaged_capture_is_3_behind_everything_readable(zmtpscope: Run) -> None:
    code, out, err = zmtpscope("read", CUT)
    assert code == 3
    assert out.count("\n") > 30
    assert "cut-file.pcap: the file ends inside a packet" in err
    assert err.count("\n") == 1


def test_a_file_cut_before_its_first_packet_is_a_finding_and_a_line(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(pathlib.Path(PUBSUB).read_bytes()[:40])
    code, out, err = zmtpscope("read", str(path))
    assert (code, out.count("\n"), err.count("\n")) == (3, 1, 1)
    assert "warn CAPTURE-02 The capture file could not be read to its end: " in out
    assert "cut.pcap: the file ends inside a packet" in err
    assert "before the first packet, octet 24" in err


@pytest.mark.parametrize("octets", [b"no capture", pathlib.Path(PUBSUB).read_bytes()[:500]])
def test_a_file_name_is_as_harmless_as_the_octets_in_the_file(
    zmtpscope: Run, tmp_path: pathlib.Path, octets: bytes
) -> None:
    path = tmp_path / "a\n\x1b[31mb\x07\u202ec\udcff.pcap"
    path.write_bytes(octets)
    for form in ([], ["-q"], ["--json"]):
        code, out, err = zmtpscope("read", *form, str(path))
        assert code in (2, 3)
        assert err.count("\n") == 1
        assert r"/a\x0a\x1b[31mb\x07\u202ec\udcff.pcap: " in err
        assert form == ["--json"] or not set("\x1b\x07\u202e\udcff") & set(out)


@pytest.mark.parametrize("given", ["--\x1b[31m", "-d=\x1b]0;x\x07", "-t\x1b\n"])
def test_a_wrong_option_is_repeated_without_its_escapes(zmtpscope: Run, given: str) -> None:
    code, out, err = zmtpscope("read", given, PUBSUB)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "\x1b" not in err


def test_a_directory_is_searched_for_captures(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    code, _, err = zmtpscope("read", str(tmp_path))
    assert (code, "is a directory without captures; it is empty" in err) == (2, True)
    (tmp_path / "notes.txt").write_text("no capture")
    assert "; none of its 1 files is a capture" in zmtpscope("read", str(tmp_path))[2]
    shutil.copy(REQREP, tmp_path)
    code, out, _ = zmtpscope("read", str(tmp_path))
    assert code == 0
    assert "Hello 0" in out


NOBODY = 65534


def test_no_permission_is_2_and_one_line(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "secret.pcap"
    shutil.copy(REQREP, path)
    path.chmod(0)
    zmtpscope("read", REQREP)  # import all modules of a run before the interrupt
    user = os.geteuid()
    if user == 0:  # root may read everything
        os.setresuid(NOBODY, NOBODY, 0)
    try:
        code, out, err = zmtpscope("read", str(path))
    finally:
        if user == 0:
            os.setresuid(0, 0, 0)
    assert (code, out) == (2, "")
    assert err == f"zmtpscope: {path}: permission denied\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_1_and_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "read", PUBSUB], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_without_a_standard_error_the_data_is_printed_all_the_same(redirection: str) -> None:
    command = shlex.join([*COMMAND, "read", CUT])
    done = subprocess.run(["sh", "-c", f"{command} {redirection}"], capture_output=True)
    assert done.returncode == 3
    assert done.stdout.count(b"\n") > 30


@pytest.mark.parametrize("form", [[], ["--json"], ["-V"]])
def test_a_closed_pipe_ends_quietly(form: list[str]) -> None:
    big = str(CAPTURES / "patterns" / "many-small.pcap")
    process = subprocess.Popen([*COMMAND, "read", *form, big], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 0
    process.stderr.close()


def test_an_interrupt_is_130_behind_what_was_read_so_far() -> None:
    pipe = subprocess.PIPE
    # a background job of a script ignores interrupts, and so do its children
    with subprocess.Popen(
        [*COMMAND, "read", "-"],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(pathlib.Path(PUBSUB).read_bytes())
        process.stdin.flush()
        # lines appear while the pipe is still open
        assert b"GREETING" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip() == b""


def test_json_is_one_object_a_line(zmtpscope: Run) -> None:
    _, out, _ = zmtpscope("read", "--json", PUBSUB)
    records = [json.loads(line) for line in out.splitlines()]
    kinds = [record["record"] for record in records]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "greeting": 4,
        "finding": 7,
        "command": 8,
        "message": 19,
        "connection": 2,
    }


def test_c_counts_packets(zmtpscope: Run) -> None:
    _, out, _ = zmtpscope("read", "--json", "-c", "5", PUBSUB)
    assert max(json.loads(line)["packet"] for line in out.splitlines()) <= 5


def test_q_prints_a_summary_and_no_record(zmtpscope: Run) -> None:
    code, out, err = zmtpscope("read", "-q", PUBSUB)
    assert (code, err) == (0, "")
    assert "connections      2 ZMTP, 14 refused\n" in out
    assert "versions         3.1: 2\n" in out
    assert "messages         19 (38 frames, 284 octets)\n" in out
    assert "damage           none\n" in out
    assert "GREETING 3.1" not in out


def test_q_counts_findings_with_what_to_do(zmtpscope: Run) -> None:
    code, out, _ = zmtpscope("read", "-q", str(CAPTURES / "damage"))
    assert code == 3
    assert "gaps, " in out
    assert "x warn  ZMTP-CONN-05 The capture lost octets" in out
    assert "cut-file.pcap: the file ends inside a packet" in out


def test_stats_shows_that_nothing_was_lost(zmtpscope: Run) -> None:
    _, out, _ = zmtpscope("read", "-q", "--stats", PUBSUB)
    assert "packets          73 = 73 TCP + 0 UDP\n" in out
    assert "stream octets    772 = 772 in units + 0 in gaps + 0 in unfinished units + 0 not understood\n" in out
    assert "defect" not in out


def test_stats_beside_json_lines_is_no_data(zmtpscope: Run) -> None:
    _, out, err = zmtpscope("read", "--json", "--stats", PUBSUB)
    assert all(line.startswith("{") for line in out.splitlines())
    assert "stream octets" in err


def test_secrets_are_masked_unless_asked_for(zmtpscope: Run) -> None:
    path = str(CAPTURES / "security" / "plain-accepted.pcap")
    for form in ([], ["-V"], ["-x"], ["--json"]):
        assert "s3cret" not in zmtpscope("read", *form, path)[1]
    assert "s3cret" in zmtpscope("read", "--show-secrets", path)[1]


def test_color_is_for_terminals_and_on_request(zmtpscope: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" not in zmtpscope("read", PUBSUB)[1]
    assert "\x1b[" in zmtpscope("read", "--color", "always", PUBSUB)[1]
    monkeypatch.setattr(sys.stdout.__class__, "isatty", lambda self: True, raising=False)
    assert "\x1b[" in zmtpscope("read", PUBSUB)[1]
    assert "\x1b[" not in zmtpscope("read", "--color", "never", PUBSUB)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in zmtpscope("read", PUBSUB)[1]


def test_wide_lines_have_the_addresses(zmtpscope: Run) -> None:
    path = CAPTURES / "patterns/reqrep.pcap"
    short, wide = (zmtpscope("read", path, *more)[1].splitlines() for more in ([], ["--wide"]))
    assert [line.split("octets")[1:] for line in wide] == [line.split("octets")[1:] for line in short]
    assert [line.count("127.0.0.1:") for line in wide] == [2] * len(short)
    assert [line.count("127.0.0.1:") for line in short] == [2, *[0] * (len(short) - 2), 2]


def test_lines_of_files_are_in_time_order_and_lines_of_pipes_as_decided(zmtpscope: Run) -> None:
    path = CAPTURES / "damage/one-segment-lost.pcap"
    with path.open("rb") as file:
        redirected = subprocess.run(
            [*COMMAND, "read", "-"], stdin=file, capture_output=True, check=True
        ).stdout.decode()
    piped = subprocess.run(
        [*COMMAND, "read", "-"], input=path.read_bytes(), capture_output=True, check=True
    ).stdout.decode()
    given = zmtpscope("read", path)[1]
    assert redirected == given
    packets = [[int(line.split()[0]) for line in text.splitlines()[:-1]] for text in (given, piped)]
    assert packets[0] == sorted(packets[1])
    assert packets[1].index(18) > packets[1].index(21)
    differences = [line.split()[1] for line in zmtpscope("read", "-t", "d", path)[1].splitlines()[:-1]]
    assert not any(difference.startswith("-") for difference in differences)


def test_the_version(zmtpscope: Run) -> None:
    for option in ("-v", "--version"):
        assert zmtpscope(option) == (0, f"zmtpscope {__version__} ({compiled.state()})\n", "")


def test_letters_keep_the_meaning_they_have_in_tcpdump_and_tshark() -> None:
    known = "riDfYdwcabsntVxqlhTeE"
    letters = {name for parameter in read.params for name in parameter.opts if len(name) == 2}
    assert letters <= {f"-{letter}" for letter in known}


def test_every_option_has_a_description() -> None:
    for parameter in read.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


@pytest.mark.parametrize(
    ("value", "keep", "octets"),
    [("full", "full", None), ("full:64k", "full", 65536), ("head:10", "head", 10), ("none", "none", None)],
)
def test_body_takes_sizes_as_people_write_them(value: str, keep: str, octets: int | None) -> None:
    assert parse_body(value) == (keep, octets)


def test_fields_lists_every_field(zmtpscope: Run) -> None:
    _, out, _ = zmtpscope("fields")
    for name in ("conn_id", "offset", "socket_type_0", "ttl_ms", "bodies_kept", "resumed_at", "severity"):
        assert f"\n  {name} " in out
    types = {words[0]: words[1] for line in out.splitlines() if (words := line.split()) and line.startswith("  ")}
    assert (types["metadata"], types["evidence"], types["payload"]) == ("list<{name,", "list<struct>", "struct")
    _, out, _ = zmtpscope("fields", "--json", "gap")
    assert [json.loads(line)["name"] for line in out.splitlines()][-3:] == ["bytes", "reason", "resumed_at"]


def test_fields_has_a_schema_for_spark(zmtpscope: Run) -> None:
    _, gap, err = zmtpscope("fields", "--spark", "gap")
    assert (gap.count("\n"), err) == (1, "")
    assert gap.startswith("`schema` BIGINT, `record` STRING, ")
    _, everything, _ = zmtpscope("fields", "--spark")
    assert f"-- gap\n{gap}" in everything
    assert "`bodies` ARRAY<BINARY>, " in everything
    assert "`payload` STRUCT<protocol: STRING, summary: STRING, fields: STRING>, " in everything
    assert zmtpscope("fields", "--spark", "--json")[0] == 2


def test_progress_shows_share_octets_and_rate(tmp_path: pathlib.Path) -> None:
    assert progress_line(50_000_000, 100_000_000, 1234, 2.0) == (
        "[############------------]  50%  50 MB  25.0 MB/s  1234 packets"
    )
    assert progress_line(50_000_000, None, 1234, 2.0) == "50 MB  25.0 MB/s  1234 packets"
    assert total_size([PUBSUB]) == os.path.getsize(PUBSUB)
    assert total_size(["-"]) is None


def test_lines_read_until_ctrl_c_are_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines of a file wait for their place in time; an interrupt does not lose them."""
    code = run_here(["read", PUBSUB])
    whole = capsys.readouterr().out

    def interrupted(self: Analyser, captures: Captures) -> Iterator[Batch]:
        self.begin(captures.files)
        for block in captures:
            yield from self.feed(block)
        raise KeyboardInterrupt

    monkeypatch.setattr(Analyser, "run", interrupted)
    assert run_here(["read", PUBSUB]) == 130
    shown = capsys.readouterr().out
    assert code == 0
    assert "message 7+9 octets" in shown
    assert whole.startswith(shown)
