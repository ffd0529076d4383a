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
from zmtpscope.dissect.records.batch import MessageRun
from zmtpscope.dissect.records.row_contents import AskedRows, RowMessages, Wanted, asked_rows
from zmtpscope.dissect.records.secrets import hide, places_of_secrets, starred
from zmtpscope.payloads.api import About
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.shapes import Candidates
from zmtpscope.payloads.side import MOST_UNCLAIMED, Named, SidePayloads
from zmtpscope.records import from_text

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
        """Find out what is in the messages of a run: `run.payloads`, `run.json` and `run.texts`. The places in the
        stream of frames that hold passwords: in `run` they are starred."""
        count, asked = len(run.first), self._rows_to_ask(run, sender)
        found: list[Dissected | None] = []
        json, texts, done = asked.json, asked.texts, self._ask(run, sender, asked, found, 0)
        if done < count:  # from there on somebody wants all
            rest = asked_rows(run, self.side.shapes, self._wanted)
            self._ask(run, sender, rest, found, done)
            json, texts = json[: bisect_left(json, done)], rest.texts
        if json:
            run.json = np.zeros(count, np.bool_)
            run.json[json] = True
        if texts is not None and done < count:
            texts[json] = False
        if texts is not None and found:
            texts &= np.array([made is None for made in found])
        run.texts = texts
        if not any(found):
            return []
        run.payloads = found
        secrets: list[range] = []
        for row, made in enumerate(found):
            if made is not None and made.secrets and not self.options.show_secrets:
                secrets += places_of_secrets(run, row, made)
                hide(made)
        data = run.data
        run.data = starred(data, run.base, secrets)
        run.has_stars = run.data is not data
        return secrets

    def _rows_to_ask(self, run: MessageRun, sender: SideFacts) -> AskedRows:
        """The messages of a run that somebody is to be asked about. Those of JSON are not, unless one may come when
        nobody is asked any more, or those who are asked have to hear of a loss in front of it."""
        side, wanted = self.side, self._wanted
        if wanted.claims and not self.unseen and int(run.offsets[-1]) < self._whole_to(sender) and side.tells_json:
            asked = asked_rows(run, side.shapes, wanted._replace(json=True))
            if not asked.json or (not asked.unknown and self._hears_each(asked.json, len(run.first))):
                return asked
        return asked_rows(run, side.shapes, wanted)

    def _hears_each(self, rows: list[int], count: int) -> bool:
        """Whether the side cannot be left alone in front of one of these rows of a run of `count`, each of which is
        claimed."""
        unclaimed = self.side.unclaimed
        if unclaimed + count <= MOST_UNCLAIMED:
            return True
        return int(np.diff(rows, prepend=-1 - unclaimed).max()) <= MOST_UNCLAIMED + 1

    @property
    def _wanted(self) -> Wanted:
        """About which messages somebody is asked now."""
        side, everything = self.side, self.asks_about_all
        return Wanted(
            claims=not (everything or side.left_alone),
            others=side.asks_for_text,
            everything=everything,
            texts=self.recognises_text,
            json=False,
            limit=self.limit,
        )

    def _ask(
        self, run: MessageRun, sender: SideFacts, asked: AskedRows, found: list[Dissected | None], behind: int
    ) -> int:
        """Ask about the messages of a run from row `behind` on, and put into `found` what is in them, where somebody is
        asked about some; behind which row that ended: all are done, or somebody wants all of those that follow."""
        side, count, wanted_all = self.side, len(run.first), self.side.wants_all
        whole_to = self._whole_to(sender)
        if side.judging and self._take_claims(run, asked, whole_to):
            return count
        if asked.rows and not found:
            found += [None] * count
        by_octets = not (self.asks_about_all or side.trees)
        messages: RowMessages | None = None
        about: About | None = None
        for place in range(bisect_left(asked.rows, behind), len(asked.rows)):
            row, begin = asked.rows[place], asked.begins[place]
            if behind < row:
                self._pass_by(run, asked, behind, row)
            behind = row + 1
            lost, made = self.unseen or begin >= whole_to, None
            if by_octets and not (lost or side.left_alone):
                candidates = side.shapes.told_at_once(asked.shapes[place])
                if candidates is not None:
                    octets = run.data[asked.starts[place] : asked.stops[place]]
                    made = side.dissect_at_once(candidates, octets, asked.sizes[place])
            if made is None:
                is_text = asked.texts is not None and bool(asked.texts[row])
                if side.left_alone and (is_text or not side.asks_for_text):
                    side.pass_by(1)
                    continue
                about = about or about_side(sender, run)
                messages = messages or RowMessages(run, np.array(asked.rows), np.array(asked.content))
                message, offsets = messages.message(place, after_loss=lost)
                made = side.dissect(message, about, offsets, is_text=is_text)
            self.unseen, self.seen_to = False, begin
            if lost:
                whole_to = self._whole_to(sender)
            found[row] = made
            if side.wants_all and not wanted_all:
                return behind
        self._pass_by(run, asked, behind, count)
        return count

    def _take_claims(self, run: MessageRun, asked: AskedRows, whole_to: int) -> bool:
        """Take all messages of a run, where nothing can come of them but that they are claimed; whether that is so."""
        if not asked.rows or asked.json or asked.unknown or self.unseen or asked.begins[-1] >= whole_to:
            return False
        candidates = [self.side.shapes.told_at_once(shape) for shape in asked.shapes]
        only_claim = [each for each in candidates if each is not None and each.only_claim]
        if len(only_claim) < len(candidates):
            return False
        data, starts, stops = run.data, asked.starts, asked.stops
        self.take_claims(
            len(run.first),
            asked.rows,
            lambda which: (only_claim[which], data[starts[which] : stops[which]]),
            asked.begins[-1],
        )
        return True

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

    def take_json(self, octets: int, behind: int, begin: int) -> None:
        """`SidePayloads.take_json` of messages in front of which nothing is missing. The last of them begins at the
        stream offset `begin`, and `behind` others stand behind it, about which nobody is asked."""
        self.side.take_json(octets)
        self.side.pass_by(behind)
        self.seen_to = begin

    def _pass_by(self, run: MessageRun, asked: AskedRows, low: int, high: int) -> None:
        """Nobody is asked about the rows `low..high` (high excluded) of a run; some may be JSON, or unknown."""
        first, behind = bisect_left(asked.json, low), bisect_left(asked.json, high)
        if first < behind:
            last = asked.json[behind - 1]
            self.take_json(sum(asked.json_sizes[first:behind]), high - last - 1, int(run.offsets[run.first[last]]))
        else:
            self.side.pass_by(high - low)
        if asked.unknown and bisect_left(asked.unknown, low) < bisect_left(asked.unknown, high):
            self.unseen = True

    def _whole_to(self, sender: SideFacts) -> int:
        """Up to which offset nothing is missing behind the message that was asked about last."""
        if not self.seen_to and not sender.is_from_the_start:
            return 0
        place = bisect_left(sender.holes, self.seen_to)
        return sender.holes[place] if place < len(sender.holes) else sys.maxsize


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
