"""Print gaps caused by the snap length as one line: "41 gaps more of 1547 octets, cut off by the snap length".

The first gap of a connection is printed. Later gaps are counted if parsing resumes after them, and printed as one line
when the connection or the capture ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zmtpscope.dissect import Record
from zmtpscope.dissect.tcp.reassembly import SNAP_LENGTH
from zmtpscope.export.front import Files
from zmtpscope.export.repeats.fold import ITSELF, Repeats, RowRange, conn_of
from zmtpscope.words import counted

LOSS = "ZMTP-CONN-05"
"""Finding that accompanies each gap."""

MAX_CONNECTIONS = 4096
"""Connections to remember; above, the gaps of the oldest one are printed."""


class Cuts:
    """Counts the gaps of one connection after the first one."""

    def __init__(self) -> None:
        self.count, self.octets = 0, 0
        self.last: tuple[Record, Files] | None = None
        """Last gap that is counted but not printed."""

    def add(self, gap: Record, files: Files) -> None:
        self.count += 1
        self.octets += gap.own["bytes"]
        self.last = gap, files

    def is_of(self, finding: Record) -> bool:
        if self.last is None:
            return False
        gap, _ = self.last
        return finding.stream == gap.stream and all(finding.own[name] == gap.own[name] for name in ("source", "offset"))

    def write(self) -> Iterator[RowRange]:
        if self.last is not None:
            gap, files = self.last
            text = f"{counted(self.count, 'gap')} more of {counted(self.octets, 'octet')}, cut off by the snap length"
            yield (Repeats(gap, text), files), ITSELF


class CutFold:
    def __init__(self) -> None:
        self._cuts: dict[int | None, Cuts] = {}

    def feed(self, ranges: Iterable[RowRange]) -> Iterator[RowRange]:
        for row_range in ranges:
            record, files = row_range[0]
            if not isinstance(record, Record) or (record.type != "gap" and not self._cuts):
                yield row_range
                continue
            conn = conn_of(record)
            cuts, own = self._cuts.get(conn), record.own
            if record.type == "gap" and own["reason"] == SNAP_LENGTH and own["resumed_at"] is not None:
                if cuts is not None:
                    cuts.add(record, files)
                    continue
                if len(self._cuts) == MAX_CONNECTIONS:
                    yield from self._release(next(iter(self._cuts)))
                self._cuts[conn] = Cuts()
            elif cuts is not None and record.type == "finding" and own["id"] == LOSS and cuts.is_of(record):
                continue
            elif record.type == "connection":
                yield from self._release(conn)
            yield row_range

    def rest(self) -> Iterator[RowRange]:
        for conn in list(self._cuts):
            yield from self._release(conn)

    def _release(self, conn: int | None) -> Iterator[RowRange]:
        cuts = self._cuts.pop(conn, None)
        if cuts is not None:
            yield from cuts.write()
