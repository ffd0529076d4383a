"""The encrypted capture: every box opens, the key log is that of the connection, and every loop opens the messages."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest
from nacl.bindings import crypto_box_open, crypto_scalarmult_base, crypto_secretbox_open

from benchmarks.boxes import Handshake, read_boxes
from benchmarks.report import curve
from tests.benchmarks.test_captures_made import ROOT, make
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser

MESSAGES, SIZE = 40, 100

CLIENT_PROPERTIES, SERVER_PROPERTIES = b"\x0bSocket-Type\0\0\0\4PUSH", b"\x0bSocket-Type\0\0\0\4PULL"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("curve") / "made.pcap"
    make(path, "curve", f"--messages={MESSAGES}", f"--size={SIZE}")
    return path


def test_every_box_of_the_handshake_opens() -> None:
    """The secret of the side that did not seal a box opens it (curve.md 2)."""
    made = Handshake(b"1")
    (_, hello), (_, welcome), (_, initiate), (_, ready) = made.commands(CLIENT_PROPERTIES, SERVER_PROPERTIES)
    assert (len(hello), len(welcome), len(initiate), len(ready)) == (200, 168, 257 + 20, 30 + 20)
    client_transient, client = hello[80:112], crypto_scalarmult_base(made.client)
    assert crypto_box_open(hello[120:], b"CurveZMQHELLO---" + hello[112:120], client_transient, made.server) == bytes(
        64
    )
    inside = crypto_box_open(
        welcome[24:], b"WELCOME-" + welcome[8:24], crypto_scalarmult_base(made.server), made.client_transient
    )
    server_transient, cookie = inside[:32], inside[32:]
    assert initiate[9:105] == cookie
    inside = crypto_box_open(
        initiate[113:], b"CurveZMQINITIATE" + initiate[105:113], client_transient, made.server_transient
    )
    assert (inside[:32], inside[128:]) == (client, CLIENT_PROPERTIES)
    vouch = crypto_box_open(inside[48:128], b"VOUCH---" + inside[32:48], client, made.server_transient)
    assert vouch == client_transient + crypto_scalarmult_base(made.server)
    assert (
        crypto_box_open(ready[14:], b"CurveZMQREADY---" + ready[6:14], server_transient, made.client_transient)
        == SERVER_PROPERTIES
    )


def test_the_key_log_opens_the_messages(capture: Path) -> None:
    label, client_transient, shared = Path(f"{capture}.keys").read_text().split()
    octets = Path(f"{capture}.boxes").read_bytes()
    key, places = read_boxes(octets)
    assert (label, bytes.fromhex(shared)) == ("CURVE_SHARED", key)
    assert bytes.fromhex(client_transient) in capture.read_bytes()
    opened = [crypto_secretbox_open(octets[box:stop], octets[nonce:box], key) for nonce, box, stop in places]
    assert [(content[:9], len(content)) for content in opened] == [
        (b"\0%08x" % number, 1 + SIZE) for number in range(MESSAGES)
    ]
    assert all(octets[box:stop] in capture.read_bytes() for _, box, stop in places[:20:7])


def test_nothing_is_wrong_with_the_connection(capture: Path) -> None:
    analyser = Analyser()
    for _ in analyser.run(open_captures([str(capture)])):
        pass
    assert analyser.summary.handshakes == {"complete": 1}
    assert {severity for severity, _ in analyser.summary.findings} <= {"chat", "note"}


@pytest.mark.parametrize("way", ["bindings", "cffi"])
def test_loops_in_python_open_every_box(capture: Path, way: str) -> None:
    command = [sys.executable, "-m", "benchmarks.open_boxes", way, f"{capture}.boxes"]
    found = json.loads(subprocess.check_output(command, cwd=ROOT))
    assert (found["opened"], found["octets"]) == (MESSAGES, MESSAGES * (1 + SIZE))


@pytest.mark.skipif(not (shutil.which("cc") and find_library("sodium")), reason="zmtpscope needs neither")
def test_the_loop_in_c_opens_every_box(capture: Path, tmp_path: Path) -> None:
    program, boxes = tmp_path / "open_boxes", Path(f"{capture}.boxes")
    source = str(ROOT / "benchmarks/open_boxes.c")
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *warnings, "-o", str(program), source, f"-l:{find_library('sodium')}"], check=True)
    found = json.loads(subprocess.check_output([program, boxes]))
    assert (found["opened"], found["octets"]) == (MESSAGES, MESSAGES * (1 + SIZE))
    damaged = bytearray(boxes.read_bytes())
    damaged[-1] ^= 1
    boxes.with_name("damaged").write_bytes(damaged)
    assert json.loads(subprocess.check_output([program, boxes.with_name("damaged")]))["opened"] == MESSAGES - 1


def test_opening_is_reported_beside_libsodium() -> None:
    costs = {"count": [[2.0, 2.0, 5e7]], "count keys": [[6.0, 6.0, 5e7]]}
    starts = {"count": [[1.0, 1.0, 5e7]], "count keys": [[2.0, 2.0, 5e7]]}
    each = {"messages": 10**6, "octets": 133 * 10**6, "costs": costs, "starts": starts, "loops": {"libsodium": [1.5]}}
    page = curve({"small": each})
    assert "| `zmtpscope read -q` | 1,000 | 1,000-1,000 | 0.67 |" in page
    assert "| opening | 3,000 | 3,000-3,000 | 2.00 |" in page
    assert page.endswith("| libsodium in C, box by box | 1,500 | 1,500-1,500 | 1.00 |")
