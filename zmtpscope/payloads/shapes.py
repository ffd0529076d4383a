"""Find which dissectors may claim messages, from their declarations (`Payload`), without calling them.

A shape is what declarations depend on: the sender's socket type, the first octet, and the numbers of frames. Of the
dozen dissectors, few may claim messages of one shape.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from zmtpscope.payloads.dissected import Message
from zmtpscope.payloads.dissectors import JSON, Dissector

Dissectors = tuple[Dissector, ...]
Int64 = NDArray[np.int64]

NO_JSON = bytes({*range(32)} - set(b"\t\r\n"))
NO_OCTET = 256
"""Value for an empty frame."""

UNKNOWN, NO_CANDIDATES, SOME_CANDIDATES, ONLY_CLAIMS = -1, 0, 1, 2


class Candidates:
    """The dissectors that may claim messages of one shape, in order of priority."""

    def __init__(self, dissectors: Dissectors) -> None:
        self.dissectors = dissectors
        self.prefixes = tuple(prefix for each in dissectors for prefix in each.prefixes)
        """Prefixes that some of the dissectors declare."""
        self.others = others = tuple(each for each in dissectors if not each.prefixes)
        """Dissectors that may claim messages without any of `prefixes`."""
        by_octets = all(each.claims_at_once for each in others) and len({each.least_frames for each in others}) == 1
        self.is_one = len(others) == 1
        is_possible = by_octets or self.is_one
        self.quick = tuple(each for each in others if each.dissects_at_once) if is_possible else ()
        """Candidates that need octets alone, no reader."""
        self.only_claim = by_octets and not (self.prefixes or any(each.judges for each in others))
        """Whether a claim is enough if only findings are wanted: no candidate reports findings."""
        self.only_json = others == (JSON,) and not any(map(_may_be_json, self.prefixes))
        """Whether only the JSON dissector may claim JSON messages of this shape."""

    def of(self, first: bytes) -> Dissectors:
        """Return the dissectors that may claim a message with the first content frame `first`, by their prefixes."""
        if not self.prefixes:
            return self.dissectors
        return tuple(each for each in self.dissectors if first.startswith(each.prefixes or b""))


def _may_be_json(prefix: bytes) -> bool:
    return JSON.may_begin(prefix[0]) and not any(octet in NO_JSON for octet in prefix)


class Shapes:
    """Numbers the shapes of messages.

    A shape is the sender's socket type, the first octet of the first content frame, and whether the numbers of content
    frames and of all frames suffice for each dissector.
    """

    def __init__(self, dissectors: Dissectors) -> None:
        self.dissectors = dissectors
        self.counts = sorted({each.least_frames for each in dissectors})
        """Minimum numbers of content frames that the dissectors declare."""
        self._counts = np.array(self.counts)
        self._ranks = len(self.counts) + 1
        self._of_sender = (NO_OCTET + 1) * self._ranks**2
        types = set[str | None]().union(*(each.socket_types or () for each in dissectors))
        of_types = {each: tuple(one for one in dissectors if one.may_be_from(each)) for each in types}
        others = tuple(each for each in dissectors if each.socket_types is None)
        self._senders = list(dict.fromkeys((others, *of_types.values())))
        """Candidates by kind of sender; the first is for socket types that no dissector declares."""
        self._first_of = {each: self._senders.index(found) * self._of_sender for each, found in of_types.items()}
        self._candidates: dict[int, Candidates] = {}
        self._at_once: dict[int, Candidates | None] = {}
        self._of_frames: dict[int, Candidates] = {}
        self.begins_frame = _frame_beginnings(dissectors)
        self.known = np.full(len(self._senders) * self._of_sender, UNKNOWN, np.int8)
        """State of each shape: NO_CANDIDATES, ONLY_CLAIMS (candidates can only claim), SOME_CANDIDATES (other
        candidates), or UNKNOWN (not computed yet)."""
        self.only_json = np.zeros(len(self.known), np.bool_)
        """Whether only the JSON dissector may claim JSON messages, by computed shape."""

    def __reduce__(self) -> tuple[object, tuple[Dissectors]]:
        """Pickle as a reference to the table that all sides share."""
        return shapes_of, (self.dissectors,)

    def first_of(self, socket_type: str | None) -> int:
        return self._first_of.get(socket_type, 0)

    def columns(self, first_of: int | Int64, heads: Int64, content: Int64, frames: Int64) -> Int64:
        """Return the shape numbers of many messages.

        `first_of` is the first shape number of each sender's socket type, `heads` the first octets (or `NO_OCTET`),
        `content` and `frames` the numbers of content frames and of all frames.
        """
        of_content, of_all = self._counts.searchsorted(content, "right"), self._counts.searchsorted(frames, "right")
        found: Int64 = first_of + (heads * self._ranks + of_content) * self._ranks + of_all
        return found

    def of(self, message: Message, socket_type: str | None) -> int:
        frames, content = message.frames, message.content
        count = len(frames)
        first = frames[content] if content < count else b""
        of_content, of_all = bisect_right(self.counts, count - content), bisect_right(self.counts, count)
        head = first[0] if first else NO_OCTET
        return self.first_of(socket_type) + (head * self._ranks + of_content) * self._ranks + of_all

    def candidates(self, shape: int) -> Candidates:
        found = self._candidates.get(shape)
        if found is None:
            sender, rest = divmod(shape, self._of_sender)
            rest, of_all = divmod(rest, self._ranks)
            head, of_content = divmod(rest, self._ranks)
            enough, enough_in_all = self.counts[:of_content], self.counts[:of_all]
            found = self._candidates[shape] = Candidates(
                tuple(
                    each
                    for each in self._senders[sender]
                    if each.least_frames in (enough_in_all if each.looks_in_front else enough) and each.may_begin(head)
                )
            )
        return found

    def candidates_at_once(self, shape: int) -> Candidates | None:
        """Return the dissectors for a shape if its messages may be dissected by `at_once` or `claims_at_once`,
        otherwise None."""
        if shape not in self._at_once:
            found = self.candidates(shape) if shape >= 0 else None
            self._at_once[shape] = found if found is not None and (found.quick or found.only_claim) else None
        return self._at_once[shape]

    def asked(self, message: Message, socket_type: str | None) -> Dissectors:
        """Return the dissectors that may claim a message, by its shape."""
        frames, content = message.frames, message.content
        return self.candidates(self.of(message, socket_type)).of(frames[content] if content < len(frames) else b"")

    def claimable(self, shapes: Int64) -> NDArray[np.bool_]:
        """Return which shapes any dissector may claim."""
        found: NDArray[np.bool_] = self._look_up(shapes) > NO_CANDIDATES
        return found

    def only_claimed(self, shapes: Int64) -> NDArray[np.bool_]:
        """Return which shapes need only a claim, and no dissection, when only findings are wanted.

        It applies to messages of one content frame.
        """
        found: NDArray[np.bool_] = self._look_up(shapes) == ONLY_CLAIMS
        return found

    def _look_up(self, shapes: Int64) -> NDArray[np.int8]:
        found = self.known[shapes]
        unknown = found == UNKNOWN
        if np.count_nonzero(unknown):
            for shape in np.flatnonzero(np.bincount(shapes[unknown])).tolist():  # np.unique loads numpy.ma
                candidates = self.candidates(shape)
                state = SOME_CANDIDATES if candidates.dissectors else NO_CANDIDATES
                self.known[shape] = ONLY_CLAIMS if candidates.only_claim else state
                self.only_json[shape] = candidates.only_json
            found = self.known[shapes]
        return found

    def of_frame(self, octets: bytes) -> Dissectors:
        """Return the dissectors that may claim a message by this frame, whatever its position."""
        if len(octets) < 2 or not self.begins_frame[octets[0] << 8 | octets[1]]:
            return ()
        found = self._of_frames.get(octets[0])
        if found is None:
            fitting = tuple(each for each in self.dissectors if each.framewise and each.may_begin(octets[0]))
            found = self._of_frames[octets[0]] = Candidates(fitting)
        return found.of(octets)


def _frame_beginnings(dissectors: Dissectors) -> NDArray[np.bool_]:
    """Return for each pair of octets whether any dissector may claim a message by a frame that starts with them.

    Frames of one octet are never claimed.
    """
    found = np.zeros((256, 256), np.bool_)
    for each in dissectors:
        for first in range(256) if each.framewise and not each.prefixes else ():
            found[first] |= each.may_begin(first)
        for prefix in each.prefixes if each.framewise else ():
            found[prefix[0], prefix[1] if len(prefix) > 1 else slice(None)] = True
    return found.reshape(-1)


@lru_cache(maxsize=8)
def shapes_of(dissectors: Dissectors) -> Shapes:
    """Return the shapes for these dissectors; all sides share them."""
    return Shapes(dissectors)
