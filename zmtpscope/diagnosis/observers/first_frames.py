"""The first frames of messages, for ids and kinds."""

from __future__ import annotations

import re
from typing import NamedTuple

from zmtpscope import compiled
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
        """Return the command at the start of the body, or an empty string."""
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
