"""The captures to measure: made once, kept, and made again when their maker or its arguments change."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).parent
WORK = HERE / "work"
MAKERS = {"make_capture": ("make_capture.py", "talks.py", "boxes.py"), "real_traffic": ("real_traffic.py",)}
"""The sources of the programs that make captures."""

SPARE = 2 << 30
"""Octets of disk space to leave free."""


@dataclass(frozen=True)
class Capture:
    """A capture and what was sent in it."""

    name: str
    path: Path
    truth: dict[str, int] = field(compare=False)

    @property
    def frames(self) -> int:
        """Number of message frames sent."""
        return self.truth["message_frames"]


def capture(name: str, profile: str, maker: str = "make_capture", **options: float) -> Capture:
    """Return the capture of a profile with these options. It is made now unless it was made before."""
    WORK.mkdir(exist_ok=True)
    path = WORK / f"{name}.pcap"
    words = [profile, *(f"--{option}={value}" for option, value in options.items())]
    digest = sha256("\n".join(words).encode())
    for source in MAKERS[maker]:
        digest.update((HERE / source).read_bytes())
    key, wanted = path.with_suffix(".key"), digest.hexdigest()
    if not (path.exists() and key.exists() and key.read_text() == wanted):
        key.unlink(missing_ok=True)
        note(f"making {name} ({' '.join(words)})")
        command = [sys.executable, "-m", f"benchmarks.{maker}", words[0], str(path), *words[1:]]
        subprocess.run(command, check=True, cwd=HERE.parent)
        key.write_text(wanted)
    return Capture(name, path, json.loads(Path(f"{path}.truth.json").read_text()))


def compressed(made: Capture) -> Path:
    """Return the same capture as a gzip file."""
    key = made.path.with_suffix(".key").read_text()
    path, done = Path(f"{made.path}.gz"), made.path.with_suffix(".gz.key")
    if not (path.exists() and done.exists() and done.read_text() == key):
        note(f"compressing {made.name}")
        subprocess.run([sys.executable, "-m", "gzip", "--fast", str(made.path)], check=True)
        done.write_text(key)
    return path


def is_room_for(octets: int) -> bool:
    """Whether the disk has room for this many octets, and some to spare."""
    WORK.mkdir(exist_ok=True)
    return shutil.disk_usage(WORK).free > octets + SPARE


def note(text: str) -> None:
    """Print the current step to standard error."""
    print(f"  {text}", file=sys.stderr, flush=True)
