"""What `zmtpscope read` says about the captures in captures/, and what must be said (their truth files)."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from tests.runs import assert_runs_agree
from zmtpscope.capture import CaptureProblem, open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.sink import OctetSums
from zmtpscope.export import json_lines
from zmtpscope.payloads.registry import Registry
from zmtpscope.records import from_text

CAPTURES = pathlib.Path(__file__).parent.parent / "captures"
CAPTURE_FILES = sorted(path for path in CAPTURES.glob("*/*.pcap*") if path.parent.name != "problems")
"""What the tests of every part run over; `captures/problems` is for those of the diagnosis, and `test_captures.py`."""

Record = dict[str, Any]
Frames = tuple[bytes, ...]


@dataclass(frozen=True)
class Reading:
    """The records of one capture as its JSON lines give them, and whether file and streams were accounted for."""

    records: list[Record]
    problems: list[CaptureProblem]
    sums: OctetSums

    def of(self, *kinds: str) -> list[Record]:
        return [record for record in self.records if record["record"] in kinds]

    def messages(self) -> list[tuple[Record, Frames]]:
        """The whole data messages whose frames could be read."""
        return [
            (record, tuple(base64.b64decode(body, validate=True) for body in record["bodies"]))
            for record in self.of("message")
            if record["kind"] == "data" and record["complete"] and record["bodies"] is not None
        ]


@functools.cache
def read(path: pathlib.Path) -> Reading:
    """Read a capture as `zmtpscope read --json --payload off` does, without a process of its own."""
    return _read(path, Options())


@functools.cache
def read_inside(path: pathlib.Path) -> Reading:
    """The same, with what rides inside the messages: what the command does unless it is told not to."""
    return _read(path, Options(payloads=Registry()))


def _read(path: pathlib.Path, options: Options) -> Reading:
    analyser = Analyser(options)
    captures = open_captures([str(path)])
    records: list[Record] = []
    for batch in analyser.run(captures):
        assert_runs_agree(batch)
        records += map(json.loads, json_lines.lines(batch, options))
    return Reading(records, captures.problems, analyser.summary.sums)


def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """`zmtpscope ARGUMENTS` as a process of its own; times are printed in UTC."""
    command = [sys.executable, "-c", "from zmtpscope.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, env=os.environ | {"TZ": "UTC"})


@dataclass(frozen=True)
class Truth:
    """A truth file; captures/README.md says what the keys mean."""

    name: str
    path: pathlib.Path
    exit: int
    versions: list[str]
    start_captured: bool
    handshake: str
    whole: bool
    sealed: bool = False
    each_once: bool = False
    sent: list[str] | None = None
    received: list[str] = field(default_factory=list)
    received_at_least: int | None = None
    subscriptions: list[tuple[str, bytes]] | None = None
    wire: dict[str, str] = field(default_factory=dict)


def digest(frames: Frames) -> bytes:
    """What stands for the frames of a message in the digests of truth files: of each its size and sha256."""
    return b"".join(len(frame).to_bytes(8, "big") + hashlib.sha256(frame).digest() for frame in frames)


def name_of(frames: Frames) -> str:
    """A message as truth files name long ones."""
    return "sha256 " + hashlib.sha256(digest(frames)).hexdigest()[:32]


def load(path: pathlib.Path) -> Truth:
    """Read one truth file; every message becomes its `name_of`."""
    given = json.loads(path.read_text())
    stem = path.name.removesuffix(".truth.json")
    (capture,) = (file for file in path.parent.glob(f"{stem}.pcap*"))
    values = {key: given[key] for key in Truth.__dataclass_fields__ if key in given}
    for key in ("sent", "received"):
        if isinstance(given.get(key), list):
            values[key] = [
                message if isinstance(message, str) else name_of(tuple(map(from_text, message)))
                for message in given[key]
            ]
    if given.get("received") == "as sent":
        values["received"] = values["sent"]
    if "subscriptions" in given:
        values["subscriptions"] = [(kind, from_text(topic)) for kind, topic in given["subscriptions"]]
    return Truth(name=f"{path.parent.name}/{stem}", path=capture, **values)


ALL_TRUTHS = [load(path) for path in sorted(CAPTURES.glob("*/*.truth.json"))]
TRUTHS = [truth for truth in ALL_TRUTHS if truth.path in CAPTURE_FILES]
