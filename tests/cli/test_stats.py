"""`zmtpscope stats` on the command line."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from tests.capture.containers import pcap
from tests.cli.running import Run
from tests.readings import CAPTURES, PUBSUB, TRUTHS, Truth


def rows(zmtpscope: Run, *arguments: object) -> list[dict[str, Any]]:
    code, output, _ = zmtpscope("stats", "--json", *arguments)
    assert code in (0, 3)
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize(
    "truth",
    [truth for truth in TRUTHS if truth.received and truth.name.startswith("patterns/") and "udp" not in truth.name],
    ids=lambda truth: truth.name,
)
def test_all_is_what_the_applications_received(truth: Truth, zmtpscope: Run) -> None:
    (every, *_) = rows(zmtpscope, truth.path)
    assert every["by"] == "all"
    assert every["messages"] == len(truth.received)


def test_a_filter_selects_what_is_counted(zmtpscope: Run) -> None:
    found = rows(zmtpscope, PUBSUB, "-Y", "topic == a.topic or type == greeting")
    assert [(row["by"], row.get("topic") or row.get("type"), row["messages"]) for row in found] == [
        ("all", None, 7),
        ("endpoint", None, 7),
        ("topic", "a.topic", 7),
        ("type", "message", 7),
        ("type", "greeting", 4),
    ]
    assert rows(zmtpscope, PUBSUB, "--by", "topic", "-Y", "bodies[1] == late")[0]["messages"] == 2


def test_the_busiest_interval(zmtpscope: Run) -> None:
    for interval, busiest in (("1s", 19.0), ("100ms", 150.0), ("0.5", 30.0)):
        (row,) = rows(zmtpscope, PUBSUB, "--by", "endpoint", "--interval", interval)
        assert row["busiest_per_second"] == busiest


def test_a_damaged_capture_is_counted_as_far_as_it_can_be_read(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(PUBSUB.read_bytes()[:-10])
    code, output, errors = zmtpscope("stats", path)
    assert code == 3
    assert "messages         19" in output
    assert "cut" in errors


def test_a_capture_without_packets(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes(pcap([]))
    for arguments in ([], ["--json"], ["--by", "topic"]):
        code, output, errors = zmtpscope("stats", path, *arguments)
        assert (code, output) == (0, "")
        assert "no ZMTP found" in errors


def test_damage_is_reported_as_read_does(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    for name in ("holes", "one-segment-lost"):
        (path,) = CAPTURES.glob(f"damage/{name}.pcap")
        _, summed, _ = zmtpscope("read", "-q", path)
        _, output, _ = zmtpscope("stats", path)
        (words,) = [line for line in summed.splitlines() if line.startswith("damage ")]
        (damage,) = [line for line in output.splitlines() if line.startswith("damage ")]
        assert damage.startswith(words)
        _, lines, _ = zmtpscope("read", "--json", path, "-Y", "record == message and not complete")
        incomplete = len(lines.splitlines())
        assert (f"{incomplete} incomplete message" in damage) == bool(incomplete)
    path = tmp_path / "cut.pcap"
    path.write_bytes(PUBSUB.read_bytes()[:-10])
    assert "the file ends inside" in zmtpscope("stats", path)[1]


def test_nothing_to_count_is_a_sentence(zmtpscope: Run) -> None:
    for arguments, sentence in (
        (["-Y", "topic == nosuch"], "no record matches the filter -> leave out -Y to count all"),
        (["--by", "topic", "-Y", "record == greeting"], "no topics to count"),
    ):
        assert zmtpscope("stats", PUBSUB, *arguments) == (0, "", f"zmtpscope: {sentence}\n")
    _, output, _ = zmtpscope("stats", PUBSUB, "-Y", "record == greeting")
    assert "TOPIC" not in output
    assert "greeting" in output
