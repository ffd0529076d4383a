"""Collects the results of one side until the caller drains them. Each octet is counted by its outcome."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.batch import Unit
from zmtpscope.dissect.records.leftovers import FIRST, UNDISSECTED, UNFINISHED, Gap, Leftover
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.tcp.out_of_order import Hole
from zmtpscope.zmtp.events import Event


class UnitRead(NamedTuple):
    """A greeting or command whose octets have all arrived, or are known to be lost."""

    event: Event
    decided: Arrival
    """The segment with the first octet, with the ordinal of the segment that made it decidable."""
    octets: int
    """Number of captured octets of the unit; lost ones may be between them."""
    is_whole: bool
    is_certain: bool
    """Whether parsing up to here is beyond doubt, as always in the handshake."""
    unit: Unit | None
    """The event's octets, if details are wanted."""
    next_octets: Arrival | None
    """The segment with the next octet, if already captured; only for handshake units and PINGs."""
    notes: list[Note]


class Repeats(NamedTuple):
    """Findings that a reader only counted: their number, and the last one."""

    note: Note
    number: int


class FoundMidstream(NamedTuple):
    """The start of a side was not captured, but frames were found from this stream offset on.

    `arrival` is the segment that showed it.
    """

    offset: int
    arrival: Arrival


Output = UnitRead | Note | Repeats | FoundMidstream | Gap | Leftover


class OpenLeftover(NamedTuple):
    """Leftover octets whose end is not known yet.

    `inside` octets of them belong to greetings, commands or frames. `data` are the first octets, or None if they must
    stay hidden.
    """

    start: int
    first: Arrival
    reason: str
    inside: int
    data: bytes | None


class Outputs:
    """The results of one side in order. Counts each octet when it is read, lost or left over."""

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._open: OpenLeftover | None = None
        self._gap: tuple[int, Hole] | None = None
        """A hole, while a frame boundary is searched after it."""
        self.units = 0
        """Octets of greetings and commands. `Assembly` counts messages."""
        self.gaps = 0
        self.unfinished = 0
        self.undissected = 0
        """Number of leftover octets."""

    def drain(self) -> list[Output]:
        outputs, self._outputs = self._outputs, []
        return outputs

    def add(self, output: Output, octets: int = 0) -> None:
        self._outputs.append(output)
        self.units += octets

    def leave(self, leftover: Leftover) -> None:
        if leftover.kind == UNFINISHED:
            self.unfinished += leftover.octets
        else:
            self.undissected += leftover.octets
        self._outputs.append(leftover)

    def leave_from(
        self, start: int, first: Arrival, reason: str, inside: int = 0, *, may_be_shown: bool = True
    ) -> None:
        """Start a leftover at stream offset `start`, which `leave_until` ends. Does nothing if one is open.

        `inside` of its octets belong to greetings, commands or frames. `may_be_shown`: it cannot contain a password.
        """
        if self._open is None:
            self._open = OpenLeftover(start, first, reason, inside, b"" if may_be_shown else None)

    @property
    def wants_octets(self) -> bool:
        """Whether the open leftover still needs octets from `show`."""
        data = None if self._open is None else self._open.data
        return data is not None and len(data) < FIRST

    def show(self, start: int, octets: bytes) -> None:
        """Store the first octets of the open leftover, from `octets`, which start at stream offset `start`."""
        open_ = self._open
        if open_ is not None and open_.data is not None:
            known = open_.start + len(open_.data) - start
            self._open = open_._replace(data=open_.data + octets[known : known + FIRST - len(open_.data)])

    @property
    def is_leaving(self) -> bool:
        return self._open is not None

    def leave_until(self, stop: int, ordinal: int) -> None:
        """End the open leftover at stream offset `stop`; `ordinal` is the segment that shows its end."""
        open_, self._open = self._open, None
        if open_ is not None and open_.start < stop:
            start, first, reason, inside, data = open_
            decided = first._replace(ordinal=ordinal)
            if data is not None:
                data = data[: stop - start]
            self.leave(Leftover(start, stop, stop - start - inside, UNDISSECTED, reason, decided, data=data))

    def lose(self, octets: int) -> None:
        self.gaps += octets

    def give_gap(self, start: int, hole: Hole, decided: Arrival, resumed_at: int | None) -> None:
        """Add a gap for a hole that starts at stream offset `start`.

        `decided` is the segment that showed it; parsing resumes at `resumed_at` (None: nowhere).
        """
        self._outputs.append(Gap(start, start + hole.octets, hole.octets, hole.reason, decided, resumed_at))

    def hold_gap(self, start: int, hole: Hole) -> None:
        self._gap = start, hole

    def end_gap(self, ordinal: int, resumed_at: int | None) -> None:
        """Add the gap of the last `hold_gap`.

        Parsing resumes at `resumed_at` (None: nowhere), as the segment `ordinal` shows.
        """
        if self._gap is not None:
            (start, hole), self._gap = self._gap, None
            decided = Arrival(max(ordinal, hole.ordinal), hole.packet, hole.time)
            self.give_gap(start, hole, decided, resumed_at)
