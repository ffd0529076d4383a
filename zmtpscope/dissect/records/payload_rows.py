"""What rides inside the messages of one side: rows that somebody may claim are handed to the payload dissectors.

Rows are looked at as columns first: who may claim a message is told by the first octet of its first content frame and
by the number of frames, so what nobody wants costs next to nothing. Plain text, which is most of what is left, is
recognised for a whole run at once.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.options import DecodeAs, Options
from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.message_columns import content_of_few
from zmtpscope.dissect.records.row_contents import Bool, RowMessages, contents, plain_texts, shapes_of_rows
from zmtpscope.dissect.records.secrets import hide, places_of_secrets, starred
from zmtpscope.payloads.api import About
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.shapes import NO_OCTET, Candidates, Shapes
from zmtpscope.payloads.side import Named, SidePayloads
from zmtpscope.records import from_text
from zmtpscope.zmtp.events import SPECIAL

LARGEST = 16 << 20
"""Octets of a message that is looked at."""
FEW_ROWS = 64
"""So many are looked at one by one in less time than as columns."""


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

    @property
    def recognises_text(self) -> bool:
        """Whether it is told which messages are plain text."""
        return self.side.text is not None and not self.side.judging

    @property
    def asks_about_all(self) -> bool:
        """Whether somebody is asked about each message."""
        return bool(self.side.forced) or self.side.wants_all

    @property
    def was_asked(self) -> bool:
        """Whether somebody was asked about a message."""
        return bool(self.side.made)

    def has_asked(self, names: Container[str]) -> bool:
        """Whether one of these was."""
        return any(name in names for name in self.side.made)

    def take(self, run: MessageRun, sender: SideFacts) -> list[range]:
        """Find out what is in the messages of a run: `run.payloads` and `run.texts`. The places in the stream of frames
        that hold passwords: in `run` they are starred."""
        found: dict[int, Dissected] = {}
        done = self._take_few(run, sender, found) if len(run.first) <= FEW_ROWS else 0
        secrets = self._take_rest(run, sender, done, found) if done < len(run.first) else []
        run.payloads = [found.get(row) for row in range(len(run.first))] if found else None
        return secrets

    def _take_few(self, run: MessageRun, sender: SideFacts, found: dict[int, Dissected]) -> int:
        """Take the messages of a run of a few one by one, which has the same result as `_take_rest` and costs less.
        The first row that takes more than the octets of its only content frame to say who claims it, and what it is."""
        side, data, base = self.side, run.data, run.base
        if self.asks_about_all or side.trees:
            return 0
        tells_text, asks_for_text, whole_to = self.recognises_text, side.asks_for_text, self._whole_to(sender)
        shapes, most = side.shapes, self.limit
        first, last, complete = run.first.tolist(), run.last.tolist(), run.complete.tolist()
        offsets, bodies, sizes, flags = (each.tolist() for each in (run.offsets, run.bodies, run.sizes, run.flags))
        content = first if len(first) == len(offsets) else content_of_few(run, first, last, sizes)
        texts, stop = [False] * len(first), base + len(data)
        for row, (head, frame, end) in enumerate(zip(first, content, last, strict=True)):
            begin, body, behind = offsets[head], bodies[frame], bodies[end] + sizes[end]
            is_known = complete[row] and not flags[head] & SPECIAL and begin >= base and behind <= stop
            if not is_known or behind - begin > most:
                side.pass_by(1)
                self.unseen = True
                continue
            octets, is_alone = data[body - base : body - base + sizes[frame]], frame == end
            if not side.left_alone:
                first_octet = octets[0] if octets else NO_OCTET
                candidates = shapes.candidates_for(first_octet, end - frame + 1, end - head + 1)
                if candidates.dissectors:
                    if not is_alone or self.unseen or begin >= whole_to:
                        return row
                    made = side.dissect_at_once(candidates, octets, behind - begin)
                    if made is None:
                        return row
                    self.seen_to, found[row] = begin, made
                    continue
            texts[row] = (
                tells_text and is_alone and octets != b"" and octets.isascii() and octets.decode().isprintable()
            )
            if asks_for_text and not texts[row]:
                return row
            side.pass_by(1)
        run.texts = np.array(texts) if any(texts) else None
        return len(first)

    def _take_rest(self, run: MessageRun, sender: SideFacts, done: int, found: dict[int, Dissected]) -> list[range]:
        """Take those that are not done."""
        side = self.side
        if not np.count_nonzero(run.complete):
            side.pass_by(len(run.first) - done)
            self.unseen = True
            return []
        first, last, starts, known = contents(run, self.limit)
        texts = np.zeros(len(first), np.bool_)
        if self.recognises_text:
            texts = plain_texts(run, first, last, starts, known)
        asked, shapes = known, None
        if not self.asks_about_all:
            asked = known & ~texts if side.asks_for_text else np.zeros(len(first), np.bool_)
            if not side.left_alone:
                shapes = shapes_of_rows(side.shapes, run, first, last, starts)
                asked |= known & side.shapes.claimable(shapes)
        rows = asked[done:].nonzero()[0] + done
        while len(rows):
            candidates: list[Candidates | None] = [None] * len(rows)
            if shapes is not None and not side.trees:
                candidates = candidates_of(side.shapes, np.where(first == last, shapes, SEVERAL)[rows])
            messages = RowMessages(run, rows, first[rows])
            done = self._ask(sender, messages, candidates, known, texts, done, found)
            rows, shapes = known[done:].nonzero()[0] + done, None
        self._pass_by(known, done, len(known))
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
        is_whole = side.judging and not self.unseen and messages.begins[-1] < whole_to and known[behind:].all()
        only_claim = [each for each in candidates if each is not None and each.only_claim] if is_whole else []
        if len(only_claim) == len(candidates):
            places = [row - behind for row in messages.rows]
            self.take_claims(
                len(known) - behind,
                places,
                lambda which: (only_claim[which], messages.content_frame(which)),
                messages.begins[-1],
            )
            return len(known)
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

    def hears_all(self, sender: SideFacts) -> bool:
        """Whether nothing is missing in front of what is asked about next."""
        return not self.unseen and self._whole_to(sender) == sys.maxsize

    def take_claims(
        self, count: int, places: Sequence[int], message: Callable[[int], tuple[Candidates, bytes]], begin: int
    ) -> None:
        """`SidePayloads.take_claims` of whole messages in front of which nothing is missing. The last of those that may
        be claimed begins at the stream offset `begin`."""
        self.side.take_claims(count, places, message)
        self.seen_to = begin

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
    quick = {shape: each for shape, each in found.items() if each.tellers or each.only_claim}
    return [quick.get(shape) for shape in numbers]


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
