"""A capture that is cut or removed while it is open, and a full disk: rows stay, and the loss is reported."""

from __future__ import annotations

import os
import pathlib
import resource
import socket

import pytest

from tests.readings import CAPTURES, PUBSUB
from tests.tui.workers import PATIENCE, Asker, worker_of
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Options
from zmtpscope.tui.client import RequestFailed
from zmtpscope.tui.requests import CopyTextOf, DetailsOf, ListSpec, OpenList, Rows, SaveRows, SavingState
from zmtpscope.tui.worker.loading import Opened
from zmtpscope.tui.worker.process import start
from zmtpscope.tui.worker.run import run

COMPRESSED = CAPTURES / "network" / "pcap-gzip.pcap.gz"


def test_rows_stay_and_lost_octets_are_reported(tmp_path: pathlib.Path) -> None:
    """A removed file can still be read if it was opened before; a cut file cannot."""
    path = tmp_path / "capture.pcap"
    path.write_bytes(PUBSUB.read_bytes())
    with worker_of(str(path)) as worker:
        found = worker.ask(OpenList("messages", ListSpec(filter="kind == data"))).found
        os.truncate(path, 100)
        rows = worker.ask(Rows("messages", 0, found)).rows
        assert len(rows) == found
        number = rows[0].number
        details = worker.ask(DetailsOf(number))
        assert details.problem is not None
        assert "capture.pcap" in details.problem
        assert any(node.name == "socket_type" for node in details.nodes)
        for form in ("cat", "hex"):
            with pytest.raises(RequestFailed, match=r"capture\.pcap"):
                worker.ask(CopyTextOf(number, form))
        assert worker.ask(SaveRows(str(tmp_path / "out.jsonl"), "messages"))
        state = worker.wait_for(SavingState, lambda state: state.is_done)
        assert "octets are missing in it" in state.text


def test_without_room_for_octets_reading_ends_and_rows_stay() -> None:
    def run_without_room(end: socket.socket) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        opened = Opened((str(COMPRESSED),), lambda: open_captures([str(COMPRESSED)]))
        run(end, lambda: (opened, Options(index=True)))

    process = start(run_without_room)
    process.socket.settimeout(PATIENCE)
    try:
        worker = Asker(process.socket)
        (problem,) = worker.wait_until_loaded().problems
        assert "cannot write to" in problem
        assert "free some space" in problem
        worker.ask(OpenList("all", ListSpec(("greeting", "command", "message"))))
        worker.ask(Rows("all", 0, 10))
    finally:
        process.end()
