"""The measured commands, and whether each tool is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from ctypes.util import find_library
from functools import cache
from pathlib import Path

from benchmarks.captures import HERE, WORK, Capture, note
from benchmarks.measure import Failed, environment, output_of

ZMTPSCOPE = str(Path(sys.executable).with_name("zmtpscope"))
EXPORTED = WORK / "exported"
PORT = 5555
"""The port to give to tshark."""

COUNTED = "COUNT(zmtp.length)zmtp.length,SUM(zmtp.flags.command)zmtp.flags.command"

FIELDS = (
    "frame.number",
    "frame.time_epoch",
    "tcp.stream",
    "ip.src",
    "tcp.srcport",
    "ip.dst",
    "tcp.dstport",
    "zmtp.flags",
    "zmtp.length",
    "zmtp.data",
)
"""Fields that correspond to those of our message rows; `zmtp.data` is each body in hex."""

NAMES = {
    "count": "`zmtpscope read -q`",
    "json": "`zmtpscope read --json`",
    "text": "`zmtpscope read`",
    "check": "`zmtpscope check`",
    "parquet": "`zmtpscope export --format parquet`",
    "top": "`zmtpscope top`",
    "tshark count": "`tshark -q -z io,stat,0,zmtp`",
    "tshark fields": "`tshark -T fields` with bodies",
    "tshark json -e": "`tshark -T json -e` of these fields",
    "tshark json": "`tshark -T json`",
    "walk": "the same headers in C",
    "count keys": "`zmtpscope read -q --keys`",
    "json keys": "`zmtpscope read --json --keys`",
    "bindings": "nacl.bindings.crypto_secretbox_open, box by box",
    "cffi": "libsodium of PyNaCl by cffi, box by box",
    "libsodium": "libsodium in C, box by box",
}
SLOW = ("tshark json",)
"""Commands that run once only."""


def zmtpscope(path: Path | str) -> dict[str, list[str]]:
    """Return our measured commands, as far as they can run here."""
    name = str(path)
    commands = {
        "count": [ZMTPSCOPE, "read", "-q", name],
        "json": [ZMTPSCOPE, "read", "--json", name],
        "text": [ZMTPSCOPE, "read", name],
        "check": [ZMTPSCOPE, "check", name],
        "top": [ZMTPSCOPE, "top", name],
    }
    if can_export():
        commands["parquet"] = export(name)
    return commands


def export(path: str) -> list[str]:
    """Return the command that writes the messages of a capture to `EXPORTED`, as Parquet."""
    return [ZMTPSCOPE, "export", path, "-o", str(EXPORTED), "--format", "parquet", "--force"]


@cache
def can_export() -> bool:
    """Whether `zmtpscope export` can write Parquet here."""
    try:
        output_of([sys.executable, "-c", "import pyarrow.parquet"])
        return "parquet" in output_of([ZMTPSCOPE, "export", "--help"])
    except Failed:
        return False


@cache
def takes_keys() -> bool:
    """Whether `zmtpscope read` accepts a key log here."""
    return "--keys" in output_of([ZMTPSCOPE, "read", "--help"])


def opening(path: Path) -> dict[str, list[str]]:
    """Return our commands for a CURVE capture with its key log beside it, as far as they can run here."""
    keys = ["--keys", f"{path}.keys"]
    commands = {"count": [ZMTPSCOPE, "read", "-q", str(path)]}
    if takes_keys():
        commands["count keys"] = [ZMTPSCOPE, "read", "-q", *keys, str(path)]
        commands["json keys"] = [ZMTPSCOPE, "read", "--json", *keys, str(path)]
    return commands


def loops(path: Path) -> dict[str, list[str]]:
    """Return programs that only open the boxes of a CURVE capture, and print their CPU time."""
    boxes = f"{path}.boxes"
    commands = {name: [sys.executable, "-m", "benchmarks.open_boxes", name, boxes] for name in ("bindings", "cffi")}
    if (program := build_opener()) is not None:
        commands["libsodium"] = [program, boxes]
    return commands


def tshark(program: str, path: Path) -> dict[str, list[str]]:
    """Return the measured commands of tshark, without name resolution and with the port."""
    base = [program, "-n", "-r", str(path), "-d", f"tcp.port=={PORT},zmtp"]
    wanted = [word for name in FIELDS for word in ("-e", name)]
    return {
        "tshark count": [*base, "-q", "-z", "io,stat,0,zmtp"],
        "tshark fields": [*base, "-Y", "zmtp", "-T", "fields", *wanted],
        "tshark json -e": [*base, "-Y", "zmtp", "-T", "json", *wanted],
        "tshark json": [*base, "-Y", "zmtp", "-T", "json"],
    }


def find_tshark() -> str | None:
    """Find a tshark with a ZMTP dissector: $TSHARK, one fetched before, that of the system, or one fetched now."""
    fetched = WORK / "tshark"
    known = (os.environ.get("TSHARK"), str(fetched / "tshark"), shutil.which("tshark"))
    for program in filter(None, known):
        if knows_zmtp(program):
            return program
    if shutil.which("apt-get") and shutil.which("dpkg"):
        note("fetching tshark 4.4")
        done = subprocess.run([str(HERE / "get_tshark.sh"), str(fetched)], capture_output=True)
        if done.returncode == 0 and knows_zmtp(str(fetched / "tshark")):
            return str(fetched / "tshark")
    return None


def knows_zmtp(program: str) -> bool:
    """Whether this tshark has a ZMTP dissector."""
    try:
        return "\tzmtp\t" in output_of([program, "-G", "protocols"])
    except (Failed, OSError):
        return False


def version_of_tshark(program: str) -> str:
    """Return a version such as 4.4.18."""
    found = re.search(r"\d+\.\d+\.\d+", output_of([program, "--version"]))
    return found[0] if found else "of unknown version"


def build_walk() -> str | None:
    """Build the walk in C; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    WORK.mkdir(exist_ok=True)
    program = str(WORK / "walk")
    subprocess.run([compiler, "-O2", "-o", program, str(HERE / "walk.c")], check=True, env=environment())
    return program


@cache
def build_opener() -> str | None:
    """Build the loop in C that opens boxes; None without a compiler or libsodium."""
    compiler, library = shutil.which("cc"), find_library("sodium")
    if compiler is None or library is None:
        note("no cc or no libsodium: no loop in C")
        return None
    WORK.mkdir(exist_ok=True)
    program = str(WORK / "open_boxes")
    command = [compiler, "-O2", "-o", program, str(HERE / "open_boxes.c"), f"-l:{library}"]
    subprocess.run(command, check=True, env=environment())
    return program


def frames_by_zmtpscope(capture: Capture) -> int:
    """Count the message frames with `read -q`."""
    found = re.search(r"^messages .*\((\d+) frames", output_of([ZMTPSCOPE, "read", "-q", str(capture.path)]), re.M)
    return int(found[1]) if found else 0


def frames_by_tshark(program: str, capture: Capture, *options: str) -> int:
    """Count the message frames with tshark."""
    base = [program, "-n", "-r", str(capture.path), "-d", f"tcp.port=={PORT},zmtp", *options]
    lines = output_of([*base, "-q", "-z", f"io,stat,0,{COUNTED}"]).splitlines()
    row = next(line for line in lines if "<>" in line)
    frames, commands = (int(cell) for cell in row.split("|")[2:4])
    return frames - commands


def frames_by_walk(program: str, capture: Capture) -> int:
    """Count the message frames with the walk in C."""
    found = re.search(r'"message_frames": (\d+)', output_of([program, str(capture.path)]))
    assert found is not None
    return int(found[1])
