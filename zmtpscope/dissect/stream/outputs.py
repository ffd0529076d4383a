"""What the stream of a side gives: values, drained after every step, as with h11's `next_event`."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.batch import Unit
from zmtpscope.dissect.records.leftovers import Gap, Leftover
from zmtpscope.dissect.records.notes import Note
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
    """The segment with the octet behind it, where that had come already."""
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
