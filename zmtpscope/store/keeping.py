"""What does not fit into columns, on its way to where it is kept, and back."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from dataclasses import dataclass

from zmtpscope.dissect import FrameRun, MessageRun
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.batch import Pieces
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.store.rows import IN_FILES
from zmtpscope.store.segment_index import SegmentIndex
from zmtpscope.store.spool import OctetsError, Spool

MOST_KEPT_ONCE = 16_384
"""Different octets of records that are looked for among those that were kept before."""


class Keeping:
    """Keeps what a chunk has besides columns: it is written at once, when all is there. `kept_once` are places of
    octets that were kept before. `is_indexed`: the octets of streams are read where these stand."""

    def __init__(self, spool: Spool, kept_once: dict[bytes, int], *, is_indexed: bool) -> None:
        self.spool = spool
        self.kept_once = kept_once
        self.is_indexed = is_indexed
        self._begin = spool.end
        self._size = 0
        self._pieces: list[bytes] = []
        self._of_runs: dict[int, int] = {}

    def octets(self, run: MessageRun | FrameRun) -> int:
        """Those of a run, if they stand nowhere else: runs that were cut out of one share them. Their place."""
        if self.is_indexed and not run.source and not run.has_stars:
            return IN_FILES
        place = self._of_runs.get(id(run.data))
        if place is None:
            place = self._of_runs[id(run.data)] = self._add(run.data)
        return place

    def made(self, made: Dissected) -> tuple[int, int]:
        """What a dissector made of a message: place and size."""
        octets = marshal.dumps((made.protocol, made.summary, made.fields, list(made.secrets)), 2)
        return self._add(octets), len(octets)

    def rest(self, octets: bytes) -> tuple[int, int]:
        """What is kept once, however often it comes: place and size."""
        place = self.kept_once.get(octets)
        if place is None:
            if len(self.kept_once) >= MOST_KEPT_ONCE:
                self.kept_once.clear()
            place = self.kept_once[octets] = self._add(octets)
        return place, len(octets)

    def _add(self, octets: bytes) -> int:
        place = self._begin + self._size
        self._pieces.append(octets)
        self._size += len(octets)
        return place

    def end(self) -> None:
        """Write all. Raises `OctetsError`."""
        try:
            self.spool.write(b"".join(self._pieces))
        except OctetsError:
            self.kept_once.clear()  # it may name places of what was not written
            raise


@dataclass(slots=True)
class Kept:
    """The way back, for records in front of which there were `count` others, at most. `wants_octets`: those of bodies,
    and what dissectors made of them; `wants_pieces`: which packets brought them. Octets that are not there any more are
    said to `say`, and left out."""

    spool: Spool
    index: SegmentIndex
    count: int
    say: Callable[[str], None]
    wants_octets: bool = True
    wants_pieces: bool = False

    def octets(self, stream: Stream, place: int, start: int, stop: int) -> bytes | None:
        """The octets of a run, of stream offsets `start..stop`; None where nobody wants them, or they are gone."""
        if not self.wants_octets:
            return None
        if start >= stop:
            return b""
        try:
            if place == IN_FILES:
                return self.index.octets(stream, start, stop, self.count)
            return self.spool.read(place, stop - start)
        except OctetsError as error:
            self.say(str(error))
            return None

    def made(self, place: int, size: int) -> Dissected | None:
        """What a dissector made of a message."""
        if not self.wants_octets:
            return None
        protocol, summary, fields, secrets = marshal.loads(self.spool.read(place, size))
        return Dissected(protocol, summary, fields, secrets=secrets)

    def pieces(self, stream: Stream, start: int, stop: int) -> Pieces | None:
        """How octets of a stream came."""
        return self.index.pieces(stream, start, stop, self.count) if self.wants_pieces else None

    def rest(self, place: int, size: int) -> bytes:
        """What `Keeping.rest` has kept."""
        return self.spool.read(place, size)
