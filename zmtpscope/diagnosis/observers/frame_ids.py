"""Find ids of requests in unknown protocols: octets in the first frames of requests that replies repeat.

An id is a counter or a UUID, as a frame of its own, at the start of a frame, or in a JSON object without a method.
"""

from __future__ import annotations

import re
from itertools import product
from typing import NamedTuple

from zmtpscope import compiled
from zmtpscope.diagnosis.observers.call_messages import Call
from zmtpscope.diagnosis.observers.durations import median
from zmtpscope.dissect.records.tables import MessageTable

MAX_FRAMES, MAX_ID = 4, 64
"""First frames of a message, and the octets of a frame, that can be an id."""

MAX_ENVELOPE = 3
"""Frames up to the empty one that ends an envelope."""

HEAD = 256
"""Octets of a body to look at."""

WORD = re.compile(rb"[A-Za-z_][\w.\-/]{0,31}(?=[\s:=,;(|\0]|$)")
"""Matches a command at the start of a frame."""

MEMBER = re.compile(rb'"(?:method|cmd|command|action|type|msg_type|op|request)"\s*:\s*"([^"\\]{1,32})"')
"""Matches a command in a JSON object."""


class FirstFrames(NamedTuple):
    time: int
    packet: int
    """Those of the first octet."""
    body: bytes
    """First octets of the frame after the envelope."""
    frames: tuple[bytes | None, ...]
    """The first `MAX_FRAMES` frames. None: no frame, one that is too long for an id, or not kept."""

    @property
    def kind(self) -> bytes:
        """Return the kind of the message: the command at the start of its body, or an empty string."""
        if len(self.body) == 1:
            return self.body
        found = MEMBER.search(self.body) if self.body.startswith(b"{") else None
        if found:
            return found[1]
        word = WORD.match(self.body)
        return word[0] if word else b""


@compiled.where_possible
def first_frames(run: MessageTable, begin: int, end: int) -> list[FirstFrames]:
    """Return the first frames of the messages `begin..end` (`end` excluded)."""
    return [_first_frames(run, row) for row in range(begin, end)]


def _first_frames(run: MessageTable, row: int) -> FirstFrames:
    first, last = int(run.first[row]), int(run.last[row])
    places = range(first, min(last + 1, first + MAX_FRAMES))
    frames = [run.head(place) if run.sizes[place] <= MAX_ID else None for place in places]
    frames += [None] * (MAX_FRAMES - len(frames))
    envelope = run.sizes[first : min(first + MAX_ENVELOPE, last)].tolist()
    body = first + envelope.index(0) + 1 if 0 in envelope else first
    return FirstFrames(int(run.times[row]), int(run.packets[row]), run.head(body, HEAD) or b"", tuple(frames))


MAX_LEARNED = 32
"""First messages of a connection to search for ids."""
MIN_REPEATED = 5
"""Different ids that the other side repeats."""
LONG_ID = 8
"""Octets of an id that two sides do not choose by chance; counters are shorter."""
PROMPT = 4
"""A reply with a short id takes at most this fraction of the time between requests."""
FEW_KINDS = 2
"""Average occurrences of a kind of message; if it has fewer, the first word is content."""
REQUEST = "request"
"""Name of a request of unknown kind."""
HELD = 900
"""Approximate memory of a held message."""


class Sent(NamedTuple):
    """A message with its first frames, and the call that its payload is.

    The frame with the number `MAX_FRAMES` stands for an id inside of the payload.
    """

    side: int
    first: FirstFrames
    frames: tuple[bytes | None, ...]
    call: Call

    @classmethod
    def of(cls, side: int, first: FirstFrames, call: Call) -> Sent:
        return cls(side, first, (*first.frames, None if call.id is None else call.id.encode()), call)

    def id_at(self, frame: int, is_start: bool) -> bytes | None:
        """Return the octets of a possible id, or None: the whole frame `frame`, or its start if `is_start`."""
        found = self.frames[frame] if frame < len(self.frames) else None
        if not found or (is_start and len(found) <= LONG_ID):
            return None
        return found[:LONG_ID] if is_start else found

    def kind(self, of_id: int) -> str:
        """Return the word at the start of the first frame other than the id (frame `of_id`), or an empty string."""
        frames = enumerate(self.frames[:MAX_FRAMES])
        frame = next((each for place, each in frames if place != of_id and each != b""), None)
        word = WORD.match(frame or b"")
        return "" if word is None else word[0].decode()


