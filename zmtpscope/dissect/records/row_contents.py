"""The messages of a run as dissectors get them: which are whole, which are plain text, and their octets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zmtpscope import compiled
from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.columns import Bool, numbers
from zmtpscope.dissect.records.message_columns import GROUPED, LONGEST_JSON, content_frames
from zmtpscope.payloads.message import Message
from zmtpscope.payloads.shapes import NO_OCTET, Shapes
from zmtpscope.zmtp.events import SPECIAL

DELETE = 0x7F
"""The only control character of ASCII that is above the printable ones."""
SEVERAL = -1
"""Instead of the shape of a message of several content frames, or none."""


class Wanted(NamedTuple):
    """Of which messages somebody is to be asked: those that somebody may claim by their shape, ..."""

    claims: bool
    others: bool
    """... those that are no plain text, ..."""
    everything: bool
    """... or all, whatever they are."""
    texts: bool
    """Whether it is wanted which are plain text, ..."""
    json: bool
    """... and which of those that somebody may claim are JSON: nobody need be asked about these."""
    limit: int
    """Octets of a message that is looked at."""


class AskedRows(NamedTuple):
    """The messages of a run that somebody is to be asked about, in order; none of them is one of the `unknown`."""

    rows: list[int]
    begins: list[int]
    """Stream offset of each."""
    sizes: list[int]
    """Octets of its frames."""
    content: list[int]
    """The first content frame, ..."""
    starts: list[int]
    stops: list[int]
    """... and where in the octets of the run it stands."""
    shapes: list[int]
    """Who may claim it, where it has this content frame alone; else `SEVERAL`."""
    unknown: list[int]
    """Those that are not whole, or not to be looked at."""
    texts: Bool | None
    """Which of all messages are plain text, where that is wanted and some are."""
    json: list[int]
    """Those that are JSON, where that is wanted: nobody is to be asked about them, ..."""
    json_sizes: list[int]
    """... and the octets of their frames."""


@compiled.where_possible
def are_json(data: bytes, starts: Int64, sizes: Int64) -> Bool:
    """Which octets of `data` are JSON, of which nothing need be made before somebody wants it."""
    if not len(starts):
        return np.zeros(0, np.bool_)
    from zmtpscope.payloads.json import ordinary  # what nobody sends is not loaded

    places = zip(starts.tolist(), sizes.tolist(), strict=True)
    return np.array(
        [size <= LONGEST_JSON and ordinary(data[start : start + size]) is not None for start, size in places]
    )


@compiled.where_possible
def asked_rows(run: MessageRun, shapes: Shapes, wanted: Wanted) -> AskedRows:
    """The messages of a run that somebody is to be asked about."""
    first, last, starts, known = contents(run, wanted.limit)
    texts = plain_texts(run, first, last, starts, known) if wanted.texts else np.zeros(len(first), np.bool_)
    asked = known if wanted.everything else known & ~texts & wanted.others
    of_rows, json = np.full(len(first), SEVERAL), list[int]()
    if wanted.claims:
        of_rows = shapes_of_rows(shapes, shapes.first_of(run.socket_type), run, first, last, starts)
        asked = asked | known & (shapes.claimable(of_rows) | claimable_behind(shapes, run, first, last))
        if wanted.json:
            candidates = (asked & (first == last) & shapes.only_json[of_rows]).nonzero()[0]
            json = candidates[are_json(run.data, starts[candidates], run.sizes[last[candidates]])].tolist()
            asked[json] = texts[json] = False
        of_rows[first != last] = SEVERAL
    rows = asked.nonzero()[0]
    starts = starts[rows]
    sizes = np.add.reduceat(run.sizes, run.first)
    return AskedRows(
        rows.tolist(),
        run.offsets[run.first[rows]].tolist(),
        sizes[rows].tolist(),
        first[rows].tolist(),
        starts.tolist(),
        (starts + run.sizes[first[rows]]).tolist(),
        of_rows[rows].tolist(),
        (~known).nonzero()[0].tolist(),
        texts if np.count_nonzero(texts) else None,
        json,
        sizes[json].tolist(),
    )


def contents(run: MessageRun, limit: int) -> tuple[Int64, Int64, Int64, Bool]:
    """First and last content frame of each row, the place of the first in `run.data`, and whether the whole message is
    there, of at most `limit` octets."""
    return contents_from(run, content_frames(run), limit)


def contents_from(run: MessageRun, content: Int64, limit: int) -> tuple[Int64, Int64, Int64, Bool]:
    """The same, where `content` are the first content frames."""
    first, last = run.first, run.last
    starts = run.bodies[content] - run.base
    # a size may be anything, so it is compared with what is there before it is added to anything
    known = run.sizes[last] <= run.base + len(run.data) - run.bodies[last]
    known &= run.complete & ((run.flags[first] & SPECIAL) == 0)
    if run.offsets[0] < run.base:
        known &= run.offsets[first] >= run.base
    if len(run.data) > limit:
        known &= run.bodies[last] + np.where(known, run.sizes[last], 0) - run.offsets[first] <= limit
    return content, last, starts, known


def plain_texts(run: MessageRun, first: Int64, last: Int64, starts: Int64, known: Bool) -> Bool:
    """Which rows have content frames of printable ASCII, not all of them empty."""
    if not np.count_nonzero(known):
        return known
    is_one, counts = bool((first == last).all()), last - first + 1
    frames = first if is_one else numbers(first, counts)
    sizes = run.sizes[frames]
    edges = np.cumsum(counts) - counts
    candidates: Bool = known & (sizes > 0 if is_one else np.logical_or.reduceat(sizes > 0, edges))
    count = np.count_nonzero(candidates)
    if not count:
        return candidates
    octets = np.frombuffer(run.data, np.uint8)
    other = octets.view(np.int8) < ord(" ")  # what is not ASCII is below zero
    if b"\x7f" in run.data:
        other |= octets == DELETE
    if is_one and count == len(candidates):  # usually all octets that are no text are those of short headers
        headers = run.offsets[first[0] :] - run.base
        in_headers = np.count_nonzero(other[headers]) + np.count_nonzero(other[headers + 1])
        if np.count_nonzero(other[headers[0] : starts[-1] + run.sizes[-1]]) == in_headers:
            return candidates
    begins = _between(starts if is_one else run.bodies[frames] - run.base, 0, len(octets))
    ends = np.minimum(begins + _between(sizes, 0, len(octets)), len(octets))
    places = other.nonzero()[0]
    plain: Bool = places.searchsorted(begins) == places.searchsorted(ends)
    return candidates & (plain if is_one else np.logical_and.reduceat(plain, edges))


def shapes_of_rows(
    shapes: Shapes, first_of: int | Int64, run: MessageRun, first: Int64, last: Int64, starts: Int64
) -> Int64:
    """The shapes of the messages of a run, from those of their senders and what `contents` says of them."""
    octets = np.frombuffer(run.data or b"\0", np.uint8)
    heads = octets[_between(starts, 0, len(octets) - 1)].astype(np.int64)
    heads[run.sizes[first] == 0] = NO_OCTET
    return shapes.columns(first_of, heads, last - first + 1, last - run.first + 1)


def claimable_behind(shapes: Shapes, run: MessageRun, first: Int64, last: Int64) -> Bool:
    """Which messages of a run somebody may claim by a frame behind the first content frame."""
    several: Bool = last > first
    if not several.any():
        return several
    octets = np.frombuffer(run.data if len(run.data) > 1 else bytes(2), np.uint8)
    starts = _between(run.bodies - run.base, 0, len(octets) - 2)
    begin = shapes.begins_frame[octets[starts].astype(np.int64) << 8 | octets[starts + 1]] & (run.sizes > 1)
    found = np.zeros(len(begin) + 1, np.int64)
    np.cumsum(begin, out=found[1:])
    several &= found[last + 1] > found[first + 1]
    return several


def _between(values: Int64, low: int, high: int) -> Int64:
    """Values, those outside of `low..high` moved to its ends: `np.clip`, which takes six times as long for a few."""
    return np.minimum(np.maximum(values, low), high)


class RowMessages:
    """Some rows of a run as messages; `content` are their first content frames."""

    def __init__(self, run: MessageRun, rows: Int64, content: Int64) -> None:
        first, last = run.first[rows], run.last[rows]
        counts = last - first + 1
        ends = np.cumsum(counts)
        frames = np.arange(ends[-1]) + np.repeat(first + counts - ends, counts)
        bodies, sizes = run.bodies[frames], run.sizes[frames]
        self.run = run
        self.has_topics = run.socket_type in GROUPED
        # of each row
        self.content: list[int] = (content - first).tolist()
        self.ends: list[int] = ends.tolist()
        """Which of all frames is the first behind it."""
        # of each frame
        self.bodies: list[int] = bodies.tolist()
        """Stream offset of the body, ..."""
        self.starts: list[int] = (bodies - run.base).tolist()
        self.stops: list[int] = (bodies - run.base + sizes).tolist()
        """... and where in the octets of the run it stands."""

    def message(self, place: int, *, after_loss: bool) -> tuple[Message, list[int]]:
        """The message of row `rows[place]`, and the stream offsets of its frames' bodies."""
        low, high = self.ends[place - 1] if place else 0, self.ends[place]
        data, content = self.run.data, self.content[place]
        frames = [data[start:stop] for start, stop in zip(self.starts[low:high], self.stops[low:high], strict=True)]
        topic = frames[0] if content == 1 and self.has_topics else None
        return Message(frames, content, topic, after_loss), self.bodies[low:high]
