"""The output of `zmtpscope read` for the captures in captures/, and the expected output (their truth files)."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import pathlib
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from tests.runs import assert_runs_agree
from tests.suites import IS_FULL
from zmtpscope.capture import CaptureProblem, open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.sink import OctetSums
from zmtpscope.export import json_lines
from zmtpscope.payloads.registry import Registry
from zmtpscope.records import from_text

CAPTURES = pathlib.Path(__file__).parent.parent / "captures"
PUBSUB, REQREP = (CAPTURES / "patterns" / f"{name}.pcap" for name in ("pubsub", "reqrep"))
EVERY_CAPTURE = sorted(path for path in CAPTURES.glob("*/*.pcap*") if path.parent.name != "problems")
"""All captures except `captures/problems`, which tests of diagnoses read. Invariant P13 and `test_captures.py`
use all of them in both suites."""

SELECTED = frozenset(
    {
        # versions
        "versions/dealerrouter-id-bind2.2.0-conn2.2.0.pcap",
        "versions/pubsub-bind4.3.5-conn2.2.0.pcap",
        "versions/pubsub-bind3.2.5-conn3.2.5.pcap",
        "patterns/broker-mixed-versions.pcap",
        # socket types, commands and transports
        "patterns/dealer-router-identities.pcap",
        "patterns/heartbeat-both.pcap",
        "patterns/multihop-proxy.pcap",
        "patterns/pubsub.pcap",
        "patterns/pushpull.pcap",
        "patterns/radio-dish-udp.pcap",
        "patterns/websocket-reqrep.pcap",
        "implementations/jupyter.pcap",
        "implementations/zre-pyre.pcap",
        # mechanisms
        "security/curve-4.3.5.pcap",
        "security/curve-with-key-log.pcap",
        "security/gssapi.pcap",
        "security/plain-wrong-password.pcap",
        # damage, and other protocols
        "damage/cut-file.pcap",
        "damage/holes.pcap",
        "damage/midstream-1.0.pcap",
        "damage/reordered.pcap",
        "faults/garbage-client.pcap",
        "faults/reserved-flag-80.pcap",
        "negative/tls.pcap",
        "unreachable/server-up-later.pcap",
        # storage and encapsulation of packets
        "network/ipv4-fragments.pcap",
        "network/pcapng-mixed-links.pcapng",
        "network/vxlan.pcap",
    }
)
"""The captures of the quick suite, by folder and name: each version, mechanism and kind of damage."""

CAPTURE_FILES = [path for path in EVERY_CAPTURE if IS_FULL or f"{path.parent.name}/{path.name}" in SELECTED]
"""The captures that most tests read: all of them in the full suite."""

Record = dict[str, Any]
Frames = tuple[bytes, ...]


@dataclass(frozen=True)
class Reading:
    """The records of one capture, from its JSON lines, and whether all octets of file and streams are accounted for."""

    records: list[Record]
    problems: list[CaptureProblem]
    sums: OctetSums

    def of(self, *kinds: str) -> list[Record]:
        return [record for record in self.records if record["record"] in kinds]

    def messages(self) -> list[tuple[Record, Frames]]:
        return [
            (record, tuple(base64.b64decode(body, validate=True) for body in record["bodies"]))
            for record in self.of("message")
            if record["kind"] == "data" and record["complete"] and record["bodies"] is not None
        ]


@functools.cache
def read(path: pathlib.Path) -> Reading:
    """Read a capture as `zmtpscope read --json --payload off` does, in this process."""
    return _read(path, Options())


@functools.cache
def read_inside(path: pathlib.Path) -> Reading:
    """Read a capture as `zmtpscope read --json` does: with payloads."""
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
    """Run `zmtpscope ARGUMENTS` in a new process."""
    command = [sys.executable, "-c", "from zmtpscope.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, timeout=60)


@dataclass(frozen=True)
class Truth:
    """A truth file; captures/README.md describes the keys."""

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
    """Return the digest of a message's frames as in truth files: size and sha256 of each."""
    return b"".join(len(frame).to_bytes(8, "big") + hashlib.sha256(frame).digest() for frame in frames)


def name_of(frames: Frames) -> str:
    """Name a message as truth files name long ones."""
    return "sha256 " + hashlib.sha256(digest(frames)).hexdigest()[:32]


def load(path: pathlib.Path) -> Truth:
    """Read one truth file; every message is replaced by its `name_of`."""
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