class Places(NamedTuple):
    """Where ids are: in frame `of_request` of messages of the side `asker`, and in frame `of_reply` of the other side.

    `is_start`: the id is the start of its frame.
    """

    asker: int
    of_request: int
    of_reply: int
    is_start: bool

    def id_of(self, sent: Sent) -> bytes | None:
        return sent.id_at(self.of_request if sent.side == self.asker else self.of_reply, self.is_start)


class FrameIds:
    """Finds out which frames contain ids, from the first messages of both sides."""

    def __init__(self) -> None:
        self.held: list[Sent] = []
        """Messages until the places are known."""
        self.places: Places | None = None
        self.is_over = False
        self._has_kinds = False
        self._values: tuple[set[bytes], set[bytes]] = set(), set()
        """Possible ids of each side."""
        self._repeating = [0, 0]
        """Messages of each side that repeat one of the other side."""

    def take(self, sent: Sent) -> list[Sent]:
        """Add a message. Return the messages kept so far, in order, once it is known which frames are ids."""
        if self.places is not None:
            return [self._with_id(sent, self.places)]
        self.held.append(sent)
        if (sent.call.name and sent.call.id is not None) or sent.call.replies is not None:
            return self.give_up()
        self.places = self._find(sent)
        if self.places is None:
            return self.give_up() if len(self.held) == MAX_LEARNED else []
        kinds = [each.kind(self.places.of_request) for each in self.held if each.side == self.places.asker]
        self._has_kinds = FEW_KINDS * len(set(kinds)) <= len(kinds)
        return [self._with_id(each, self.places) for each in self._release()]

    def give_up(self) -> list[Sent]:
        """End the search without a result, and return the messages kept so far."""
        self.is_over = True
        return self._release()

    def _release(self) -> list[Sent]:
        held, self.held = self.held, []
        for values in self._values:
            values.clear()
        return held

    def _with_id(self, sent: Sent, places: Places) -> Sent:
        id_, replies = places.id_of(sent), sent.side != places.asker
        if id_ is None:
            return sent
        name = sent.call.name or (self._has_kinds and sent.kind(places.of_request)) or REQUEST
        return sent._replace(call=sent.call._replace(id=id_.hex(), name=name, replies=replies))

    def _find(self, last: Sent) -> Places | None:
        """Return the frames with ids, if the messages up to `last` are enough evidence, otherwise None."""
        own, others = (self._values[side] for side in (last.side, 1 - last.side))
        found = product((False, True), [place for place, frame in enumerate(last.frames) if frame])
        values = {place: id_ for place in found if (id_ := last.id_at(place[1], place[0])) is not None}
        own.update(values.values())
        repeated = [place for place, id_ in values.items() if id_ in others]
        self._repeating[last.side] += bool(repeated)
        if not repeated or self._repeating[last.side] % MIN_REPEATED:
            return None
        asked = product(repeated, range(MAX_FRAMES + 1))
        places = (Places(1 - last.side, of_request, of_reply, is_start) for (is_start, of_reply), of_request in asked)
        return next(filter(self._are_ids, places), None)

    def _are_ids(self, places: Places) -> bool:
        """Whether the octets at these places are ids: the other side repeats enough values that occur once, and few
        others."""
        asked, replied, again, strange = dict[bytes, int](), dict[bytes, int](), set[bytes](), 0
        for sent in self.held:
            id_ = places.id_of(sent)
            if id_ is None:
                continue
            if sent.side != places.asker:
                if id_ in asked:
                    replied.setdefault(id_, sent.first.time)
                else:
                    strange += 1
            elif id_ in asked:
                again.add(id_)
            else:
                asked[id_] = sent.first.time
        if len(replied) < MIN_REPEATED or not again.isdisjoint(replied):
            return False
        if strange and 2 * len(replied) < len(asked):
            return False  # not if many requests wait at a time
        return min(map(len, replied)) >= LONG_ID or (not strange and _are_prompt(asked, replied))


def _are_prompt(asked: dict[bytes, int], replied: dict[bytes, int]) -> bool:
    """Whether replies repeat values much sooner than requests follow each other, as for ids.

    If both sides merely count their messages, equal numbers are at any distance in time. Both arguments map a value to
    the time (ns) of its message.
    """
    between = (max(asked.values()) - min(asked.values())) / len(asked)
    return PROMPT * median(ns - asked[id_] for id_, ns in replied.items()) <= between
