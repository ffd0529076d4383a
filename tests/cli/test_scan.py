"""`zmtpscope scan` on the command line."""

from __future__ import annotations

import json
import pathlib
import signal
from typing import Any

import pytest

from tests.cli.running import Run
from tests.readings import CAPTURES, PUBSUB
from zmtpscope.dissect import Analyser


def test_json_has_an_object_for_each(zmtpscope: Run) -> None:
    code, output, errors = zmtpscope("scan", "--json", PUBSUB, CAPTURES / "negative/http.pcap")
    assert (code, errors) == (0, "")
    assert [json.loads(line)["found"] for line in output.splitlines()] == ["endpoint", "refusal", "other"]


def test_a_capture_without_zmtp(zmtpscope: Run) -> None:
    code, output, errors = zmtpscope("scan", CAPTURES / "negative/http.pcap")
    assert code == 0
    assert output.startswith("0 endpoints with ZMTP")
    assert "TCP WITHOUT ZMTP" in output
    assert "no ZMTP found" in errors


def test_a_damaged_capture_is_searched_as_far_as_it_can_be_read(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(PUBSUB.read_bytes()[:-10])
    code, output, _ = zmtpscope("scan", path)
    assert code == 3
    assert "127.0.0.1:5630" in output


@pytest.mark.parametrize(("command", "shown"), [("scan", "127.0.0.1:5630"), ("stats", "messages         19")])
def test_records_read_before_an_interrupt_are_reported(
    command: str, shown: str, zmtpscope: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This includes connections that are still open."""
    parts = Analyser.parts

    def interrupted(self: Analyser, block: Any, follow: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return parts(self, block, follow)

    monkeypatch.setattr(Analyser, "parts", interrupted)
    code, output, _ = zmtpscope(command, PUBSUB)
    assert code == 130
    assert shown in output
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
