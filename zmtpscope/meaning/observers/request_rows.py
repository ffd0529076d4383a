"""Messages with an envelope as rows: what requests and replies are matched by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.findings.envelopes import EMPTY, envelopes
from zmtpscope.dissect.records.batch import MessageRun
from zmtpscope.dissect.records.message_columns import delimiters
from zmtpscope.zmtp.events import SPECIAL

RequestRows = NDArray[Any]
"""Rows of `ROW`."""

NUMBERS = (
    *("order", "time", "packet", "offset", "length", "size", "source", "side", "key", "run", "row", "content"),
    *("captured", "anew", "anew_order"),
)
ROW = np.dtype([*((name, np.int64) for name in NUMBERS), ("is_nested", np.bool_), ("envelope", object)])
"""A message with an envelope: `order` is that of the segment that made it decidable, `packet` and `time` are of its
first octet. `envelope` are the addresses in it, `key` a number made of them, `EMPTY` where there are none. `is_nested`:
behind the delimiter comes another envelope. `content` is a number made of what is behind the delimiter, 0 where it was
not made (`content_of`); `run` is the place of its run among those of its side, `row` its row there. `captured` is the
time by which all in front of it on its side was captured, too. `anew` is when the asker asked anew before there was a
reply, `anew_order` the segment that made it known; 0: it did not."""

FROM_RUNS = (("order", "orders"), ("time", "times"), ("packet", "packets"))
NO_ADDRESS: tuple[bytes, ...] = ()


def no_rows() -> RequestRows:
    """None at all."""
    return np.empty(0, ROW)


def enveloped(runs: Sequence[MessageRun], side: int) -> RequestRows:
    """The messages of one side that have an empty frame, and something behind it."""
    made = [_enveloped(run, number, side) for number, run in enumerate(runs)]
    return made[0] if len(made) == 1 else np.concatenate([no_rows(), *made])


def _enveloped(run: MessageRun, number: int, side: int) -> RequestRows:
    delimiter = delimiters(run.sizes, run.first, run.last)
    rows = ((delimiter < run.last) & ((run.flags[run.first] & SPECIAL) == 0)).nonzero()[0]
    first, last, delimiter = run.first[rows], run.last[rows], delimiter[rows]
    there = np.minimum(run.sizes, np.maximum(run.end - run.bodies, 0))
    found = np.zeros(len(rows), ROW)
    for name, column in FROM_RUNS:
        found[name] = getattr(run, column)[rows]
    found["offset"] = run.offsets[first]
    found["length"] = run.bodies[last] + there[last] - run.offsets[first]
    found["size"] = np.add.reduceat(there, run.first)[rows]
    found["source"], found["side"], found["run"], found["row"] = run.source, side, number, rows
    found["key"] = envelopes(run, rows)
    found["envelope"].fill(NO_ADDRESS)
    for place in (found["key"] != EMPTY).nonzero()[0].tolist():
        frames = range(int(first[place]), int(delimiter[place]))
        found["envelope"][place] = tuple(run.head(frame) or b"" for frame in frames)
    if (last > delimiter + 1).any():
        inner = delimiters(run.sizes, delimiter + 1, last)
        found["is_nested"] = (inner > delimiter + 1) & (inner < last)
    return found


def content_of(run: MessageRun, row: int, is_work: bool = False) -> int:
    """A number made of what is behind the delimiter of a message, as far as it was kept, and of its sizes; of work for
    a REQ, of what is behind the envelope of the client in it."""
    frames = _content(run, row)
    if is_work:
        frames = _behind_delimiter(run, frames.start, frames.stop - 1)
    return _number_of(int(run.sizes[frame]).to_bytes(8) + (run.head(frame) or b"") for frame in frames)


def only_frame(run: MessageRun, row: int) -> bytes | None:
    """What is behind the delimiter, where it is a single frame that was kept."""
    frames = _content(run, row)
    return run.head(frames[0]) if len(frames) == 1 else None


def _content(run: MessageRun, row: int) -> range:
    return _behind_delimiter(run, int(run.first[row]), int(run.last[row]))


def _behind_delimiter(run: MessageRun, first: int, last: int) -> range:
    delimiter = delimiters(run.sizes, np.array([first]), np.array([last]))
    return range(int(delimiter[0]) + 1, last + 1)


def _number_of(pieces: Iterable[bytes]) -> int:
    """Never 0."""
    return int.from_bytes(blake2b(b"".join(pieces), digest_size=8).digest(), signed=True) or 1
