"""A side while a frame boundary is searched (`resync.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.stream.arrivals import Arrivals
from zmtpscope.dissect.stream.held_octets import HeldOctets
from zmtpscope.dissect.stream.resync import Boundary, FrameSearch
from zmtpscope.option_texts import DecodeAs
from zmtpscope.zmtp.regime import Framing


class Found(NamedTuple):
    """The result of a search, with the segment `arrival` that shows it.

    Parsing resumes at `boundary` with `octets`; without a boundary it does not resume.
    """

    boundary: Boundary | None
    arrival: Arrival
    octets: bytes


class Searching:
    """Searches for a frame boundary from stream offset `offset` on, or waits for a known `boundary`.

    `framings` are the possible frame formats. `is_known`: the side is known to use one of them; `sizes` are those of
    its last frames. `forced` is the decode-as rule for a side whose start was not captured.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        held_octets: HeldOctets,
        offset: int,
        framings: Sequence[Framing],
        is_known: bool,
        sizes: Sequence[int],
        boundary: int | None = None,
        forced: DecodeAs | None = None,
    ) -> None:
        self.arrivals = arrivals
        self.held_octets = held_octets
        self.is_known = is_known
        self.forced = forced
        known = is_known or forced is not None
        self.searches = [FrameSearch(framing, offset, known, frozenset(sizes), boundary) for framing in framings]

    def feed(self, octets: bytes) -> Found | None:
        """Search the octets up to the end of the stream so far; return the result once it is known."""
        end = self.arrivals.end
        begin = start = end - len(octets)
        for arrival, stop in self.arrivals.pieces_between(begin, end):
            piece = octets[start - begin : stop - begin]
            start = stop
            results = [(search.feed(piece), search) for search in self.searches]
            if self.forced is not None:
                results = [(result or search.first_octets(), search) for result, search in results]
            found = [(result, search) for result, search in results if result is not None]
            if found:
                boundary, search = min(found, key=_offset_of)
                return Found(boundary, arrival, search.octets_from(boundary.offset) + octets[stop - begin :])
            is_unknown = not self.is_known and self.forced is None
            if is_unknown and all(search.exhausted() for search in self.searches):
                return Found(None, arrival, octets[stop - begin :])
        self.arrivals.trim(self.searches[0].base)
        self._count_held()
        return None

    def conclude(self, arrival: Arrival) -> Found:
        """End the search at a loss or at the end of the stream, with less evidence than usual.

        `arrival` is the segment that shows the loss or the end.
        """
        for search in self.searches:
            found = search.conclude()
            if found is None and self.forced is not None and search.base == search.origin:
                found = Boundary(search.framing, search.origin)  # the user forced it
            if found is not None:
                return Found(found, arrival, search.octets_from(found.offset))
        return Found(None, arrival, b"")

    def _count_held(self) -> None:
        """Count the octets that this search keeps. If all sides together keep too much, start again at the end."""
        octets = sum(search.held_octets for search in self.searches)
        if not self.held_octets.may_hold(octets):
            for search in self.searches:
                search.give_up_before(search.end)
            octets = 0
        self.held_octets.hold_elsewhere(octets)


def _offset_of(entry: tuple[Boundary, FrameSearch]) -> int:
    return entry[0].offset
