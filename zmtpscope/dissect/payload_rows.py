"""What rides inside the messages of one side: rows that somebody may claim are handed to the payload dissectors.

Rows are looked at as columns first: who may claim a message is told by the first octet of its first content frame and
by the number of frames, so what nobody wants costs next to nothing. Plain text, which is most of what is left, is
recognised for a whole run at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.batch import Int64, MessageRun
from zmtpscope.dissect.options import DecodeAs, Options
from zmtpscope.dissect.rows import is_enveloped
from zmtpscope.payloads.api import About, Message, Payload
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.side import Named, SidePayloads
from zmtpscope.records import from_text
from zmtpscope.zmtp.events import SPECIAL
from zmtpscope.zmtp.socket_types import PUBLISHERS

if TYPE_CHECKING:
    from zmtpscope.dissect.stream import SideStream

Bool = NDArray[np.bool_]

TOPICAL = PUBLISHERS | {"RADIO"}
"""Whose messages of several frames begin with a topic or group."""

LARGEST = 16 << 20
"""Octets of a message that is looked at."""

NO_OCTET = 256
"""Stands for the first octet of an empty frame."""


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


class PayloadRows:
    """The payloads of one side. `take` its runs in the order of the stream."""

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

    def take(self, stream: SideStream, run: MessageRun) -> list[range]:
        """Find out what is in the messages of a run: `run.payloads` and `run.texts`. The places in the stream of frames
        that hold passwords: in `run` they are starred."""
        side = self.side
        if not run.complete.any():
            side.pass_by(len(run.first))
            self.unseen = True
            return []
        first, last, starts, known = contents(run, self.limit)
        asked, texts = known, np.zeros(len(first), np.bool_)
        if side.text is not None and not side.judging:
            texts = plain_texts(run, first, last, starts, known)
        if not (side.forced or side.wants_all):
            asked = known & self._may_be_claimed(run, first, last, starts)
            if side.asks_for_text:
                asked |= known & ~texts
        found: list[Dissected | None] = []
        about: About | None = None
        secrets: list[range] = []
        before = 0
        rows = iter(np.flatnonzero(asked).tolist())
        while (row := next(rows, None)) is not None:
            side.pass_by(row - before)
            self.unseen = self.unseen or not known[before:row].all()
            before = row + 1
            is_text = bool(texts[row])
            if side.left_alone and (is_text or not side.asks_for_text):
                side.pass_by(1)
                continue
            about = about or about_side(stream, run)
            message, offsets = message_at(run, row, int(first[row]))
            lost = self._lost_before(stream, int(run.offsets[run.first[row]]))
            wanted_all = side.wants_all
            made = side.dissect(message._replace(after_loss=lost), about, offsets, is_text=is_text)
            if side.wants_all and not wanted_all:
                rows = iter((np.flatnonzero(known[before:]) + before).tolist())
            if made is not None:
                found = found or [None] * len(first)
                found[row] = made
                texts[row] = False
                if made.secrets and not self.options.show_secrets:
                    secrets += places_of_secrets(run, row, made)
                    hide(made)
        side.pass_by(len(first) - before)
        self.unseen = self.unseen or not known[before:].all()
        run.payloads = found or None
        run.texts = texts if texts.any() else None
        run.data = starred(run.data, run.base, secrets)
        return secrets

    def _lost_before(self, stream: SideStream, offset: int) -> bool:
        """Whether messages may be missing in front of the one at `offset`, behind the one that was asked about last."""
        lost = self.unseen or (not self.seen_to and not stream.is_from_the_start)
        lost = lost or bisect_left(stream.holes, self.seen_to) < bisect_right(stream.holes, offset)
        self.unseen, self.seen_to = False, offset
        return lost

    def _may_be_claimed(self, run: MessageRun, first: Int64, last: Int64, starts: Int64) -> Bool:
        """Which rows somebody may claim who is not the dissector of text."""
        octets = np.frombuffer(run.data, np.uint8)
        if self.side.left_alone or not len(octets):
            return np.zeros(len(first), np.bool_)
        heads = np.where(run.sizes[first] > 0, octets[np.clip(starts, 0, len(octets) - 1)], NO_OCTET)
        table, several, in_front = openings(self.side.kinds)
        wanted: Bool = table[heads]
        for least in several:
            wanted |= last - first >= least - 1
        for least in in_front:
            wanted |= last - run.first >= least - 1
        return wanted


@lru_cache(maxsize=8)
def openings(kinds: tuple[type[Payload], ...]) -> tuple[Bool, set[int], set[int]]:
    """What somebody of `kinds` may claim: first octets, and numbers of frames from which on, of content and in all."""
    table = np.zeros(NO_OCTET + 1, np.bool_)
    table[[octet for kind in kinds for octet in kind.begins or b""]] = True
    several, in_front = set[int](), set[int]()
    for kind in kinds:
        if kind.begins is None:
            (in_front if kind.looks_in_front else several).add(kind.least_frames)
    return table, several, in_front


def contents(run: MessageRun, limit: int) -> tuple[Int64, Int64, Int64, Bool]:
    """First and last content frame of each row, the place of the first in `run.data`, and whether the whole message is
    there, of at most `limit` octets."""
    first, last = run.first, run.last
    content = first
    if is_enveloped(run):
        empty = np.append(np.flatnonzero(run.sizes == 0), len(run.sizes))
        delimiter = empty[np.searchsorted(empty, first)]
        content = np.where(delimiter < last, delimiter + 1, first)
    elif run.socket_type in TOPICAL:
        content = np.where(last > first, first + 1, first)
    starts = run.bodies[content] - run.base
    # a size may be anything, so it is compared with what is there before it is added to anything
    known = run.sizes[last] <= run.base + len(run.data) - run.bodies[last]
    known &= run.complete & ((run.flags[first] & SPECIAL) == 0)
    if run.offsets[0] < run.base:
        known &= run.offsets[first] >= run.base
    if len(run.data) > limit:
        known &= run.bodies[last] + np.where(known, run.sizes[last], 0) - run.offsets[first] <= limit
    return content, last, starts, known


DELETE = 0x7F
"""The only control character of ASCII that is above the printable ones."""


def plain_texts(run: MessageRun, first: Int64, last: Int64, starts: Int64, known: Bool) -> Bool:
    """Which rows have one content frame, of printable ASCII."""
    candidates: Bool = known & (first == last) & (run.sizes[last] > 0)
    if not candidates.any():
        return candidates
    octets = np.frombuffer(run.data, np.uint8)
    other = octets.view(np.int8) < ord(" ")  # what is not ASCII is below zero
    if b"\x7f" in run.data:
        other |= octets == DELETE
    if candidates.all():  # usually all octets that are no text are those of short headers
        headers = run.offsets[first[0] :] - run.base
        in_headers = np.count_nonzero(other[headers]) + np.count_nonzero(other[headers + 1])
        if np.count_nonzero(other[headers[0] : starts[-1] + run.sizes[-1]]) == in_headers:
            return candidates
    begins = np.clip(starts, 0, len(octets))
    ends = np.minimum(begins + np.clip(run.sizes[first], 0, len(octets)), len(octets))
    places = np.flatnonzero(other)
    plain: Bool = candidates & (np.searchsorted(places, begins) == np.searchsorted(places, ends))
    return plain


def message_at(run: MessageRun, row: int, content: int) -> tuple[Message, list[int]]:
    """A message of a run, and the stream offsets of its frames' bodies."""
    first, last = int(run.first[row]), int(run.last[row])
    offsets = run.bodies[first : last + 1].tolist()
    sizes = run.sizes[first : last + 1].tolist()
    data, base = run.data, run.base
    frames = [data[offset - base : offset - base + size] for offset, size in zip(offsets, sizes, strict=True)]
    topic = frames[0] if content == first + 1 and run.socket_type in TOPICAL else None
    return Message(frames, content - first, topic), offsets


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


def about_side(stream: SideStream, run: MessageRun) -> About:
    """What is known of who sends the messages of a run."""
    identity = stream.identity_at(int(run.offsets[0]))
    ends = run.stream
    return About(
        conn=ends.conn or 0,
        side=ends.side or 0,
        version=run.version,
        mechanism=run.regime.mechanism,
        socket_type=run.socket_type,
        peer_socket_type=run.peer_socket_type,
        identity=None if identity is None else from_text(identity),
        src_port=ends.src_port,
        dst_port=ends.dst_port,
    )
