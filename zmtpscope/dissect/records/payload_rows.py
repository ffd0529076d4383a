"""Pass the messages of one side to the payload dissectors that may claim them.

Columns select the dissectors: the first octet of the first content frame, and the number of frames. An unclaimed
message therefore costs almost nothing.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.row_contents import AskedRows, RowMessages, Wanted, asked_rows
from zmtpscope.dissect.records.secrets import hide, places_of_secrets, starred
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.option_texts import DecodeAs
from zmtpscope.payloads.api import About
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.shapes import Candidates
from zmtpscope.payloads.side import MAX_UNCLAIMED, Named, SidePayloads
from zmtpscope.records import from_text

LARGEST = 16 << 20
"""Octets of a message to dissect."""


def side_payloads(options: Options, is_meant: Callable[[DecodeAs], bool]) -> SidePayloads | None:
    """Return the dissectors for a side, or None.

    `is_meant` returns whether a decode-as rule covers this side. Rules about a topic always apply.
    """
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
    identity: str | None
    """Identity, if announced before the run."""
    holes: list[int]
    """Offsets where octets are missing or encrypted."""
    is_from_the_start: bool
    """Whether the side was captured from the first octet."""


class PayloadRows:
    """Dissects the payloads of one side. Call `take` with tables of its messages in stream order."""

    def __init__(self, options: Options, side: SidePayloads) -> None:
        self.options = options
        self.side = side
        self.limit = min(LARGEST, options.kept_limit)
        self.unseen = False
        """Whether incomplete messages have passed since the last dissected one."""
        self.seen_to = 0
        """Stream offset of the last dissected message."""

    @property
    def wants_rows(self) -> bool:
        """Whether messages must be dissected. Even if no output needs them, they can cause findings."""
        return not self.side.left_alone

    @property
    def recognises_text(self) -> bool:
        return self.side.text is not None and not self.side.judging

    @property
    def asks_about_all(self) -> bool:
        """Whether a dissector needs every message."""
        return bool(self.side.forced) or self.side.wants_all

    @property
    def was_asked(self) -> bool:
        return bool(self.side.made)

    def has_asked(self, names: Container[str]) -> bool:
        return any(name in names for name in self.side.made)

    def take(self, run: MessageTable, sender: SideFacts) -> list[range]:
        """Dissect the messages of a table: set `run.payloads`, `run.json` and `run.texts`.

        Returns the stream offsets of frames with passwords, which become asterisks in `run`.
        """
        self.side.judging = not self.options.reads_payloads(run.socket_type)
        count, asked = len(run.first), self._rows_to_ask(run, sender)
        found: list[Dissected | None] = []
        json, texts, done = asked.json, asked.texts, self._ask(run, sender, asked, found, 0)
        if done < count:  # from there on a dissector wants all messages
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
        data = starred(run.data, run.base, secrets)
        run.change(data=data, has_stars=data is not run.data)
        return secrets

    def _rows_to_ask(self, run: MessageTable, sender: SideFacts) -> AskedRows:
        """Return the messages to dissect.

        JSON is left out, unless dissection might stop before it, or a dissector must learn of a loss before it.
        """
        side, wanted = self.side, self._wanted
        if wanted.claims and not self.unseen and int(run.offsets[-1]) < self._whole_to(sender) and side.recognises_json:
            asked = asked_rows(run, side.shapes, wanted._replace(json=True))
            if not asked.json or (not asked.unknown and self._reaches_each(asked.json, len(run.first))):
                return asked
        return asked_rows(run, side.shapes, wanted)

    def _reaches_each(self, rows: list[int], count: int) -> bool:
        """Whether all messages in `rows` will be dissected.

        Dissection stops after `MAX_UNCLAIMED` messages that no dissector claims. `count` is the number of messages.
        """
        unclaimed = self.side.unclaimed
        if unclaimed + count <= MAX_UNCLAIMED:
            return True
        return int(np.diff(rows, prepend=-1 - unclaimed).max()) <= MAX_UNCLAIMED + 1

    @property
    def _wanted(self) -> Wanted:
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
        self, run: MessageTable, sender: SideFacts, asked: AskedRows, found: list[Dissected | None], behind: int
    ) -> int:
        """Dissect messages from row `behind` on, and put the results in `found`.

        Returns the row at which it stopped. It stops early when a dissector requests all messages, since `asked` lacks
        some.
        """
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
                candidates = side.shapes.candidates_at_once(asked.shapes[place])
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

    def _take_claims(self, run: MessageTable, asked: AskedRows, whole_to: int) -> bool:
        """If claims are the only effect of dissecting the messages, claim them and return True.

        No octets are missing before the stream offset `whole_to`.
        """
        if not asked.rows or asked.json or asked.unknown or self.unseen or asked.begins[-1] >= whole_to:
            return False
        candidates = [self.side.shapes.candidates_at_once(shape) for shape in asked.shapes]
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

    def has_seen_all(self, sender: SideFacts) -> bool:
        """Whether no octets are missing between the last dissected message and the sender's next one."""
        return not self.unseen and self._whole_to(sender) == sys.maxsize

    def take_claims(
        self, count: int, places: Sequence[int], message: Callable[[int], tuple[Candidates, bytes]], begin: int
    ) -> None:
        """Pass `count` complete messages to the dissectors, which need not read them; only the last claim has an
        effect.

        `message(i)` returns candidates and content frame of message `places[i]`, which may be claimed. No octets are
        missing before these messages; the last one that may be claimed starts at stream offset `begin`.
        """
        self.side.take_claims(count, places, message)
        self.seen_to = begin

    def take_json(self, octets: int, behind: int, begin: int) -> None:
        """Pass JSON messages to the dissectors; `octets` is their total size.

        No octets are missing before them. The last one starts at stream offset `begin`, and `behind` messages that need
        no dissection follow it.
        """
        self.side.take_json(octets)
        self.side.pass_by(behind)
        self.seen_to = begin

    def _pass_by(self, run: MessageTable, asked: AskedRows, low: int, high: int) -> None:
        """Skip the messages `low..high` (high excluded), some of which may be JSON or not kept."""
        first, behind = bisect_left(asked.json, low), bisect_left(asked.json, high)
        if first < behind:
            last = asked.json[behind - 1]
            self.take_json(sum(asked.json_sizes[first:behind]), high - last - 1, int(run.offsets[run.first[last]]))
        else:
            self.side.pass_by(high - low)
        if asked.unknown and bisect_left(asked.unknown, low) < bisect_left(asked.unknown, high):
            self.unseen = True

    def _whole_to(self, sender: SideFacts) -> int:
        """Return the stream offset of the first loss after the last dissected message."""
        if not self.seen_to and not sender.is_from_the_start:
            return 0
        place = bisect_left(sender.holes, self.seen_to)
        return sender.holes[place] if place < len(sender.holes) else sys.maxsize


def about_side(sender: SideFacts, run: MessageTable) -> About:
    ends = run.stream
    return About(
        conn=ends.conn or 0,
        side=ends.side or 0,
        version=run.sender.version,
        mechanism=run.regime.mechanism,
        socket_type=run.socket_type,
        peer_socket_type=run.peer_socket_type,
        identity=None if sender.identity is None else from_text(sender.identity),
        src_port=ends.src_port,
        dst_port=ends.dst_port,
    )
