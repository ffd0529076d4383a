"""Write octets, payloads and texts of a chunk to the temporary file (the spool), and read them again."""

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
    """Collects the data of a chunk that its columns do not contain; `end` writes them together.

    `kept_once` has the spool offsets of octets that other chunks wrote, so that equal octets are stored once. If
    `is_indexed`, octets of streams are read from the capture files again, and not written.
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
        """Store the octets of a sender; return their spool offset.

        If the capture files have the octets, returns `IN_FILES` and stores nothing. Equal octets of several senders are
        stored once.
        """
        if self.is_indexed and not sender.source and not sender.has_stars:
            return IN_FILES
        place = self._of_senders.get(id(sender.data))
        if place is None:
            place = self._of_senders[id(sender.data)] = self._add(sender.data)
        return place

    def made(self, made: Dissected) -> tuple[int, int]:
        """Store the result of a payload dissector; return its offset and size in the spool, a temporary file."""
        octets = marshal.dumps((made.protocol, made.summary, made.fields, list(made.secrets)), 2)
        return self._add(octets), len(octets)

    def rest(self, octets: bytes) -> tuple[int, int]:
        """Store other octets, unless equal ones are stored; return their spool offset and size."""
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
        """Write all collected data to the spool. Raises `OctetsError`."""
        try:
            self.spool.write(b"".join(self._pieces))
        except OctetsError:
            self.kept_once.clear()  # it may contain places of unwritten octets
            raise


@dataclass(slots=True)
class Kept:
    """Reads the data that `Keeping` stored, for a reader that knows the first `count` records.

    `wants_octets`: the reader needs bodies and payloads. `wants_pieces`: it needs the packets that carried octets.
    Missing octets are reported to `say` and left out.
    """

    spool: Spool
    index: SegmentIndex
    count: int
    say: Callable[[str], None]
    wants_octets: bool = True
    wants_pieces: bool = False

    def octets(self, stream: Stream, place: int, start: int, stop: int) -> bytes | None:
        """Return the octets `start..stop` of a stream; None if the reader needs none, or if they are missing.

        `place` is the spool offset of the first octet, or `IN_FILES` for octets to read from the capture files.
        """
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
        """Return the payload at spool offset `place` with `size` octets; None if the reader needs no octets."""
        if not self.wants_octets:
            return None
        protocol, summary, fields, secrets = marshal.loads(self.spool.read(place, size))
        return Dissected(protocol, summary, fields, secrets=secrets)

    def pieces(self, stream: Stream, start: int, stop: int) -> Pieces | None:
        """Return the packets that carried the octets `start..stop` of a stream; None if the reader needs none."""
        return self.index.pieces(stream, start, stop, self.count) if self.wants_pieces else None

    def rest(self, place: int, size: int) -> bytes:
        """Return `size` octets at spool offset `place`, which `Keeping.rest` stored."""
        return self.spool.read(place, size)
