"""Write data that do not fit into columns to their storage, and read them."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from dataclasses import dataclass

from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.tables import Pieces, Sender
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.store.files import OctetsError, Spool
from zmtpscope.store.segment_index import SegmentIndex

IN_FILES = -1
"""Stands for a place: the octets of the run are read from its stream."""

MAX_KEPT_ONCE = 16_384
"""Octet strings for which duplicates are found."""


class Keeping:
    """Collects the data of a chunk outside its columns, and writes them together in `end`.

    `kept_once` contains the places of octets that other chunks kept. If `is_indexed`, octets of streams are read from
    the capture files.
    """

    def __init__(self, spool: Spool, kept_once: dict[bytes, int], *, is_indexed: bool) -> None:
        self.spool = spool
        self.kept_once = kept_once
        self.is_indexed = is_indexed
        self._begin = spool.end
        self._size = 0
        self._pieces: list[bytes] = []
        self._of_senders: dict[int, int] = {}

    def octets(self, sender: Sender) -> int:
        """Keep a sender's octets, unless they are in the capture files, and return their place. Senders can share
        octets."""
        if self.is_indexed and not sender.source and not sender.has_stars:
            return IN_FILES
        place = self._of_senders.get(id(sender.data))
        if place is None:
            place = self._of_senders[id(sender.data)] = self._add(sender.data)
        return place

    def made(self, made: Dissected) -> tuple[int, int]:
        """Keep the result of a dissector; return place and size."""
        octets = marshal.dumps((made.protocol, made.summary, made.fields, list(made.secrets)), 2)
        return self._add(octets), len(octets)

    def rest(self, octets: bytes) -> tuple[int, int]:
        """Keep other octets unless equal ones are kept already; return place and size."""
        place = self.kept_once.get(octets)
        if place is None:
            if len(self.kept_once) >= MAX_KEPT_ONCE:
                self.kept_once.clear()
            place = self.kept_once[octets] = self._add(octets)
        return place, len(octets)

    def _add(self, octets: bytes) -> int:
        place = self._begin + self._size
        self._pieces.append(octets)
        self._size += len(octets)
        return place

    def end(self) -> None:
        """Write all data. Raises `OctetsError`."""
        try:
            self.spool.write(b"".join(self._pieces))
        except OctetsError:
            self.kept_once.clear()  # it may contain places of unwritten octets
            raise


@dataclass(slots=True)
class Kept:
    """Reads the data of records with at most `count` earlier records. `wants_octets` includes bodies and results of
    dissectors, `wants_pieces` the packets of octets. Missing octets are reported to `say` and left out."""

    spool: Spool
    index: SegmentIndex
    count: int
    say: Callable[[str], None]
    wants_octets: bool = True
    wants_pieces: bool = False

    def octets(self, stream: Stream, place: int, start: int, stop: int) -> bytes | None:
        """Return kept octets; None if they are not wanted or missing."""
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
        """Return the kept result of a dissector; None if octets are not wanted."""
        if not self.wants_octets:
            return None
        protocol, summary, fields, secrets = marshal.loads(self.spool.read(place, size))
        return Dissected(protocol, summary, fields, secrets=secrets)

    def pieces(self, stream: Stream, start: int, stop: int) -> Pieces | None:
        """Return the packets of octets."""
        return self.index.pieces(stream, start, stop, self.count) if self.wants_pieces else None

    def rest(self, place: int, size: int) -> bytes:
        """Return octets kept by `Keeping.rest`."""
        return self.spool.read(place, size)
