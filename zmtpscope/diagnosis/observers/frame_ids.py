"""Ids of requests in frames of their own, such as a counter or a UUID, which the reply repeats."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.call_messages import Call
from zmtpscope.diagnosis.observers.durations import median
from zmtpscope.diagnosis.observers.kinds import WORD
from zmtpscope.dissect.records.tables import MessageTable

MAX_FRAMES, MAX_ID = 4, 64
"""First frames of a message, and the octets of a frame, that can be an id."""
MAX_LEARNED = 32
"""First messages of a connection in which to look for ids."""
MIN_REPEATED = 5
"""Different ids that the other side repeats."""
LONG_ID = 8
"""Octets of an id that two sides do not choose by chance; shorter ones are usually counters."""
PROMPT = 4
"""A reply with a short id takes at most one part in this many of the time between requests."""
FEW_KINDS = 2
"""A kind of message occurs at least this often on average. Otherwise the first word is content."""
REQUEST = "request"
"""Name of a request whose kind is unknown."""
HELD = 600
"""Approximate memory of a message in which to look for ids."""


class Sent(NamedTuple):
    """A message: its sender, first frames (None: too long for an id), and call according to its payload."""

    moment: Moment
    side: int
    frames: tuple[bytes | None, ...]
    call: Call

    def id_at(self, frame: int) -> bytes | None:
        """Return a frame that may be an id, or None."""
        return (self.frames[frame] or None) if frame < len(self.frames) else None

    def kind(self, of_id: int) -> str:
        """Return the word at the start of the first frame besides the id, or an empty string."""
        frame = next((each for place, each in enumerate(self.frames) if place != of_id and each != b""), None)
        word = WORD.match(frame or b"")
        return "" if word is None else word[0].decode()


def frames_of(run: MessageTable, row: int) -> tuple[bytes | None, ...]:
    """Return the first frames of a message as far as they may be ids."""
    first, last = int(run.first[row]), int(run.last[row])
    frames = range(first, min(last + 1, first + MAX_FRAMES))
    return tuple(run.head(frame) if run.sizes[frame] <= MAX_ID else None for frame in frames)


class Places(NamedTuple):
    """The frame with the id in the messages of `asker`, and in those of the other side."""

    asker: int
    of_request: int
    of_reply: int

    def of(self, side: int) -> int:
        return self.of_request if side == self.asker else self.of_reply


class FrameIds:
    """Finds the frames with ids in the first messages of both sides."""

    def __init__(self) -> None:
        self.held: list[Sent] = []
        """Messages until the places are known."""
        self._values = set[tuple[int, int, bytes | None]]()
        """Their frames: side, place and octets."""
        self.places: Places | None = None
        self.is_over = False
        self._has_kinds = False

    def take(self, sent: Sent) -> list[Sent]:
        """Return the messages for which it is now known whether they have an id, in order."""
        if self.places is not None:
            return [self._with_id(sent, self.places)]
        self.held.append(sent)
        self._values.update((sent.side, place, frame) for place, frame in enumerate(sent.frames) if frame)
        if sent.call.id is not None or sent.call.replies is not None:
            return self.give_up()
        self.places = self._find(sent)
        if self.places is None:
            return self.give_up() if len(self.held) == MAX_LEARNED else []
        kinds = [each.kind(self.places.of_request) for each in self.held if each.side == self.places.asker]
        self._has_kinds = FEW_KINDS * len(set(kinds)) <= len(kinds)
        return [self._with_id(each, self.places) for each in self._end()]

    def give_up(self) -> list[Sent]:
        """Stop looking for ids, and return the messages held."""
        self.is_over = True
        return self._end()

    def _end(self) -> list[Sent]:
        held, self.held, self._values = self.held, [], set()
        return held

    def _with_id(self, sent: Sent, places: Places) -> Sent:
        id_, replies = sent.id_at(places.of(sent.side)), sent.side != places.asker
        if id_ is None:
            return sent
        name = sent.call.name or (self._has_kinds and sent.kind(places.of_request)) or REQUEST
        return sent._replace(call=sent.call._replace(id=id_.hex(), name=name, replies=replies))

    def _find(self, last: Sent) -> Places | None:
        """Return the places of ids if the last message is the reply that completes the evidence."""
        asker = 1 - last.side
        repeated = (
            Places(asker, of_request, of_reply)
            for of_reply, id_ in enumerate(last.frames)
            for of_request in (range(MAX_FRAMES) if id_ else ())
            if (asker, of_request, id_) in self._values
        )
        return next(filter(self._are_ids, repeated), None)

    def _are_ids(self, places: Places) -> bool:
        """Whether the other side repeats enough values that the asker sent once, and more than it does not repeat."""
        asked, replied, again, strange = dict[bytes, int](), dict[bytes, int](), set[bytes](), 0
        for sent in self.held:
            id_ = sent.id_at(places.of(sent.side))
            if id_ is None:
                continue
            if sent.side != places.asker:
                if id_ in asked:
                    replied.setdefault(id_, sent.moment.ns)
                else:
                    strange += 1
            elif id_ in asked:
                again.add(id_)
            else:
                asked[id_] = sent.moment.ns
        if len(replied) < MIN_REPEATED or 2 * len(replied) < len(asked) or not again.isdisjoint(replied):
            return False
        return min(map(len, replied)) >= LONG_ID or (not strange and _are_prompt(asked, replied))


def _are_prompt(asked: dict[bytes, int], replied: dict[bytes, int]) -> bool:
    """Whether ids are repeated soon: two sides that both count repeat them at any time."""
    between = (max(asked.values()) - min(asked.values())) / len(asked)
    return PROMPT * median(ns - asked[id_] for id_, ns in replied.items()) <= between
