"""The messages of one side, unencrypted and from CURVE boxes, and the octets that are kept until messages are
complete."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container

from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.tables import HEAD_KEPT
from zmtpscope.dissect.stream.arrivals import Arrivals
from zmtpscope.dissect.stream.assembly import Assembly
from zmtpscope.dissect.stream.held_octets import HeldOctets
from zmtpscope.dissect.stream.opened_messages import OpenedMessages
from zmtpscope.dissect.stream.runs import Context, Kept

HEADERS = 64
"""Header octets per frame when the size of a message under way is compared with the body limit."""

MAX_HOLES = 1024
"""Last holes to remember per side. Messages that span more are uncertain anyway."""


class Messages:
    """The messages of one side.

    `in_clear` joins frames as sent; `opened` joins frames from decrypted boxes, if there are keys.
    """

    socket_type: str | None = None
    _rows_required_by = 0
    """Number of users that need message rows in any case."""

    def __init__(
        self,
        stream: Stream,
        options: Options,
        judged_types: Container[str],
        arrivals: Arrivals,
        held_octets: HeldOctets,
        opened: OpenedMessages | None,
    ) -> None:
        self.options = options
        self.judged_types = judged_types
        """Messages of these socket types become rows, with their first octets, because they are evaluated."""
        self.arrivals = arrivals
        self.held_octets = held_octets
        self.in_clear = Assembly(stream)
        self.opened = opened
        self.limit = max(HEAD_KEPT, options.kept_limit) if options.keeps_bodies else HEAD_KEPT
        """Octets of a message whose bodies are all kept; of a larger one only the first."""
        self.holes: list[int] = []
        """Offsets of lost octets and of boxes that stayed encrypted, as far back as payload dissectors need."""

    # -- counts --------------------------------------------------------------------------------------------------------

    def assemblies(self) -> tuple[Assembly, ...]:
        return (self.in_clear,) if self.opened is None else (self.in_clear, self.opened.assembly)

    @property
    def message_count(self) -> int:
        return self.in_clear.message_count + (0 if self.opened is None else self.opened.assembly.message_count)

    @property
    def frame_count(self) -> int:
        return self.in_clear.frame_count + (0 if self.opened is None else self.opened.assembly.frame_count)

    @property
    def body_octets(self) -> int:
        return self.in_clear.body_octets + (0 if self.opened is None else self.opened.assembly.body_octets)

    @property
    def unit_octets(self) -> int:
        return self.in_clear.unit_octets + (0 if self.opened is None else self.opened.assembly.unit_octets)

    @property
    def opened_boxes(self) -> int:
        return 0 if self.opened is None else self.opened.decryption.opened

    def lose(self, offset: int) -> None:
        """Process lost octets, or a box that stayed encrypted, at stream offset `offset`."""
        insort(self.holes, offset)

    def forget_holes(self) -> None:
        """Forget the holes before messages that are already dissected."""
        if len(self.holes) > MAX_HOLES:
            seen = [0 if each.payloads is None else each.payloads.seen_to for each in self.assemblies()]
            del self.holes[: max(bisect_left(self.holes, min(seen)), len(self.holes) - MAX_HOLES)]

    # -- whether rows are wanted -------------------------------------------------------------------------------------

    def require_rows(self, wanted: bool = True) -> None:
        """Make message rows even if no output needs them.

        Applies until the same caller passes `wanted` False.
        """
        self._rows_required_by += 1 if wanted else -1

    @property
    def heads_are_wanted(self) -> bool:
        """Whether the first octets of messages are needed, for output or to evaluate them."""
        return self.options.records or self.socket_type in self.judged_types

    def are_wanted(self) -> bool:
        """Whether messages are needed, for output or to evaluate them."""
        if self.options.records or self._rows_required_by or self.socket_type in self.judged_types:
            return True
        return self.options.payloads is not None and any(each.wants_rows for each in self.assemblies())

    # -- held octets ---------------------------------------------------------------------------------------------------

    @property
    def held_elsewhere(self) -> int:
        """How many octets of memory incomplete messages use, in addition to the kept octets of the stream."""
        octets = self.in_clear.held_octets
        return octets if self.opened is None else octets + self.opened.assembly.held_octets

    @property
    def waits_from(self) -> int | None:
        """The stream offset of an incomplete MESSAGE that waits for decryption; None if there is none."""
        return None if self.opened is None else self.opened.decryption.waits_from

    @property
    def kept_from(self) -> int | None:
        """The stream offset of the incomplete message, if its bodies are kept; otherwise None."""
        begin = self._kept_from(self.in_clear)
        if self.opened is None:
            return begin
        inside = self._kept_from(self.opened.assembly)
        return begin if inside is None else inside if begin is None else min(begin, inside)

    def _kept_from(self, assembly: Assembly) -> int | None:
        options, begin = self.options, assembly.open_offset
        is_wanted = options.records or (options.keeps_bodies and assembly.wants_rows)
        if begin is None or assembly.head is not None or not (is_wanted or self.heads_are_wanted):
            return None
        limit = self.limit if is_wanted else HEAD_KEPT
        small = self._end_of(assembly) - begin <= limit + HEADERS * assembly.open_frames
        return begin if small and self.held_octets.may_hold(self.arrivals.end - begin) else None

    def _end_of(self, assembly: Assembly) -> int:
        """Return the stream offset after the incomplete message so far.

        A MESSAGE that waits for decryption may not belong to it.
        """
        waits_from = None if assembly is self.in_clear else self.waits_from
        return self.arrivals.end if waits_from is None else waits_from

    def first_held(self, position: int) -> int:
        """Return the stream offset of the first octet to keep.

        It belongs to unread octets (from `position` on), an incomplete MESSAGE, or the incomplete message if its bodies
        are kept.
        """
        end = self.arrivals.end
        offset = position if position < end else end
        if (begin := self.kept_from) is not None:
            offset = min(offset, begin)
        waits_from = self.waits_from
        if waits_from is not None and self.held_octets.may_hold(end - waits_from):
            offset = min(offset, waits_from)
        return max(offset, self.held_octets.base)

    def let_go(self, octets: Callable[[], bytes]) -> None:
        """Drop the octets of messages that have become too large, except the first ones.

        `octets` returns the kept octets.
        """
        for assembly in self.assemblies():
            if assembly.open_offset is None or assembly.head is not None or self._kept_from(assembly) is not None:
                continue
            wanted = self.heads_are_wanted and self.held_octets.may_hold(HEAD_KEPT)
            assembly.let_go(self.kept(octets() if wanted else b""))

    def kept(self, octets: bytes) -> Kept:
        """Return the kept octets, with their packets."""
        return Kept(octets, self.held_octets.base, self.arrivals.pieces() if self.options.details else None)

    # -- incomplete messages -------------------------------------------------------------------------------------------

    def give_up(self, context: Context, ordinal: int) -> None:
        """Emit the incomplete message as it is; `ordinal` is the segment that shows that it will not be completed."""
        self.give_up_boxes(context, ordinal)
        if self.in_clear.open_frames:
            self.in_clear.give_up(context, ordinal)

    def give_up_boxes(self, context: Context, ordinal: int) -> None:
        """Leave the incomplete MESSAGE encrypted, after a loss or at the end; `ordinal` is the segment that shows
        this."""
        if self.opened is None:
            return
        frames = self.opened.lose(context, ordinal)
        if frames.offsets:
            self.in_clear.damage(self.kept(context.data), self.limit)
            self.in_clear.feed(frames, context)

    def give_way(self, context: Context) -> None:
        """Emit messages of several frames in parts, since all sides together keep too much."""
        if self.in_clear.open_frames > 1:
            self.in_clear.give_part(context)
        if self.opened is not None:
            self.opened.give_way(context)
