"""Captures read into stores, with the batches of the analyser."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.readings import CAPTURE_FILES
from zmtpscope.capture import open_captures
from zmtpscope.curve_keys import Keys
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.export.json_lines import text_of
from zmtpscope.payloads.registry import Registry
from zmtpscope.store import Store

FILES = [path for path in CAPTURE_FILES if path.stem != "many-small"]

SMALLEST_BLOCK = 700
"""Octets of a block that has few packets, and few rows to a batch."""


def options_for(path: Path, *, frames: bool = True, index: bool = True) -> Options:
    """Return everything that records of a capture can show, with the keys beside it."""
    keys = path.with_suffix(".keys")
    return Options(frames=frames, index=index, payloads=Registry(), keys=Keys([keys]) if keys.exists() else None)


class Opened(NamedTuple):
    store: Store
    batches: list[Batch]


def opened(path: Path, options: Options | None = None, *, block_size: int = 1 << 16) -> Opened:
    """A capture read in blocks of about `block_size` octets."""
    options = options or options_for(path)
    captures = open_captures([str(path)], block_size=block_size)
    store, batches = Store(options), []
    for batch in Analyser(options).run(captures):
        batches.append(batch)
        store.append(batch)
    store.first_time = captures.statistics.first_time
    return Opened(store, batches)


def json_lines(batches: Iterable[Batch], options: Options) -> list[bytes]:
    return b"".join(text for batch in batches for text in text_of(batch, options)).splitlines()
