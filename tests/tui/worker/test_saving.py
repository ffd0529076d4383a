"""Saved rows equal the output of other commands: the same rows, columns and packets."""

from __future__ import annotations

import csv
import itertools
import json
import os
import pathlib
import re
from collections.abc import Iterator

import numpy as np
import pytest

from tests.cli.running import Run
from tests.cli.test_excerpt import packets_in
from tests.readings import CAPTURES, PUBSUB
from tests.tui.workers import Asker, worker_of
from zmtpscope.tui.choices import EVERYTHING
from zmtpscope.tui.client import RequestFailed
from zmtpscope.tui.requests import Cancel, ListSpec, OpenList, Request, Rows, SaveRows, SavingState, StopCapture
from zmtpscope.tui.worker import saved_rows

FILTER = "topic && size > 3"


def saved(worker: Asker, request: SaveRows) -> SavingState:
    assert worker.ask(request)
    return worker.wait_for(SavingState, lambda state: state.is_done)


@pytest.fixture
def worker() -> Iterator[Asker]:
    with worker_of("patterns/pubsub.pcap") as asker:
        asker.ask(OpenList("messages", ListSpec(filter=FILTER)))
        yield asker


def test_the_rows_of_a_filter_are_the_lines_that_read_prints(
    worker: Asker, zmtpscope: Run, tmp_path: pathlib.Path
) -> None:
    state = saved(worker, SaveRows(str(tmp_path / "out.jsonl"), "messages"))
    _, output, _ = zmtpscope("read", "--json", PUBSUB, "-Y", f"record == message && ({FILTER})")
    assert (tmp_path / "out.jsonl").read_text() == output
    rows = len(output.splitlines())
    assert state.done == state.total == rows
    assert state.text.startswith(f"{tmp_path / 'out.jsonl'}: {rows} rows, ")
    assert os.listdir(tmp_path) == ["out.jsonl"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables_are_those_of_export(worker: Asker, zmtpscope: Run, tmp_path: pathlib.Path, form: str) -> None:
    saved(worker, SaveRows(str(tmp_path / f"out.{form}"), "messages"))
    zmtpscope("export", PUBSUB, "-o", tmp_path / "all", "--format", form, "-Y", FILTER)
    assert (tmp_path / f"out.{form}").read_bytes() == (tmp_path / "all" / f"messages.{form}").read_bytes()


def test_marked_records_of_several_types_are_a_table_for_each(worker: Asker, tmp_path: pathlib.Path) -> None:
    state = worker.ask(OpenList("all", ListSpec(records=("message", "command", "greeting"))))
    rows = worker.ask(Rows("all", 0, state.found)).rows
    marked = [row.number for row in rows][::-2]
    worker.ask(OpenList("marked", ListSpec(records=("message", "command", "greeting"), only=tuple(marked))))
    saved(worker, SaveRows(str(tmp_path / "out.csv"), "marked"))
    types = {row.style for row in rows if row.number in marked}
    assert {path.name for path in tmp_path.iterdir()} == {f"out.{each}s.csv" for each in types}
    lines = [line for path in tmp_path.iterdir() for line in csv.DictReader(path.read_text().splitlines())]
    assert len(lines) == len(marked)


def test_a_conversation_is_saved_as_follow_prints_it(worker: Asker, zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    worker.ask(OpenList("followed", ListSpec(EVERYTHING, "conn == 1")))
    saved(worker, SaveRows(str(tmp_path / "out.txt"), "followed"))
    assert (tmp_path / "out.txt").read_text() == zmtpscope("follow", PUBSUB, "--conn", "1")[1]


def test_the_packets_of_a_filter_are_those_that_read_writes(
    worker: Asker, zmtpscope: Run, tmp_path: pathlib.Path
) -> None:
    state = saved(worker, SaveRows(str(tmp_path / "out.pcapng"), "messages"))
    zmtpscope("read", PUBSUB, "-Y", f"record == message && ({FILTER})", "-w", tmp_path / "read.pcapng")
    assert packets_in(tmp_path / "out.pcapng") == packets_in(tmp_path / "read.pcapng")
    assert "lacks handshakes" in state.text


@pytest.mark.parametrize("name", ["damage/one-segment-lost.pcap", "security/incompatible-socket-types.pcap"])
def test_findings_are_saved_with_their_packets(zmtpscope: Run, tmp_path: pathlib.Path, name: str) -> None:
    with worker_of(name) as worker:
        worker.ask(OpenList("findings", ListSpec(("finding",))))
        saved(worker, SaveRows(str(tmp_path / "out.pcapng"), "findings"))
    zmtpscope("read", CAPTURES / name, "-Y", "record == finding", "-w", tmp_path / "read.pcapng")

    def lines(path: pathlib.Path) -> list[tuple[int, bytes, set[str]]]:
        """Return packets with the lines of their comments, in the order of records."""
        return [(each.time, each.octets, set(each.comment.split("\n"))) for each in packets_in(path)]

    assert lines(tmp_path / "out.pcapng") == lines(tmp_path / "read.pcapng")


def test_a_file_is_overwritten_only_by_force(worker: Asker, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text("mine")
    assert not worker.ask(SaveRows(str(path), "messages"))
    assert path.read_text() == "mine"
    saved(worker, SaveRows(str(path), "messages", force=True))
    assert json.loads(path.read_text().splitlines()[0])["record"] == "message"


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("", "name a file"),
        ("out.pdf", "the ending of its name selects the format: use .txt, .jsonl, .csv, .parquet, .pcapng"),
        ("no/out.csv", "there is no directory"),
        ("folder.csv", "is a directory"),
        ("~nobody-of-that-name/out.csv", "home directory"),
        ("out\0.csv", "no file can be called so"),
    ],
)
def test_a_sentence_explains_why_nothing_can_be_saved(
    worker: Asker, tmp_path: pathlib.Path, path: str, sentence: str
) -> None:
    (tmp_path / "folder.csv").mkdir()
    typed = path if path[:1] in ("", "~") else str(tmp_path / path)
    with pytest.raises(RequestFailed, match=re.escape(sentence)):
        worker.ask(SaveRows(typed, "messages", force=True))


def test_the_capture_itself_is_never_overwritten(tmp_path: pathlib.Path) -> None:
    (tmp_path / "capture.pcapng").write_bytes(PUBSUB.read_bytes())
    with worker_of(str(tmp_path / "capture.pcapng")) as worker:
        worker.ask(OpenList("messages", ListSpec()))
        with pytest.raises(RequestFailed, match="is the capture that is read"):
            worker.ask(SaveRows(str(tmp_path / "capture.pcapng"), "messages", force=True))


def test_no_file_is_left_after_cancelling_or_without_rows(worker: Asker, tmp_path: pathlib.Path) -> None:
    worker.ask(OpenList("none", ListSpec(filter="size > 1000000")))
    state = saved(worker, SaveRows(str(tmp_path / "out.jsonl"), "none"))
    assert state.has_failed
    assert state.text.endswith("there are no rows to save")
    assert worker.ask(SaveRows(str(tmp_path / "out.jsonl"), "messages"))
    worker.ask(Cancel())
    worker.wait_for(SavingState, lambda state: state.is_done)
    assert all(not path.name.startswith(".") for path in tmp_path.iterdir())


def test_no_unfinished_file_is_left_when_the_screen_closes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_rows, "portions", lambda store, numbers: itertools.repeat(np.arange(len(store))))
    with worker_of("patterns/pubsub.pcap") as worker:
        worker.ask(OpenList("messages", ListSpec()))
        assert worker.ask(SaveRows(str(tmp_path / "never-done.jsonl"), "messages"))
        worker.wait_for(SavingState, lambda state: state.done > 0)
        assert os.listdir(tmp_path) != []
    assert os.listdir(tmp_path) == []


def test_a_tilde_is_the_home_directory(worker: Asker, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    saved(worker, SaveRows("~/out.csv", "messages"))
    assert (tmp_path / "out.csv").exists()


def test_secrets_stay_starred(tmp_path: pathlib.Path) -> None:
    with worker_of("security/plain-accepted.pcap") as worker:
        worker.ask(OpenList("all", ListSpec(records=("command", "message"))))
        saved(worker, SaveRows(str(tmp_path / "out.jsonl"), "all"))
    assert "***" in (tmp_path / "out.jsonl").read_text()


@pytest.mark.parametrize(("useless", "reason"), [(Cancel(), "no search and no file"), (StopCapture(), "captured")])
def test_a_command_without_effect_is_an_error(useless: Request[None], reason: str) -> None:
    with worker_of("patterns/reqrep.pcap") as worker, pytest.raises(RequestFailed, match=reason):
        worker.ask(useless)
