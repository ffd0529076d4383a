"""Captures of libzmq contain the messages of its applications."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.test_captures_made import ROOT, summary_of

PROFILES = {
    "publisher": ["--messages=50", "--connections=3"],
    "router": ["--messages=5", "--connections=3"],
    "requests": ["--connections=3"],
}


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_every_message_sent_is_in_the_capture(profile: str, tmp_path: Path) -> None:
    path = tmp_path / "real.pcap"
    command = [sys.executable, "-m", "benchmarks.real_traffic", profile, str(path), *PROFILES[profile]]
    subprocess.run(command, check=True, cwd=ROOT)
    truth = json.loads(Path(f"{path}.truth.json").read_text())
    summary = summary_of(path)
    assert truth["file_bytes"] == path.stat().st_size
    assert truth["connections"] == summary.connections == 3
    assert truth["messages"] == summary.messages
    assert truth["message_frames"] == summary.frames
