"""The messages of a run as dissectors get them: which are whole, which are plain text, and their octets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.message_columns import GROUPED, content_frames
from zmtpscope.payloads.message import Message
from zmtpscope.payloads.shapes import NO_OCTET, Shapes
from zmtpscope.zmtp.events import SPECIAL

Bool = NDArray[np.bool_]

DELETE = 0x7F
"""The only control character of ASCII that is above the printable ones."""


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
    """Which rows have one content frame, of printable ASCII."""
    candidates: Bool = known & (first == last) & (run.sizes[last] > 0)
    count = np.count_nonzero(candidates)
    if not count:
        return candidates
    octets = np.frombuffer(run.data, np.uint8)
    other = octets.view(np.int8) < ord(" ")  # what is not ASCII is below zero
    if b"\x7f" in run.data:
        other |= octets == DELETE
    if count == len(candidates):  # usually all octets that are no text are those of short headers
        headers = run.offsets[first[0] :] - run.base
        in_headers = np.count_nonzero(other[headers]) + np.count_nonzero(other[headers + 1])
        if np.count_nonzero(other[headers[0] : starts[-1] + run.sizes[-1]]) == in_headers:
            return candidates
    begins = _between(starts, 0, len(octets))
    ends = np.minimum(begins + _between(run.sizes[first], 0, len(octets)), len(octets))
    places = other.nonzero()[0]
    plain: Bool = candidates & (places.searchsorted(begins) == places.searchsorted(ends))
    return plain


def shapes_of_rows(shapes: Shapes, run: MessageRun, first: Int64, last: Int64, starts: Int64) -> Int64:
    """The shapes of the messages of a run, from what `contents` says of them."""
    octets = np.frombuffer(run.data or b"\0", np.uint8)
    heads = octets[_between(starts, 0, len(octets) - 1)].astype(np.int64)
    heads[run.sizes[first] == 0] = NO_OCTET
    return shapes.columns(heads, last - first + 1, last - run.first + 1)


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
        self.rows: list[int] = rows.tolist()
        self.has_topics = run.socket_type in GROUPED
        # of each row
        self.begins: list[int] = run.offsets[first].tolist()
        """Stream offset of the message."""
        self.content: list[int] = (content - first).tolist()
        self.sizes: list[int] = np.add.reduceat(sizes, ends - counts).tolist()
        """Octets of its frames."""
        self.ends: list[int] = ends.tolist()
        """Which of all frames is the first behind it."""
        # of each frame
        self.bodies: list[int] = bodies.tolist()
        """Stream offset of the body, ..."""
        self.starts: list[int] = (bodies - run.base).tolist()
        self.stops: list[int] = (bodies - run.base + sizes).tolist()
        """... and where in the octets of the run it stands."""

    def content_frame(self, place: int) -> bytes:
        """The octets of the last frame of row `rows[place]`, which may be its only content frame."""
        frame = self.ends[place] - 1
        return self.run.data[self.starts[frame] : self.stops[frame]]

    def message(self, place: int, *, after_loss: bool) -> tuple[Message, list[int]]:
        """The message of row `rows[place]`, and the stream offsets of its frames' bodies."""
        low, high = self.ends[place - 1] if place else 0, self.ends[place]
        data, content = self.run.data, self.content[place]
        frames = [data[start:stop] for start, stop in zip(self.starts[low:high], self.stops[low:high], strict=True)]
        topic = frames[0] if content == 1 and self.has_topics else None
        return Message(frames, content, topic, after_loss), self.bodies[low:high]
