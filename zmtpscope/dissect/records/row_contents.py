"""The messages of one side as payload dissectors receive them.

Also finds which messages are completely kept, plain text or JSON.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zmtpscope import compiled
from zmtpscope.dissect.records.columns import Bool, Int64, numbers
from zmtpscope.dissect.records.message_columns import GROUPED, LONGEST_JSON, content_frames
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.payloads.dissected import Message
from zmtpscope.payloads.shapes import NO_OCTET, Shapes
from zmtpscope.zmtp.events import SPECIAL

DELETE = 0x7F
"""The only ASCII control character above the printable ones."""
SEVERAL = -1
"""Shape of a message that has several content frames, or none."""


class Wanted(NamedTuple):
    """Which messages to pass to dissectors.

    `claims`: the messages that a dissector may claim by their shape (`payloads/shapes.py`).
    """

    claims: bool
    others: bool
    """Whether to select messages that are not plain text."""
    everything: bool
    """Whether to select all messages."""
    texts: bool
    """Whether to recognise plain text."""
    json: bool
    """Whether to recognise JSON among the messages that only JSON may claim; these need no dissector."""
    limit: int


class AskedRows(NamedTuple):
    """The messages of a table that are passed to dissectors, as columns.

    `rows` are their indexes, `begins` their stream offsets. Messages in `unknown` were not kept completely, and are not
    passed.
    """

    rows: list[int]
    begins: list[int]
    sizes: list[int]
    """Octets in the frames of each message."""
    content: list[int]
    """First content frame of each message."""
    starts: list[int]
    stops: list[int]
    """`starts` and `stops`: the octets of that frame in the data of the run."""
    shapes: list[int]
    """Shape of each message with one content frame, from which `Shapes` selects dissectors; otherwise `SEVERAL`."""
    unknown: list[int]
    """Rows that are incomplete or too large to dissect."""
    texts: Bool | None
    """Whether each message is plain text. None if that is not wanted, or none is."""
    json: list[int]
    """JSON messages, if wanted. They are not passed to dissectors."""
    json_sizes: list[int]
    """Octets in the frames of each JSON message."""


@compiled.where_possible
def are_json(data: bytes, starts: Int64, sizes: Int64) -> Bool:
    """Return which slices `data[starts[i] : starts[i] + sizes[i]]` are JSON that can be parsed on first access."""
    if not len(starts):
        return np.zeros(0, np.bool_)
    from zmtpscope.payloads.json import ordinary  # loaded only if JSON may occur

    places = zip(starts.tolist(), sizes.tolist(), strict=True)
    return np.array(
        [size <= LONGEST_JSON and ordinary(data[start : start + size]) is not None for start, size in places]
    )


@compiled.where_possible
def asked_rows(run: MessageTable, shapes: Shapes, wanted: Wanted) -> AskedRows:
    """Return the messages of a table to pass to dissectors."""
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


def contents(run: MessageTable, limit: int) -> tuple[Int64, Int64, Int64, Bool]:
    """Return for each message its first and last content frame, the index of the first in `run.data`, and whether it is
    known.

    It is known if the whole message was kept and has at most `limit` octets.
    """
    return contents_from(run, content_frames(run), limit)


def contents_from(run: MessageTable, content: Int64, limit: int) -> tuple[Int64, Int64, Int64, Bool]:
    """Return first and last content frame of each message, the index of the first in `run.data`, and whether it is
    known.

    `content` are the first content frames. A message is known if it was kept and has at most `limit` octets.
    """
    first, last = run.first, run.last
    starts = run.bodies[content] - run.base
    # sizes can be huge: compare them with the octets present before adding anything
    known = run.sizes[last] <= run.base + len(run.data) - run.bodies[last]
    known &= run.complete & ((run.flags[first] & SPECIAL) == 0)
    if run.offsets[0] < run.base:
        known &= run.offsets[first] >= run.base
    if len(run.data) > limit:
        known &= run.bodies[last] + np.where(known, run.sizes[last], 0) - run.offsets[first] <= limit
    return content, last, starts, known


def plain_texts(run: MessageTable, first: Int64, last: Int64, starts: Int64, known: Bool) -> Bool:
    """Return for each message whether its content frames are printable ASCII and not all of them empty.

    `first`, `last`, `starts` and `known` describe the content frames, as `contents` returns them.
    """
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
    other = octets.view(np.int8) < ord(" ")  # octets above ASCII are negative
    if b"\x7f" in run.data:
        other |= octets == DELETE
    if is_one and count == len(candidates):  # usually the only other octets are those of short headers
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
    shapes: Shapes, first_of: int | Int64, run: MessageTable, first: Int64, last: Int64, starts: Int64
) -> Int64:
    """Return the shapes of messages (`payloads/shapes.py`).

    `first_of` is the first shape of each sender; `first`, `last` and `starts` are results of `contents`.
    """
    octets = np.frombuffer(run.data or b"\0", np.uint8)
    heads = octets[_between(starts, 0, len(octets) - 1)].astype(np.int64)
    heads[run.sizes[first] == 0] = NO_OCTET
    return shapes.columns(first_of, heads, last - first + 1, last - run.first + 1)


def claimable_behind(shapes: Shapes, run: MessageTable, first: Int64, last: Int64) -> Bool:
    """Return which messages a dissector may claim by a frame after the first content frame.

    The content of message i is the frames `first[i]..last[i]`.
    """
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
    """Return the values clamped to `low..high`. `np.clip` takes six times as long for a few values."""
    return np.minimum(np.maximum(values, low), high)


class RowMessages:
    """Makes messages for dissectors from the selected `rows` of a table. `content` are their first content frames."""

    def __init__(self, run: MessageTable, rows: Int64, content: Int64) -> None:
        first, last = run.first[rows], run.last[rows]
        counts = last - first + 1
        ends = np.cumsum(counts)
        frames = np.arange(ends[-1]) + np.repeat(first + counts - ends, counts)
        bodies, sizes = run.bodies[frames], run.sizes[frames]
        self.run = run
        self.has_topics = run.socket_type in GROUPED
        # by row
        self.content: list[int] = (content - first).tolist()
        self.ends: list[int] = ends.tolist()
        """The frame after the row, among the selected frames."""
        # by frame
        self.bodies: list[int] = bodies.tolist()
        """Stream offset of the body."""
        self.starts: list[int] = (bodies - run.base).tolist()
        self.stops: list[int] = (bodies - run.base + sizes).tolist()
        """`starts` and `stops`: the body in the data of the run."""

    def message(self, place: int, *, after_loss: bool) -> tuple[Message, list[int]]:
        """Return the message of row `rows[place]`, and the stream offsets of its frame bodies.

        `after_loss`: the capture may lack messages before it.
        """
        low, high = self.ends[place - 1] if place else 0, self.ends[place]
        data, content = self.run.data, self.content[place]
        frames = [data[start:stop] for start, stop in zip(self.starts[low:high], self.stops[low:high], strict=True)]
        topic = frames[0] if content == 1 and self.has_topics else None
        return Message(frames, content, topic, after_loss), self.bodies[low:high]
