"""The folder of saved settings, and writing files into it."""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path:
    configured = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(configured) / "zmtpscope"


def save_file(path: Path, octets: bytes) -> None:
    """Write a file that only its owner can read. It appears only when complete. Raises `OSError`."""
    beside = path.with_suffix(f".{os.getpid()}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(octets + b"\n")
    beside.replace(path)
