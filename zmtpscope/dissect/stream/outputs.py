"""What the stream of a side gives: values, drained after every step, as with h11's `next_event`.

Its octets are counted here, by where they went.
"""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.batch import Unit
from zmtpscope.dissect.records.leftovers import FIRST, UNDISSECTED, UNFINISHED, Gap, Leftover
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.tcp.out_of_order import Hole
from zmtpscope.zmtp.events import Event


class UnitRead(NamedTuple):
    """A greeting or command that was read, or a remark on frames, all of which is there or will never be."""

    event: Event
    decided: Arrival
    """The segment with its first octet, and the ordinal of the one that made it decidable."""
    octets: int
    """How many octets of it are there."""
    is_whole: bool
    is_certain: bool
    """The stream was read up to here without a doubt, or it is a step of the handshake, of which nobody asks that."""
    unit: Unit | None
    """Its octets, where details were asked for."""
    next_octets: Arrival | None
    """The segment with the octet behind it, where that had come already: of the handshake, and of PINGs."""
    notes: list[Note]
    """What is to be said about it."""


class Repeats(NamedTuple):
    """`number` findings of one kind that a reader only counted; `note` is the last of them."""

    note: Note
    number: int


class FoundMidstream(NamedTuple):
    """Frames were found from `offset` on in a stream whose start was not captured."""

    offset: int
    arrival: Arrival


Output = UnitRead | Note | Repeats | FoundMidstream | Gap | Leftover


class Stretch(NamedTuple):
    """Octets that are left over; where they end is not known yet. `inside` octets of them belong to units all the
    same. `data` are the first of them; None where nobody shall see them."""

    start: int
    first: Arrival
    reason: str
    inside: int
    data: bytes | None


class Outputs:
    """What one side has read, found and lost, in the order in which it was, until somebody drains it. Each octet is
    counted where it is read, lost or given up."""

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._stretch: Stretch | None = None
        self._gap: tuple[int, Hole] | None = None
        """The hole, and its stream offset, behind which a frame boundary is looked for."""
        self.units = 0
        """Octets of greetings and commands; those of messages are counted where messages are made (`Assembly`)."""
        self.gaps = 0
        """Octets that were lost."""
        self.unfinished = 0
        self.undissected = 0
        """Octets that are left over, of either kind."""

    def drain(self) -> list[Output]:
        """What there is since this was asked last."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def add(self, output: Output, octets: int = 0) -> None:
        """Give something; of a unit `octets` were captured."""
        self._outputs.append(output)
        self.units += octets

    def leave(self, leftover: Leftover) -> None:
        """These octets are in no unit."""
        if leftover.kind == UNFINISHED:
            self.unfinished += leftover.octets
        else:
            self.undissected += leftover.octets
        self._outputs.append(leftover)

    def leave_from(
        self, start: int, first: Arrival, reason: str, inside: int = 0, *, may_be_shown: bool = True
    ) -> None:
        """The octets from `start` on, which came with `first`, are left over, up to where it is said. What is left over
        already goes on. `may_be_shown`: none of them can be a password."""
        if self._stretch is None:
            self._stretch = Stretch(start, first, reason, inside, b"" if may_be_shown else None)

    @property
    def wants_octets(self) -> bool:
        """Whether octets that are left over are still to be given to `show`."""
        data = None if self._stretch is None else self._stretch.data
        return data is not None and len(data) < FIRST

    def show(self, start: int, octets: bytes) -> None:
        """These octets, from `start` on, are among those that are left over."""
        stretch = self._stretch
        if stretch is not None and stretch.data is not None:
            known = stretch.start + len(stretch.data) - start
            self._stretch = stretch._replace(data=stretch.data + octets[known : known + FIRST - len(stretch.data)])

    @property
    def is_leaving(self) -> bool:
        """Whether octets are left over, up to where it is said."""
        return self._stretch is not None

    def leave_until(self, stop: int, ordinal: int) -> None:
        """What is left over ends at `stop`, as the segment `ordinal` decides."""
        stretch, self._stretch = self._stretch, None
        if stretch is not None and stretch.start < stop:
            start, first, reason, inside, data = stretch
            decided = first._replace(ordinal=ordinal)
            if data is not None:
                data = data[: stop - start]
            self.leave(Leftover(start, stop, stop - start - inside, UNDISSECTED, reason, decided, data=data))

    def lose(self, octets: int) -> None:
        """So many octets were lost."""
        self.gaps += octets

    def give_gap(self, start: int, hole: Hole, decided: Arrival, resumed_at: int | None) -> None:
        """Give a hole at stream offset `start`; it is known where reading goes on behind it (None: nowhere)."""
        self._outputs.append(Gap(start, start + hole.octets, hole.octets, hole.reason, decided, resumed_at))

    def hold_gap(self, start: int, hole: Hole) -> None:
        """A frame boundary is looked for behind this hole."""
        self._gap = start, hole

    def end_gap(self, ordinal: int, resumed_at: int | None) -> None:
        """Reading goes on at that boundary, or (None) nowhere, as the segment `ordinal` decides."""
        if self._gap is not None:
            (start, hole), self._gap = self._gap, None
            decided = Arrival(max(ordinal, hole.ordinal), hole.packet, hole.time)
            self.give_gap(start, hole, decided, resumed_at)
