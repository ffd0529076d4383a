"""What rides inside the messages of one side: rows that somebody may claim are handed to the payload dissectors.

Rows are looked at as columns first: who may claim a message is told by the first octet of its first content frame and
by the number of frames, so what nobody wants costs next to nothing. Plain text, which is most of what is left, is
recognised for a whole run at once.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.options import DecodeAs, Options
from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.message_columns import GROUPED, content_frames
from zmtpscope.payloads.api import About, Message
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.shapes import NO_OCTET, Candidates, Shapes
from zmtpscope.payloads.side import Named, SidePayloads
from zmtpscope.records import from_text
from zmtpscope.zmtp.events import SPECIAL

Bool = NDArray[np.bool_]

LARGEST = 16 << 20
"""Octets of a message that is looked at."""


def side_payloads(options: Options, is_meant: Callable[[DecodeAs], bool]) -> SidePayloads | None:
    """Who is asked about the messages of a side; None: nobody. `is_meant` tells which rules of the user's are about the
    side as a whole, those about a topic are about any."""
    if options.payloads is None:
        return None
    named = []
    for rule in options.decode_as:
        if rule.payload is not None and (isinstance(rule.value, bytes) or is_meant(rule)):
            named.append(Named(*rule.payload, rule.value if isinstance(rule.value, bytes) else None))
    judging = not options.records
    return SidePayloads(
        options.payloads, named, trees=options.details, judging=judging, show_secrets=options.show_secrets
    )


class SideFacts(NamedTuple):
    """What is known of the side that sends the messages of a run."""

    identity: str | None
    """As far as it was told in front of the run."""
    holes: list[int]
    """Stream offsets at which octets are missing, or what a box holds is."""
    is_from_the_start: bool
    """Whether the first octets that were captured are the first of the side."""


class PayloadRows:
    """The payloads of one side. `take` its runs in the order of the stream.

    Many runs have a row or two, so what is asked of each is asked in the way of numpy that is quick for few values.
    """

    def __init__(self, options: Options, side: SidePayloads) -> None:
        self.options = options
        self.side = side
        self.limit = min(LARGEST, options.kept_limit)
        self.unseen = False
        """Messages went by that are not whole, since the last one that was asked about."""
        self.seen_to = 0
        """Stream offset of that one."""

    @property
    def wants_rows(self) -> bool:
        """Whether findings may come of rows that nobody else wants."""
        return not self.side.left_alone

    def take(self, run: MessageRun, sender: SideFacts) -> list[range]:
        """Find out what is in the messages of a run: `run.payloads` and `run.texts`. The places in the stream of frames
        that hold passwords: in `run` they are starred."""
        side = self.side
        if not np.count_nonzero(run.complete):
            side.pass_by(len(run.first))
            self.unseen = True
            return []
        first, last, starts, known = contents(run, self.limit)
        texts = np.zeros(len(first), np.bool_)
        if side.text is not None and not side.judging:
            texts = plain_texts(run, first, last, starts, known)
        asked, shapes = known, None
        if not (side.forced or side.wants_all):
            asked = known & ~texts if side.asks_for_text else np.zeros(len(first), np.bool_)
            if not side.left_alone:
                shapes = shapes_of_rows(side.shapes, run, first, last, starts)
                asked |= known & side.shapes.claimable(shapes)
        found: dict[int, Dissected] = {}
        rows, behind = asked.nonzero()[0], 0
        while len(rows):
            candidates: list[Candidates | None] = [None] * len(rows)
            if shapes is not None and not side.trees:
                candidates = candidates_of(side.shapes, np.where(first == last, shapes, SEVERAL)[rows])
            messages = RowMessages(run, rows, first[rows])
            behind = self._ask(sender, messages, candidates, known, texts, behind, found)
            rows, shapes = known[behind:].nonzero()[0] + behind, None
        self._pass_by(known, behind, len(known))
        run.payloads = [found.get(row) for row in range(len(known))] if found else None
        texts[list(found)] = False
        run.texts = texts if np.count_nonzero(texts) else None
        secrets: list[range] = []
        for row, made in found.items():
            if made.secrets and not self.options.show_secrets:
                secrets += places_of_secrets(run, row, made)
                hide(made)
        data = run.data
        run.data = starred(data, run.base, secrets)
        run.has_stars = run.data is not data
        return secrets

    def _ask(
        self,
        sender: SideFacts,
        messages: RowMessages,
        candidates: Sequence[Candidates | None],
        known: Bool,
        texts: Bool,
        behind: int,
        found: dict[int, Dissected],
    ) -> int:
        """Ask about some rows of a run, those from `behind` on; behind which row that ended: from where on all are to
        be asked about, or all are done. `candidates` are those of rows of one content frame, where its octets may be
        enough to ask them."""
        side, wanted_all = self.side, self.side.wants_all
        about: About | None = None
        whole_to = self._whole_to(sender)
        for place, row in enumerate(messages.rows):
            if behind < row:
                self._pass_by(known, behind, row)
            behind = row + 1
            begin = messages.begins[place]
            lost = self.unseen or begin >= whole_to
            few, made = candidates[place], None
            if few is not None and not (lost or side.left_alone):
                made = side.dissect_at_once(few, messages.content_frame(place), messages.sizes[place])
            if made is None:
                is_text = bool(texts[row])
                if side.left_alone and (is_text or not side.asks_for_text):
                    side.pass_by(1)
                    continue
                about = about or about_side(sender, messages.run)
                message, offsets = messages.message(place, after_loss=lost)
                made = side.dissect(message, about, offsets, is_text=is_text)
            self.unseen, self.seen_to = False, begin
            if lost:
                whole_to = self._whole_to(sender)
            if made is not None:
                found[row] = made
            if side.wants_all and not wanted_all:
                return behind
        self._pass_by(known, behind, len(known))
        return len(known)

    def _pass_by(self, known: Bool, low: int, high: int) -> None:
        """Nobody is asked about the rows `low..high` (high excluded)."""
        self.side.pass_by(high - low)
        self.unseen = self.unseen or bool(np.count_nonzero(known[low:high]) < high - low)

    def _whole_to(self, sender: SideFacts) -> int:
        """Up to which offset nothing is missing behind the message that was asked about last."""
        if not self.seen_to and not sender.is_from_the_start:
            return 0
        place = bisect_left(sender.holes, self.seen_to)
        return sender.holes[place] if place < len(sender.holes) else sys.maxsize


SEVERAL = -1
"""Instead of the shape of a message of several content frames, or none."""


def candidates_of(shapes: Shapes, of_rows: Int64) -> list[Candidates | None]:
    """By row, of the shapes `of_rows`: who may claim it, where octets alone may be enough to ask them."""
    numbers = of_rows.tolist()
    found = {shape: shapes.candidates(shape) for shape in set(numbers) if shape != SEVERAL}
    alone = {shape: each for shape, each in found.items() if each.alone is not None}
    return [alone.get(shape) for shape in numbers]


def shapes_of_rows(shapes: Shapes, run: MessageRun, first: Int64, last: Int64, starts: Int64) -> Int64:
    """The shapes of the messages of a run, from what `contents` says of them."""
    octets = np.frombuffer(run.data or b"\0", np.uint8)
    heads = octets[_between(starts, 0, len(octets) - 1)].astype(np.int64)
    heads[run.sizes[first] == 0] = NO_OCTET
    return shapes.columns(heads, last - first + 1, last - run.first + 1)


def contents(run: MessageRun, limit: int) -> tuple[Int64, Int64, Int64, Bool]:
    """First and last content frame of each row, the place of the first in `run.data`, and whether the whole message is
    there, of at most `limit` octets."""
    first, last, content = run.first, run.last, content_frames(run)
    starts = run.bodies[content] - run.base
    # a size may be anything, so it is compared with what is there before it is added to anything
    known = run.sizes[last] <= run.base + len(run.data) - run.bodies[last]
    known &= run.complete & ((run.flags[first] & SPECIAL) == 0)
    if run.offsets[0] < run.base:
        known &= run.offsets[first] >= run.base
    if len(run.data) > limit:
        known &= run.bodies[last] + np.where(known, run.sizes[last], 0) - run.offsets[first] <= limit
    return content, last, starts, known


def _between(values: Int64, low: int, high: int) -> Int64:
    """Values, those outside of `low..high` moved to its ends: `np.clip`, which takes six times as long for a few."""
    return np.minimum(np.maximum(values, low), high)


DELETE = 0x7F
"""The only control character of ASCII that is above the printable ones."""


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


def places_of_secrets(run: MessageRun, row: int, made: Dissected) -> list[range]:
    """The octets of the frames of a message that hold a password, by their places in the stream."""
    first, last = int(run.first[row]), int(run.last[row])
    frames = sorted({first + index for index in made.secrets if 0 <= index <= last - first})
    return [range(int(run.bodies[frame]), int(run.bodies[frame] + run.sizes[frame])) for frame in frames]


def hide(made: Dissected) -> None:
    """Let nothing show the octets of frames that hold a password."""
    made.nodes = {index: nodes for index, nodes in made.nodes.items() if index not in made.secrets}
    made.sources = []


def starred(data: bytes, base: int, secrets: list[range]) -> bytes:
    """The octets from `base` of the stream on, with stars in place of secrets, which come in order."""
    low, high = (bisect_left(secrets, place, key=_start_of) for place in (base, base + len(data)))
    within = secrets[low:high]
    if not within:
        return data
    octets = bytearray(data)
    for each in within:
        start, stop = each.start - base, min(each.stop - base, len(octets))
        octets[start:stop] = b"*" * (stop - start)
    return bytes(octets)


def _start_of(secret: range) -> int:
    return secret.start


def about_side(sender: SideFacts, run: MessageRun) -> About:
    """What is known of who sends the messages of a run."""
    ends = run.stream
    return About(
        conn=ends.conn or 0,
        side=ends.side or 0,
        version=run.version,
        mechanism=run.regime.mechanism,
        socket_type=run.socket_type,
        peer_socket_type=run.peer_socket_type,
        identity=None if sender.identity is None else from_text(sender.identity),
        src_port=ends.src_port,
        dst_port=ends.dst_port,
    )
