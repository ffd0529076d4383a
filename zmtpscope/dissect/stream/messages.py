"""The messages of one side, in clear and inside of boxes, and which of their octets are held until they are whole."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container

from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.batch import HEAD_KEPT
from zmtpscope.dissect.stream.arrivals import Arrivals
from zmtpscope.dissect.stream.assembly import Assembly
from zmtpscope.dissect.stream.held_octets import HeldOctets
from zmtpscope.dissect.stream.opened_messages import OpenedMessages
from zmtpscope.dissect.stream.runs import Context, Kept

HEADERS = 64
"""Octets allowed per frame for its header, where the size of a message under way is compared with the body limit."""

MOST_HOLES = 1024
"""So many holes of a side are remembered, the last ones; messages that wait for so many are not certain anyway."""


class Messages:
    """`in_clear` makes messages of frames as they were sent, `opened` of those that were in boxes, where keys were
    given."""

    socket_type: str | None = None
    """That of the side, as far as it was read."""
    _rows_required_by = 0
    """How many want rows in any case."""

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
        """The socket types of whose messages rows are made in any case, with their first octets: they are judged."""
        self.arrivals = arrivals
        self.held_octets = held_octets
        self.in_clear = Assembly(stream)
        self.opened = opened
        self.limit = max(HEAD_KEPT, options.kept_limit) if options.keeps_bodies else HEAD_KEPT
        """Octets of the largest message of which all bodies are kept; of a larger one the first octets are."""
        self.holes: list[int] = []
        """Where octets were lost, or what a box holds is not known, as far back as somebody may ask about the messages
        around."""

    # -- what there was ----------------------------------------------------------------------------------------------

    def assemblies(self) -> tuple[Assembly, ...]:
        """Of what stands in clear, and of what was inside boxes."""
        return (self.in_clear,) if self.opened is None else (self.in_clear, self.opened.assembly)

    @property
    def message_count(self) -> int:
        """Messages so far."""
        return self.in_clear.message_count + (0 if self.opened is None else self.opened.assembly.message_count)

    @property
    def frame_count(self) -> int:
        """Message frames so far."""
        return self.in_clear.frame_count + (0 if self.opened is None else self.opened.assembly.frame_count)

    @property
    def body_octets(self) -> int:
        """Octets of message bodies so far."""
        return self.in_clear.body_octets + (0 if self.opened is None else self.opened.assembly.body_octets)

    @property
    def unit_octets(self) -> int:
        """Octets of messages so far, headers included."""
        return self.in_clear.unit_octets + (0 if self.opened is None else self.opened.assembly.unit_octets)

    @property
    def opened_boxes(self) -> int:
        """MESSAGEs that were opened."""
        return 0 if self.opened is None else self.opened.decryption.opened

    def lose(self, offset: int) -> None:
        """Octets were lost there, or what a box holds is not known."""
        insort(self.holes, offset)

    def forget_holes(self) -> None:
        """Forget the holes in front of the messages that were looked into."""
        if len(self.holes) > MOST_HOLES:
            seen = [0 if each.payloads is None else each.payloads.seen_to for each in self.assemblies()]
            del self.holes[: max(bisect_left(self.holes, min(seen)), len(self.holes) - MOST_HOLES)]

    # -- whether rows are wanted -------------------------------------------------------------------------------------

    def require_rows(self, wanted: bool = True) -> None:
        """Make rows of the messages even where they are only counted: somebody evaluates them; or one who did does so
        no more."""
        self._rows_required_by += 1 if wanted else -1

    @property
    def heads_are_wanted(self) -> bool:
        """Whether the first octets of messages are to be kept: to be written, or to be evaluated."""
        return self.options.records or self.socket_type in self.judged_types

    def are_wanted(self) -> bool:
        """Whether message rows are to be made: to be written, or to be evaluated."""
        if self.options.records or self._rows_required_by or self.socket_type in self.judged_types:
            return True
        return self.options.payloads is not None and any(each.wants_rows for each in self.assemblies())

    # -- octets that are held ----------------------------------------------------------------------------------------

    @property
    def held_elsewhere(self) -> int:
        """Octets of memory for the messages under way, but for those that the stream holds."""
        octets = self.in_clear.held_octets
        return octets if self.opened is None else octets + self.opened.assembly.held_octets

    @property
    def waits_from(self) -> int | None:
        """Stream offset of the MESSAGE that is not whole yet, and waits to be opened."""
        return None if self.opened is None else self.opened.decryption.waits_from

    @property
    def kept_from(self) -> int | None:
        """Stream offset of the message under way whose bodies are kept; None where there is none."""
        begin = self._kept_from(self.in_clear)
        if self.opened is None:
            return begin
        inside = self._kept_from(self.opened.assembly)
        return begin if inside is None else inside if begin is None else min(begin, inside)

    def _kept_from(self, assembly: Assembly) -> int | None:
        """Where the message under way begins, if it is kept."""
        options, begin = self.options, assembly.open_offset
        is_wanted = options.records or (options.keeps_bodies and assembly.wants_rows)
        if begin is None or assembly.head is not None or not (is_wanted or self.heads_are_wanted):
            return None
        limit = self.limit if is_wanted else HEAD_KEPT
        small = self._end_of(assembly) - begin <= limit + HEADERS * assembly.open_frames
        return begin if small and self.held_octets.may_hold(self.arrivals.end - begin) else None

    def _end_of(self, assembly: Assembly) -> int:
        """Where the message under way ends so far: what waits may prove no part of what is under way in boxes."""
        waits_from = None if assembly is self.in_clear else self.waits_from
        return self.arrivals.end if waits_from is None else waits_from

    def first_held(self, position: int) -> int:
        """Stream offset from which on octets are held: what is not read yet, from `position` on, a MESSAGE that is not
        whole, and the message that is under way, where its bodies are kept."""
        end = self.arrivals.end
        offset = position if position < end else end
        if (begin := self.kept_from) is not None:
            offset = min(offset, begin)
        waits_from = self.waits_from
        if waits_from is not None and self.held_octets.may_hold(end - waits_from):
            offset = min(offset, waits_from)
        return max(offset, self.held_octets.base)

    def let_go(self, octets: Callable[[], bytes]) -> None:
        """Keep no more than the first octets of a message that has become too large; `octets` are those from the first
        held on."""
        for assembly in self.assemblies():
            if assembly.open_offset is None or assembly.head is not None or self._kept_from(assembly) is not None:
                continue
            wanted = self.heads_are_wanted and self.held_octets.may_hold(HEAD_KEPT)
            assembly.let_go(self.kept(octets() if wanted else b""))

    def kept(self, octets: bytes) -> Kept:
        """Octets from the first held on."""
        return Kept(octets, self.held_octets.base, self.arrivals.pieces() if self.options.details else None)

    # -- messages that will never be whole ---------------------------------------------------------------------------

    def give_up(self, context: Context, ordinal: int) -> None:
        """Give the message under way as far as it came: it will never be whole, as the segment `ordinal` decides."""
        self.give_up_boxes(context, ordinal)
        if self.in_clear.open_frames:
            self.in_clear.give_up(context, ordinal)

    def give_up_boxes(self, context: Context, ordinal: int) -> None:
        """What waited to be opened goes on as it is: octets were lost, or the stream has
        ended, as the segment `ordinal` decides."""
        if self.opened is None:
            return
        frames = self.opened.lose(context, ordinal)
        if frames.offsets:
            self.in_clear.damage(self.kept(context.data), self.limit)
            self.in_clear.feed(frames, context)

    def give_way(self, context: Context) -> None:
        """All sides hold too much: give messages of several frames as far as they came."""
        if self.in_clear.open_frames > 1:
            self.in_clear.give_part(context)
        if self.opened is not None:
            self.opened.give_way(context)
