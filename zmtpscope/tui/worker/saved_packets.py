"""Saves the packets of records as pcapng with comments, like `read -w`."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from zmtpscope.excerpt.copying import copy_packets, shortcomings
from zmtpscope.excerpt.wanted import WantedPackets
from zmtpscope.export.files import OutputFile
from zmtpscope.export.words import size
from zmtpscope.store import Store
from zmtpscope.store.packed import Int64
from zmtpscope.tui.worker.saved_rows import portions
from zmtpscope.tui.worker.saving import CannotSave, Steps
from zmtpscope.words import counted

FORM = ".pcapng"


def readable_again(paths: Sequence[str | None]) -> list[str]:
    """Return the paths of captures. Raises `CannotSave` if one can be read only once."""
    found = []
    for path in paths:
        if path is None or path == "-" or not _is_plain(path):
            name = {None: "what was captured here", "-": "standard input"}.get(path, path)
            raise CannotSave(f"packets are copied from the capture, and {name} can be read only once")
        found.append(path)
    return found


def _is_plain(path: str) -> bool:
    """Whether a file is regular. A missing file is reported later."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return True


def save_packets(path: Path, store: Store, numbers: Iterable[Int64], paths: Sequence[str]) -> Steps:
    """Copy the packets of records (`numbers` ascend) from captures.

    Raises `CannotSave`, `CaptureError` and `OSError`.
    """
    file, wanted, done = OutputFile(path), WantedPackets(store.options), 0
    try:
        file.open()
        for portion in portions(store, numbers):
            wanted.feed(store.batch(portion, details=True))
            done += len(portion)
            yield done
        if not done:
            raise CannotSave(f"{path}: there are no rows to save")
        if wanted.references:
            for portion in portions(store, [np.arange(len(store))]):
                wanted.find(store.batch(portion, details=True))
                yield done
        count = 0
        for copied in copy_packets(paths, wanted, file):
            count = copied
            yield done
        file.finish()
        file.commit()
    finally:
        file.discard()
    return "; it ".join([f"{counted(count, 'packet')}, {size(file.octets)}", *shortcomings(wanted, count)])
