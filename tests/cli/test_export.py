"""`zmtpscope export`: files, the moment when they appear, and their contents."""

from __future__ import annotations

import csv
import io
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.cli.running import COMMAND, Run
from tests.readings import CAPTURES, PUBSUB
from zmtpscope.cli.export import ON_REQUEST
from zmtpscope.records import PLURALS, RECORDS

CUT = str(CAPTURES / "damage" / "cut-file.pcap")
PLAIN = str(CAPTURES / "security" / "plain-accepted.pcap")
FORMATS = ["jsonl", "csv", "parquet"]


@pytest.fixture
def out(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "not" / "there yet"


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def rows(path: pathlib.Path) -> list[dict[str, Any]]:
    """Return the rows of a table, with the types of its format."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(path.read_text(), newline="")))
    return [json.loads(line) for line in path.read_text().splitlines()]


def csv_rows(path: pathlib.Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_text(), newline="")))


def test_json_lines_match_read_in_a_file_for_each_type(zmtpscope: Run, out: pathlib.Path) -> None:
    assert zmtpscope("export", PUBSUB, "-o", out, "--frames", "--derived")[0] == 0
    printed = zmtpscope("read", "--json", "--frames", "--derived", PUBSUB)[1].splitlines(keepends=True)
    for record in RECORDS:
        expected = [line for line in printed if json.loads(line)["record"] == record]
        assert (out / f"{PLURALS[record]}.jsonl").read_text() == "".join(expected)


def test_a_closing_line_reports_the_files(zmtpscope: Run, out: pathlib.Path) -> None:
    code, printed, err = zmtpscope("export", PUBSUB, "-o", out, "--select", "message:conn", "--select", "gap:conn")
    octets = (out / "messages.jsonl").stat().st_size
    assert (code, printed) == (0, "")
    assert err == f"zmtpscope: {out}: 2 files, 19 rows, {octets} octets (rows of messages.jsonl 19, gaps.jsonl 0)\n"


@pytest.mark.parametrize("form", FORMATS)
def test_a_type_without_records_has_a_table_without_rows(zmtpscope: Run, out: pathlib.Path, form: str) -> None:
    code, _, err = zmtpscope("export", CAPTURES / "negative" / "http.pcap", "-o", out, "--format", form)
    assert code == 0
    assert "no ZMTP found" in err
    assert names(out) == sorted(f"{record}s.{form}" for record in RECORDS if record not in ON_REQUEST)
    assert rows(out / f"gaps.{form}") == []
    names_of_fields = [field.name for field in RECORDS["gap"].fields]
    if form == "csv":
        names_of_fields.insert(names_of_fields.index("ts_ns") + 1, "time")
        assert csv_rows(out / "gaps.csv") == [names_of_fields]
    elif form == "parquet":
        assert pq.read_schema(out / "gaps.parquet").names == names_of_fields


@pytest.mark.parametrize("form", FORMATS)
def test_only_what_was_selected_is_written(zmtpscope: Run, out: pathlib.Path, form: str) -> None:
    selected = ["--select", "message:topic,conn", "--select", "finding"]
    assert zmtpscope("export", PUBSUB, "-o", out, "--format", form, *selected)[0] == 0
    assert names(out) == [f"findings.{form}", f"messages.{form}"]
    first = rows(out / f"messages.{form}")[0]
    assert list(first) == ["topic", "conn"]
    assert first == {"topic": "a.topic", "conn": "2" if form == "csv" else 2}


def test_a_record_type_goes_by_the_name_of_its_table_too(zmtpscope: Run, out: pathlib.Path) -> None:
    assert zmtpscope("export", PUBSUB, "-o", out, "--select", "messages:topic", "--select", "diagnoses")[0] == 0
    assert names(out) == ["diagnoses.jsonl", "messages.jsonl"]
    assert list(rows(out / "messages.jsonl")[0]) == ["topic"]


@pytest.mark.parametrize("asked", [["--select", "frame"], ["--select", "gap", "--frames"], ["--frames"]])
def test_frames_are_exported_on_request(zmtpscope: Run, out: pathlib.Path, asked: list[str]) -> None:
    assert zmtpscope("export", PUBSUB, "-o", out, *asked)[0] == 0
    assert len((out / "frames.jsonl").read_text().splitlines()) == 38


def test_bodies_packets_and_forced_connections_match_read(zmtpscope: Run, out: pathlib.Path) -> None:
    given = ["--body", "head:2", "-c", "35", "-d", "tcp.port==5630,zmtp", "-r", PUBSUB]
    assert zmtpscope("export", *given, "-o", out)[0] == 0
    printed = zmtpscope("read", "--json", *given)[1].splitlines(keepends=True)
    messages = (out / "messages.jsonl").read_text().splitlines(keepends=True)
    assert messages == [line for line in printed if '"record":"message"' in line]
    assert {json.loads(line)["bodies_kept"] for line in messages} == {"head"}


@pytest.mark.parametrize("form", FORMATS)
def test_secrets_are_masked_unless_asked_for(zmtpscope: Run, out: pathlib.Path, form: str) -> None:
    for asked, shown in (([], False), (["--show-secrets", "--force"], True)):
        zmtpscope("export", PLAIN, "-o", out, "--format", form, *asked)
        assert ("s3cret" in {row["password"] for row in rows(out / f"commands.{form}")}) == shown


@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_capture_is_3_and_gives_complete_files(zmtpscope: Run, out: pathlib.Path, form: str) -> None:
    code, _, err = zmtpscope("export", CUT, "-o", out, "--format", form)
    assert code == 3
    assert "cut-file.pcap: the file ends inside a packet" in err
    assert "(rows of connections" in err
    assert len(names(out)) == 11


def test_a_file_that_is_there_is_overwritten_by_force_only(zmtpscope: Run, out: pathlib.Path) -> None:
    out.mkdir(parents=True)
    (out / "messages.jsonl").write_text("mine")
    code, printed, err = zmtpscope("export", PUBSUB, "-o", out)
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert f"{out}/messages.jsonl exists; use --force to overwrite it" in err
    assert names(out) == ["messages.jsonl"]
    assert (out / "messages.jsonl").read_text() == "mine"
    assert zmtpscope("export", PUBSUB, "-o", out, "--select", "gap")[0] == 0  # another file
    assert zmtpscope("export", PUBSUB, "-o", out, "--force")[0] == 0
    assert len((out / "messages.jsonl").read_text().splitlines()) == 19


def test_a_directory_in_the_way_is_reported_before_anything_is_written(zmtpscope: Run, out: pathlib.Path) -> None:
    (out / "messages.jsonl").mkdir(parents=True)
    code, _, err = zmtpscope("export", PUBSUB, "-o", out, "--force")
    assert code == 1
    assert "messages.jsonl: Is a directory" in err
    assert names(out) == ["messages.jsonl"]


def test_without_pyarrow_parquet_is_1_and_explains_how_to_get_it(tmp_path: pathlib.Path) -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from zmtpscope.cli import main; main()"
    command = [sys.executable, "-c", code, "export", PUBSUB, "-o", str(tmp_path / "out"), "--format"]
    done = subprocess.run([*command, "parquet"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "needs pyarrow, the extra arrow of zmtpscope: pip install 'zmtpscope[arrow]'" in done.stderr
    assert names(tmp_path) == []
    assert subprocess.run([*command, "csv"], capture_output=True).returncode == 0


def test_a_place_that_is_no_directory_is_1(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    assert zmtpscope("export", PUBSUB, "-o", tmp_path / "file") == (
        1,
        "",
        f"zmtpscope: {tmp_path}/file: Not a directory\n",
    )


@pytest.mark.parametrize("form", FORMATS)
def test_a_disk_that_is_full_is_1_and_one_line_and_leaves_nothing(tmp_path: pathlib.Path, form: str) -> None:
    command = [*COMMAND, "export", str(CAPTURES / "patterns" / "many-small.pcap"), "-o", str(tmp_path / "out")]
    done = subprocess.run(
        [*command, "--select", "message", "--format", form],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),  # no file gets larger
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"zmtpscope: {tmp_path}/out/messages.{form}: File too large\n"
    assert names(tmp_path) == []


NOBODY = 65534


def test_no_permission_is_1_and_one_line(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    zmtpscope("export", PUBSUB, "-o", tmp_path, "--select", "gap")  # import all modules of a run before the interrupt
    tmp_path.chmod(0o555)
    user = os.geteuid()
    if user == 0:  # root may write everywhere
        os.setresuid(NOBODY, NOBODY, 0)
    try:
        code, printed, err = zmtpscope("export", PUBSUB, "-o", tmp_path / "out")
    finally:
        if user == 0:
            os.setresuid(0, 0, 0)
        tmp_path.chmod(0o755)
    assert (code, printed, err) == (1, "", f"zmtpscope: {tmp_path}/out: Permission denied\n")


@pytest.mark.parametrize("form", FORMATS)
def test_an_interrupt_is_130_and_leaves_nothing(tmp_path: pathlib.Path, form: str) -> None:
    out = tmp_path / "out"
    with subprocess.Popen(
        [*COMMAND, "export", "-", "-o", str(out), "--format", form],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in the background of a script
    ) as process:
        assert process.stdin is not None
        process.stdin.write(pathlib.Path(PUBSUB).read_bytes())
        process.stdin.flush()
        while not (out.exists() and names(out)):  # the process has begun to write
            assert process.poll() is None
            time.sleep(0.01)
        assert all(name.startswith(".") for name in names(out))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, b"")
    assert names(tmp_path) == []
