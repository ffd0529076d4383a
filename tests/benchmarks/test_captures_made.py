"""Generated captures contain the messages that their maker reports, and every way of counting finds them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.rows import Digests, Frame, frames_of_json, frames_of_line
from tests.readings import CAPTURES
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser
from zmtpscope.dissect.records.sink import Summary

ROOT = CAPTURES.parent
COMPILER = shutil.which("cc")

PROFILES = {
    "small": ["--messages=3000", "--connections=3"],
    "large": ["--messages=4"],
    "pubsub": ["--messages=500", "--jitter=90"],
    "json": ["--messages=300", "--size=120", "--jitter=30"],
    "reqrep": ["--messages=100", "--size=300"],
    "curve": ["--messages=300"],
    "short": ["--connections=70"],
    "flood": ["--connections=50"],
    "scan": ["--connections=50"],
}


def make(path: Path, *words: str) -> dict[str, int]:
    command = [sys.executable, "-m", "benchmarks.make_capture", words[0], str(path), *words[1:]]
    subprocess.run(command, check=True, cwd=ROOT)
    truth: dict[str, int] = json.loads(Path(f"{path}.truth.json").read_text())
    return truth


def summary_of(path: Path) -> Summary:
    analyser = Analyser()
    for _ in analyser.run(open_captures([str(path)])):
        pass
    return analyser.summary


@pytest.fixture(scope="session")
def walk(tmp_path_factory: pytest.TempPathFactory) -> str | None:
    """The walk in C, where there is a compiler: zmtpscope needs none."""
    if COMPILER is None:
        return None
    program = tmp_path_factory.mktemp("walk") / "walk"
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([COMPILER, *warnings, "-o", str(program), str(ROOT / "benchmarks/walk.c")], check=True)
    return str(program)


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_all_messages_of_generated_captures_are_found(tmp_path: Path, walk: str | None, profile: str) -> None:
    path = tmp_path / "made.pcap"
    truth = make(path, profile, *PROFILES[profile])
    summary = summary_of(path)
    assert (summary.frames, summary.messages) == (truth["message_frames"], truth["messages"])
    attempts = sum(summary.attempts.values())
    assert summary.connections + summary.other_tcp + attempts == truth["connections"]
    assert not summary.gaps
    if walk is None:
        return
    walked = json.loads(subprocess.check_output([walk, path]))
    assert not walked["broken"]
    for count in ("packets", "connections", "message_frames", "commands", "message_body_bytes"):
        # the maker does not count topics and delimiters as bodies
        if count != "message_body_bytes" or profile not in ("pubsub", "json"):
            assert walked[count] == truth.get(count, 0), count


def test_the_same_arguments_give_the_same_octets(tmp_path: Path) -> None:
    once, again, other = (tmp_path / name for name in ("once", "again", "other"))
    words = ["small", "--messages=500", "--loss=0.1", "--reorder=0.1", "--retransmit=0.1"]
    make(once, *words)
    make(again, *words)
    make(other, *words, "--seed=2")
    assert once.read_bytes() == again.read_bytes() != other.read_bytes()


def test_frames_in_lost_packets_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    truth = make(path, "small", "--messages=5000", "--connections=2", "--loss=0.02")
    rows = [row for row in frames_of_json(str(path)) if len(row.body) == 100]
    assert truth["lost_packets"]
    assert len(rows) <= truth["message_frames"] - truth["message_frames_in_lost_packets"]
    assert len(rows) > 0.8 * truth["message_frames"]


@pytest.mark.parametrize("name", ["broker-mixed-versions", "frame-sizes", "many-small", "multipart-20", "pubsub"])
def test_the_walk_counts_what_we_count_in_real_captures(walk: str | None, name: str) -> None:
    path = CAPTURES / "patterns" / f"{name}.pcap"
    if walk is None:
        return
    walked = json.loads(subprocess.check_output([walk, path]))
    assert walked["message_frames"] == summary_of(path).frames


def test_lines_of_tshark_become_frames() -> None:
    line = "14\t0\t30000\t0xff,0x04,0x01,0x01,0x00\t25,0,2,1\t6162,63\n"
    sender = (0, 30000)
    assert list(frames_of_line(line)) == [
        Frame(sender, 1, b"", 0),
        Frame(sender, 1, b"ab", 0),
        Frame(sender, 0, b"c", 14),
    ]


def test_a_wrong_row_is_reported() -> None:
    right = [Frame((0, 1), 0, b"a", 7), Frame((1, 2), 0, b"b", 8)]
    for wrong in (right[0]._replace(body=b"x"), right[0]._replace(packet=9), right[0]._replace(flags=2)):
        wrong_files = Digests(right).differences(Digests([wrong, right[1]]))
        assert wrong_files == ["connection 1, sender with port 1", "1 senders of 2"]
    assert Digests(right).differences(Digests(right)) == []
